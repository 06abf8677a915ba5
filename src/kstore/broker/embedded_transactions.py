"""Connects embedded transactional producers to the coordinator of the broker that serves the store.

Each transactional id therefore has one owner, and embedded producers and clients fence each other.
"""

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from kstore.clock import now_ms
from kstore.coordinator.transaction.transaction_events import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    TransactionAnswer,
)
from kstore.coordinator.transaction.transaction_state_records import (
    PartitionKey,
    TransactionMetadata,
)
from kstore.errors import (
    ClosedError,
    ConcurrentTransactionsError,
    InvalidConfigError,
    InvalidProducerIdMappingError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    KStoreError,
    ProducerFencedError,
    StorageError,
)
from kstore.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kstore.broker.services import Services
    from kstore.broker.transaction_service import TransactionService

_RETRY_SECONDS = 0.02  # delay before a retry
_RETRY_LIMIT_SECONDS = 60.0  # time limit for retries
_RETRIABLE = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)
_ERRORS: dict[ErrorCode, type[KStoreError]] = {
    ErrorCode.INVALID_REQUEST: InvalidConfigError,
    ErrorCode.INVALID_TXN_STATE: InvalidTxnStateError,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: InvalidProducerIdMappingError,
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: InvalidTransactionTimeoutError,
    ErrorCode.CONCURRENT_TRANSACTIONS: ConcurrentTransactionsError,
    ErrorCode.PRODUCER_FENCED: ProducerFencedError,
}

Reply = Callable[[TransactionAnswer], object]
_T = TypeVar("_T")


class EmbeddedTransactions:
    """Implements TransactionOwner with a broker's coordinator. Thread safe. Its methods block, so
    they must not be called on the event loop's thread."""

    def __init__(self, services: "Services", service: "TransactionService") -> None:
        self._services = services
        self._service = service
        self._closed = threading.Event()

    def close(self) -> None:
        """Make waiting calls raise ClosedError, since the broker has stopped."""
        self._closed.set()

    def init(self, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
        if not isinstance(transactional_id, str) or not transactional_id:
            raise InvalidConfigError("a transactional.id must be a non-empty string")

        def ask(reply: Reply) -> None:
            self._service.coordinator.init_producer_id(
                InitProducerId(
                    transactional_id=transactional_id, timeout_ms=timeout_ms, reply=reply
                ),
                now_ms(),
            )

        answer = self._repeat(transactional_id, ask)
        return answer.producer_id, answer.producer_epoch

    def check(
        self, transactional_id: str, producer_id: int, producer_epoch: int
    ) -> TransactionMetadata:
        found: list[TransactionMetadata | None] = []

        def look(reply: Reply) -> None:
            found.append(self._service.coordinator.find(transactional_id))
            reply(TransactionAnswer(reply=None))

        self._repeat(transactional_id, look)
        known = found[-1]
        if known is None or known.producer_id != producer_id:
            raise InvalidProducerIdMappingError(
                f"producer id {producer_id} does not, or no longer, belong to {transactional_id!r}"
            )
        if known.producer_epoch != producer_epoch:
            raise _error(ErrorCode.PRODUCER_FENCED, transactional_id)
        return known

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[PartitionKey],
    ) -> None:
        keys = frozenset((topic, partition) for topic, partition in partitions)

        def ask(reply: Reply) -> None:
            self._service.coordinator.add_partitions(
                AddPartitions(
                    transactional_id=transactional_id,
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    partitions=keys,
                    reply=reply,
                ),
                now_ms(),
            )

        self._repeat(transactional_id, ask)

    def end(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        durable: bool = True,
    ) -> None:
        if durable and commit:
            known = self.check(transactional_id, producer_id, producer_epoch)
            for topic, partition in known.partitions:
                self._services.store._log(topic, partition).flush()

        def ask(reply: Reply) -> None:
            self._service.coordinator.end(
                EndTransaction(
                    transactional_id=transactional_id,
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    is_commit=commit,
                    is_durable=durable,
                    waits_for_markers=True,
                    reply=reply,
                ),
                now_ms(),
            )

        self._repeat(transactional_id, ask)

    def drop_topic(
        self, topic: str, users: Iterable[str] = (), partition: int | None = None
    ) -> None:
        """The embedded producers among ``users`` notice the deletion themselves."""
        self._on_loop(lambda: self._service.coordinator.drop_topic(topic, partition))

    # --- on the loop's thread ---------------------------------------------------------------

    def _on_loop(self, work: Callable[[], _T]) -> _T:
        """Run ``work()`` on the event loop's thread and return its result."""
        results: list[_T] = []
        done = threading.Event()

        def run() -> None:
            try:
                results.append(work())
            finally:
                done.set()

        self._services.loop.call_soon_threadsafe(run)
        self._wait(done)
        return results[0]

    def _repeat(self, transactional_id: str, ask: Callable[[Reply], object]) -> TransactionAnswer:
        """Send a request, retrying it while a transaction is being completed."""
        deadline = self._services.loop.time() + _RETRY_LIMIT_SECONDS
        while True:
            answer = self._ask(transactional_id, ask)
            if answer.error == ErrorCode.NONE:
                return answer
            is_late = self._services.loop.time() > deadline
            if answer.error not in _RETRIABLE or is_late:
                raise _error(answer.error, transactional_id)
            if self._closed.wait(_RETRY_SECONDS):
                raise _closed()

    def _ask(self, transactional_id: str, ask: Callable[[Reply], object]) -> TransactionAnswer:
        answers: list[TransactionAnswer] = []
        done = threading.Event()

        def reply(answer: TransactionAnswer) -> None:
            answers.append(answer)
            done.set()

        def checked(error: ErrorCode) -> None:
            if error == ErrorCode.NONE:
                error = self._service.check(transactional_id)
            if error != ErrorCode.NONE:
                reply(TransactionAnswer(reply=None, error=error))
                return
            ask(reply)
            self._service.carry_out()

        loop = self._services.loop
        loop.call_soon_threadsafe(self._service.topic.with_topic, checked)
        self._wait(done)
        return answers[0]

    def _wait(self, done: threading.Event) -> None:
        while not done.wait(0.5):
            if self._closed.is_set():
                raise _closed()


def _closed() -> ClosedError:
    return ClosedError("the broker that owned the store's transactions has stopped")


def _error(code: ErrorCode, transactional_id: str) -> KStoreError:
    if code == ErrorCode.PRODUCER_FENCED:
        return ProducerFencedError(
            f"another producer with transactional.id {transactional_id!r} was started, or the "
            "transaction took longer than its timeout: create a new producer"
        )
    text = f"transactional id {transactional_id!r}: {code.message}"
    return _ERRORS.get(code, StorageError)(text)
