"""A broker's transaction coordinator, without I/O and without a clock.

The rules are those of Kafka 3.9's TransactionCoordinator and TransactionMetadata, by the protocol
of ``transaction.version`` 0 and 1. A method handles each request, with the time in Unix ms.
:meth:`TransactionCoordinator.take_effects` returns the effects: responses, states to store and
markers to write.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kstore.coordinator.transaction.transaction_events import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    AddPartitions,
    AskAgain,
    Effect,
    EndTransaction,
    InitProducerId,
    StoreTransaction,
    TransactionAnswer,
    WaitForCompletion,
    WriteMarkers,
)
from kstore.coordinator.transaction.transaction_state_records import (
    PartitionKey,
    TransactionMetadata,
    TransactionState,
)
from kstore.producer_state.producer_ids import new_producer_id
from kstore.protocol.error_codes import ErrorCode

LARGEST_EPOCH = 2**15 - 1
LAST_EPOCH = LARGEST_EPOCH - 1  # the next epoch is only for fencing (isProducerEpochExhausted)
# Python 3.11 takes 0.15 us to find a member of an enum by its name.
_NONE = ErrorCode.NONE
_ONGOING = TransactionState.ONGOING
_PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
AT_REST = frozenset(
    (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
)
_DECIDED = {True: _PREPARE_COMMIT, False: TransactionState.PREPARE_ABORT}
_COMPLETE = {
    _PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


@dataclass(slots=True, eq=False)
class _Id:
    """One transactional id. ``pending`` is the state that is being stored, or that follows the
    markers. Until then its producers get CONCURRENT_TRANSACTIONS, or wait in ``kept``."""

    metadata: TransactionMetadata
    pending: TransactionState | None = None
    # the previous epoch of the producer that now has the current one
    last_epoch: int = NO_PRODUCER_EPOCH
    has_failed_fence: bool = False  # the epoch is already raised, but storing that failed
    waiting: object = None  # the reply that waits for the markers
    kept: list[AddPartitions] = field(default_factory=list)  # until the transaction is complete
    # Topics, and single partitions, deleted while a state is stored.
    dropped: set[tuple[str, int | None]] | None = None


@dataclass(slots=True, eq=False)
class _Ticket:
    """A state that is being stored, and the steps after that."""

    entry: _Id
    metadata: TransactionMetadata | None
    last_epoch: int = NO_PRODUCER_EPOCH
    reply: object = None
    answer: ErrorCode = _NONE  # after it is stored
    is_init: bool = False
    is_fence: bool = False
    waits_for_markers: bool = False
    is_durable: bool = False


class TransactionCoordinator:
    """All transactional ids of a broker. Not thread-safe; never blocks."""

    def __init__(
        self,
        *,
        max_timeout_ms: int = 900_000,
        new_id: Callable[[], int] = new_producer_id,
    ) -> None:
        self._max_timeout_ms = max_timeout_ms
        self._new_id = new_id
        self._ids: dict[str, _Id] = {}
        self._effects: list[Effect] = []
        self._unstored: list[StoreTransaction] = []  # completed states whose append failed

    def take_effects(self) -> list[Effect]:
        """The effects since the last call, in order."""
        effects, self._effects = self._effects, []
        return effects

    # --- loading ----------------------------------------------------------------------------

    def load(self, metadata: TransactionMetadata) -> None:
        """Load a stored state; complete a decided transaction."""
        if metadata.state is TransactionState.DEAD:
            self._ids.pop(metadata.transactional_id, None)
            return
        if metadata.state is TransactionState.PREPARE_EPOCH_FENCE:  # Kafka never stores it
            metadata = metadata._replace(state=_ONGOING)
        entry = self._ids[metadata.transactional_id] = _Id(metadata)
        if metadata.state in _COMPLETE:
            self._write_markers(entry)

    def unload(self, transactional_ids: Iterable[str]) -> None:
        """Unload ids; later results of storing states and writing markers are ignored."""
        for name in transactional_ids:
            entry = self._ids.pop(name, None)
            if entry is None:
                continue
            if entry.waiting is not None:
                self._answer(entry.waiting, ErrorCode.NOT_COORDINATOR)
            for request in entry.kept:
                self._answer(request.reply, ErrorCode.NOT_COORDINATOR)

    # --- reading ----------------------------------------------------------------------------

    def find(self, transactional_id: str) -> TransactionMetadata | None:
        """The state of an id; None if the id is unknown or its first state is not stored yet."""
        entry = self._ids.get(transactional_id)
        return None if entry is None or _is_new(entry) else entry.metadata

    def __iter__(self) -> Iterator[TransactionMetadata]:
        """The states of all ids, sorted by id."""
        for _, entry in sorted(self._ids.items()):
            if not _is_new(entry):
                yield entry.metadata

    def knows(self, producer_id: int) -> bool:
        """Whether this is the current or previous producer id of any transactional id.

        Other threads may call it, too.
        """
        return any(
            producer_id in (entry.metadata.producer_id, entry.metadata.previous_producer_id)
            for entry in tuple(self._ids.values())  # at once: the loop's thread may change it
        )

    def is_open(self, producer_id: int, partition: PartitionKey) -> bool:
        """Whether a producer has an ongoing or decided transaction in a partition, or is beginning
        one."""
        return any(
            entry.metadata.producer_id == producer_id
            and (entry.pending is _ONGOING or partition in entry.metadata.partitions)
            for entry in self._ids.values()
        )

    # --- requests ---------------------------------------------------------------------------

    def init_producer_id(self, request: InitProducerId, now_ms: int) -> None:
        """Give a producer its id and a higher epoch, which fences earlier producers of the id.

        It first aborts an ongoing transaction, and responds with CONCURRENT_TRANSACTIONS until
        then. With a producer id and epoch, only the producer that has them may continue (KIP-360).
        """
        if not request.transactional_id:
            self._answer(request.reply, ErrorCode.INVALID_REQUEST)
        elif not 0 < request.timeout_ms <= self._max_timeout_ms:
            self._answer(request.reply, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        else:
            entry = self._ids.get(request.transactional_id)
            if entry is None:
                entry = self._ids[request.transactional_id] = _Id(
                    TransactionMetadata(
                        request.transactional_id,
                        self._new_id(),
                        NO_PRODUCER_EPOCH,
                        request.timeout_ms,
                        TransactionState.EMPTY,
                    )
                )
            self._init(entry, request, now_ms)

    def _init(self, entry: _Id, request: InitProducerId, now_ms: int) -> None:
        known, has_expected = entry.metadata, request.producer_id != NO_PRODUCER_ID
        if entry.pending is not None:
            self._answer(request.reply, ErrorCode.CONCURRENT_TRANSACTIONS)
        elif has_expected and not _may_continue(entry, request):
            self._answer(request.reply, ErrorCode.PRODUCER_FENCED)
        elif known.state in _COMPLETE:
            self._answer(request.reply, ErrorCode.CONCURRENT_TRANSACTIONS)
        elif known.state is _ONGOING:
            self._abort_fenced(entry, now_ms, request.reply, ErrorCode.CONCURRENT_TRANSACTIONS)
        else:
            expected = request.producer_epoch if has_expected else None
            renewed = self._renewed(entry, expected)
            if renewed is None:
                self._answer(request.reply, ErrorCode.PRODUCER_FENCED)
                return
            producer_id, epoch, last_epoch = renewed
            self._store(
                _Ticket(
                    entry,
                    known._replace(
                        producer_id=producer_id,
                        producer_epoch=epoch,
                        timeout_ms=request.timeout_ms,
                        state=TransactionState.EMPTY,
                        partitions=frozenset(),
                        last_update_ms=_later(known, now_ms),
                        start_ms=-1,
                        previous_producer_id=(
                            known.previous_producer_id
                            if producer_id == known.producer_id
                            else known.producer_id
                        ),
                    ),
                    last_epoch,
                    request.reply,
                    is_init=True,
                ),
                must_sync=True,  # a reused epoch would reuse sequence numbers
            )

    def _renewed(self, entry: _Id, expected_epoch: int | None) -> tuple[int, int, int] | None:
        """Producer id, epoch and last epoch for a starting producer; None if it is fenced.

        Kafka's prepareProducerIdRotation and prepareIncrementProducerEpoch. A repeated request,
        which still has the last epoch, gets the current epoch; a new producer would have reset the
        last epoch.
        """
        known = entry.metadata
        epoch = known.producer_epoch
        if epoch >= LAST_EPOCH and expected_epoch in (None, epoch):
            last = NO_PRODUCER_EPOCH if expected_epoch is None else epoch
            return self._new_id(), 0, last
        if expected_epoch is None or epoch == NO_PRODUCER_EPOCH:
            return known.producer_id, epoch + 1, NO_PRODUCER_EPOCH
        if expected_epoch == epoch:
            return known.producer_id, epoch + 1, epoch
        if expected_epoch == entry.last_epoch:
            return known.producer_id, epoch, entry.last_epoch
        return None

    def add_partitions(self, request: AddPartitions, now_ms: int) -> None:
        """Add partitions to a transaction; respond once they are stored.

        A request that ``may_wait`` follows the previous transaction's completion, which a producer
        does not wait for: Kafka lets it ask again and again.
        """
        error = self._check(request.transactional_id, request.producer_id, request.producer_epoch)
        if error != _NONE:
            self._answer(request.reply, error)
            return
        entry = self._ids[request.transactional_id]
        known = entry.metadata
        is_ongoing = known.state is _ONGOING
        if request.may_wait and known.state in _COMPLETE:
            entry.kept.append(request)
            self._effects.append(WaitForCompletion(request))
        elif entry.pending is not None or known.state in _COMPLETE:
            self._answer(request.reply, ErrorCode.CONCURRENT_TRANSACTIONS)
        elif is_ongoing and request.partitions <= known.partitions:
            self._answer(request.reply, _NONE)
        else:
            now_ms = _later(known, now_ms)
            self._store(
                _Ticket(
                    entry,
                    known.with_state(
                        _ONGOING,
                        known.partitions | request.partitions if is_ongoing else request.partitions,
                        now_ms,
                        known.start_ms if is_ongoing else now_ms,
                        known.producer_epoch,
                    ),
                    entry.last_epoch,
                    request.reply,
                )
            )

    def give_up(self, request: AddPartitions) -> None:
        """Answer a kept request that has waited for too long; nothing if it waits no more."""
        entry = self._ids.get(request.transactional_id)
        if entry is not None and any(each is request for each in entry.kept):
            entry.kept = [each for each in entry.kept if each is not request]
            self._answer(request.reply, ErrorCode.CONCURRENT_TRANSACTIONS)

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: PartitionKey,
    ) -> ErrorCode:
        """NONE if a producer's transaction is ongoing in a partition, so that transactional batches
        may be appended (KIP-890); otherwise TRANSACTION_ABORTABLE or another error."""
        error = self._check(transactional_id, producer_id, producer_epoch)
        if error != _NONE:
            return error
        known = self._ids[transactional_id].metadata
        if known.state is _ONGOING and partition in known.partitions:
            return _NONE
        return ErrorCode.TRANSACTION_ABORTABLE

    def end(self, request: EndTransaction, now_ms: int) -> None:
        """Decide a transaction; respond once the decision is stored, and write the markers after
        that."""
        error = self._check(request.transactional_id, request.producer_id, request.producer_epoch)
        if error != _NONE:
            self._answer(request.reply, error)
            return
        entry, decision = self._ids[request.transactional_id], _DECIDED[request.is_commit]
        state = entry.metadata.state
        if entry.pending is not None and state not in _COMPLETE:
            self._answer(request.reply, ErrorCode.CONCURRENT_TRANSACTIONS)
        elif state is _ONGOING:
            self._decide(
                entry,
                decision,
                now_ms,
                request.reply,
                waits_for_markers=request.waits_for_markers,
                is_durable=request.is_durable,
            )
        elif state is _COMPLETE[decision]:
            self._answer(request.reply, _NONE)
        elif state is decision:
            self._answer(request.reply, ErrorCode.CONCURRENT_TRANSACTIONS)
        else:
            self._answer(request.reply, ErrorCode.INVALID_TXN_STATE)

    def _check(self, transactional_id: str, producer_id: int, producer_epoch: int) -> ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        entry = self._ids.get(transactional_id)
        if entry is None or entry.metadata.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if entry.metadata.producer_epoch != producer_epoch:
            return ErrorCode.PRODUCER_FENCED
        return _NONE

    # --- steps ------------------------------------------------------------------------------

    def _decide(
        self,
        entry: _Id,
        decision: TransactionState,
        now_ms: int,
        reply: object,
        *,
        answer: ErrorCode = _NONE,
        is_fence: bool = False,
        waits_for_markers: bool = False,
        is_durable: bool = False,
    ) -> None:
        """Store the outcome, with a later timestamp than all before; the markers get it, too."""
        known = entry.metadata
        epoch = known.producer_epoch
        if is_fence and not entry.has_failed_fence:
            epoch = min(epoch + 1, LARGEST_EPOCH)
        self._store(
            _Ticket(
                entry,
                known.with_state(
                    decision,
                    known.partitions,
                    max(now_ms, known.last_update_ms + 1),
                    known.start_ms,
                    epoch,
                ),
                NO_PRODUCER_EPOCH if is_fence else entry.last_epoch,
                reply,
                answer,
                is_fence=is_fence,
                waits_for_markers=waits_for_markers,
                is_durable=is_durable and decision is _PREPARE_COMMIT,
            ),
            must_sync=decision is _PREPARE_COMMIT,
        )

    def _abort_fenced(
        self, entry: _Id, now_ms: int, reply: object = None, answer: ErrorCode = _NONE
    ) -> None:
        """Abort with a raised epoch, which fences the producer's later requests."""
        self._decide(
            entry, TransactionState.PREPARE_ABORT, now_ms, reply, answer=answer, is_fence=True
        )

    def _store(self, ticket: _Ticket, *, must_sync: bool = False) -> None:
        metadata = ticket.metadata
        ticket.entry.pending = TransactionState.DEAD if metadata is None else metadata.state
        self._effects.append(
            StoreTransaction(
                ticket.entry.metadata.transactional_id,
                metadata,
                ticket,
                must_sync,
                ticket.is_durable,
            )
        )

    def stored(self, effect: StoreTransaction, error: ErrorCode) -> None:
        """Handle the result of a StoreTransaction."""
        ticket = effect.ticket
        assert isinstance(ticket, _Ticket)
        entry = ticket.entry
        name = entry.metadata.transactional_id
        if self._ids.get(name) is not entry:
            self._answer(ticket.reply, ErrorCode.NOT_COORDINATOR)  # unloaded meanwhile
            return
        if error != _NONE:
            self._store_failed(effect, ticket, error)
            return
        entry.pending = None
        if ticket.metadata is None:
            del self._ids[name]
            return
        entry.metadata, entry.last_epoch = ticket.metadata, ticket.last_epoch
        if entry.dropped:
            self._drop(entry, entry.dropped)
            entry.dropped = None
        if entry.metadata.state in _COMPLETE:
            if ticket.waits_for_markers:
                entry.waiting = ticket.reply
            else:
                self._answer(ticket.reply, ticket.answer)
            self._write_markers(entry, is_durable=ticket.is_durable)
        elif ticket.is_init:
            self._effects.append(
                TransactionAnswer(
                    reply=ticket.reply,
                    producer_id=ticket.metadata.producer_id,
                    producer_epoch=ticket.metadata.producer_epoch,
                )
            )
        else:
            if ticket.metadata.state is not _ONGOING:
                entry.has_failed_fence = False
            self._answer(ticket.reply, ticket.answer)
            kept, entry.kept = entry.kept, []
            self._effects += [AskAgain(request) for request in kept]

    def _store_failed(self, effect: StoreTransaction, ticket: _Ticket, error: ErrorCode) -> None:
        """Handle a failed append, which leaves the log unchanged. A completed state is stored
        later, since its markers are already written."""
        entry, metadata = ticket.entry, ticket.metadata
        if metadata is not None and metadata.state in _COMPLETE.values():
            self._unstored.append(effect)
            return
        entry.pending = None
        if _is_new(entry):
            del self._ids[entry.metadata.transactional_id]
        elif ticket.is_fence and metadata is not None:
            # No producer got the raised epoch, so the next attempt does not raise it again.
            entry.metadata = entry.metadata._replace(producer_epoch=metadata.producer_epoch)
            entry.has_failed_fence, entry.last_epoch = True, NO_PRODUCER_EPOCH
        self._answer(ticket.reply, error)

    def _write_markers(self, entry: _Id, *, is_durable: bool = False) -> None:
        entry.pending = _COMPLETE[entry.metadata.state]
        self._effects.append(WriteMarkers(entry.metadata, entry, is_durable))

    def marked(self, effect: WriteMarkers, now_ms: int) -> None:
        """Complete a transaction, after every partition has its marker."""
        entry = effect.ticket
        assert isinstance(entry, _Id)
        known = entry.metadata
        if self._ids.get(known.transactional_id) is not entry or known.state not in _COMPLETE:
            return
        waiting, entry.waiting = entry.waiting, None
        self._store(
            _Ticket(
                entry,
                known.with_state(
                    _COMPLETE[known.state],
                    frozenset(),
                    _later(known, now_ms),
                    known.start_ms,
                    known.producer_epoch,
                ),
                entry.last_epoch,
                waiting,
            )
        )

    # --- time -------------------------------------------------------------------------------

    def store_again(self) -> bool:
        """Retry failed appends of completed states; return whether there are any."""
        effects, self._unstored = self._unstored, []
        self._effects += effects
        return bool(effects)

    def abort_timed_out(self, now_ms: int) -> list[str]:
        """Abort transactions that exceed their ``transaction.timeout.ms``; returns the ids."""
        late = [
            entry
            for entry in self._ids.values()
            if entry.metadata.state is _ONGOING
            and entry.pending is None
            and entry.metadata.start_ms + entry.metadata.timeout_ms < now_ms
        ]
        for entry in late:
            self._abort_fenced(entry, now_ms)
        return [entry.metadata.transactional_id for entry in late]

    def expire(self, now_ms: int, expiration_ms: int) -> list[str]:
        """Remove and return ids idle for longer than ``transactional.id.expiration.ms``."""
        idle = [
            entry
            for entry in self._ids.values()
            if entry.metadata.state in AT_REST
            and entry.pending is None
            and entry.metadata.last_update_ms + expiration_ms <= now_ms
        ]
        for entry in idle:
            self._store(_Ticket(entry, None))
        return [entry.metadata.transactional_id for entry in idle]

    # --- topics -----------------------------------------------------------------------------

    def drop_topic(self, topic: str, partition: int | None = None) -> None:
        """Remove a deleted topic's partitions, or one of them, from their transactions. Kafka does
        the same, since it counts a marker for an unknown partition as written. A later topic or
        partition with that name gets no markers."""
        for entry in self._ids.values():
            if entry.pending is not None:
                entry.dropped = (entry.dropped or set()) | {(topic, partition)}
            self._drop(entry, {(topic, partition)})

    def _drop(self, entry: _Id, gone: set[tuple[str, int | None]]) -> None:
        known = entry.metadata
        left = frozenset(
            each for each in known.partitions if each not in gone and (each[0], None) not in gone
        )
        if left != known.partitions:
            entry.metadata = known._replace(partitions=left)

    def _answer(self, reply: object, error: ErrorCode) -> None:
        if reply is not None:
            self._effects.append(TransactionAnswer(reply, error))


def _is_new(entry: _Id) -> bool:
    """Whether the id's first state is being stored."""
    return entry.metadata.producer_epoch == NO_PRODUCER_EPOCH


def _may_continue(entry: _Id, request: InitProducerId) -> bool:
    """Whether a producer has the current producer id, or the previous one with its last epoch,
    because the response with the current one was lost."""
    known = entry.metadata
    return (
        _is_new(entry)
        or request.producer_id == known.producer_id
        or (
            request.producer_id == known.previous_producer_id
            and request.producer_epoch >= LAST_EPOCH
        )
    )


def _later(known: TransactionMetadata, now_ms: int) -> int:
    """The timestamp of an id's next state, which never goes backwards."""
    return max(now_ms, known.last_update_ms)
