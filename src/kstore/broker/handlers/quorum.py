"""DescribeQuorum: a quorum with one voter, this node."""

from kstore.broker.api_table import Api
from kstore.broker.request import Answer, Request
from kstore.broker.services import Services
from kstore.clock import now_ms
from kstore.cluster.image import ClusterImage
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)

_TOPIC = "__cluster_metadata"
_EPOCH = 1  # leader epoch: this node was elected once
_Partition = DescribeQuorumResponse.Topics.Partitions


class QuorumHandlers:
    """Serves DescribeQuorum. Loop's thread only.

    No metadata log exists; the version of the cluster image stands for its end offset.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    def apis(self) -> list[Api]:
        return [Api(ApiKey.DESCRIBE_QUORUM, 0, 2, self.describe_quorum)]

    def describe_quorum(self, request: Request) -> Answer:
        """Describe partition 0 of ``__cluster_metadata``, if it is the only one in the request;
        otherwise return UNKNOWN_TOPIC_OR_PARTITION for each."""
        asked = DescribeQuorumRequest.decode(request.reader, request.api_version)
        wanted = [(t.topic_name, p.partition_index) for t in asked.topics for p in t.partitions]
        is_quorum = wanted == [(_TOPIC, 0)]
        response = DescribeQuorumResponse()
        for topic in asked.topics:
            partitions = [
                _quorum(request.image) if is_quorum else _unknown(each.partition_index)
                for each in topic.partitions
            ]
            response.topics.append(DescribeQuorumResponse.Topics(topic.topic_name, partitions))
        if is_quorum:
            listener = request.connection.listener
            response.nodes = [_node(request.image, listener)]
        return response


def _quorum(image: ClusterImage) -> _Partition:
    now = now_ms()
    voter = _Partition.CurrentVoters(
        replica_id=image.controller_id,
        log_end_offset=image.version,
        last_fetch_timestamp=now,
        last_caught_up_timestamp=now,
    )
    return _Partition(
        leader_id=image.controller_id,
        leader_epoch=_EPOCH,
        high_watermark=image.version,
        current_voters=[voter],
    )


def _unknown(partition: int) -> _Partition:
    return _Partition(
        partition_index=partition,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message="This server does not host this topic-partition.",
    )


def _node(image: ClusterImage, listener: str) -> DescribeQuorumResponse.Nodes:
    """The node with its endpoint on the request's listener; no controller listener exists."""
    node = DescribeQuorumResponse.Nodes(node_id=image.controller_id)
    broker = image.brokers.get(image.controller_id)
    endpoint = None if broker is None else broker.endpoints.get(listener)
    if endpoint is not None:
        node.listeners = [
            DescribeQuorumResponse.Nodes.Listeners(listener, endpoint.host, endpoint.port)
        ]
    return node
