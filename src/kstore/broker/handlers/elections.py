"""ElectLeaders and partition reassignments. Every partition has one replica, so these return what
Kafka returns if nothing needs to be elected or moved."""

from functools import partial

from kstore.broker.api_table import Api
from kstore.broker.read_partition_images import call_when_read
from kstore.broker.request import Answer, Request
from kstore.broker.services import Services
from kstore.cluster.image import ClusterImage
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from kstore.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kstore.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

_PREFERRED, _UNCLEAN = 0, 1  # Kafka's ElectionType
_Error = tuple[ErrorCode, str | None]
_Elected = ElectLeadersResponse.ReplicaElectionResults
_Reassigned = AlterPartitionReassignmentsResponse.Responses


class ElectionHandlers:
    """Serves elections and reassignments. Loop's thread only."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def apis(self) -> list[Api]:
        return [
            Api(ApiKey.ELECT_LEADERS, 0, 2, self.elect_leaders),
            Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 0, self.alter_reassignments),
            Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, self.list_reassignments),
        ]

    def elect_leaders(self, request: Request) -> Answer:
        """Return ELECTION_NOT_NEEDED for a partition with a leader. Without a list of partitions
        the response names every topic, with only its leaderless partitions, as Kafka's does."""
        asked = ElectLeadersRequest.decode(request.reader, request.api_version)
        if asked.topic_partitions is None:
            named = list(request.image.topics.values())
        else:
            found = (request.image.topic(each.topic) for each in asked.topic_partitions)
            named = [topic for topic in found if topic is not None]
        return call_when_read(self._services, named, partial(self._elect, request, asked))

    def _elect(self, request: Request, asked: ElectLeadersRequest) -> ElectLeadersResponse:
        unclean = asked.election_type == _UNCLEAN
        refusal: _Error | None = None
        if asked.election_type not in (_PREFERRED, _UNCLEAN):
            refusal = ErrorCode.INVALID_REQUEST, f"Unknown election type {asked.election_type}"
        elif asked.timeout_ms <= 0:
            refusal = ErrorCode.REQUEST_TIMED_OUT, None
        response = ElectLeadersResponse()
        if refusal is not None:
            response.error_code = refusal[0]
        for each in asked.topic_partitions or ():
            errors = [
                refusal or _election_error(request.image, each.topic, number, unclean)
                for number in each.partitions
            ]
            response.replica_election_results.append(_elected(each.topic, each.partitions, errors))
        if asked.topic_partitions is None and refusal is None:
            for topic in request.image.topics.values():
                leaderless = [
                    number for number, each in topic.partitions.items() if each.leader < 0
                ]
                errors = [
                    _election_error(request.image, topic.name, number, unclean)
                    for number in leaderless
                ]
                response.replica_election_results.append(_elected(topic.name, leaderless, errors))
        return response

    def alter_reassignments(self, request: Request) -> Answer:
        """Accept only the current assignment; a cancellation gets NO_REASSIGNMENT_IN_PROGRESS."""
        asked = AlterPartitionReassignmentsRequest.decode(request.reader, request.api_version)
        timed_out = asked.timeout_ms <= 0
        response = AlterPartitionReassignmentsResponse(error_message=None)
        if timed_out:
            response.error_code = ErrorCode.REQUEST_TIMED_OUT
        for topic in asked.topics:
            result = _Reassigned(name=topic.name)
            for each in topic.partitions:
                error: _Error = ErrorCode.REQUEST_TIMED_OUT, None
                if not timed_out:
                    error = _reassignment_error(
                        request.image, topic.name, each.partition_index, each.replicas
                    )
                result.partitions.append(_Reassigned.Partitions(each.partition_index, *error))
            response.responses.append(result)
        return response

    def list_reassignments(self, request: Request) -> Answer:
        """Return an empty list, since no reassignment is ever in progress."""
        ListPartitionReassignmentsRequest.decode(request.reader, request.api_version)
        return ListPartitionReassignmentsResponse(error_message=None)


def _elected(topic: str, numbers: list[int], errors: list[_Error]) -> _Elected:
    return _Elected(
        topic=topic,
        partition_result=[
            _Elected.PartitionResult(number, *error)
            for number, error in zip(numbers, errors, strict=True)
        ],
    )


def _election_error(image: ClusterImage, topic: str, number: int, unclean: bool) -> _Error:
    """Kafka's ReplicationControlManager.electLeader."""
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if image.topic(topic) is None:
        return unknown, f"No such topic as {topic}"
    partition = image.partition(topic, number)
    if partition is None:
        return unknown, f"No such partition as {topic}-{number}"
    if partition.leader >= 0:
        return ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    if unclean:
        error = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    else:
        error = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    return error, error.message


def _reassignment_error(
    image: ClusterImage, topic: str, number: int, replicas: list[int] | None
) -> _Error:
    """Kafka's ReplicationControlManager.alterPartitionReassignment."""
    unknown, wrong = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REPLICA_ASSIGNMENT
    found = image.topic(topic)
    if found is None:
        return unknown, f"Unable to find a topic named {topic}."
    if number not in found.partitions:
        return unknown, f"Unable to find partition {topic}:{number}."
    if replicas is None:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None
    prefix = "The manual partition assignment includes"
    if not replicas:
        return wrong, f"{prefix} an empty replica list."
    for before, node in zip([None, *sorted(replicas)], sorted(replicas), strict=False):
        if node not in image.brokers:
            return wrong, f"{prefix} broker {node}, but no such broker is registered."
        if node == before:
            return wrong, f"{prefix} the broker {node} more than once."
    return ErrorCode.NONE, None
