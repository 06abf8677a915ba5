"""ListOffsets: offsets by timestamp, and log start and end offsets (Kafka's
KafkaApis.handleListOffsetRequest, Partition.fetchOffsetForTimestamp)."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kstore.broker.api_table import Api
from kstore.broker.partitions import HostedPartition, Partitions, continue_with, error_code_of
from kstore.broker.request import Answer, Pending, Request
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

if TYPE_CHECKING:
    from kstore.broker.services import Services
    from kstore.log.log import Log

PartitionData = ListOffsetsRequest.Topics.Partitions
PartitionAnswer = ListOffsetsResponse.Topics.Partitions

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
_CONSUMER = -1  # replica id
_OFFSET_NOT_AVAILABLE_SINCE = 5
_READ_COMMITTED = 1

Lookup = Callable[[], None]  # completes a partition's response, on a disk worker


class ListOffsetsHandlers:
    """Serves ListOffsets."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        self._partitions: Partitions = services.partitions

    def apis(self) -> list[Api]:
        return [Api(ApiKey.LIST_OFFSETS, 0, 10, self.list_offsets)]

    def list_offsets(self, request: Request) -> Answer:
        """Respond immediately, or from a disk worker if a log must be searched."""
        message = ListOffsetsRequest.decode(request.reader, request.api_version)
        partitions = self._partitions
        hosted = [
            partitions.get(topic.name, each.partition_index, request.image)
            for topic in message.topics
            for each in topic.partitions
        ]
        return partitions.when_open(hosted, partial(self._answer, request, message))

    def _answer(self, request: Request, message: ListOffsetsRequest) -> Answer:
        response = ListOffsetsResponse()
        lookups: list[Lookup] = []
        named = Counter(
            (topic.name, each.partition_index)
            for topic in message.topics
            for each in topic.partitions
        )
        for topic in message.topics:
            answers: list[PartitionAnswer] = []
            response.topics.append(ListOffsetsResponse.Topics(topic.name, answers))
            for data in topic.partitions:
                answer = PartitionAnswer(partition_index=data.partition_index)
                answers.append(answer)
                hosted = self._partitions.get(topic.name, data.partition_index, request.image)
                is_named_once = named[topic.name, data.partition_index] == 1
                error = self._refusal(request, data, hosted, is_named_once=is_named_once)
                if error == ErrorCode.NONE:
                    search = _Search(request.api_version, message, data, hosted, answer)
                    lookups += search.start()
                else:
                    answer.error_code = int(error)
        if not lookups:
            return response
        pending = Pending()
        self._services.workers.submit(
            request, partial(_run_all, lookups), partial(_looked_up, pending, response)
        )
        return pending

    def _refusal(
        self, request: Request, data: PartitionData, hosted: HostedPartition, *, is_named_once: bool
    ) -> ErrorCode:
        """The error that prevents a lookup, checked in Kafka's order; or NONE."""
        version = request.api_version
        if version > 0:
            if not is_named_once:
                return ErrorCode.INVALID_REQUEST
            if data.timestamp < 0 and version < _SINCE.get(data.timestamp, 1 << 15):
                return ErrorCode.UNSUPPORTED_VERSION
        if hosted.image is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if data.current_leader_epoch < -1:  # here only -1 means no epoch, unlike in Fetch
            return ErrorCode.FENCED_LEADER_EPOCH
        error = hosted.check_leader_epoch(data.current_leader_epoch)
        return error if error != ErrorCode.NONE else hosted.error


def _run_all(lookups: list[Lookup]) -> None:
    for lookup in lookups:
        lookup()


def _looked_up(
    pending: Pending, response: ListOffsetsResponse, _: None, error: BaseException | None
) -> None:
    def answer() -> Answer:
        if error is not None:
            raise error
        return response

    continue_with(pending, answer)


