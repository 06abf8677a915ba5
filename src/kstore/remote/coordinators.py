"""Sends requests to the coordinator of a group or transactional id, and follows its moves."""

from collections.abc import Callable

from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kstore.remote.answer_errors import raise_for
from kstore.remote.cluster import Cluster
from kstore.remote.connection import Answer, Request

GROUP, TRANSACTION = 0, 1  # Kafka's CoordinatorType
_MOVED = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def find_coordinator(cluster: Cluster, key: str, kind: int = GROUP) -> int:
    """The id of the broker that coordinates a group or a transactional id.

    Raises KStoreError with Kafka's code if the broker returns an error, SourceError if none
    responds.
    """
    node = cluster.coordinators.get((kind, key))
    if node is None:
        node = cluster.retrying(lambda: _ask(cluster, key, kind), forget=None)
        cluster.coordinators[kind, key] = node
    return node


def _ask(cluster: Cluster, key: str, kind: int) -> int:
    request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
    answer = cluster.ask(request, FindCoordinatorResponse)
    for each in answer.coordinators:  # since version 4
        raise_for(each.error_code, each.error_message, key)
        cluster.learn(each.node_id, each.host, each.port)
        return each.node_id
    raise_for(answer.error_code, answer.error_message, key)
    cluster.learn(answer.node_id, answer.host, answer.port)
    return answer.node_id


def ask_coordinator(
    cluster: Cluster,
    key: str,
    request: Request,
    response: type[Answer],
    *,
    code_of: Callable[[Answer], int],
    kind: int = GROUP,
    timeout: float = 0.0,
    highest: int | None = None,
) -> Answer:
    """Send a request to the coordinator of ``key``; if it moved or is loading, retry until the
    timeout.

    ``code_of`` returns the response's error code; the caller handles codes that do not concern the
    coordinator. ``timeout`` is added to the connection's timeout, for requests that wait at the
    broker. ``highest`` limits the version of the request.
    """

    def attempt() -> Answer:
        try:
            node = find_coordinator(cluster, key, kind)
            answer = cluster.ask(request, response, node=node, timeout=timeout, highest=highest)
            if code_of(answer) in _MOVED:
                raise_for(code_of(answer), None, key)
        except BaseException:
            cluster.coordinators.pop((kind, key), None)
            raise
        return answer

    return cluster.retrying(attempt, forget=None)
