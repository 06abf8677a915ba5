"""DescribeClientQuotas and AlterClientQuotas: limits of users, client ids and addresses.

Kafka's ClientQuotasImage and ClientQuotaControlManager (KIP-546).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kstore.broker.api_table import Api
from kstore.broker.handlers.controller_work import Outcome, error_of, run_changes
from kstore.broker.request import Answer, Request
from kstore.cluster.client_quotas import CLIENT_ID, IP, USER, Entity, entity_of
from kstore.errors import InvalidRequestError, KStoreError
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from kstore.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from kstore.broker.services import Services

_EXACT, _DEFAULT, _ANY = 0, 1, 2  # Kafka's match types
_Component = DescribeClientQuotasRequest.Components
_Described = DescribeClientQuotasResponse.Entries
_Entry = AlterClientQuotasRequest.Entries


class _UnknownTypeError(KStoreError):
    """A filter has a type of entities that Kafka does not have."""

    code = ErrorCode.UNSUPPORTED_VERSION


class ClientQuotaHandlers:
    """Serves quotas. Loop's thread; changes are made on a disk worker."""

    def __init__(self, services: "Services") -> None:
        self._services = services

    def apis(self) -> list[Api]:
        return [
            Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, self.describe),
            Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, self.alter),
        ]

    def describe(self, request: Request) -> Answer:
        """The entities that a filter selects, with their limits."""
        asked = DescribeClientQuotasRequest.decode(request.reader, request.api_version)
        try:
            _check_filter(asked.components)
        except KStoreError as error:
            code, message = error_of(error)
            return DescribeClientQuotasResponse(
                error_code=code, error_message=message, entries=None
            )
        return DescribeClientQuotasResponse(
            error_message=None,
            entries=[
                _Described(
                    [_Described.Entity(kind, name) for kind, name in entity],
                    [_Described.Values(key, value) for key, value in values.items()],
                )
                for entity, values in request.image.client_quotas.limits.items()
                if _is_selected(entity, asked.components, strict=asked.strict)
            ],
        )

    def alter(self, request: Request) -> Answer:
        """Each entity is altered for itself."""
        asked = AlterClientQuotasRequest.decode(request.reader, request.api_version)

        def respond(outcomes: Sequence[Outcome]) -> AlterClientQuotasResponse:
            result = AlterClientQuotasResponse.Entries
            return AlterClientQuotasResponse(
                entries=[
                    result(
                        error,
                        message,
                        [
                            result.Entity(each.entity_type, each.entity_name)
                            for each in entry.entity
                        ],
                    )
                    for entry, (error, message, _) in zip(asked.entries, outcomes, strict=True)
                ]
            )

        changes: list[Callable[[], object]] = [
            partial(self._alter, entry, asked.validate_only) for entry in asked.entries
        ]
        return run_changes(self._services, changes, respond)

    def _alter(self, entry: _Entry, validate_only: bool) -> None:
        """On a disk worker."""
        entity = entity_of((each.entity_type, each.entity_name) for each in entry.entity)
        changes = {each.key: None if each.remove else each.value for each in entry.ops}
        if len(changes) < len(entry.ops):
            raise InvalidRequestError("A quota is altered twice in the same entity")
        self._services.metadata.alter_client_quotas(entity, changes, validate_only=validate_only)


def _check_filter(components: Sequence[_Component]) -> None:
    kinds = [each.entity_type for each in components]
    for each in components:
        kind = each.entity_type
        if not kind:
            raise InvalidRequestError("Unexpected empty filter component entity type")
        if kind not in (USER, CLIENT_ID, IP):
            raise _UnknownTypeError(f"Custom entity type {kind[:40]} not supported")
        if kinds.count(kind) > 1:
            raise InvalidRequestError(f"Entity type {kind} cannot appear more than once in the "
                                      "filter.")  # fmt: skip
        if each.match_type not in (_EXACT, _DEFAULT, _ANY):
            raise InvalidRequestError(f"Unknown match type {each.match_type}")
        if (each.match is None) == (each.match_type == _EXACT):
            raise InvalidRequestError(
                f"Request specified match type {each.match_type}, but "
                f"{'set match string to null' if each.match is None else 'also a match string'}."
            )
    if IP in kinds and len(kinds) > 1:
        raise InvalidRequestError("Invalid entity filter component combination: ip stands alone.")


def _is_selected(entity: Entity, components: Sequence[_Component], *, strict: bool) -> bool:
    """Whether an entity has each type that the filter names, and strictly no other."""
    names = dict(entity)
    for each in components:
        if each.entity_type not in names:
            return False
        name = names[each.entity_type]
        if each.match_type == _EXACT and name != each.match:
            return False
        if each.match_type == _DEFAULT and name is not None:
            return False
    return not strict or len(names) == len(components)
