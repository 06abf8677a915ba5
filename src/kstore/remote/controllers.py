"""DescribeCluster of a KRaft controller, and what only a cluster with one serves."""

from kstore.errors import KStoreError
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kstore.remote.answer_errors import error_of, exception_name, kafka_text
from kstore.remote.cluster import Cluster
from kstore.remote.connection import Connection

_CONTROLLER = 2  # DescribeCluster's number of the type
_HAS_TYPES = 1  # the version since which it has them


def cluster_id_of_controller(connection: Connection) -> str:
    """The id of a controller's cluster. Raises KStoreError with Kafka's sentence for a broker."""
    request = DescribeClusterRequest(endpoint_type=_CONTROLLER)
    if connection.version_of(request) < _HAS_TYPES:
        raise _of_kafka(35, "Attempted to write a non-default endpointType at version 0")
    answer = connection.ask(request, DescribeClusterResponse)
    if answer.error_code:
        raise _of_kafka(answer.error_code, answer.error_message)
    return answer.cluster_id


def _of_kafka(code: int, message: str | None) -> KStoreError:
    """An error as Kafka's tools print it: with the name of its exception."""
    error = error_of(code, message, "")
    return KStoreError(f"{exception_name(error)}: {kafka_text(error)}")


def can_unregister(cluster: Cluster) -> bool:
    """Whether a broker of the cluster takes requests to unregister one."""
    return any(ApiKey.UNREGISTER_BROKER in cluster.versions(node) for node in cluster.nodes)
