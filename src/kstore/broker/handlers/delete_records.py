"""DeleteRecords: advances log start offsets (Kafka's ReplicaManager.deleteRecordsOnLocalLog)."""

from functools import partial
from typing import TYPE_CHECKING

from kstore.broker.api_table import Api
from kstore.broker.full_disk import run_freeing
from kstore.broker.partitions import HostedPartition, Partitions, continue_with, error_code_of
from kstore.broker.request import Answer, Pending, Request
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse

if TYPE_CHECKING:
    from kstore.broker.services import Services
    from kstore.log.log import Log

PartitionAnswer = DeleteRecordsResponse.Topics.Partitions


class DeleteRecordsHandlers:
    """Serves DeleteRecords."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        self._partitions: Partitions = services.partitions

    def apis(self) -> list[Api]:
        return [Api(ApiKey.DELETE_RECORDS, 0, 2, self.delete_records)]

    def delete_records(self, request: Request) -> Answer:
        """Advance log start offsets on disk workers; respond with the new ones."""
        message = DeleteRecordsRequest.decode(request.reader, request.api_version)
        response = DeleteRecordsResponse()
        call = _Call(self._services, response)
        for topic in message.topics:
            answers: list[PartitionAnswer] = []
            response.topics.append(DeleteRecordsResponse.Topics(topic.name, answers))
            for data in topic.partitions:
                answer = PartitionAnswer(partition_index=data.partition_index, low_watermark=-1)
                answers.append(answer)
                hosted = self._partitions.get(topic.name, data.partition_index, request.image)
                error = _refusal(hosted)
                if error == ErrorCode.NONE:
                    call.delete(hosted, data.offset, answer)
                else:
                    answer.error_code = int(error)
        return call.answer()


def _refusal(hosted: HostedPartition) -> ErrorCode:
    if hosted.topic_image is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if hosted.topic_image.is_internal:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.NONE if hosted.needs_opening else hosted.error


class _Call:
    """One request, until the deletions in all its partitions are done."""

    def __init__(self, services: "Services", response: DeleteRecordsResponse) -> None:
        self._services = services
        self._response = response
        self._open = 0
        self._pending: Pending | None = None

    def delete(self, hosted: HostedPartition, offset: int, answer: PartitionAnswer) -> None:
        self._open += 1
        self._services.workers.submit(
            hosted.key,
            partial(self._delete_on_worker, hosted, offset),
            partial(self._deleted, hosted, answer),
        )

    def answer(self) -> Answer:
        if not self._open:
            return self._response
        self._pending = Pending()
        return self._pending

    def _delete_on_worker(
        self, hosted: HostedPartition, offset: int
    ) -> tuple["Log", int | Exception]:
        log = self._services.partitions.open_log(hosted)
        try:  # a log that refuses the offset is open, and served
            return log, run_freeing(self._services, partial(log.delete_records, offset))
        except Exception as error:
            return log, error

    def _deleted(
        self,
        hosted: HostedPartition,
        answer: PartitionAnswer,
        result: tuple["Log", int | Exception] | None,
        error: BaseException | None,
    ) -> None:
        if result is not None:
            log, deleted = result
            self._services.partitions.opened(hosted, log, None)
            if isinstance(deleted, Exception):
                error = deleted
            else:
                answer.low_watermark = deleted
        elif hosted.needs_opening:
            self._services.partitions.opened(hosted, None, error)
        if error is not None:
            answer.error_code = int(error_code_of(error))
        self._open -= 1
        if not self._open and self._pending is not None:
            continue_with(self._pending, lambda: self._response)
