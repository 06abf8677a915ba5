"""``__transaction_state`` for a broker: the states of its transactional ids, and their markers."""

from dataclasses import dataclass
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING

from kstore.coordinator.internal_topics import filled_partitions
from kstore.coordinator.transaction.transaction_state_records import (
    TransactionMetadata,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    is_commit,
)
from kstore.errors import TransactionCoordinatorFencedError
from kstore.log.read_committed import began_after

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.producer_state.snapshot import ProducerEntry
    from kstore.store.store import Store

STATE_TOPIC = "__transaction_state"
STATE_PARTITIONS = 50  # transaction.state.log.num.partitions
STATE_PROPERTIES = {"cleanup.policy": "compact", "segment.bytes": "104857600"}


@dataclass(frozen=True, slots=True)
class LoadedStates:
    """The last state of each id in a partition, and its last commit if the log still has it."""

    states: list[TransactionMetadata]
    commits: dict[str, TransactionMetadata]
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class AppendedState:
    """An append, which is on disk once the log's recovery point reaches ``end_offset``."""

    log: "Log"
    end_offset: int


@dataclass(frozen=True, slots=True)
class AppendedMarker:
    """An appended marker, with the coordinator epoch that the log required."""

    log: "Log"
    end_offset: int
    coordinator_epoch: int


class TransactionStateStore:
    """Reads and appends in partitions of ``__transaction_state``. Blocks; thread-safe.

    All methods raise what reading and appending to a log raise, and UnknownTopicOrPartitionError
    for a partition that the store does not have.
    """

    def __init__(self, store: "Store") -> None:
        self._store = store

    def filled(self) -> list[int]:
        """The partitions that have records."""
        return [each.partition for each in filled_partitions(self._store, STATE_TOPIC)]

    def load(self, partition: int) -> LoadedStates:
        """Read a partition from start to end. Raises CorruptRecordError if it is corrupt, since an
        outdated state would undo a decision."""
        return read_states(self._store._log(STATE_TOPIC, partition))

    def append(
        self, partition: int, transactional_id: str, metadata: TransactionMetadata | None
    ) -> AppendedState:
        """Append the state of an id, or its tombstone if None."""
        log = self._store._log(STATE_TOPIC, partition)
        value = None if metadata is None else encode_value(metadata)
        log.append(value, key=encode_key(transactional_id))
        return AppendedState(log, log.end_offset)


def read_states(log: "Log") -> LoadedStates:
    """The last state of every id in a partition, and its last commit. Raises CorruptRecordError."""
    states: dict[bytes | None, bytes | None] = {}
    commits: dict[bytes | None, bytes] = {}
    for columns in log.view().scan():
        rows = list(zip(columns.keys, columns.values, strict=True))
        states.update(rows)
        for key, value in rows:
            if value is not None and is_commit(value):
                commits[key] = value
    loaded = LoadedStates([], {}, max(log.leader_epoch, 0))
    for key, value in states.items():
        transactional_id = None if key is None else decode_key(key)
        if transactional_id is not None and value is not None:
            loaded.states.append(decode_value(transactional_id, value))
            if key in commits:
                loaded.commits[transactional_id] = decode_value(transactional_id, commits[key])
    return loaded


def append_marker(
    log: "Log",
    producer_id: int,
    producer_epoch: int,
    *,
    is_commit: bool,
    coordinator_epoch: int,
    timestamp: int,
) -> AppendedMarker:
    """Append a marker with a coordinator epoch that the log accepts.

    An earlier broker may have ended this producer's transactions with a higher epoch. The process
    that holds the directory's lock is the only coordinator, so no other needs to be fenced. Raises
    InvalidProducerEpochError if the log has a later epoch of the producer.
    """
    append = partial(
        log.append_end_marker, producer_id, producer_epoch, commit=is_commit, timestamp=timestamp
    )
    try:
        append(coordinator_epoch=coordinator_epoch)
    except TransactionCoordinatorFencedError:
        seen = [e.coordinator_epoch for e in log.producers() if e.producer_id == producer_id]
        coordinator_epoch = max(coordinator_epoch, *seen)
        append(coordinator_epoch=coordinator_epoch)
    return AppendedMarker(log, log.end_offset, coordinator_epoch)


def open_transactions(log: "Log") -> "list[ProducerEntry]":
    """The producers that have an open transaction in a log."""
    if log.last_stable_offset == log.end_offset:
        return []
    return [each for each in log.producers() if each.current_transaction_first_offset >= 0]


def end_unknown_transaction(
    log: "Log", entry: "ProducerEntry", commits: list[TransactionMetadata], coordinator_epoch: int
) -> AppendedMarker | None:
    """End an open transaction without a state, unless it has changed meanwhile.

    A power failure may lose the state and keep the records. They were never committed, unless the
    power failure lost the marker of the last commit (one of ``commits``, of the same producer and
    partition), which is then written again.
    """
    if entry not in open_transactions(log):
        return None
    for decided in commits:
        if not began_after(log, entry, decided.last_update_ms):
            return append_marker(
                log,
                entry.producer_id,
                entry.producer_epoch,
                is_commit=True,
                coordinator_epoch=coordinator_epoch,
                timestamp=decided.last_update_ms,
            )
    return append_marker(
        log,
        entry.producer_id,
        entry.producer_epoch,
        is_commit=False,
        coordinator_epoch=coordinator_epoch,
        timestamp=now_ms(),
    )


def now_ms() -> int:
    """Unix time in ms."""
    return time_ns() // 1_000_000
