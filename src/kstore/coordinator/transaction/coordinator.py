"""The transaction coordinator: who may write under a transactional id, and what is decided.

A state machine without I/O: what it wants done is asked of its :class:`Effects`. Rules: Kafka's
TransactionCoordinator and TransactionMetadata, by the protocol of ``transaction.version`` 0 and
1: ``init`` raises the producer epoch, which fences whoever had the id before; a transaction that
ran into its timeout is aborted under a raised epoch (KIP-360), so that its producer is fenced.
"""

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from kstore.coordinator.transaction.messages import Metadata, Place, State
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

LAST_EPOCH = 2**15 - 2  # one is left for the fence of a transaction that has it (Kafka)
_OUTCOME = {True: State.PREPARE_COMMIT, False: State.PREPARE_ABORT}
_COMPLETE = {
    State.PREPARE_COMMIT: State.COMPLETE_COMMIT,
    State.PREPARE_ABORT: State.COMPLETE_ABORT,
}
_AT_REST = (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


class Effects(Protocol):
    """What a coordinator needs done; any of it may raise, and may be asked for again."""

    def now_ms(self) -> int: ...
    def new_producer_id(self) -> int: ...
    def store(self, metadata: Metadata) -> None:
        """Append the state to ``__transaction_state``."""

    def flush_state(self, transactional_id: str) -> None:
        """Return when all states of an id that were stored are on disk."""

    def forget(self, transactional_id: str) -> None:
        """Append a tombstone for an id."""

    def flush(self, places: Iterable[Place]) -> None:
        """Return when all that was appended to these partitions is on disk."""

    def mark(self, place: Place, metadata: Metadata, *, commit: bool) -> None:
        """Append the marker that ends the transaction in a partition; gone ones do not matter.

        Its timestamp is that of the decision, ``metadata.last_update_ms``.
        """


class Coordinator:
    """The transactional ids of a store. Thread safe: calls for one id take turns.

    A commit is decided by the state PrepareCommit, which is on disk after the records and before
    the markers: from then on it is finished whatever happens, by :meth:`finish` after a crash.
    Before it the transaction is nothing. The markers are on disk before the state says that the
    transaction is complete, so an open transaction that no state knows of was never committed.

    Producer ids below ``lowest_producer_id`` are of another coordinator that had the directory, a
    Kafka broker: what they have under way is left to it, until their transactional id is used.
    """

    def __init__(
        self, effects: Effects, *, max_timeout_ms: int, lowest_producer_id: int = 0
    ) -> None:
        self._effects = effects
        self._max_timeout_ms = max_timeout_ms
        self._lowest_producer_id = lowest_producer_id
        self._ids: dict[str, Metadata] = {}
        self._locks: dict[str, threading.RLock] = {}
        self._guard = threading.Lock()
        self._deleted: dict[str, str] = {}  # a topic of the id's transaction that was deleted

    def load(self, metadata: Metadata) -> None:
        """Take over what ``__transaction_state`` has of an id."""
        self._ids[metadata.transactional_id] = metadata

    def __getitem__(self, transactional_id: str) -> Metadata:
        return self._ids[transactional_id]

    def all(self) -> list[Metadata]:
        """Every id, in order of their names."""
        return [self._ids[name] for name in sorted(self._ids)]

    def _turn(self, transactional_id: str) -> threading.RLock:
        with self._guard:
            return self._locks.setdefault(transactional_id, threading.RLock())

    # --- what producers ask for -----------------------------------------------------------

    def init(
        self,
        transactional_id: str,
        timeout_ms: int,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> tuple[int, int]:
        """A producer id and epoch for a transactional id; whoever had it before is fenced.

        What is decided is finished first, what is under way is aborted. With the id and epoch
        that the producer had, only that producer goes on (KIP-360).

        Raises ProducerFencedError, InvalidTransactionTimeoutError, InvalidConfigError.
        """
        if not isinstance(transactional_id, str) or not transactional_id:
            raise InvalidConfigError("a transactional.id is text, and not empty")
        if not 0 < timeout_ms <= self._max_timeout_ms:
            raise InvalidTransactionTimeoutError(
                f"transaction.timeout.ms must be from 1 to {self._max_timeout_ms} "
                f"(transaction.max.timeout.ms), not {timeout_ms}"
            )
        with self._turn(transactional_id):
            known = self._ids.get(transactional_id)
            if known is not None and producer_id >= 0:
                self._check_epoch(known, producer_id, producer_epoch)
            if known is not None and known.state is State.ONGOING:
                self._abort_fenced(known)
            elif known is not None and known.state not in _AT_REST:
                self._finish(known, durable=True)
            known = self._ids.get(transactional_id)
            fresh = known is None or known.producer_epoch >= LAST_EPOCH or not self._is_own(known)
            made = Metadata(
                transactional_id,
                self._effects.new_producer_id() if known is None or fresh else known.producer_id,
                0 if known is None or fresh else known.producer_epoch + 1,
                timeout_ms,
                State.EMPTY,
                last_update_ms=self._now_after(known),
                previous_producer_id=-1 if known is None else known.producer_id,
            )
            self._store(made)
            # On disk before it is used: an epoch that came again would repeat its sequences.
            self._effects.flush_state(transactional_id)
            return made.producer_id, made.producer_epoch

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        places: Iterable[Place],
    ) -> None:
        """Make partitions part of the transaction, which begins with the first ones.

        On return they are stored: only then may records go there.
        Raises ProducerFencedError, InvalidProducerIdMappingError, ConcurrentTransactionsError.
        """
        with self._turn(transactional_id):
            known = self.check(transactional_id, producer_id, producer_epoch)
            if known.state not in (*_AT_REST, State.ONGOING):
                raise ConcurrentTransactionsError(
                    f"the last transaction of {transactional_id!r} is not finished yet"
                )
            ongoing = known.state is State.ONGOING
            before = known.partitions if ongoing else frozenset()
            partitions = before | frozenset(places)
            if ongoing and partitions == before:
                return
            self._store(
                known._replace(
                    state=State.ONGOING,
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
        """Commit or abort. ``durable``: on return the outcome survives a power cut.

        May be called again after an error, with the same outcome. Raises ProducerFencedError,
        InvalidProducerIdMappingError, InvalidTxnStateError.
        """
        with self._turn(transactional_id):
            known = self.check(transactional_id, producer_id, producer_epoch)
            if known.state is State.ONGOING:
                if commit and transactional_id in self._deleted:
                    raise InvalidTxnStateError(
                        f"topic {self._deleted[transactional_id]!r}, which the transaction uses, "
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

    def drop_topic(self, topic: str, users: Iterable[str] = ()) -> None:
        """A topic is being deleted: what is under way in it, and of ``users``, can only abort.

        No marker goes to its partitions, so none to a topic that is made again under its name.
        """
        users = set(users)
        for known in self.all():
            with self._turn(known.transactional_id):
                known = self._ids[known.transactional_id]
                if known.state in _AT_REST:
                    continue
                left = frozenset(place for place in known.partitions if place[0] != topic)
                is_used = left != known.partitions or known.transactional_id in users
                if known.state is State.ONGOING and is_used:
                    self._deleted[known.transactional_id] = topic
                if left != known.partitions:
                    self._store(known._replace(partitions=left))
                    # On disk before the topic's name is free.
                    self._effects.flush_state(known.transactional_id)

    # --- what time and restarts ask for ---------------------------------------------------

    def _is_own(self, known: Metadata) -> bool:
        return known.producer_id >= self._lowest_producer_id

    def finish(self) -> None:
        """Carry out what was decided before a crash.

        What has partitions in a directory that is offline stays decided, until it is back.
        """
        for known in self.all():
            with self._turn(known.transactional_id):
                if known.state in _COMPLETE and self._is_own(known):
                    with _unless_offline(known):
                        self._finish(known, durable=True)

    def abort_timed_out(self) -> list[str]:
        """Abort what is ongoing longer than its ``transaction.timeout.ms``; returns the ids."""
        aborted = []
        for known in self.all():
            with self._turn(known.transactional_id):
                now, known = self._effects.now_ms(), self._ids[known.transactional_id]
                late = now - known.start_ms > known.timeout_ms
                if known.state is State.ONGOING and late and self._is_own(known):
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
        """Forget ids at rest for so long (``transactional.id.expiration.ms``); returns them."""
        gone = []
        for known in self.all():
            with self._turn(known.transactional_id):
                known = self._ids[known.transactional_id]
                idle = self._effects.now_ms() - known.last_update_ms
                if known.state in _AT_REST and idle >= expiration_ms and self._is_own(known):
                    self._effects.forget(known.transactional_id)
                    del self._ids[known.transactional_id]
                    gone.append(known.transactional_id)
        return gone

    def is_open(self, producer_id: int, place: Place) -> bool:
        """Whether a transaction is under way, or decided and not finished, in a partition."""
        return any(
            known.producer_id == producer_id
            and place in known.partitions
            and known.state not in _AT_REST
            for known in self.all()
        )

    # --- steps ----------------------------------------------------------------------------

    def knows(self, producer_id: int) -> bool:
        """Whether a producer id is one of its own, now or before the last change."""
        return any(
            producer_id in (known.producer_id, known.previous_producer_id) for known in self.all()
        )

    def check(self, transactional_id: str, producer_id: int, producer_epoch: int) -> Metadata:
        """The state of an id, for the producer that has it.

        Raises ProducerFencedError, InvalidProducerIdMappingError.
        """
        known = self._ids.get(transactional_id)
        if known is None or known.producer_id != producer_id:
            raise InvalidProducerIdMappingError(
                f"producer id {producer_id} does not belong to {transactional_id!r} (any more)"
            )
        self._check_epoch(known, producer_id, producer_epoch)
        return known

    def _check_epoch(self, known: Metadata, producer_id: int, producer_epoch: int) -> None:
        if (known.producer_id, known.producer_epoch) != (producer_id, producer_epoch):
            raise ProducerFencedError(
                f"another producer with transactional.id {known.transactional_id!r} was started, "
                "or the transaction took longer than its timeout: this producer is of no use any "
                "more"
            )

    def _store(self, metadata: Metadata) -> None:
        """Known here once it is in the log: a flush that fails later does not take it back."""
        self._effects.store(metadata)
        self._ids[metadata.transactional_id] = metadata

    def _now_after(self, known: Metadata | None) -> int:
        """The time for an id's next state: it does not go back where the clock does."""
        now = self._effects.now_ms()
        return now if known is None else max(now, known.last_update_ms)

    def _decide(self, known: Metadata, *, commit: bool) -> Metadata:
        """At a millisecond of its own: the markers have it, and tell decisions apart by it."""
        self._deleted.pop(known.transactional_id, None)
        decided = known._replace(
            state=_OUTCOME[commit],
            last_update_ms=max(self._effects.now_ms(), known.last_update_ms + 1),
        )
        self._store(decided)
        return decided

    def _abort_fenced(self, known: Metadata) -> None:
        """Abort under a raised epoch: partitions refuse what the producer may still send."""
        fenced = known._replace(producer_epoch=known.producer_epoch + 1)
        self._finish(self._decide(fenced, commit=False), durable=not self._is_own(known))

    def _finish(self, decided: Metadata, *, durable: bool) -> None:
        """The decision on disk, markers everywhere, and, with those on disk, the end.

        An abort needs no disk: what is not known to be committed is not. Those of another
        coordinator's producers do: whether they were committed nobody could tell afterwards.
        """
        commit = decided.state is State.PREPARE_COMMIT
        if durable and commit:
            self._effects.flush_state(decided.transactional_id)
        failure: KStoreError | None = None
        for place in sorted(decided.partitions):
            try:
                self._effects.mark(place, decided, commit=commit)
            except KStoreError as error:  # what reads the others need not wait for this one
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
def _unless_offline(known: Metadata) -> Iterator[None]:
    """Go on where a log directory is offline: the state says what is left to do."""
    try:
        yield
    except LogDirOfflineError as error:
        _LOGGER.warning(
            "the transaction of %r cannot be finished yet: %s", known.transactional_id, error
        )
