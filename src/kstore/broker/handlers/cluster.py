"""DescribeCluster and DescribeTopicPartitions."""

from collections.abc import Iterable, Sequence
from functools import partial

from kstore.broker.api_table import Api
from kstore.broker.handlers.metadata import (
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
    has_endpoint,
    is_topic_name,
)
from kstore.broker.read_partition_images import call_when_read
from kstore.broker.request import Answer, Request
from kstore.broker.services import Services
from kstore.cluster.image import ClusterImage, PartitionImage, TopicImage
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kstore.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kstore.security.acl import CLUSTER_NAME, ResourceType

_BROKER, _CONTROLLER = 1, 2  # endpoint types of DescribeCluster
_Cursor = DescribeTopicPartitionsRequest.Cursor
_Topic = DescribeTopicPartitionsResponse.Topics


class ClusterHandlers:
    """Serves DescribeCluster and DescribeTopicPartitions. Loop's thread only."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def apis(self) -> list[Api]:
        return [
            Api(ApiKey.DESCRIBE_CLUSTER, 0, 2, self.describe_cluster),
            Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, self.describe_topic_partitions),
        ]

    def describe_cluster(self, request: Request) -> Answer:
        """List brokers with their endpoints on the request's listener; no broker is fenced."""
        asked = DescribeClusterRequest.decode(request.reader, request.api_version)
        if asked.endpoint_type != _BROKER:
            return _wrong_endpoint(asked.endpoint_type)
        image = request.image
        response = DescribeClusterResponse(
            cluster_id=image.cluster_id, controller_id=image.controller_id
        )
        for broker in image.brokers.values():
            endpoint = broker.endpoints.get(request.connection.listener)
            if endpoint is not None:
                response.brokers.append(
                    DescribeClusterResponse.Brokers(
                        broker.node_id, endpoint.host, endpoint.port, broker.rack
                    )
                )
        if asked.include_cluster_authorized_operations:
            response.cluster_authorized_operations = request.operations(
                ResourceType.CLUSTER, CLUSTER_NAME, CLUSTER_OPERATIONS
            )
        return response

    def describe_topic_partitions(self, request: Request) -> Answer:
        """Return a page of topics and partitions, sorted by name, and the cursor of the next page
        (Kafka's DescribeTopicPartitionsRequestHandler)."""
        asked = DescribeTopicPartitionsRequest.decode(request.reader, request.api_version)
        image, cursor = request.image, asked.cursor
        names = {topic.name for topic in asked.topics} or image.topics.keys()
        from_name = "" if cursor is None else cursor.topic_name
        if cursor is not None and (
            cursor.partition_index < 0 or (asked.topics and from_name not in names)
        ):
            error = ErrorCode.INVALID_REQUEST
            return DescribeTopicPartitionsResponse(
                topics=[_Topic(error_code=error, name=topic.name) for topic in asked.topics]
            )
        most = self._services.settings.max_request_partition_size_limit
        left = max(1, min(most, asked.response_partition_limit))
        selected = sorted(name for name in names if name >= from_name)
        page = partial(self._topic_partitions, request, cursor, selected, left)
        before = 0 if cursor is None else cursor.partition_index
        return call_when_read(self._services, _topics_of_page(image, selected, before + left), page)

    def _topic_partitions(
        self, request: Request, cursor: _Cursor | None, names: Sequence[str], left: int
    ) -> DescribeTopicPartitionsResponse:
        """One page of these topics, with at most ``left`` partitions."""
        image = request.image
        response = DescribeTopicPartitionsResponse()
        for name in names:
            if left == 0:
                response.next_cursor = DescribeTopicPartitionsResponse.NextCursor(name, 0)
                break
            start = (
                cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
            )
            topic, more_from = _page(image, request.connection.listener, name, start, left)
            topic.topic_authorized_operations = request.operations(
                ResourceType.TOPIC, name, TOPIC_OPERATIONS
            )
            response.topics.append(topic)
            left -= len(topic.partitions)
            if more_from is not None:
                response.next_cursor = DescribeTopicPartitionsResponse.NextCursor(name, more_from)
                break
        return response


def _topics_of_page(image: ClusterImage, names: Iterable[str], left: int) -> list[TopicImage]:
    """The topics whose partitions a page may contain."""
    found: list[TopicImage] = []
    for name in names:
        if left <= 0:
            break
        if (topic := image.topic(name)) is not None:
            found.append(topic)
            left -= len(topic.partitions)
    return found


def _wrong_endpoint(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == _CONTROLLER:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an "
            "endpoint of type CONTROLLER",
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"Unsupported endpoint type {endpoint_type}",
    )


def _page(
    image: ClusterImage, listener: str, name: str, start: int, limit: int
) -> tuple[_Topic, int | None]:
    """Up to ``limit`` partitions of a topic from ``start``, and the number of the next one."""
    found = image.topic(name)
    if found is None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
        if is_topic_name(name):
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topic = _Topic(error_code=error, name=name)
        return topic, None
    numbers = [number for number in found.partitions if number >= start]
    topic = _Topic(
        name=name,
        topic_id=found.topic_id,
        is_internal=found.is_internal,
        partitions=[
            _partition(image, listener, found.partitions[number]) for number in numbers[:limit]
        ],
    )
    return topic, numbers[limit] if len(numbers) > limit else None


def _partition(image: ClusterImage, listener: str, partition: PartitionImage) -> _Topic.Partitions:
    leader, error = partition.leader, ErrorCode.NONE
    if not has_endpoint(image, leader, listener):
        is_known = leader in image.brokers
        error = ErrorCode.LISTENER_NOT_FOUND if is_known else ErrorCode.LEADER_NOT_AVAILABLE
        leader = -1
    return _Topic.Partitions(
        error_code=error,
        partition_index=partition.partition,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=list(partition.offline_replicas),
    )
