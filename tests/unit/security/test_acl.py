"""The decisions of Kafka's StandardAuthorizer, filters, and ``kstore.acls``."""

import stat
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.errors import CorruptFileError, NewerFormatError
from kstore.security.acl import (
    Acl,
    AclFilter,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
    refusal_of,
)
from kstore.security.acl_store import AclStore
from kstore.security.authorizer import AclIndex, Authorizer
from kstore.security.principal import Principal, user

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
ALICE, BOB = user("alice"), user("bob")
HOST = "10.0.0.1"


def acl(
    name: str = "orders",
    operation: AclOperation = READ,
    permission: Permission = Permission.ALLOW,
    principal: str = "User:alice",
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
    kind: ResourceType = TOPIC,
) -> Acl:
    return Acl(kind, name, pattern, principal, host, operation, permission)


def authorizer(*acls: Acl, everyone: bool = False, super_users: str = "") -> Authorizer:
    made = Authorizer([super_users] if super_users else [], allows_everyone=everyone)
    made.index = AclIndex(acls)
    return made


DENY, PREFIXED = Permission.DENY, PatternType.PREFIXED
A = AclOperation


@pytest.mark.parametrize(
    ("acls", "principal", "operation", "name", "expected"),
    [
        # Literal names, other names, other principals, other operations.
        ([acl()], ALICE, READ, "orders", True),
        ([acl()], ALICE, READ, "orders2", False),
        ([acl()], BOB, READ, "orders", False),
        ([acl()], ALICE, WRITE, "orders", False),
        ([acl()], Principal("Group", "alice"), READ, "orders", False),
        # Everyone, every name, every host, a host.
        ([acl(principal="User:*")], BOB, READ, "orders", True),
        ([acl(name="*")], ALICE, READ, "anything", True),
        ([acl(host=HOST)], ALICE, READ, "orders", True),
        ([acl(host="10.0.0.2")], ALICE, READ, "orders", False),
        # Prefixes.
        ([acl("ord", pattern=PREFIXED)], ALICE, READ, "orders", True),
        ([acl("orders", pattern=PREFIXED)], ALICE, READ, "orders", True),
        ([acl("orders-", pattern=PREFIXED)], ALICE, READ, "orders", False),
        ([acl("Ord", pattern=PREFIXED)], ALICE, READ, "orders", False),
        # ALL, and what an operation implies.
        ([acl(operation=A.ALL)], ALICE, A.DELETE, "orders", True),
        *[([acl(operation=each)], ALICE, DESCRIBE, "orders", True)
          for each in (A.READ, A.WRITE, A.DELETE, A.ALTER)],
        ([acl(operation=A.ALTER_CONFIGS)], ALICE, A.DESCRIBE_CONFIGS, "orders", True),
        ([acl(operation=A.CREATE)], ALICE, DESCRIBE, "orders", False),
        ([acl(operation=DESCRIBE)], ALICE, READ, "orders", False),
        # A denial counts first, wherever it stands; it implies nothing.
        ([acl(), acl(permission=DENY)], ALICE, READ, "orders", False),
        ([acl(), acl("*", permission=DENY)], ALICE, READ, "orders", False),
        ([acl(), acl("o", permission=DENY, pattern=PREFIXED)], ALICE, READ, "orders", False),
        ([acl(), acl(permission=DENY, principal="User:*")], ALICE, READ, "orders", False),
        ([acl(), acl(operation=A.ALL, permission=DENY)], ALICE, READ, "orders", False),
        ([acl(), acl(permission=DENY, host="10.0.0.2")], ALICE, READ, "orders", True),
        ([acl(), acl(permission=DENY, principal="User:bob")], ALICE, READ, "orders", True),
        ([acl(operation=DESCRIBE), acl(permission=DENY)], ALICE, DESCRIBE, "orders", True),
        ([], ALICE, READ, "orders", False),
    ],
)  # fmt: skip
def test_an_operation_is_allowed_as_by_kafkas_authorizer(
    acls: list[Acl], principal: Principal, operation: AclOperation, name: str, expected: bool
) -> None:
    assert authorizer(*acls).may(principal, HOST, operation, TOPIC, name) is expected
    if acls:  # the default counts only where no list names the resource
        of_resource = AclIndex(acls).of(TOPIC, name)
        found = authorizer(*acls, everyone=True).may(principal, HOST, operation, TOPIC, name)
        assert found is (expected or not of_resource)


