"""Describes, creates and deletes access control lists of a cluster."""

from collections.abc import Iterable, Sequence

from kstore.errors import SourceError
from kstore.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from kstore.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from kstore.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kstore.remote.answer_errors import raise_for
from kstore.remote.cluster import Cluster
from kstore.security.acl import Acl, AclFilter, AclOperation, PatternType, Permission, ResourceType


def describe_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """The ACLs that match a filter, in the order of the response."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    answer = cluster.ask(request, DescribeAclsResponse)
    raise_for(answer.error_code, answer.error_message, "")
    return [
        _binding(
            found.resource_type,
            found.resource_name,
            found.pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for found in answer.resources
        for each in found.acls
    ]


def create_acls(cluster: Cluster, acls: Sequence[Acl]) -> None:
    """Create ACLs. Raises the first error."""
    creations = [
        CreateAclsRequest.Creations(
            resource_type=each.resource_type,
            resource_name=each.name,
            resource_pattern_type=each.pattern,
            principal=each.principal,
            host=each.host,
            operation=each.operation,
            permission_type=each.permission,
        )
        for each in acls
    ]
    request = CreateAclsRequest(creations=creations)
    answer = cluster.ask(request, CreateAclsResponse, node=cluster.controller)
    for each in answer.results:
        raise_for(each.error_code, each.error_message, "")


def delete_acls(cluster: Cluster, filters: Iterable[AclFilter]) -> None:
    """Delete the ACLs that match the filters. Raises the first error."""
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsRequest.Filters(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.name,
                pattern_type_filter=each.pattern,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in filters
        ]
    )
    answer = cluster.ask(request, DeleteAclsResponse, node=cluster.controller)
    for result in answer.filter_results:
        raise_for(result.error_code, result.error_message, "")
        for acl in result.matching_acls:
            raise_for(acl.error_code, acl.error_message, "")


def _binding(
    kind: int, name: str, pattern: int, principal: str, host: str, operation: int, permission: int
) -> Acl:
    try:
        return Acl(
            ResourceType(kind),
            name,
            PatternType(pattern),
            principal,
            host,
            AclOperation(operation),
            Permission(permission),
        )
    except ValueError as error:
        raise SourceError(f"the broker describes a list of an unknown kind: {error}") from None
