"""What comes into the transaction coordinator of a broker, and what leaves it."""

from dataclasses import dataclass

from kstore.coordinator.transaction.transaction_state_records import Metadata, PartitionKey
from kstore.protocol.error_codes import ErrorCode

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    """A producer with a transactional id starts, or (with its id and epoch) starts again."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    reply: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """A producer adds partitions to its transaction; the first ones begin it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[PartitionKey]
    reply: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """A producer commits or aborts.

    ``waits_for_markers``: the answer comes when they are written. ``is_durable``: decision and
    markers are synced, whatever the broker's acknowledgements mean.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    waits_for_markers: bool = False
    is_durable: bool = False
    reply: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionAnswer:
    """Answers any of the three; id and epoch are those of :class:`InitProducerId`."""

    reply: object
    error: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class StoreTransaction:
    """Append this state of an id, or (None) its tombstone; then call ``stored`` with ``ticket``.

    ``must_sync``: where acknowledgements are durable, report it when it is on disk, and append it
    only when the records of the transaction are.
    """

    transactional_id: str
    metadata: Metadata | None
    ticket: object
    must_sync: bool = False
    is_durable: bool = False  # synced even where acknowledgements are not


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """Append the markers of a decided transaction to its partitions; then call ``marked``."""

    metadata: Metadata
    ticket: object
    is_durable: bool = False


Effect = TransactionAnswer | StoreTransaction | WriteMarkers
