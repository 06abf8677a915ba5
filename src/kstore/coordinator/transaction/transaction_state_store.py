"""``__transaction_state`` for a broker: the states of its transactional ids."""

from typing import TYPE_CHECKING

from kstore.coordinator.internal_topics import filled_partitions
from kstore.coordinator.owned_topics import OWNED_TOPICS
from kstore.coordinator.transaction.transaction_state_records import (
    TransactionMetadata,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    is_commit,
)
from kstore.lazy_dataclass import lazy_dataclass

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.store.store import Store

STATE_TOPIC = "__transaction_state"
STATE_PARTITIONS = 50  # transaction.state.log.num.partitions
_MOST_OVERHEAD = 100  # bytes of a batch of one record, besides its key and value
STATE_PROPERTIES = OWNED_TOPICS[STATE_TOPIC]


@lazy_dataclass(frozen=True)
class LoadedStates:
    """The last state of each id in a partition, and its last commit if the log still has it."""

    states: list[TransactionMetadata]
    commits: dict[str, TransactionMetadata]
    leader_epoch: int


@lazy_dataclass()
class AppendedState:
    """An append, which is on disk once the log's recovery point reaches ``end_offset``."""

    log: "Log"
    end_offset: int


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
        return append_state(log, encode_state(transactional_id, metadata))

    def loaded_log(self, partition: int) -> "Log | None":
        """The log of a partition, if it is loaded; does not block."""
        return self._store._logs.get((STATE_TOPIC, partition))


def encode_state(
    transactional_id: str, metadata: TransactionMetadata | None
) -> tuple[bytes, bytes | None]:
    """The key and value of an id's state, or of its tombstone if None."""
    return encode_key(transactional_id), None if metadata is None else encode_value(metadata)


def size_of_state(state: tuple[bytes, bytes | None]) -> int:
    """The bytes that a state has in a log, or a few more."""
    key, value = state
    return _MOST_OVERHEAD + len(key) + len(value or b"")


def append_state(log: "Log", state: tuple[bytes, bytes | None]) -> AppendedState:
    """Append a state to the log of its partition."""
    key, value = state
    return AppendedState(log, log.append(value, key=key) + 1)


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


def read_all_states(store: "Store") -> list[TransactionMetadata]:
    """The last state of every id in a store, sorted by id; none without ``__transaction_state``.

    Reads only, so the store may be open for reading beside its writer. Raises CorruptRecordError.
    """
    if STATE_TOPIC not in store:
        return []
    found = [
        metadata
        for tp in filled_partitions(store, STATE_TOPIC)
        for metadata in read_states(store._log(*tp)).states
    ]
    return sorted(found, key=lambda metadata: metadata.transactional_id)
