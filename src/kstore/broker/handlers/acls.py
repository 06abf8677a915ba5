"""DescribeAcls, CreateAcls, DeleteAcls: access control lists."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kstore.broker.api_table import Api
from kstore.broker.handlers.controller_work import Outcome, run_changes
from kstore.broker.request import Answer, Request
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from kstore.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from kstore.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kstore.security.acl import (
    Acl,
    AclFilter,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
    refusal_of,
)

if TYPE_CHECKING:
    from kstore.broker.services import Services

_DISABLED = "No Authorizer is configured."
_UNKNOWN_FILTER = "The filter has a code that is unknown to this broker."
_Result = CreateAclsResponse.Results
_Filtered = DeleteAclsResponse.FilterResults
_LITERAL = PatternType.LITERAL


class AclHandlers:
    """Serves access control lists. Loop's thread only; disk workers make the changes."""

    def __init__(self, services: "Services") -> None:
        self._services = services

    def apis(self) -> list[Api]:
        return [
            Api(ApiKey.DESCRIBE_ACLS, 0, 3, self.describe),
            Api(ApiKey.CREATE_ACLS, 0, 3, self.create),
            Api(ApiKey.DELETE_ACLS, 0, 3, self.delete),
        ]

    def describe(self, request: Request) -> Answer:
        """Return the ACLs that match a filter, by resource."""
        asked = DescribeAclsRequest.decode(request.reader, request.api_version)
        store = self._services.acls
        if store is None:
            return DescribeAclsResponse(
                error_code=ErrorCode.SECURITY_DISABLED, error_message=_DISABLED
            )
        wanted = _filter(asked, request.api_version)
        if not wanted.is_valid:
            return DescribeAclsResponse(
                error_code=ErrorCode.INVALID_REQUEST, error_message=_UNKNOWN_FILTER
            )
        found: dict[tuple[int, str, int], list[Acl]] = {}
        for acl in sorted(filter(wanted.matches, store.acls)):
            found.setdefault((acl.resource_type, acl.name, acl.pattern), []).append(acl)
        resource = DescribeAclsResponse.Resources
        return DescribeAclsResponse(
            resources=[
                resource(kind, name, pattern, [
                    resource.Acls(acl.principal, acl.host, acl.operation, acl.permission)
                    for acl in acls
                ])
                for (kind, name, pattern), acls in found.items()
            ],
        )  # fmt: skip

    def create(self, request: Request) -> Answer:
        """Create all valid ACLs together; return a result for each."""
        asked = CreateAclsRequest.decode(request.reader, request.api_version)
        store = self._services.acls
        if store is None:
            return CreateAclsResponse(
                results=[_Result(ErrorCode.SECURITY_DISABLED, _DISABLED) for _ in asked.creations]
            )
        found = [_binding(each, request.api_version) for each in asked.creations]
        good = [each for each in found if isinstance(each, Acl)]

        def respond(outcomes: Sequence[Outcome]) -> CreateAclsResponse:
            error, message = outcomes[0][:2] if outcomes else (ErrorCode.NONE, None)
            return CreateAclsResponse(
                results=[
                    _Result(error, message or "")
                    if isinstance(each, Acl)
                    else _Result(ErrorCode.INVALID_REQUEST, each)
                    for each in found
                ]
            )

        return run_changes(self._services, [partial(store.create, good)] if good else [], respond)

    def delete(self, request: Request) -> Answer:
        """Delete and return the ACLs that match each filter."""
        asked = DeleteAclsRequest.decode(request.reader, request.api_version)
        store = self._services.acls
        if store is None:
            return DeleteAclsResponse(
                filter_results=[
                    _Filtered(ErrorCode.SECURITY_DISABLED, _DISABLED) for _ in asked.filters
                ]
            )
        filters = [_filter(each, request.api_version) for each in asked.filters]
        valid = [each for each in filters if each.is_valid]

        def respond(outcomes: Sequence[Outcome]) -> DeleteAclsResponse:
            error, message, removed = outcomes[0] if outcomes else (ErrorCode.NONE, None, [])
            acls = iter(removed if isinstance(removed, list) else [])
            results = []
            for each in filters:
                if not each.is_valid:
                    results.append(_Filtered(ErrorCode.INVALID_REQUEST, _UNKNOWN_FILTER))
                elif error != ErrorCode.NONE:
                    results.append(_Filtered(error, message))
                else:
                    results.append(_Filtered(0, None, list(map(_matching, next(acls)))))
            return DeleteAclsResponse(filter_results=results)

        return run_changes(self._services, [partial(store.delete, valid)] if valid else [], respond)


def _matching(acl: Acl) -> _Filtered.MatchingAcls:
    return _Filtered.MatchingAcls(
        0, None, acl.resource_type, acl.name, acl.pattern, acl.principal, acl.host,
        acl.operation, acl.permission,
    )  # fmt: skip


def _filter(asked: Any, version: int) -> AclFilter:
    """The filter of DescribeAcls or of a DeleteAcls entry. Version 0 has no pattern types."""
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter if version else _LITERAL,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def _binding(asked: CreateAclsRequest.Creations, version: int) -> Acl | str:
    """The ACL, or an error message if it is invalid."""
    try:
        acl = Acl(
            ResourceType(asked.resource_type),
            asked.resource_name,
            PatternType(asked.resource_pattern_type if version else _LITERAL),
            asked.principal,
            asked.host,
            AclOperation(asked.operation),
            Permission(asked.permission_type),
        )
    except ValueError as error:
        return f"Invalid ACL: {error}"
    return refusal_of(acl) or acl
