"""DescribeQuorum: the controllers of a cluster."""

from collections.abc import Mapping
from typing import NamedTuple

from kstore.kafka_uuid import uuid_to_text
from kstore.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from kstore.protocol.wire import ZERO_UUID
from kstore.remote.answer_errors import raise_for
from kstore.remote.cluster import Cluster
from kstore.remote.remote_log import only

_TOPIC = "__cluster_metadata"
_Partition = DescribeQuorumResponse.Topics.Partitions


class Replica(NamedTuple):
    """A copy of the metadata log. Times are Unix ms, -1 if the server does not report them."""

    node_id: int
    directory_id: str | None  # None: the server does not report it
    log_end_offset: int
    last_fetch: int
    last_caught_up: int


class Quorum(NamedTuple):
    """The metadata log, its copies, and the addresses of nodes, such as PLAINTEXT://host:9092."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[Replica, ...]
    observers: tuple[Replica, ...]
    endpoints: Mapping[int, tuple[str, ...]]


def describe_quorum(cluster: Cluster) -> Quorum:
    """Ask a broker, which asks the controller. Raises the server's error as a KStoreError."""
    asked = DescribeQuorumRequest.Topics(
        topic_name=_TOPIC, partitions=[DescribeQuorumRequest.Topics.Partitions()]
    )
    answer = cluster.ask(DescribeQuorumRequest([asked]), DescribeQuorumResponse)
    raise_for(answer.error_code, answer.error_message, "")
    found = only(only(answer.topics, "the quorum").partitions, "the quorum")
    raise_for(found.error_code, found.error_message, "")
    return Quorum(
        found.leader_id,
        found.leader_epoch,
        found.high_watermark,
        tuple(map(_replica, found.current_voters)),
        tuple(map(_replica, found.observers)),
        {
            node.node_id: tuple(
                f"{each.name}://{_host(each.host)}:{each.port}" for each in node.listeners
            )
            for node in answer.nodes
        },
    )


def _replica(found: _Partition.CurrentVoters | _Partition.Observers) -> Replica:
    directory = found.replica_directory_id
    return Replica(
        found.replica_id,
        None if directory == ZERO_UUID else uuid_to_text(directory),
        found.log_end_offset,
        found.last_fetch_timestamp,
        found.last_caught_up_timestamp,
    )


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
