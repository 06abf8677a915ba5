"""The transaction coordinator of a store without a broker.

It fences producers and decides the outcome of transactions.

A state machine; its :class:`Effects` do the I/O. Rules: Kafka's TransactionCoordinator
and TransactionMetadata, by the protocol of ``transaction.version`` 0 and 1: ``init`` raises the
producer epoch, which fences earlier producers with the id; a transaction that exceeds its timeout
is aborted under a raised epoch (KIP-360), so that its producer is fenced.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from kstore.coordinator.transaction.id_locks import IdLocks
from kstore.coordinator.transaction.transaction_state_records import (
    PartitionKey,
    TransactionMetadata,
    TransactionState,
)
from kstore.errors import (
    ConcurrentTransactionsError,
    InvalidConfigError,
    InvalidProducerIdMappingError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    KStoreError,
    LogDirOfflineError,
    ProducerFencedError,
)

_LOGGER = logging.getLogger("kstore")

LAST_EPOCH = 2**15 - 2  # the next epoch is reserved for fencing (isProducerEpochExhausted)
_OUTCOME = {True: TransactionState.PREPARE_COMMIT, False: TransactionState.PREPARE_ABORT}
_COMPLETE = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}
_AT_REST = (
    TransactionState.EMPTY,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
)


class Effects(Protocol):
    """The I/O of a coordinator. Any method may raise, and may be retried after that."""

    def now_ms(self) -> int: ...
    def new_producer_id(self) -> int: ...
    def store(self, metadata: TransactionMetadata) -> None:
        """Append the state to ``__transaction_state``."""

    def flush_state(self, transactional_id: str) -> None:
        """Wait until all stored states of an id are on disk."""

    def forget(self, transactional_id: str) -> None:
        """Append a tombstone for an id."""

    def flush(self, partitions: Iterable[PartitionKey]) -> None:
        """Wait until all appended records of these partitions are on disk."""

    def mark(self, tp: PartitionKey, metadata: TransactionMetadata, *, commit: bool) -> None:
        """Append the marker that ends the transaction in a partition, unless it was deleted.

        Its timestamp is that of the decision, ``metadata.last_update_ms``.
        """


class EmbeddedCoordinator:
    """The transactional ids of a store. Thread safe: calls for one id are serialized.

    The state PrepareCommit decides a commit. It is written to disk after the records and before the
    markers. Once it is on disk, the commit is always completed, after a crash by :meth:`finish`;
    before that, the transaction is not committed. The markers reach the disk before the state
    CompleteCommit, so an open transaction without a state was never committed.

    Producer ids below ``lowest_producer_id`` belong to a Kafka broker that used the directory
    before. Their transactions are left to that broker, until their transactional id is used here.
    """

    def __init__(
        self, effects: Effects, *, max_timeout_ms: int, lowest_producer_id: int = 0
    ) -> None:
        self._effects = effects
        self._max_timeout_ms = max_timeout_ms
        self._lowest_producer_id = lowest_producer_id
        self._ids: dict[str, TransactionMetadata] = {}
        self._locks = IdLocks()
        self._deleted: dict[str, str] = {}  # by id: what its transaction used
        self._is_retired = False

    def retire(self) -> None:
        """Wait for calls in progress and reject later ones, because a broker takes over."""
        self._is_retired = True
        self._locks.wait_for_all()  # a turn that begins from here on sees that it is retired

    def load(self, metadata: TransactionMetadata) -> None:
        """Load the state of an id from ``__transaction_state``."""
        self._ids[metadata.transactional_id] = metadata

    def __getitem__(self, transactional_id: str) -> TransactionMetadata:
        return self._ids[transactional_id]

    def all(self) -> list[TransactionMetadata]:
        """The states of all ids, sorted by id."""
        # The values at once: an id may expire in another thread meanwhile.
        return sorted(self._ids.values(), key=lambda each: each.transactional_id)

    @contextmanager
    def _turn(self, transactional_id: str) -> Iterator[None]:
        with self._locks.turn(transactional_id):
            if self._is_retired:
                raise ConcurrentTransactionsError(
                    "a broker has started or stopped serving the store: retry the call"
                )
            yield

    # --- requests of producers ------------------------------------------------------------

    def init(
        self,
        transactional_id: str,
        timeout_ms: int,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> tuple[int, int]:
        """Return a producer id and epoch for a transactional id; fence its earlier producers.

        First finishes a decided transaction, or aborts an ongoing one. With a producer id and
        epoch, only the producer that has them may continue (KIP-360).

        Raises ProducerFencedError, InvalidTransactionTimeoutError, InvalidConfigError.
        """
        if not isinstance(transactional_id, str) or not transactional_id:
            raise InvalidConfigError("a transactional.id must be a non-empty string")
        if not 0 < timeout_ms <= self._max_timeout_ms:
            raise InvalidTransactionTimeoutError(
                f"transaction.timeout.ms must be from 1 to {self._max_timeout_ms} "
                f"(transaction.max.timeout.ms), not {timeout_ms}"
            )
        with self._turn(transactional_id):
            known = self._ids.get(transactional_id)
            if known is not None and producer_id >= 0:
                self._check_epoch(known, producer_id, producer_epoch)
            if known is not None and known.state is TransactionState.ONGOING:
                self._abort_fenced(known)
            elif known is not None and known.state not in _AT_REST:
                self._finish(known, durable=True)
            known = self._ids.get(transactional_id)
            fresh = known is None or known.producer_epoch >= LAST_EPOCH or not self._is_own(known)
            new = TransactionMetadata(
                transactional_id,
                self._effects.new_producer_id() if known is None or fresh else known.producer_id,
                0 if known is None or fresh else known.producer_epoch + 1,
                timeout_ms,
                TransactionState.EMPTY,
                last_update_ms=self._now_after(known),
                previous_producer_id=-1 if known is None else known.producer_id,
            )
            self._store(new)
            # On disk before its first use, because a reused epoch would reuse sequence numbers.
            self._effects.flush_state(transactional_id)
            return new.producer_id, new.producer_epoch

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[PartitionKey],
    ) -> None:
        """Add partitions to the transaction; the first begin it.

        On return they are stored: only then may records be appended to them.
        Raises ProducerFencedError, InvalidProducerIdMappingError, ConcurrentTransactionsError.
        """
        with self._turn(transactional_id):
            known = self.check(transactional_id, producer_id, producer_epoch)
            if known.state not in (*_AT_REST, TransactionState.ONGOING):
                raise ConcurrentTransactionsError(
                    f"the last transaction of {transactional_id!r} is not finished yet"
                )
            ongoing = known.state is TransactionState.ONGOING
            before = known.partitions if ongoing else frozenset()
            partitions = before | frozenset(partitions)
            if ongoing and partitions == before:
                return
            self._store(
                known._replace(
                    state=TransactionState.ONGOING,
                    partitions=partitions,
                    last_update_ms=self._now_after(known),
                    start_ms=known.start_ms if ongoing else self._effects.now_ms(),
                )
            )

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        durable: bool = True,
    ) -> None:
        """Commit or abort. ``durable``: on return the outcome survives a power failure.

        May be called again after an error, with the same outcome. Raises ProducerFencedError,
        InvalidProducerIdMappingError, InvalidTxnStateError.
        """
        with self._turn(transactional_id):
            known = self.check(transactional_id, producer_id, producer_epoch)
            if known.state is TransactionState.ONGOING:
                if commit and transactional_id in self._deleted:
                    raise InvalidTxnStateError(
                        f"{self._deleted[transactional_id]}, which the transaction uses, "
                        "was deleted since it began: the transaction can only be aborted"
                    )
                if durable and commit:
                    self._effects.flush(known.partitions)
                known = self._decide(known, commit=commit)
            elif known.state is _COMPLETE[_OUTCOME[commit]]:
                return
            elif known.state is not _OUTCOME[commit]:
                wanted = "commit" if commit else "abort"
                raise InvalidTxnStateError(
                    f"{transactional_id!r} has no transaction to {wanted}: its state is "
                    f"{known.state.name}"
                )
            self._finish(known, durable=durable)

    def drop_topic(
        self, topic: str, users: Iterable[str] = (), partition: int | None = None
    ) -> None:
        """Make transactions in a topic, or a partition of it, that is being deleted abort.

        The same applies to the transactional ids in ``users``.

        Its partitions get no markers, and neither do those that are created again.
        """
        users = set(users)
        what = f"topic {topic!r}" if partition is None else f"partition {topic}-{partition}"
        for listed in self.all():
            with self._turn(listed.transactional_id):
                known = self._ids.get(listed.transactional_id)
                if known is None or known.state in _AT_REST:  # None: expired meanwhile
                    continue
                left = frozenset(
                    tp
                    for tp in known.partitions
                    if tp[0] != topic or partition not in (None, tp[1])
                )
                is_used = left != known.partitions or known.transactional_id in users
                if known.state is TransactionState.ONGOING and is_used:
                    self._deleted[known.transactional_id] = what
                if left != known.partitions:
                    self._store(known._replace(partitions=left))
                    # On disk before the topic's name can be reused.
                    self._effects.flush_state(known.transactional_id)

    # --- timeouts and restarts -------------------------------------------------------------

    def _is_own(self, known: TransactionMetadata) -> bool:
        return known.producer_id >= self._lowest_producer_id

    def finish(self) -> None:
        """Complete the transactions that were decided before a crash.

        A transaction with partitions in an offline directory stays decided until the directory is
        back.
        """
        for listed in self.all():
            with self._turn(listed.transactional_id):
                known = self._ids.get(listed.transactional_id)
                if known is not None and known.state in _COMPLETE and self._is_own(known):
                    with _unless_offline(known):
                        self._finish(known, durable=True)

    def abort_timed_out(self) -> list[str]:
        """Abort transactions that exceed their ``transaction.timeout.ms``; returns the ids."""
        aborted = []
        for listed in self.all():
            with self._turn(listed.transactional_id):
                now, known = self._effects.now_ms(), self._ids.get(listed.transactional_id)
                if known is None:
                    continue
                late = now - known.start_ms > known.timeout_ms
                if known.state is TransactionState.ONGOING and late and self._is_own(known):
                    _LOGGER.warning(
                        "transaction of %r aborted: it took longer than its timeout of %d ms",
                        known.transactional_id,
                        known.timeout_ms,
                    )
                    with _unless_offline(known):
                        self._abort_fenced(known)
                    aborted.append(known.transactional_id)
        return aborted

    def expire(self, expiration_ms: int) -> list[str]:
        """Remove and return ids idle for longer than ``transactional.id.expiration.ms``."""
        expired = []
        for listed in self.all():
            with self._turn(listed.transactional_id):
                known = self._ids.get(listed.transactional_id)
                if known is None:
                    continue
                idle = self._effects.now_ms() - known.last_update_ms
                if known.state in _AT_REST and idle >= expiration_ms and self._is_own(known):
                    self._effects.forget(known.transactional_id)
                    del self._ids[known.transactional_id]
                    expired.append(known.transactional_id)
        return expired

    def is_open(self, producer_id: int, tp: PartitionKey) -> bool:
        """Whether a producer has an ongoing or decided transaction in a partition."""
        return any(
            known.producer_id == producer_id
            and tp in known.partitions
            and known.state not in _AT_REST
            for known in self.all()
        )

    # --- steps ----------------------------------------------------------------------------

    def knows(self, producer_id: int) -> bool:
        """Whether this is the current or previous producer id of any transactional id."""
        return any(
            producer_id in (known.producer_id, known.previous_producer_id) for known in self.all()
        )

    def check(
        self, transactional_id: str, producer_id: int, producer_epoch: int
    ) -> TransactionMetadata:
        """The state of an id, for the producer that has it.

        Raises ProducerFencedError, InvalidProducerIdMappingError.
        """
        known = self._ids.get(transactional_id)
        if known is None or known.producer_id != producer_id:
            raise InvalidProducerIdMappingError(
                f"producer id {producer_id} does not, or no longer, belong to {transactional_id!r}"
            )
        self._check_epoch(known, producer_id, producer_epoch)
        return known

    def _check_epoch(
        self, known: TransactionMetadata, producer_id: int, producer_epoch: int
    ) -> None:
        if (known.producer_id, known.producer_epoch) != (producer_id, producer_epoch):
            raise ProducerFencedError(
                f"another producer with transactional.id {known.transactional_id!r} was started, "
                "or the transaction took longer than its timeout: create a new producer"
            )

    def _store(self, metadata: TransactionMetadata) -> None:
        """Store a state; it takes effect once in the log, and a failed flush does not undo it."""
        self._effects.store(metadata)
        self._ids[metadata.transactional_id] = metadata

    def _now_after(self, known: TransactionMetadata | None) -> int:
        """The timestamp of an id's next state, which never goes backwards."""
        now = self._effects.now_ms()
        return now if known is None else max(now, known.last_update_ms)

    def _decide(self, known: TransactionMetadata, *, commit: bool) -> TransactionMetadata:
        """Store the outcome with a unique timestamp, which identifies it in markers."""
        self._deleted.pop(known.transactional_id, None)
        decided = known._replace(
            state=_OUTCOME[commit],
            last_update_ms=max(self._effects.now_ms(), known.last_update_ms + 1),
        )
        self._store(decided)
        return decided

    def _abort_fenced(self, known: TransactionMetadata) -> None:
        """Abort with a raised epoch, so that partitions reject later batches of the producer."""
        fenced = known._replace(producer_epoch=known.producer_epoch + 1)
        self._finish(self._decide(fenced, commit=False), durable=not self._is_own(known))

    def _finish(self, decided: TransactionMetadata, *, durable: bool) -> None:
        """Sync the decision, write and sync the markers, then store the completed state.

        An abort needs no sync, because a transaction without a state is not committed. An abort of
        another coordinator's producer needs one, because its outcome could not be determined
        afterwards.
        """
        commit = decided.state is TransactionState.PREPARE_COMMIT
        if durable and commit:
            self._effects.flush_state(decided.transactional_id)
        failure: KStoreError | None = None
        for tp in sorted(decided.partitions):
            try:
                self._effects.mark(tp, decided, commit=commit)
            except KStoreError as error:  # still write the other markers
                failure = failure or error
        if failure is not None:
            raise failure
        if durable and (commit or not self._is_own(decided)):
            self._effects.flush(decided.partitions)
        self._store(
            decided._replace(
                state=_COMPLETE[decided.state],
                partitions=frozenset(),
                last_update_ms=self._now_after(decided),
            )
        )


@contextmanager
def _unless_offline(known: TransactionMetadata) -> Iterator[None]:
    """Ignore an offline log directory; the stored state makes a retry possible."""
    try:
        yield
    except LogDirOfflineError as error:
        _LOGGER.warning(
            "the transaction of %r cannot be completed yet: %s", known.transactional_id, error
        )
