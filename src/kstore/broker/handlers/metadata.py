"""Metadata: brokers, topics, partitions and their leaders, for clients of every version."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial

from kstore.broker.api_table import Api
from kstore.broker.encoded_topics import EncodedTopic, EncodedTopics, encode_topic
from kstore.broker.handlers.auto_create_topics import AutoCreateTopics
from kstore.broker.partitions import PARTITIONS_A_TURN
from kstore.broker.read_partition_images import call_after, is_read
from kstore.broker.request import Answer, Request
from kstore.broker.services import Services
from kstore.cluster.image import ClusterImage, PartitionImage, TopicImage
from kstore.errors import InvalidTopicError
from kstore.files.filenames import check_topic_name
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kstore.protocol.wire import ZERO_UUID
from kstore.security.acl import CLUSTER_NAME, ResourceType

# All operations on each resource type, a bit for each of Kafka's AclOperation codes.
TOPIC_OPERATIONS = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))

_ALL_IF_EMPTY = 0  # the version in which an empty list requests all topics
_LISTENER_NOT_FOUND_FROM = 6  # the first version whose clients know LISTENER_NOT_FOUND
_IDS_FROM = 12  # the first version with requests by topic id


class MetadataHandlers:
    """Serves Metadata. Loop's thread only."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._auto_create = AutoCreateTopics(services)
        self._encoded = EncodedTopics()

    def apis(self) -> list[Api]:
        return [Api(ApiKey.METADATA, 0, 13, self.metadata)]

    def metadata(self, request: Request) -> Answer:
        """Kafka's KafkaApis.handleTopicMetadataRequest."""
        version = request.api_version
        asked = MetadataRequest.decode(request.reader, version)
        wanted: Sequence[MetadataRequest.Topics] | None = asked.topics
        if version == _ALL_IF_EMPTY and not wanted:
            wanted = None
        if wanted is not None and (refused := _refused(wanted, version)) is not None:
            return refused
        operations: dict[str, int] | None = None
        topics = _existing(request.image, wanted)
        if asked.include_topic_authorized_operations:
            operations = {
                topic.name: request.operations(ResourceType.TOPIC, topic.name, TOPIC_OPERATIONS)
                for topic in topics
            }
        found: dict[str, MetadataResponse.Topics] = {}  # encoded, by name
        respond = partial(self._respond, request, asked, wanted, operations, found)
        if self._fits_a_turn(request, topics, operations, found):
            return respond()

        def encode() -> None:
            for topic in topics:
                if topic.name not in found:
                    describe = partial(self._describe, request, operations, topic)
                    found[topic.name] = encode_topic(describe, version)

        return call_after(self._services, encode, respond)

    def _fits_a_turn(
        self,
        request: Request,
        topics: Iterable[TopicImage],
        operations: dict[str, int] | None,
        found: dict[str, MetadataResponse.Topics],
    ) -> bool:
        """Whether one turn of the loop is enough to describe the topics; adds those that are
        already encoded to ``found``."""
        partitions, are_read = 0, True
        for topic in topics:
            key = _key(request, operations, topic)
            known = self._encoded.get(request.image, key, request.api_version)
            if known is None or self._services.partitions.is_any_recovering:
                partitions += len(topic.partitions)
                are_read = are_read and is_read(topic)
            else:
                found[topic.name] = known
        return are_read and partitions <= PARTITIONS_A_TURN

    def _respond(
        self,
        request: Request,
        asked: MetadataRequest,
        wanted: Sequence[MetadataRequest.Topics] | None,
        operations: dict[str, int] | None,
        found: dict[str, MetadataResponse.Topics],
    ) -> MetadataResponse:
        """The response; topics that are not in ``found`` are described now."""
        image, version = request.image, request.api_version
        describe = partial(self._topic, request, operations, found)
        if wanted is None:
            topics = [describe(topic) for topic in image.topics.values()]
        elif any(each.topic_id != ZERO_UUID for each in wanted):
            topics = self._by_id(image, wanted, describe)
        else:
            may_create = version < 4 or asked.allow_auto_topic_creation
            topics = self._by_name(image, wanted, describe, may_create)
        if operations is not None:
            for topic in topics:
                if not isinstance(topic, EncodedTopic):  # encoded topics have them already
                    topic.topic_authorized_operations = request.operations(
                        ResourceType.TOPIC, topic.name or "", TOPIC_OPERATIONS
                    )
        response = _about_cluster(image, request.connection.listener)
        response.topics = topics
        if asked.include_cluster_authorized_operations:
            response.cluster_authorized_operations = request.operations(
                ResourceType.CLUSTER, CLUSTER_NAME, CLUSTER_OPERATIONS
            )
        return response

    def _topic(
        self,
        request: Request,
        operations: dict[str, int] | None,
        found: dict[str, MetadataResponse.Topics],
        topic: TopicImage,
    ) -> MetadataResponse.Topics:
        """A topic of the image; cached in encoded form, unless a partition is recovering."""
        image, version = request.image, request.api_version
        describe = partial(self._describe, request, operations, topic)
        known = found.get(topic.name)
        if self._services.partitions.is_any_recovering:
            return describe() if known is None else known
        key = _key(request, operations, topic)
        if isinstance(known, EncodedTopic):
            self._encoded.put(image, key, version, known)
            return known
        return self._encoded.find(image, key, version, describe)

    def _describe(
        self, request: Request, operations: dict[str, int] | None, topic: TopicImage
    ) -> MetadataResponse.Topics:
        """Thread safe."""
        is_recovering = self._services.partitions.is_recovering
        listener, version = request.connection.listener, request.api_version
        found = _topic(request.image, listener, version, is_recovering, topic)
        if operations is not None:
            found.topic_authorized_operations = operations[topic.name]
        return found

    def _by_name(
        self,
        image: ClusterImage,
        wanted: Iterable[MetadataRequest.Topics],
        describe: "partial[MetadataResponse.Topics]",
        may_create: bool,
    ) -> list[MetadataResponse.Topics]:
        """Return existing topics first, then the others; a repeated name once."""
        existing, missing = [], []
        for name in dict.fromkeys(each.name or "" for each in wanted):
            topic = image.topic(name)
            if topic is not None:
                existing.append(describe(topic))
                continue
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not is_topic_name(name):
                error = ErrorCode.INVALID_TOPIC_EXCEPTION
            elif may_create and self._services.settings.auto_create_topics_enable:
                error = self._auto_create.request(name)
            missing.append(MetadataResponse.Topics(error_code=error, name=name))
        return existing + missing

    def _by_id(
        self,
        image: ClusterImage,
        wanted: Iterable[MetadataRequest.Topics],
        describe: "partial[MetadataResponse.Topics]",
    ) -> list[MetadataResponse.Topics]:
        """Return unknown ids first, as Kafka does. A request with any id is served by ids only."""
        known, unknown = [], []
        for topic_id in dict.fromkeys(each.topic_id for each in wanted):
            topic = image.topic_by_id(topic_id)
            if topic is not None:
                known.append(describe(topic))
            elif topic_id != ZERO_UUID:
                error = ErrorCode.UNKNOWN_TOPIC_ID
                unknown.append(
                    MetadataResponse.Topics(error_code=error, name=None, topic_id=topic_id)
                )
        return unknown + known


