"""Access control lists, and an authorizer like Kafka's StandardAuthorizer (KIP-801), without
I/O."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from kstore.security.principal import Principal


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

# Implied operations: an ACL that allows one of the values also allows the key.
_IMPLIED_BY = {
    AclOperation.DESCRIBE: {
        AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER,
    },
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}  # fmt: skip


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


class AclIndex:
    """An immutable set of ACLs, indexed by resource."""

    __slots__ = ("_longest", "_of_literal", "_of_prefix", "acls")

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self.acls = frozenset(acls)
        self._of_literal: dict[tuple[ResourceType, str], list[Acl]] = {}
        self._of_prefix: dict[tuple[ResourceType, str], list[Acl]] = {}
        self._longest = 0
        for acl in self.acls:
            is_prefix = acl.pattern == PatternType.PREFIXED
            where = self._of_prefix if is_prefix else self._of_literal
            where.setdefault((acl.resource_type, acl.name), []).append(acl)
            if is_prefix:
                self._longest = max(self._longest, len(acl.name))

    def of(self, kind: ResourceType, name: str) -> list[Acl]:
        """The ACLs of a resource: for its name, for "*", and for prefixes of its name."""
        found = [*self._of_literal.get((kind, name), ())]
        if name != EVERY_NAME:
            found += self._of_literal.get((kind, EVERY_NAME), ())
        if self._of_prefix:
            for size in range(1, min(len(name), self._longest) + 1):
                found += self._of_prefix.get((kind, name[:size]), ())
        return found


class Authorizer:
    """Authorizes operations. Changes replace the index. Thread safe.

    Super users are allowed everything. A deny takes precedence over all allows. If a resource has
    no ACL, ``allows_everyone`` decides.
    """

    def __init__(self, super_users: Iterable[str], *, allows_everyone: bool) -> None:
        self._super_users = frozenset(super_users)
        self._allows_everyone = allows_everyone
        self.index = AclIndex()

    def may(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        kind: ResourceType,
        name: str,
    ) -> bool:
        """Whether a principal is authorized for an operation on a resource, from a host."""
        who = str(principal)
        if who in self._super_users:
            return True
        acls = self.index.of(kind, name)
        if not acls:
            return self._allows_everyone
        is_allowed = False
        for acl in acls:
            if acl.principal in (who, EVERYONE) and acl.host in (host, EVERY_HOST):
                if acl.permission == Permission.DENY:
                    if acl.operation in (operation, AclOperation.ALL):
                        return False
                elif _allows(acl.operation, operation):
                    is_allowed = True
        return is_allowed

    def may_with_any(
        self, principal: Principal, host: str, operation: AclOperation, kind: ResourceType
    ) -> bool:
        """Whether a principal is authorized for an operation on any possible resource of a type.

        Kafka's Authorizer.authorizeByResourceType.
        """
        who = str(principal)
        if who in self._super_users:
            return True
        allowed: list[Acl] = []
        denied: list[Acl] = []
        for acl in self.index.acls:
            if (
                acl.resource_type == kind
                and acl.principal in (who, EVERYONE)
                and acl.host in (host, EVERY_HOST)
            ):
                if acl.permission == Permission.DENY:
                    if acl.operation in (operation, AclOperation.ALL):
                        denied.append(acl)
                elif _allows(acl.operation, operation):
                    allowed.append(acl)
        literals = {acl.name for acl in denied if acl.pattern == PatternType.LITERAL}
        if EVERY_NAME in literals:
            return False
        if self._allows_everyone:
            return True
        prefixes = tuple(acl.name for acl in denied if acl.pattern == PatternType.PREFIXED)
        return any(
            not acl.name.startswith(prefixes)
            and (acl.pattern == PatternType.PREFIXED or acl.name not in literals)
            for acl in allowed
        )


def _allows(granted: AclOperation, asked: AclOperation) -> bool:
    return granted in (asked, AclOperation.ALL) or granted in _IMPLIED_BY.get(asked, ())


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
