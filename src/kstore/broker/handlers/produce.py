"""Produce: appends client batches to logs (Kafka's ReplicaManager.appendRecords).

The checks and their order are those of Kafka 3.9, those of topic ids Kafka 4's. The log validates
a batch itself (``Log.append_as_leader``); this module checks what depends on the request, the topic
and the replicas.
"""

from functools import partial
from typing import TYPE_CHECKING

from kstore._native.format import batch_fields
from kstore.broker.api_table import Api, FrameAnswer
from kstore.broker.client_batch import complete_size, find_batch
from kstore.broker.delayed_produce import (
    AppendedPartition,
    DelayedProduce,
    for_version,
    min_in_sync,
)
from kstore.broker.durable_commits import durable_commits
from kstore.broker.durable_produces import DurableProduces
from kstore.broker.leader_hints import LeaderHints
from kstore.broker.partitions import (
    HostedPartition,
    append_at_once,
    continue_with,
    error_code_of,
)
from kstore.broker.produce_turns import INLINE_SIZE, ProduceTurns, is_durable
from kstore.broker.request import Answer, CloseConnection, Pending, Request
from kstore.broker.transaction_service import transaction_service
from kstore.errors import CorruptRecordError, KStoreError
from kstore.kafka_uuid import uuid_to_text
from kstore.log.append_info import AppendInfo
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.produce import ProduceRequest, ProduceResponse

if TYPE_CHECKING:
    from kstore.broker.services import Services
    from kstore.log.log import Log

PartitionData = ProduceRequest.TopicData.PartitionData
PartitionAnswer = ProduceResponse.Responses.PartitionResponses

# Versions of Produce.
_V2_SINCE, _HINTS_SINCE, _ABORTABLE_SINCE, _TOPIC_ID_SINCE = 3, 10, 11, 13
# Kafka returns these errors without the log start offset (ReplicaManager.appendToLocalLog).
_WITHOUT_LOG_START = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
    )
)
# The messages of these errors describe the client's records and name no file of the broker.
_ABOUT_RECORDS = frozenset(
    (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.INVALID_RECORD,
    )
)


class ProduceHandlers:
    """Serves Produce."""

    def __init__(self, services: "Services") -> None:
        self.services = services
        self.commits = durable_commits(services)
        self.transactions = transaction_service(services)

    def apis(self) -> list[Api]:
        # The fast paths do not count their two one-element arrays against the request limit.
        is_limited = self.services.settings.kstore_max_request_partitions < 2
        turns = self.services.produce_turns = ProduceTurns(self.services)
        durable = DurableProduces(self.services, self.commits, self.transactions)

        def handle_frame(frame: memoryview) -> FrameAnswer:
            answer = turns.handle_frame(frame)
            return durable.handle_frame(frame) if answer is None else answer

        return [Api(ApiKey.PRODUCE, 0, 13, self.produce, None if is_limited else handle_frame)]

    def produce(self, request: Request) -> Answer:
        """Append a request's batches; respond once ``acks`` is satisfied, immediately for 0."""
        message = ProduceRequest.decode(request.reader, request.api_version)
        return ProduceCall(self, request, message).start()