class _Search:
    """The lookup in one partition; log start and end offsets need no search."""

    def __init__(
        self,
        version: int,
        message: ListOffsetsRequest,
        data: PartitionData,
        hosted: HostedPartition,
        answer: PartitionAnswer,
    ) -> None:
        assert hosted.log is not None
        self._version = version
        self._is_consumer = message.replica_id == _CONSUMER
        self._is_committed = message.isolation_level == _READ_COMMITTED
        self._data = data
        self._leader_epoch = hosted.leader_epoch
        self._log: Log = hosted.log
        self._answer = answer

    def start(self) -> list[Lookup]:
        """Complete the response, or return the lookup that a disk worker must run."""
        timestamp = self._data.timestamp
        if self._version == 0:
            if timestamp in (LATEST, EARLIEST):
                self._guard(self._segment_offsets)
                return []
            return [partial(self._guard, self._segment_offsets)]
        if timestamp == LATEST:
            self._guard(self._latest)
        elif timestamp in (EARLIEST, EARLIEST_LOCAL):
            self._guard(self._earliest)
        elif timestamp == LATEST_TIERED:  # tiered storage does not exist here
            self._found(-1, -1, -1)
        else:
            return [partial(self._guard, self._by_time)]
        return []

    def _guard(self, search: Callable[[], None]) -> None:
        try:
            search()
        except Exception as error:
            self._answer.error_code = int(error_code_of(error))

    def _found(self, offset: int, timestamp: int, leader_epoch: int) -> None:
        answer = self._answer
        answer.offset, answer.timestamp, answer.leader_epoch = offset, timestamp, leader_epoch

    @property
    def _end(self) -> int:
        """The end offset visible to this client."""
        log = self._log
        if not self._is_consumer:
            return log.end_offset
        return log.last_stable_offset if self._is_committed else log.high_watermark

    def _is_high_watermark_behind(self) -> bool:
        """Whether a new leader's high watermark is still below its first offset, so that the end
        offset might go backwards (KIP-207)."""
        log = self._log
        if not self._is_consumer or log.high_watermark >= log.end_offset or self._leader_epoch < 1:
            return False
        first_of_epoch = log.epoch_end(self._leader_epoch - 1)[1]
        return first_of_epoch > log.high_watermark

    def _not_available(self) -> None:
        self._answer.error_code = int(
            ErrorCode.OFFSET_NOT_AVAILABLE
            if self._version >= _OFFSET_NOT_AVAILABLE_SINCE
            else ErrorCode.LEADER_NOT_AVAILABLE
        )

    def _latest(self) -> None:
        if self._is_high_watermark_behind():
            self._not_available()
        else:
            self._found(self._end, -1, self._leader_epoch)

    def _earliest(self) -> None:
        start = self._log.start_offset
        is_empty = start >= self._log.end_offset
        epoch = self._leader_epoch if is_empty else self._log.epoch_at(start)
        self._found(start, -1, -1 if epoch is None else epoch)

    def _by_time(self) -> None:
        timestamp = self._data.timestamp
        log = self._log
        found = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.find_time(timestamp)
        if found is not None and found.offset < self._end:
            epoch = found.leader_epoch
            self._found(found.offset, found.timestamp, -1 if epoch is None else epoch)
        elif self._is_high_watermark_behind():
            self._not_available()

    def _segment_offsets(self) -> None:
        """Version 0: the base offsets of segments last modified before the timestamp, newest first
        (Kafka's UnifiedLog.legacyFetchOffsetsBefore)."""
        log, timestamp = self._log, self._data.timestamp
        views = log.segments.views
        start, end = log.start_offset, log.end_offset
        offsets = [max(view.base_offset, start) for view in views]
        times = [0] * len(views)
        if timestamp >= 0:
            times = [log._files.modified_ns(view.path) // 1_000_000 for view in views]
        if views[-1].size > 0:
            offsets.append(end)
            times.append(-1)  # the log end: now, which is later than any requested timestamp
        if timestamp == LATEST:
            count = len(offsets)
        elif timestamp == EARLIEST:
            count = 1
        else:
            count = sum(1 for time in times if 0 <= time <= timestamp)
            if timestamp > max(times):
                count = len(offsets)
        newest_first = sorted(offsets[:count][::-1][: self._data.max_num_offsets], reverse=True)
        if self._is_consumer and newest_first and newest_first[0] > log.high_watermark:
            watermark = log.high_watermark
            newest_first = [watermark, *(each for each in newest_first if each <= watermark)]
        self._answer.old_style_offsets = newest_first
