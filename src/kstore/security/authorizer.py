"""Authorizes operations by access control lists (Kafka's StandardAuthorizer, KIP-801)."""

from collections.abc import Iterable

from kstore.security.acl import (
    EVERY_HOST,
    EVERY_NAME,
    EVERYONE,
    Acl,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from kstore.security.principal import Principal

# Implied operations: an ACL that allows one of the values also allows the key.
_IMPLIED_BY = {
    AclOperation.DESCRIBE: {
        AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER,
    },
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}  # fmt: skip


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
