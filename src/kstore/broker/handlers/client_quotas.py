"""DescribeClientQuotas and AlterClientQuotas: limits of users, client ids and addresses.

Kafka's ClientQuotasImage and ClientQuotaControlManager (KIP-546).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kstore.broker.api_table import Api
from kstore.broker.handlers.controller_work import Outcome, error_of, run_steps
from kstore.broker.request import Answer, Pending, Request
from kstore.cluster.client_quotas import CLIENT_ID, IP, USER, Entity, QuotaChange, entity_of
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
from kstore.protocol.wire import Writer

if TYPE_CHECKING:
    from kstore.broker.services import Services

_KEY = "client quotas"  # of the disk workers
_THROTTLE_BYTES = 4  # throttle_time_ms, the first field of the response
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
        limits = request.image.client_quotas.limits
        if not limits:
            return DescribeClientQuotasResponse(error_message=None, entries=[])
        pending = Pending()

        def done(found: _EncodedResponse | None, error: BaseException | None) -> None:
            if found is not None:
                pending.complete(found)
            else:
                pending.fail(error or RuntimeError("no answer"))

        work = partial(_described, limits, asked, request.api_version)
        self._services.workers.submit(_KEY, work, done)
        return pending

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

        alter = partial(self._alter, asked.entries, asked.validate_only)
        return run_steps(self._services, [(len(asked.entries), alter)], respond)

    def _alter(self, entries: Sequence[_Entry], validate_only: bool) -> list[Outcome]:
        """On a disk worker: one write of the metadata for all entities."""
        outcomes: list[Outcome] = [(ErrorCode.NONE, None, None)] * len(entries)
        changes: dict[int, QuotaChange] = {}
        for number, entry in enumerate(entries):
            try:
                changes[number] = _change(entry)
            except InvalidRequestError as error:
                outcomes[number] = (*error_of(error), None)
        metadata = self._services.metadata
        errors = metadata.alter_client_quotas([*changes.values()], validate_only=validate_only)
        for number, refused in zip(changes, errors, strict=True):
            if refused is not None:
                outcomes[number] = (*error_of(refused), None)
        return outcomes


def _change(entry: _Entry) -> QuotaChange:
    entity = entity_of((each.entity_type, each.entity_name) for each in entry.entity)
    changes = {each.key: None if each.remove else each.value for each in entry.ops}
    if len(changes) < len(entry.ops):
        raise InvalidRequestError("A quota is altered twice in the same entity")
    return entity, changes


class _EncodedResponse(DescribeClientQuotasResponse):
    """A response that a disk worker has encoded, except for ``throttle_time_ms``."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = data

    def encode(self, writer: Writer, version: int) -> None:
        writer.int32(self.throttle_time_ms)
        writer.encoded(self._data)


def _described(
    limits: Mapping[Entity, Mapping[str, float]], asked: DescribeClientQuotasRequest, version: int
) -> _EncodedResponse:
    """The entities that a filter selects, with their limits; up to 100,000."""
    found = DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            _Described(
                [_Described.Entity(kind, name) for kind, name in entity],
                [_Described.Values(key, value) for key, value in values.items()],
            )
            for entity, values in limits.items()
            if _is_selected(entity, asked.components, strict=asked.strict)
        ],
    )
    writer = Writer()
    found.encode(writer, version)
    return _EncodedResponse(writer.to_bytes()[_THROTTLE_BYTES:])


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
