"""Access control lists: resources, operations, filters, and their JSON (Kafka's AclBinding)."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple


class ResourceType(IntEnum):
    """The resource type of an ACL (Kafka's ResourceType)."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an ACL matches resource names (Kafka's PatternType)."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """An operation on a resource (Kafka's AclOperation)."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether an ACL allows or denies (Kafka's AclPermissionType)."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME = "kafka-cluster"
EVERYONE = "User:*"
EVERY_HOST = "*"
EVERY_NAME = "*"


class Acl(NamedTuple):
    """One ACL (Kafka's AclBinding)."""

    resource_type: ResourceType
    name: str
    pattern: PatternType  # LITERAL or PREFIXED
    principal: str
    host: str
    operation: AclOperation
    permission: Permission


class AclFilter(NamedTuple):
    """Selects ACLs; None and ANY match everything (Kafka's AclBindingFilter)."""

    resource_type: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    @property
    def is_valid(self) -> bool:
        """Whether none of its codes is unknown."""
        return (
            self.resource_type in tuple(ResourceType)[1:]
            and self.pattern in tuple(PatternType)[1:]
            and self.operation in tuple(AclOperation)[1:]
            and self.permission in tuple(Permission)[1:]
        )

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern != PatternType.MATCH:
            return self.name == acl.name
        if acl.pattern == PatternType.LITERAL:
            return acl.name in (self.name, EVERY_NAME)
        return self.name.startswith(acl.name)


# --- as text ---------------------------------------------------------------------------------


def to_json(acl: Acl) -> dict[str, str]:
    return {
        "resource_type": acl.resource_type.name,
        "name": acl.name,
        "pattern": acl.pattern.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission.name,
    }


def from_json(body: Mapping[str, str]) -> Acl:
    """Parse an ACL. Raises KeyError or ValueError."""
    acl = Acl(
        ResourceType[body["resource_type"]],
        body["name"],
        PatternType[body["pattern"]],
        body["principal"],
        body["host"],
        AclOperation[body["operation"]],
        Permission[body["permission"]],
    )
    refusal = refusal_of(acl)
    if refusal is not None:
        raise ValueError(refusal)
    return acl


def refusal_of(acl: Acl) -> str | None:
    """The error message for an ACL that cannot be created, as in Kafka's AclControlManager; None if
    it can."""
    if acl.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {acl.pattern.name}"
    if acl.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return f"Invalid resourceType {acl.resource_type.name}"
    if acl.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        return f"Invalid operation {acl.operation.name}"
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        return f"Invalid permissionType {acl.permission.name}"
    if not acl.name:
        return "Invalid empty resource name"
    if acl.resource_type == ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    kind, colon, name = acl.principal.partition(":")
    if not colon or not kind or not name:
        return (
            "Could not parse principal from expected a string in format "
            f"principalType:principalName but got {acl.principal}"
        )
    return None if acl.host else "Invalid empty host"
