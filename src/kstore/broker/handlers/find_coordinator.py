"""FindCoordinator: the broker that coordinates a group or a transactional id."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kstore.broker.api_table import Api
from kstore.broker.group_service import group_service
from kstore.broker.request import Answer, Pending, Request
from kstore.broker.transaction_service import transaction_service
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from kstore.broker.services import Services

Coordinator = FindCoordinatorResponse.Coordinators
_GROUP, _TRANSACTION = 0, 1  # key types
_BATCHED_FROM = 4
_NO_ERROR = "NONE"  # below version 4, as Errors.NONE.message() of Kafka


class FindCoordinatorHandlers:
    """Serves FindCoordinator."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        self._groups = group_service(services)
        self._transactions = transaction_service(services)

    def apis(self) -> list[Api]:
        return [Api(ApiKey.FIND_COORDINATOR, 0, 6, self.find_coordinator)]

    def find_coordinator(self, request: Request) -> Answer:
        """Return this broker for all keys; the first request creates the internal topic."""
        message = FindCoordinatorRequest.decode(request.reader, request.api_version)
        if message.key_type not in (_GROUP, _TRANSACTION):
            error = ErrorCode.INVALID_REQUEST
            return _respond(message, request, lambda key: _refused(key, error))
        is_group = message.key_type == _GROUP
        pending = Pending()

        def answer(error: ErrorCode) -> None:
            def find(key: str) -> Coordinator:
                if error != ErrorCode.NONE:
                    return _refused(key, error)
                # Starts loading the key's partition.
                (self._groups if is_group else self._transactions).check(key)
                return self._here(key, request)

            if not pending.is_cancelled:
                pending.complete(_respond(message, request, find))

        (self._groups if is_group else self._transactions.topic).with_topic(answer)
        return pending

    def _here(self, key: str, request: Request) -> Coordinator:
        metadata = self._services.metadata
        broker = metadata.image.brokers.get(metadata.node_id)
        endpoint = None if broker is None else broker.endpoints.get(request.connection.listener)
        if endpoint is None:
            return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return Coordinator(key, metadata.node_id, endpoint.host, endpoint.port)


def _refused(key: str, error: ErrorCode) -> Coordinator:
    return Coordinator(key, -1, "", -1, int(error), error.message)


def _respond(
    message: FindCoordinatorRequest, request: Request, find: Callable[[str], Coordinator]
) -> FindCoordinatorResponse:
    if request.api_version >= _BATCHED_FROM:
        return FindCoordinatorResponse(coordinators=[find(key) for key in message.coordinator_keys])
    found = find(message.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or _NO_ERROR,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )
