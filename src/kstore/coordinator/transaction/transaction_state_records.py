"""Encodes and decodes the records of ``__transaction_state``, byte for byte as Kafka.

Kafka generates these from ``TransactionLogKey.json`` and ``TransactionLogValue.json``. Values are
written as version 0, which every Kafka since 0.11 reads; version 1 (transaction.version 1 and
above) is read too; its previous producer id is kept in memory.
"""

from collections.abc import Iterable
from enum import IntEnum
from random import randrange
from typing import TYPE_CHECKING, NamedTuple

from kstore.errors import CorruptRecordError
from kstore.protocol.fields import INT16, INT32, INT64, FieldReader, encode_string

if TYPE_CHECKING:
    from kstore.producer_state.snapshot import ProducerEntry

KEY_VERSION = 0
VALUE_VERSION = 0
HIGHEST_VALUE_VERSION = 1

_STATE_AT = 16  # behind version, producer id, epoch and timeout

LOWEST_PRODUCER_ID = 2**62  # a Kafka cluster assigns ids from 0 up and never reaches this
SEQUENCES = 2**31  # sequence numbers of a producer in a partition wrap to 0

PartitionKey = tuple[str, int]  # topic, partition


class State(IntEnum):
    """The state of a transactional id, with Kafka's numbers."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


class Metadata(NamedTuple):
    """The coordinator's state of a transactional id. Times in Unix ms, -1 for none. Immutable."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: State
    partitions: frozenset[PartitionKey] = frozenset()
    last_update_ms: int = -1
    start_ms: int = -1
    previous_producer_id: int = -1


def new_producer_id() -> int:
    """A random producer id, above all ids that a Kafka broker assigns."""
    return LOWEST_PRODUCER_ID + randrange(LOWEST_PRODUCER_ID)


def next_sequence(known: Iterable["ProducerEntry"], producer_id: int, producer_epoch: int) -> int:
    """The sequence number after a producer's last one in a log; 0 if it has none.

    For a producer that does not know whether its last append succeeded: the log ignores a batch
    with a repeated number as a duplicate.
    """
    for entry in known:
        if (entry.producer_id, entry.producer_epoch) == (producer_id, producer_epoch):
            return (entry.last_sequence + 1) % SEQUENCES
    return 0


def encode_key(transactional_id: str) -> bytes:
    """Version 0. Raises InvalidRecordError for an id beyond 32767 bytes."""
    return INT16.pack(KEY_VERSION) + encode_string(transactional_id)


def encode_value(metadata: Metadata) -> bytes:
    """Version 0. As in Kafka, an id without a transaction has null for partitions."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(metadata.partitions):
        topics.setdefault(topic, []).append(partition)
    parts = [
        INT16.pack(VALUE_VERSION),
        INT64.pack(metadata.producer_id),
        INT16.pack(metadata.producer_epoch),
        INT32.pack(metadata.timeout_ms),
        metadata.state.to_bytes(1, "big"),
        INT32.pack(-1 if metadata.state is State.EMPTY else len(topics)),
    ]
    for topic, partitions in topics.items():
        parts += (encode_string(topic), INT32.pack(len(partitions)))
        parts += map(INT32.pack, partitions)
    parts += (INT64.pack(metadata.last_update_ms), INT64.pack(metadata.start_ms))
    return b"".join(parts)


def decode_key(data: bytes) -> str | None:
    """The transactional id, or None for a key of a later version.

    Raises CorruptRecordError for too few or too many bytes.
    """
    reader = FieldReader(data, "key of __transaction_state")
    if reader.int16() != KEY_VERSION:
        return None
    transactional_id = reader.string()
    reader.finish()
    return transactional_id


def is_commit(data: bytes) -> bool:
    """Whether a value of any version has the state PrepareCommit; reads only that field."""
    return data[_STATE_AT : _STATE_AT + 1] == bytes((State.PREPARE_COMMIT,))


def decode_value(transactional_id: str, data: bytes) -> Metadata:
    """Version 0 or 1. Raises CorruptRecordError for anything else."""
    reader = FieldReader(data, "value of __transaction_state")
    version = reader.int16()
    if not 0 <= version <= HIGHEST_VALUE_VERSION:
        raise CorruptRecordError(
            f"a transaction's state of version {version}; known are 0 to {HIGHEST_VALUE_VERSION}"
        )
    flexible = version >= 1
    producer_id, epoch = reader.int64(), reader.int16()
    timeout_ms, number = reader.int32(), reader.int8()
    if number not in State.__members__.values():
        raise CorruptRecordError(f"a transaction's state is {number}; known are 0 to 7")
    partitions: set[PartitionKey] = set()
    for _ in range(reader.compact_count() if flexible else reader.count()):
        topic = reader.compact_string() if flexible else reader.string()
        count = reader.compact_count() if flexible else reader.count()
        partitions.update((topic, reader.int32()) for _ in range(count))
        if flexible:
            reader.tags()
    last_update_ms, start_ms = reader.int64(), reader.int64()
    tags = reader.tags() if flexible else {}
    reader.finish()
    previous = tags.get(0, b"")
    return Metadata(
        transactional_id,
        producer_id,
        epoch,
        timeout_ms,
        State(number),
        frozenset(partitions),
        last_update_ms,
        start_ms,
        INT64.unpack(previous)[0] if len(previous) == INT64.size else -1,
    )
