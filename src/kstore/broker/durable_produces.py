"""The fast path for Produce requests of one small batch whose answer waits for the disk.

Such a request is read from its frame, and answered with a frame
(:mod:`kstore._native.broker.produce_frame`); the batch is appended at once. It leaves all other
cases to :mod:`kstore.broker.handlers.produce`, above all the refusals: the append of a batch that
one of them would refuse has no effect, so that the general handler meets the same error.
"""

from functools import partial
from typing import TYPE_CHECKING

from kstore._native.broker.produce_frame import ProduceFrame, parse_request
from kstore.broker.delayed_produce import (
    AppendedPartition,
    DelayedProduce,
    for_version,
    min_in_sync,
)
from kstore.broker.partitions import HostedPartition, append_at_once
from kstore.broker.produce_turns import INLINE_SIZE, is_durable
from kstore.broker.request import Pending
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.produce import ProduceResponse

if TYPE_CHECKING:
    from kstore.broker.durable_commits import DurableCommits
    from kstore.broker.services import Services
    from kstore.broker.transaction_service import TransactionService

PartitionAnswer = ProduceResponse.Responses.PartitionResponses

# Python 3.11 takes 0.15 us to find a member of an enum by its name.
_NONE = ErrorCode.NONE
_ABORTABLE_SINCE = 11  # version of Produce


class DurableProduces:
    """Appends batches of durable partitions. Loop's thread only."""

    def __init__(
        self, services: "Services", commits: "DurableCommits", transactions: "TransactionService"
    ) -> None:
        self._services = services
        self._commits = commits
        self._transactions = transactions

    def handle_frame(self, frame: memoryview) -> Pending | None:
        """The answer to one request, after its sync; None, without any effect, if the caller must
        handle it."""
        request = parse_request(frame)
        if request is None or request.acks not in (-1, 1):
            return None
        batch = request.batch
        topic = request.topic
        if topic is None:
            names = self._services.metadata.image.names_by_id
            topic = names.get(request.topic_id)  # type: ignore[arg-type]  # one is set
            if topic is None:
                return None
        hosted = self._services.partitions.get(topic, request.partition)
        log = hosted.log
        if log is None or len(batch) > INLINE_SIZE or not self._may_append(hosted, request):
            return None
        append = partial(log.append_as_leader, batch)
        try:
            info = append_at_once(log, len(batch), append)
        except Exception:  # the general handler gets the same error, and reports it
            return None
        if info is None or not info.size:  # a duplicate, which it finds again
            return None
        end_offset = info.last_offset + 1
        answer = PartitionAnswer(
            index=request.partition,
            base_offset=info.first_offset,
            log_append_time_ms=(
                info.max_timestamp if log.config.message_timestamp_type == "LogAppendTime" else -1
            ),
            log_start_offset=log.start_offset,
        )
        counters = self._services.counters
        if counters is not None:
            counters.topic(hosted.topic).appended(info)
        if request.is_transactional:
            key = hosted.topic, hosted.number
            self._transactions.records_appended(request.producer_id, key, end_offset)
        return self._wait(request, AppendedPartition(hosted, log, end_offset, answer, False))

    def _may_append(self, hosted: HostedPartition, request: ProduceFrame) -> bool:
        """Whether nothing but the log may refuse the batch, and its answer waits for the disk."""
        image, topic = hosted.image, hosted.topic_image
        return (
            image is not None
            and topic is not None
            and not topic.is_internal
            and hosted.error == _NONE
            and hosted.is_plain
            and is_durable(hosted, self._services.settings)
            and (request.acks != -1 or len(image.isr) >= len(image.replicas))
            and not self._services.workers.is_busy(hosted.key)
            and (not request.is_transactional or self._is_ongoing(hosted, request))
        )

    def _is_ongoing(self, hosted: HostedPartition, request: ProduceFrame) -> bool:
        """Whether the records' transaction is ongoing in this partition."""
        if request.transactional_id is None:
            return False
        error = self._transactions.verify_append(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            (hosted.topic, hosted.number),
            knows_abortable=request.version >= _ABORTABLE_SINCE,
        )
        return error == _NONE

    def _wait(self, request: ProduceFrame, appended: AppendedPartition) -> Pending:
        answer = appended.answer

        def respond() -> ProduceResponse | bytes:
            if answer.error_code:
                topic = ProduceResponse.Responses(
                    appended.hosted.topic, appended.hosted.topic_id, [answer]
                )
                return for_version(ProduceResponse([topic]), request.version)
            return request.answer(
                answer.base_offset, answer.log_append_time_ms, answer.log_start_offset
            )

        services = self._services
        waiting = DelayedProduce(
            [appended],
            loop=services.loop,
            purgatory=services.delayed_produces,
            commits=self._commits,
            acks=request.acks,
            is_durable=self._is_durable,
            timeout_ms=request.timeout_ms,
            min_in_sync=self._min_in_sync,
        )
        pending = Pending()
        waiting.start(pending, respond)
        return pending

    def _is_durable(self, hosted: HostedPartition) -> bool:
        return is_durable(hosted, self._services.settings)

    def _min_in_sync(self, hosted: HostedPartition) -> int:
        services = self._services
        return min_in_sync(hosted, services.metadata.image, services.settings.min_insync_replicas)
