"""The inputs and outputs of a broker's transaction coordinator.

Nothing changes them. They are not frozen, because ``__init__`` of a frozen dataclass takes three
times as long, and a commit has a dozen of them.
"""

from kstore.coordinator.transaction.transaction_state_records import (
    PartitionKey,
    TransactionMetadata,
)
from kstore.lazy_dataclass import lazy_dataclass
from kstore.protocol.error_codes import ErrorCode

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


@lazy_dataclass(kw_only=True)
class InitProducerId:
    """A producer with a transactional id starts, or restarts with its producer id and epoch."""

    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    reply: object = None


@lazy_dataclass(kw_only=True)
class AddPartitions:
    """A producer adds partitions to its transaction; the first begin it.

    ``may_wait``: while the producer's previous transaction is being completed, keep the request and
    ask again then, instead of answering CONCURRENT_TRANSACTIONS.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[PartitionKey]
    may_wait: bool = False
    reply: object = None


@lazy_dataclass(kw_only=True)
class EndTransaction:
    """A producer commits or aborts.

    ``waits_for_markers``: respond only once they are written. ``is_durable``: sync the decision and
    the markers even if the broker's acknowledgements are not durable.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    waits_for_markers: bool = False
    is_durable: bool = False
    reply: object = None


@lazy_dataclass()
class TransactionAnswer:
    """The response to any of the three; id and epoch only for :class:`InitProducerId`."""

    reply: object
    error: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@lazy_dataclass()
class StoreTransaction:
    """Append this state of an id, or its tombstone if None; then call ``stored``.

    ``must_sync``: if acknowledgements are durable, append the state only once the transaction's
    records are on disk, and report it only once the state is on disk.
    """

    transactional_id: str
    metadata: TransactionMetadata | None
    ticket: object
    must_sync: bool = False
    is_durable: bool = False  # sync even if acknowledgements are not durable


@lazy_dataclass()
class WriteMarkers:
    """Append the markers of a decided transaction to its partitions; then call ``marked``."""

    metadata: TransactionMetadata
    ticket: object
    is_durable: bool = False


@lazy_dataclass()
class WaitForCompletion:
    """A request is kept until its id's transaction is complete; call ``give_up`` after a while."""

    request: AddPartitions


@lazy_dataclass()
class AskAgain:
    """The transaction that a kept request waited for is complete; call ``add_partitions`` again."""

    request: AddPartitions


Effect = TransactionAnswer | StoreTransaction | WriteMarkers | WaitForCompletion | AskAgain
