"""Encodes and decodes the records of ``__transaction_state``, byte for byte as Kafka.

Kafka generates these from ``TransactionLogKey.json`` and ``TransactionLogValue.json``. Values are
written as version 0, which every Kafka since 0.11 reads; version 1 (transaction.version 1 and
above) is read too; its previous producer id is kept in memory.
"""

from enum import IntEnum
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from kstore.errors import CorruptRecordError, InvalidMessageError, InvalidRecordError
from kstore.protocol.records import decode_record, encode_record, prefix_of
from kstore.protocol.records.transaction_log import TransactionLogKey, TransactionLogValue
from kstore.protocol.wire import Writer

KEY_VERSION = 0
VALUE_VERSION = 0
HIGHEST_VALUE_VERSION = 1

_STATE_AT = 16  # after version, producer id, epoch and timeout
_HEAD = Struct(">hqhib")  # version, producer id, epoch, timeout and state
_NO_LIST = b"\xff\xff\xff\xff"  # instead of the partitions
_TIMES = Struct(">qq")  # of the last update and of the start
_CACHED = 1000  # keys, and lists of partitions
_FEW_PARTITIONS = 8  # of a list that is cached

PartitionKey = tuple[str, int]  # topic, partition


class TransactionState(IntEnum):
    """The state of a transactional id, with Kafka's numbers."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def kafka_name(self) -> str:
        """As Kafka's answers and tools name it: PrepareCommit."""
        return self.name.title().replace("_", "")


# Python 3.11 takes 0.15 us to find a member of an enum by its name.
_EMPTY = TransactionState.EMPTY


class TransactionMetadata(NamedTuple):
    """The coordinator's state of a transactional id. Times in Unix ms, -1 for none. Immutable."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[PartitionKey] = frozenset()
    last_update_ms: int = -1
    start_ms: int = -1
    previous_producer_id: int = -1

    def with_state(
        self,
        state: TransactionState,
        partitions: frozenset[PartitionKey],
        last_update_ms: int,
        start_ms: int,
        producer_epoch: int,
    ) -> "TransactionMetadata":
        """Another state of the same producer; ``_replace`` takes four times as long."""
        return TransactionMetadata(
            self.transactional_id,
            self.producer_id,
            producer_epoch,
            self.timeout_ms,
            state,
            partitions,
            last_update_ms,
            start_ms,
            self.previous_producer_id,
        )


@lru_cache(_CACHED)
def encode_key(transactional_id: str) -> bytes:
    """Version 0. Raises InvalidRecordError for an id beyond 32767 bytes."""
    return encode_record(TransactionLogKey(transactional_id), KEY_VERSION, KEY_VERSION)


def encode_value(metadata: TransactionMetadata) -> bytes:
    """Version 0. As in Kafka, an id without a transaction has null for partitions."""
    partitions = metadata.partitions
    if metadata.state is _EMPTY:
        encoded = _NO_LIST
    elif len(partitions) <= _FEW_PARTITIONS:
        encoded = _encode_few(partitions)
    else:
        encoded = _encode_partitions(partitions)
    head = _HEAD.pack(
        VALUE_VERSION,
        metadata.producer_id,
        metadata.producer_epoch,
        metadata.timeout_ms,
        metadata.state,
    )
    return head + encoded + _TIMES.pack(metadata.last_update_ms, metadata.start_ms)


def _encode_partitions(partitions: frozenset[PartitionKey]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    listed = [TransactionLogValue.TransactionPartitions(*topic) for topic in topics.items()]
    writer = Writer()
    try:
        writer.nullable_structs(listed, VALUE_VERSION, False)
    except InvalidMessageError as error:
        raise InvalidRecordError(error.reason) from None
    return writer.to_bytes()


# Most producers write to the same partitions in every transaction, and each has several states.
_encode_few = lru_cache(_CACHED)(_encode_partitions)


def decode_key(data: bytes) -> str | None:
    """The transactional id, or None for a key of a later version.

    Raises CorruptRecordError for too few or too many bytes.
    """
    if prefix_of(data) != KEY_VERSION:
        return None
    return decode_record(TransactionLogKey, KEY_VERSION, data).transactional_id


def is_commit(data: bytes) -> bool:
    """Whether a value of any version has the state PrepareCommit; reads only that field."""
    return data[_STATE_AT : _STATE_AT + 1] == bytes((TransactionState.PREPARE_COMMIT,))


def decode_value(transactional_id: str, data: bytes) -> TransactionMetadata:
    """Version 0 or 1. Raises CorruptRecordError for anything else."""
    version = prefix_of(data)
    if not 0 <= version <= HIGHEST_VALUE_VERSION:
        raise CorruptRecordError(
            f"a transaction state has version {version}; known: 0 to {HIGHEST_VALUE_VERSION}"
        )
    value = decode_record(TransactionLogValue, version, data)
    number = value.transaction_status
    if number not in TransactionState.__members__.values():
        raise CorruptRecordError(f"a transaction state is {number}; known states: 0 to 7")
    return TransactionMetadata(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        TransactionState(number),
        frozenset(
            (topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        value.transaction_last_update_timestamp_ms,
        value.transaction_start_timestamp_ms,
        value.previous_producer_id,
    )