def test_super_users_and_resources_without_rules_are_allowed() -> None:
    assert authorizer(everyone=True).may(ALICE, HOST, READ, TOPIC, "orders")
    assert not authorizer(acl(principal="User:bob"), everyone=True).may(
        ALICE, HOST, READ, TOPIC, "orders"
    )
    denied = authorizer(acl(permission=DENY), super_users="User:alice")
    assert denied.may(ALICE, HOST, READ, TOPIC, "orders")
    assert denied.may_with_any(ALICE, HOST, READ, TOPIC)


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl(operation=WRITE)], True),
        ([acl(operation=WRITE, kind=GROUP)], False),
        ([acl(operation=WRITE), acl(operation=WRITE, permission=DENY)], False),
        ([acl("*", WRITE), acl(operation=WRITE, permission=DENY)], True),
        ([acl(operation=WRITE), acl("*", WRITE, DENY)], False),
        ([acl("orders-1", WRITE), acl("orders", WRITE, DENY, pattern=PREFIXED)], False),
        ([acl("o", WRITE, pattern=PREFIXED), acl("or", WRITE, DENY, pattern=PREFIXED)], True),
    ],
)
def test_an_operation_on_any_resource_is_allowed_as_by_kafkas_authorizer(
    acls: list[Acl], expected: bool
) -> None:
    assert authorizer(*acls).may_with_any(ALICE, HOST, WRITE, TOPIC) is expected


# --- filters ---------------------------------------------------------------------------------

LITERAL_ACL, STAR, PREFIX = acl(), acl("*"), acl("ord", pattern=PREFIXED)


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        (None, 1, {LITERAL_ACL, STAR, PREFIX}),
        ("orders", 1, {LITERAL_ACL}),
        ("orders", 2, {LITERAL_ACL, STAR, PREFIX}),
        ("orders", 3, {LITERAL_ACL}),
        ("ord", 4, {PREFIX}),
        ("ord", 2, {STAR, PREFIX}),
        (None, 4, {PREFIX}),
    ],
)
def test_filters_by_name(name: str | None, pattern: int, expected: set[Acl]) -> None:
    wanted = AclFilter(1, name, pattern, None, None, 1, 1)
    assert {each for each in (LITERAL_ACL, STAR, PREFIX) if wanted.matches(each)} == expected


def test_a_filter_matches_on_each_field_or_is_refused() -> None:
    everything = AclFilter(1, None, 1, None, None, 1, 1)
    assert everything.matches(LITERAL_ACL)
    others: list[dict[str, Any]] = [
        {"resource_type": 3}, {"principal": "User:bob"}, {"host": HOST}, {"operation": 4},
        {"permission": 2},
    ]  # fmt: skip
    for other in others:
        assert not everything._replace(**other).matches(LITERAL_ACL), other
    for changes in ({"resource_type": 0}, {"pattern": 9}, {"operation": 99}, {"permission": -1}):
        assert not everything._replace(**changes).is_valid
    assert everything.is_valid


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": ""}, "empty resource name"),
        ({"kind": CLUSTER}, "kafka-cluster"),
        ({"kind": ResourceType.ANY}, "resourceType"),
        ({"pattern": PatternType.MATCH}, "patternType"),
        ({"operation": A.ANY}, "operation"),
        ({"permission": Permission.ANY}, "permissionType"),
        ({"principal": "alice"}, "principalType:principalName"),
        ({"host": ""}, "host"),
    ],
)
def test_what_cannot_be_created(changes: dict[str, object], words: str) -> None:
    assert words in (refusal_of(acl(**changes)) or "")


# --- on disk ---------------------------------------------------------------------------------


def test_lists_survive_a_restart(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        acls = AclStore(store._manager._dirs, authorizer())
        acls.create([LITERAL_ACL, STAR])
        acls.create([PREFIX])
        everything = AclFilter(1, None, 1, None, None, 1, 1)
        assert acls.delete([everything._replace(name="*"), everything._replace(name="x")]) == [
            [STAR],
            [],
        ]
    assert stat.S_IMODE((tmp_path / "kstore.acls").stat().st_mode) == 0o600
    with kstore.open(tmp_path) as store:
        decides = authorizer()
        assert AclStore(store._manager._dirs, decides).acls == {LITERAL_ACL, PREFIX}
        assert decides.may(ALICE, HOST, READ, TOPIC, "order-7")


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"format":1,"generation":1,"acls":[{"name":"x"}]}',
     b'{"format":1,"generation":1,"acls":[{"resource_type":"ANY"}]}'],
)  # fmt: skip
def test_a_damaged_file_stops_the_start(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "kstore.acls").write_bytes(content)
    with kstore.open(tmp_path) as store, pytest.raises(CorruptFileError):
        AclStore(store._manager._dirs, authorizer())


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kstore.acls").write_text('{"format": 2}')
    with kstore.open(tmp_path) as store, pytest.raises(NewerFormatError):
        AclStore(store._manager._dirs, authorizer())
