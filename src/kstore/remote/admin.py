"""Elections, log directories, reassignments, features and versions of a cluster."""

import pkgutil
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import NamedTuple

from kstore.errors import KStoreError
from kstore.protocol import messages
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from kstore.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kstore.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kstore.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kstore.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kstore.remote.answer_errors import error_of, raise_for
from kstore.remote.cluster import Cluster
from kstore.remote.connection import Connection
from kstore.remote.groups import by_topic
from kstore.topic_partition import TopicPartition

_TIMEOUT_MS = 30_000
# The keys of requests that only controllers handle.
_CONTROLLERS = frozenset((52, 53, 54, 59, 62, 63, 70, 73, 82))
LogDir = DescribeLogDirsResponse.Results
Reassignment = ListPartitionReassignmentsResponse.Topics.Partitions


class Feature(NamedTuple):
    """A feature of a cluster: the supported levels, and the finalized one."""

    name: str
    min_level: int
    max_level: int
    level: int


def describe_features(node: Cluster | Connection) -> tuple[int, list[Feature]]:
    """The features by name, and the epoch of the finalized levels (-1: unknown)."""
    request = ApiVersionsRequest(client_software_name="kstore", client_software_version="1")
    answer = node.ask(request, ApiVersionsResponse)
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    return answer.finalized_features_epoch, sorted(
        Feature(each.name, each.min_version, each.max_version, levels.get(each.name, 0))
        for each in answer.supported_features
    )


def api_name(key: int) -> str:
    """Kafka's name of a request, such as ListOffsets."""
    try:
        return ApiKey(key).name.title().replace("_", "")
    except ValueError:
        return "UNKNOWN"


def broker_apis() -> set[int]:
    """The keys of all known requests that brokers handle."""
    return {int(key) for key in ApiKey} - _CONTROLLERS


@cache
def own_versions() -> dict[int, tuple[int, int]]:
    """The versions of each request that kstore can encode, by key."""
    found = {}
    for module in pkgutil.iter_modules(messages.__path__):
        for name, value in vars(import_module(f"{messages.__name__}.{module.name}")).items():
            if name.endswith("Request") and hasattr(value, "API_KEY"):
                found[value.API_KEY] = (value.MIN_VERSION, value.MAX_VERSION)
    return found


def elect_leaders(
    cluster: Cluster, election_type: int, partitions: Iterable[TopicPartition] | None
) -> dict[TopicPartition, KStoreError | None]:
    """Elect leaders of partitions, or of all if None; returns each partition's error or None."""
    TopicPartitions = ElectLeadersRequest.TopicPartitions  # noqa: N806 (a class)
    request = ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=(
            None
            if partitions is None
            else [TopicPartitions(*each) for each in by_topic(partitions).items()]
        ),
        timeout_ms=_TIMEOUT_MS,
    )
    answer = cluster.ask(request, ElectLeadersResponse, node=cluster.controller)
    raise_for(answer.error_code, None, "")
    return {
        TopicPartition(topic.topic, each.partition_id): (
            error_of(each.error_code, each.error_message, "") if each.error_code else None
        )
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }


def describe_log_dirs(cluster: Cluster, node: int) -> list[LogDir]:
    """The log directories of a broker with all their partitions."""
    answer = cluster.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, node=node)
    raise_for(answer.error_code, None, "")
    return answer.results


def move_log_dirs(
    cluster: Cluster, node: int, moves: Mapping[TopicPartition, str]
) -> dict[TopicPartition, KStoreError | None]:
    """Start moving a broker's partitions to directories; returns each partition's error or None."""
    Dirs = AlterReplicaLogDirsRequest.Dirs  # noqa: N806 (a class)
    request = AlterReplicaLogDirsRequest()
    for path in sorted(set(moves.values())):
        chosen = by_topic(tp for tp, target in moves.items() if target == path)
        topics = [Dirs.Topics(name, numbers) for name, numbers in chosen.items()]
        request.dirs.append(Dirs(path, topics))
    answer = cluster.ask(request, AlterReplicaLogDirsResponse, node=node)
    return {
        TopicPartition(topic.topic_name, each.partition_index): (
            error_of(each.error_code, None, "") if each.error_code else None
        )
        for topic in answer.results
        for each in topic.partitions
    }


def list_reassignments(cluster: Cluster) -> dict[TopicPartition, Reassignment]:
    """The partition reassignments in progress."""
    request = ListPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS, topics=None)
    answer = cluster.ask(request, ListPartitionReassignmentsResponse, node=cluster.controller)
    raise_for(answer.error_code, answer.error_message, "")
    return {
        TopicPartition(topic.name, each.partition_index): each
        for topic in answer.topics
        for each in topic.partitions
    }