class ProduceCall:
    """One Produce request until its response."""

    __slots__ = (
        "_acks",
        "_appended",
        "_handlers",
        "_hints",
        "_message",
        "_open",
        "_pending",
        "_producers",
        "_request",
        "_response",
        "_version",
    )

    def __init__(
        self, handlers: ProduceHandlers, request: Request, message: ProduceRequest
    ) -> None:
        self._handlers = handlers
        self._request = request
        self._version = request.api_version
        self._message = message
        self._acks = message.acks
        self._response = ProduceResponse()
        self._hints = LeaderHints(request) if self._version >= _HINTS_SINCE else None
        self._appended: list[AppendedPartition] = []
        self._producers: dict[HostedPartition, int] = {}  # producer ids of transactional batches
        self._open = 0  # appends on disk workers
        self._pending: Pending | None = None

    def start(self) -> Answer:
        has_ids = self._version >= _TOPIC_ID_SINCE
        for (name, topic_id), partitions in last_of_each_partition(self._message).items():
            topic = self._request.image.names_by_id.get(topic_id) if has_ids else name
            answers: list[PartitionAnswer] = []
            self._response.responses.append(
                ProduceResponse.Responses(topic or name, topic_id, answers)
            )
            for data in partitions.values():
                answer = PartitionAnswer(index=data.index, base_offset=-1)
                answers.append(answer)
                if topic is None:
                    answer.error_code = int(ErrorCode.UNKNOWN_TOPIC_ID)
                else:
                    self._append(topic, topic_id if has_ids else None, data, answer)
        if not self._open:
            return self._all_appended()
        self._pending = Pending()
        self._pending.keeps_frame = True  # disk workers append slices of the frame
        return self._pending

    # --- one partition ----------------------------------------------------------------------

    def _append(
        self, topic: str, topic_id: bytes | None, data: PartitionData, answer: PartitionAnswer
    ) -> None:
        """``topic_id``: that of the request, None if it has the topic's name."""
        services = self._handlers.services
        hosted = services.partitions.get(topic, data.index, self._request.image)
        records = data.records
        assert records is None or isinstance(records, memoryview)
        error, size, attributes = find_batch(records, self._version)
        if hosted.image is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif topic_id is not None and hosted.topic_id != topic_id:  # created again since the image
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif error == ErrorCode.NONE:
            error = self._refusal(hosted, attributes, records)
        if error != ErrorCode.NONE:
            self._refuse(hosted, answer, error)
            return
        batch = memoryview(b"") if records is None else records[:size]
        if (
            hosted.log is not None
            and size <= INLINE_SIZE
            and self._version >= _V2_SINCE
            and not attributes & batch_fields.CODEC_MASK
            and hosted.is_plain
            and not services.workers.is_busy(hosted.key)
        ):
            try:
                append_batch = partial(hosted.log.append_as_leader, batch)
                info = append_at_once(hosted.log, len(batch), append_batch)
                if info is not None:
                    self._take(hosted, answer, hosted.log, info)
                    return
            except Exception as raised:
                self._fail(hosted, answer, raised)
                return
        self._open += 1
        is_synced_later = self._is_synced_later(hosted)
        services.workers.submit(
            hosted.key,
            partial(self._append_on_worker, hosted, batch, flush=not is_synced_later),
            partial(self._appended_on_worker, hosted, answer, is_synced_later),
        )

    def _refusal(
        self, hosted: HostedPartition, attributes: int, records: memoryview | None
    ) -> ErrorCode:
        """The error that prevents an append regardless of the records, in Kafka's order; or
        NONE."""
        if self._acks not in (-1, 0, 1):
            return ErrorCode.INVALID_REQUIRED_ACKS
        topic = hosted.topic_image
        if topic is not None and topic.is_internal:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if hosted.error != ErrorCode.NONE and not hosted.needs_opening:
            return hosted.error
        if self._acks == -1 and not self._has_enough_replicas(hosted):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        if attributes & batch_fields.TRANSACTIONAL_BIT and records is not None:
            return self._check_transaction(hosted, records)
        return ErrorCode.NONE

    def _check_transaction(self, hosted: HostedPartition, records: memoryview) -> ErrorCode:
        """Verify that the records' transaction is ongoing in this partition (KIP-890), because no
        coordinator would end any other."""
        transactional_id = self._message.transactional_id
        if transactional_id is None:
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        producer_id = batch_fields.producer_id(records)
        self._producers[hosted] = producer_id
        return self._handlers.transactions.verify_append(
            transactional_id,
            producer_id,
            batch_fields.producer_epoch(records),
            (hosted.topic, hosted.number),
            knows_abortable=self._version >= _ABORTABLE_SINCE,
        )

    def _has_enough_replicas(self, hosted: HostedPartition) -> bool:
        """Whether the ISR has min.insync.replicas replicas, or all replicas of the partition."""
        assert hosted.image is not None
        isr = len(hosted.image.isr)
        return isr >= len(hosted.image.replicas) or isr >= min_in_sync(
            hosted, self._request.image, self._handlers.services.settings.min_insync_replicas
        )

    def _is_synced_later(self, hosted: HostedPartition) -> bool:
        """Whether the response waits for the committer, which syncs many partitions together."""
        return self._acks != 0 and self._is_durable(hosted)

    def _append_on_worker(
        self, hosted: HostedPartition, batch: memoryview, *, flush: bool
    ) -> tuple["Log", AppendInfo | Exception]:
        """Called on a disk worker. ``flush``: sync where ``flush.messages`` asks for it."""
        log = self._handlers.services.partitions.open_log(hosted)
        try:
            return log, append(log, batch, flush=flush)
        except Exception as error:
            return log, error

    def _appended_on_worker(
        self,
        hosted: HostedPartition,
        answer: PartitionAnswer,
        is_synced_later: bool,
        result: tuple["Log", AppendInfo | Exception] | None,
        error: BaseException | None,
    ) -> None:
        try:
            self._take_worker_result(hosted, answer, is_synced_later, result, error)
        except Exception as raised:  # the request still gets a response
            self._fail(hosted, answer, raised)
        self._open -= 1
        if not self._open:
            self._answer_later()

    def _take_worker_result(
        self,
        hosted: HostedPartition,
        answer: PartitionAnswer,
        is_synced_later: bool,
        result: tuple["Log", AppendInfo | Exception] | None,
        error: BaseException | None,
    ) -> None:
        partitions = self._handlers.services.partitions
        if result is None:
            assert error is not None
            partitions.opened(hosted, None, error)
            self._fail(hosted, answer, error)
        else:
            log, info = result
            partitions.opened(hosted, log, None)
            if isinstance(info, Exception):
                self._fail(hosted, answer, info)
            else:
                self._take(hosted, answer, log, info, is_synced_later=is_synced_later)

    def _take(
        self,
        hosted: HostedPartition,
        answer: PartitionAnswer,
        log: "Log",
        info: AppendInfo,
        *,
        is_synced_later: bool = False,
    ) -> None:
        """Report an appended batch, or a duplicate of a batch in the log (size 0)."""
        answer.base_offset = info.first_offset
        answer.log_start_offset = log.start_offset
        if info.first_offset < 0:  # the set contained no complete message
            return
        if info.size == 0 or log.config.message_timestamp_type == "LogAppendTime":
            answer.log_append_time_ms = info.max_timestamp
        end_offset = info.last_offset + 1
        counters = self._handlers.services.counters
        if counters is not None:
            counters.topic(hosted.topic).appended(info)
        self._appended.append(AppendedPartition(hosted, log, end_offset, answer, is_synced_later))
        producer_id = self._producers.get(hosted)
        if producer_id is not None:
            key = hosted.topic, hosted.number
            self._handlers.transactions.records_appended(producer_id, key, end_offset)

    def _fail(self, hosted: HostedPartition, answer: PartitionAnswer, error: BaseException) -> None:
        """Report an error raised by the append."""
        code = error_code_of(error)
        if code == ErrorCode.KAFKA_STORAGE_ERROR:
            self._handlers.services.partitions.report_storage_error(hosted, "append", error)
        self._refuse(hosted, answer, code)
        if code not in _WITHOUT_LOG_START and hosted.log is not None:
            answer.log_start_offset = hosted.log.start_offset
        if isinstance(error, KStoreError) and code in _ABOUT_RECORDS:
            answer.error_message = error.reason
            for record in getattr(error, "record_errors", ()):
                answer.record_errors.append(
                    PartitionAnswer.RecordErrors(record.batch_index, record.message)
                )

    def _refuse(self, hosted: HostedPartition, answer: PartitionAnswer, error: ErrorCode) -> None:
        counters = self._handlers.services.counters
        if counters is not None and hosted.image is not None:
            counters.topic(hosted.topic).produce_failed()
        answer.error_code = int(error)
        if error == ErrorCode.NOT_LEADER_OR_FOLLOWER and self._hints is not None:
            leader = self._hints.leader_of(hosted)
            if leader is not None:
                answer.current_leader = PartitionAnswer.CurrentLeader(*leader)

    # --- response ---------------------------------------------------------------------------

    def _answer_later(self) -> None:
        """Continue after the last append on a disk worker."""
        pending = self._pending
        assert pending is not None
        pending.release_frame()
        if not pending.is_cancelled:
            continue_with(pending, self._all_appended)
            return
        for each in self._appended:  # no one waits, but their appends left the sync to this
            if each.is_synced_later:
                self._handlers.commits.wait(each.log, each.required_offset, lambda _: None)

    def _all_appended(self) -> Answer:
        if self._acks == 0:
            self._close_after_error()
            return None
        services = self._handlers.services
        waiting = DelayedProduce(
            self._appended,
            loop=services.loop,
            purgatory=services.delayed_produces,
            commits=self._handlers.commits if self._appended else None,
            acks=self._acks,
            is_durable=self._is_durable,
            timeout_ms=self._message.timeout_ms,
            min_in_sync=lambda hosted: min_in_sync(
                hosted, self._request.image, services.settings.min_insync_replicas
            ),
        )
        if waiting.is_fulfilled():
            return self._finished()
        pending = Pending()
        waiting.start(pending, self._finished)
        return pending

    def _is_durable(self, hosted: HostedPartition) -> bool:
        return is_durable(hosted, self._handlers.services.settings)

    def _finished(self) -> ProduceResponse:
        if self._hints is not None:
            self._response.node_endpoints = [
                ProduceResponse.NodeEndpoints(*endpoint) for endpoint in self._hints.endpoints()
            ]
        return for_version(self._response, self._version)

    def _close_after_error(self) -> None:
        """With acks=0, closing the connection is the only way to report an error."""
        for topic in self._response.responses:
            for answer in topic.partition_responses:
                if answer.error_code:
                    name = topic.name or uuid_to_text(topic.topic_id)
                    raise CloseConnection(
                        f"acks=0 and {name}-{answer.index} has error {answer.error_code}"
                    )


def last_of_each_partition(
    message: ProduceRequest,
) -> dict[tuple[str, bytes], dict[int, PartitionData]]:
    """The batches to append, by the topic's name and id, of which the request has one, and by
    partition. For a repeated partition the last batch applies; a topic without partitions is
    omitted (Kafka's KafkaApis.handleProduceRequest)."""
    wanted: dict[tuple[str, bytes], dict[int, PartitionData]] = {}
    for topic in message.topic_data:
        for data in topic.partition_data:
            wanted.setdefault((topic.name, topic.topic_id), {})[data.index] = data
    return wanted


def append(log: "Log", batch: memoryview, *, flush: bool) -> AppendInfo:
    """Append a client batch, or a message set, which may be empty.

    Raises CorruptRecordError for a set whose first message has an impossible size.
    """
    if len(batch) < batch_fields.HEADER_UP_TO_MAGIC:
        if complete_size(batch, 0)[1]:
            raise CorruptRecordError("the first message is shorter than a message header")
        return AppendInfo(-1, -1, -1, 0)
    return log.append_as_leader(batch, flush=flush)
