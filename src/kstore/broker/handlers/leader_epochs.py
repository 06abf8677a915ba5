"""OffsetForLeaderEpoch: the end offsets of leader epochs (KIP-101, KIP-320; Kafka's
Partition.lastOffsetForLeaderEpoch)."""

from functools import partial
from typing import TYPE_CHECKING

from kstore.broker.api_table import Api
from kstore.broker.partitions import HostedPartition, Partitions, error_code_of
from kstore.broker.request import Answer, Request
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

if TYPE_CHECKING:
    from kstore.broker.services import Services

PartitionData = OffsetForLeaderEpochRequest.Topics.Partitions
PartitionAnswer = OffsetForLeaderEpochResponse.Topics.Partitions


class LeaderEpochHandlers:
    """Serves OffsetForLeaderEpoch."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        self._partitions: Partitions = services.partitions

    def apis(self) -> list[Api]:
        return [Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0, 4, self.offset_for_leader_epoch)]

    def offset_for_leader_epoch(self, request: Request) -> Answer:
        """Return each partition's largest epoch up to the requested one, and its end offset."""
        message = OffsetForLeaderEpochRequest.decode(request.reader, request.api_version)
        partitions = self._partitions
        hosted = [
            partitions.get(topic.topic, each.partition, request.image)
            for topic in message.topics
            for each in topic.partitions
        ]
        return partitions.when_open(hosted, partial(self._answer, request, message))

    def _answer(
        self, request: Request, message: OffsetForLeaderEpochRequest
    ) -> OffsetForLeaderEpochResponse:
        get = self._partitions.get
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderEpochResponse.Topics(
                    topic.topic,
                    [
                        _end_of_epoch(get(topic.topic, each.partition, request.image), each)
                        for each in topic.partitions
                    ],
                )
                for topic in message.topics
            ]
        )


def _end_of_epoch(hosted: HostedPartition, data: PartitionData) -> PartitionAnswer:
    answer = PartitionAnswer(partition=data.partition)
    error = (
        ErrorCode.NONE
        if hosted.image is None
        else hosted.check_leader_epoch(data.current_leader_epoch)
    )
    if error == ErrorCode.NONE:
        error = hosted.error
    if error == ErrorCode.NONE:
        assert hosted.log is not None
        try:
            if data.leader_epoch == hosted.leader_epoch:  # even if no record has this epoch yet
                answer.leader_epoch = data.leader_epoch
                answer.end_offset = hosted.log.end_offset
            else:
                answer.leader_epoch, answer.end_offset = hosted.log.epoch_end(data.leader_epoch)
        except Exception as raised:
            error = error_code_of(raised)
    answer.error_code = int(error)
    return answer
