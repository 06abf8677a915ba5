"""A transactional id at its coordinator: its producer id, and the transaction that is open."""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from kstore.errors import InvalidProducerEpochError, InvalidTxnStateError, ProducerFencedError
from kstore.producer_state.producer_ids import SEQUENCES
from kstore.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from kstore.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kstore.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kstore.remote.answer_errors import raise_for
from kstore.remote.cluster import Cluster
from kstore.remote.connection import Answer, Request
from kstore.remote.coordinators import TRANSACTION, ask_coordinator
from kstore.remote.remote_log import only
from kstore.topic_partition import TopicPartition

_PAUSE = 0.02  # seconds between attempts to add a partition, as in Kafka's TransactionManager
# Later versions are those of brokers (AddPartitionsToTxn), or change the epoch at each end.
_HIGHEST_ADD, _HIGHEST_END = 3, 4
Result = TypeVar("Result")


class TransactionalId:
    """The transactions of one producer (KIP-98). For one thread at a time.

    Its methods raise ProducerFencedError if a newer producer of the same transactional id exists,
    or if the transaction took longer than its timeout, and KStoreError with Kafka's code. While
    the coordinator loads, moves or still ends the last transaction, they try again.
    """

    def __init__(self, cluster: Cluster, name: str, timeout_ms: int) -> None:
        self.name = name
        self.producer_id = self.producer_epoch = -1
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._partitions: set[TopicPartition] = set()  # of the open transaction
        self._sequences: dict[TopicPartition, int] = {}  # of the next batch
        self._failed: BaseException | None = None  # why the transaction can only be aborted

    def init(self) -> None:
        """Get the producer id with a new epoch. The first time it aborts the transaction of an
        earlier producer, and fences that."""
        request = InitProducerIdRequest(
            transactional_id=self.name,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
        )
        answer = self._ask(request, InitProducerIdResponse, lambda answer: answer.error_code)
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self._partitions.clear()
        self._sequences.clear()
        self._failed = None

    def add_partition(self, tp: TopicPartition) -> int:
        """Add a partition to the transaction before its first batch; the next batch's sequence."""
        if tp not in self._partitions:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.name,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.producer_epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnRequest.V3AndBelowTopics(tp.topic, [tp.partition])
                ],
            )

            def code_of(answer: AddPartitionsToTxnResponse) -> int:
                topic = only(answer.results_by_topic_v3_and_below, str(tp))
                return only(topic.results_by_partition, str(tp)).partition_error_code

            self._ask(
                request, AddPartitionsToTxnResponse, code_of, highest=_HIGHEST_ADD, pause=_PAUSE
            )
            self._partitions.add(tp)
        return self._sequences.get(tp, 0)

    def wrote(self, tp: TopicPartition, count: int) -> None:
        """Note that the leader has a batch of this many records."""
        self._sequences[tp] = (self._sequences.get(tp, 0) + count) % SEQUENCES

    def fail(self, error: BaseException) -> None:
        """Note that records of the transaction are lost: it can only be aborted."""
        self._failed = self._failed or error

    def commit(self) -> None:
        """Commit. Raises InvalidTxnStateError if records were lost."""
        if self._failed is not None:
            raise InvalidTxnStateError(
                f"the transaction can only be aborted: {self._failed}"
            ) from self._failed
        self._end(committed=True)

    def abort(self) -> None:
        """Abort. After a lost batch, get a new epoch: the batch may have used its sequence."""
        if self._failed is None:
            self._end(committed=False)
            return
        with suppress(InvalidTxnStateError):  # the coordinator may have no partition of it
            self._ask_end(committed=False)
        self.init()

    def _end(self, *, committed: bool) -> None:
        if self._partitions:  # the coordinator knows of no empty transaction
            self._ask_end(committed=committed)
        self._partitions.clear()

    def _ask_end(self, *, committed: bool) -> None:
        request = EndTxnRequest(self.name, self.producer_id, self.producer_epoch, committed)
        self._ask(request, EndTxnResponse, lambda answer: answer.error_code, highest=_HIGHEST_END)

    def _ask(
        self,
        request: Request,
        response: type[Answer],
        code_of: Callable[[Answer], int],
        *,
        highest: int | None = None,
        pause: float | None = None,
    ) -> Answer:
        about = f"transactional id {self.name}"

        def attempt() -> Answer:
            answer = ask_coordinator(
                self._cluster,
                self.name,
                request,
                response,
                code_of=code_of,
                kind=TRANSACTION,
                highest=highest,
            )
            raise_for(code_of(answer), None, about)
            return answer

        return self.unless_fenced(lambda: self._cluster.retrying(attempt, forget=None, pause=pause))

    def unless_fenced(self, ask: Callable[[], Result]) -> Result:
        """Call a function; older codes of a fenced producer are a ProducerFencedError, too."""
        try:
            return ask()
        except InvalidProducerEpochError as error:
            raise ProducerFencedError(
                f"another producer with transactional id {self.name} was started, or the "
                "transaction took longer than its timeout"
            ) from error