def _existing(
    image: ClusterImage, wanted: Sequence[MetadataRequest.Topics] | None
) -> list[TopicImage]:
    """The topics of the image that a request asks for."""
    if wanted is None:
        return list(image.topics.values())
    if any(each.topic_id != ZERO_UUID for each in wanted):
        found = {each.topic_id: image.topic_by_id(each.topic_id) for each in wanted}
        return [topic for topic in found.values() if topic is not None]
    named = {each.name: image.topic(each.name or "") for each in wanted}
    return [topic for topic in named.values() if topic is not None]


def _key(request: Request, operations: dict[str, int] | None, topic: TopicImage) -> Hashable:
    """All that a topic's bytes depend on, besides image and version."""
    allowed = None if operations is None else operations[topic.name]
    return topic.name, request.connection.listener, allowed


def is_topic_name(name: str) -> bool:
    """Whether a topic may have this name."""
    try:
        check_topic_name(name)
    except InvalidTopicError:
        return False
    return True


def _refused(wanted: Iterable[MetadataRequest.Topics], version: int) -> MetadataResponse | None:
    """The response to ids in a version without ids, and to a topic with neither name nor id:
    INVALID_REQUEST for each topic, without brokers."""
    asks_by_id = any(each.topic_id != ZERO_UUID for each in wanted)
    if version < _IDS_FROM:
        is_wrong = asks_by_id or any(each.name is None for each in wanted)
    else:
        is_wrong = not asks_by_id and any(each.name is None for each in wanted)
    if not is_wrong:
        return None
    error = ErrorCode.INVALID_REQUEST
    return MetadataResponse(
        error_code=error,
        topics=[
            MetadataResponse.Topics(error_code=error, name=each.name or "", topic_id=each.topic_id)
            for each in wanted
        ],
    )


def _about_cluster(image: ClusterImage, listener: str) -> MetadataResponse:
    """A response with the brokers' endpoints on the request's listener, cluster id and
    controller."""
    brokers = [
        MetadataResponse.Brokers(broker.node_id, endpoint.host, endpoint.port, broker.rack)
        for broker in image.brokers.values()
        if (endpoint := broker.endpoints.get(listener)) is not None
    ]
    return MetadataResponse(
        brokers=brokers, cluster_id=image.cluster_id, controller_id=image.controller_id
    )


def _topic(
    image: ClusterImage,
    listener: str,
    version: int,
    is_recovering: Callable[[str, int], bool],
    topic: TopicImage,
) -> MetadataResponse.Topics:
    return MetadataResponse.Topics(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            _partition(image, listener, version, each, is_recovering(topic.name, each.partition))
            for each in topic.partitions.values()
        ],
    )


def _partition(
    image: ClusterImage,
    listener: str,
    version: int,
    partition: PartitionImage,
    is_recovering: bool,
) -> MetadataResponse.Topics.Partitions:
    """One partition. The leader is -1 with LISTENER_NOT_FOUND (LEADER_NOT_AVAILABLE before version
    6) if the leader lacks the listener, and -1 with LEADER_NOT_AVAILABLE while the leader recovers
    the partition."""
    leader, error = partition.leader, ErrorCode.NONE
    if is_recovering:
        leader, error = -1, ErrorCode.LEADER_NOT_AVAILABLE
    elif not has_endpoint(image, leader, listener):
        error = ErrorCode.LEADER_NOT_AVAILABLE
        if leader in image.brokers and version >= _LISTENER_NOT_FOUND_FROM:
            error = ErrorCode.LISTENER_NOT_FOUND
        leader = -1
    return MetadataResponse.Topics.Partitions(
        error_code=error,
        partition_index=partition.partition,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=list(partition.offline_replicas),
    )


def has_endpoint(image: ClusterImage, node_id: int, listener: str) -> bool:
    """Whether a broker of the cluster has an endpoint on a listener."""
    broker = image.brokers.get(node_id)
    return broker is not None and listener in broker.endpoints
