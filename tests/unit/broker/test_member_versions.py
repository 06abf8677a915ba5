"""What each version of the requests of members has: JoinGroup to LeaveGroup, OffsetCommit."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kstore.protocol.messages.heartbeat import HeartbeatRequest
from kstore.protocol.messages.join_group import JoinGroupRequest
from kstore.protocol.messages.leave_group import LeaveGroupRequest
from kstore.protocol.messages.offset_commit import OffsetCommitRequest
from kstore.protocol.messages.offset_fetch import OffsetFetchRequest
from kstore.protocol.messages.sync_group import SyncGroupRequest
from support.group_client import GroupClient, group_client

SESSION, REBALANCE, HOUR = 10_000, 60_000, 3_600_000  # ms
Topics, Partitions = OffsetCommitRequest.Topics, OffsetCommitRequest.Topics.Partitions


@pytest.fixture
def client(tmp_path: Path) -> Iterator[GroupClient]:
    with group_client(tmp_path / "data", "t") as client:
        yield client


def join(client: GroupClient, version: int, member: str = "", **fields: Any) -> Any:
    """Join group g; the id comes in an answer of its own since version 4."""
    values: dict[str, Any] = {
        "session_timeout_ms": SESSION,
        "rebalance_timeout_ms": REBALANCE,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequest.Protocols("range", b"metadata")],
        **fields,
    }
    request = JoinGroupRequest(group_id="g", member_id=member, **values)
    answer = client.ask(request, version)
    if answer.error_code != 79:
        return answer
    assert version >= 4
    return join(client, version, answer.member_id, **fields)


def sync(client: GroupClient, version: int, joined: Any, **fields: Any) -> Any:
    values = {"protocol_type": "consumer", "protocol_name": "range", **fields}
    mine = SyncGroupRequest.Assignments(joined.member_id, b"mine")
    request = SyncGroupRequest("g", joined.generation_id, joined.member_id, **values)
    request.assignments = [mine]
    return client.ask(request, version)


@pytest.mark.parametrize("version", range(10))
def test_joined_member(client: GroupClient, version: int) -> None:
    joined = join(client, version)
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, joined.member_id)
    assert (joined.protocol_name, [each.metadata for each in joined.members]) == (
        "range", [b"metadata"],
    )  # fmt: skip
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    assert joined.skip_assignment is False
    group = client.groups.coordinator.find("g")
    assert group is not None
    # the oldest version has no rebalance timeout
    assert group.rebalance_timeout * 1000 == (REBALANCE if version else SESSION)


@pytest.mark.parametrize("version", range(10))
def test_refused_member_has_no_protocol(client: GroupClient, version: int) -> None:
    refused = join(client, version, session_timeout_ms=1)
    assert (refused.error_code, refused.generation_id, refused.leader) == (26, -1, "")
    assert refused.protocol_name == ("" if version < 7 else None)
    assert refused.members == []


@pytest.mark.parametrize("version", range(5, 10))
def test_static_leader_that_comes_back(client: GroupClient, version: int) -> None:
    old = join(client, version, group_instance_id="i")
    assert sync(client, 5, old, group_instance_id="i").assignment == b"mine"
    new = join(client, version, group_instance_id="i")
    assert (new.error_code, new.generation_id) == (0, 1)
    assert new.member_id != old.member_id
    if version >= 9:
        assert (new.skip_assignment, new.leader, len(new.members)) == (True, new.member_id, 1)
    else:
        assert (new.leader, new.members) == (old.member_id, [])
    assert sync(client, 5, new, group_instance_id="i").assignment == b"mine"


SYNC_PROTOCOLS = [
    ({}, 0),
    ({"protocol_type": None}, 23),
    ({"protocol_name": None}, 23),
    ({"protocol_type": "connect"}, 23),
    ({"protocol_name": "sticky"}, 23),
]


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize(("fields", "error"), SYNC_PROTOCOLS)
def test_protocol_of_a_sync_since_version_5(
    client: GroupClient, version: int, fields: dict[str, Any], error: int
) -> None:
    answer = sync(client, version, join(client, 3), **fields)
    assert answer.error_code == (error if version >= 5 else 0)
    assert answer.assignment == (b"" if answer.error_code else b"mine")
    names = (answer.protocol_type, answer.protocol_name)
    assert names == (("consumer", "range") if version >= 5 and not error else (None, None))


@pytest.mark.parametrize("version", range(6))
def test_errors_of_leaving_members(client: GroupClient, version: int) -> None:
    joined = join(client, 5, group_instance_id="i")
    sync(client, 5, joined, group_instance_id="i")
    if version < 3:
        unknown = LeaveGroupRequest(group_id="g", member_id="x")
        assert client.ask(unknown, version).error_code == 25
        leaves = LeaveGroupRequest(group_id="g", member_id=joined.member_id)
        assert client.ask(leaves, version).error_code == 0
        return
    leaving = [("x", None), ("x", "i"), ("", "j"), ("", "i"), (joined.member_id, "i")]
    request = LeaveGroupRequest("g", members=[LeaveGroupRequest.Members(*each) for each in leaving])
    answer = client.ask(request, version)
    assert answer.error_code == 0
    assert [(each.member_id, each.group_instance_id) for each in answer.members] == leaving
    assert [each.error_code for each in answer.members] == [25, 82, 25, 0, 25]
    request.group_id = "none"
    assert [each.error_code for each in client.ask(request, version).members] == [25] * 5


@pytest.mark.parametrize("version", range(5))
def test_instance_of_a_heartbeat_since_version_3(client: GroupClient, version: int) -> None:
    joined = join(client, 5, group_instance_id="i")
    request = HeartbeatRequest("g", 1, joined.member_id, "other")
    assert client.ask(request, version).error_code == (25 if version >= 3 else 0)
    request = HeartbeatRequest("g", 1, "x", "i")
    assert client.ask(request, version).error_code == (82 if version >= 3 else 25)


def commit(client: GroupClient, version: int, **fields: Any) -> int:
    partition = Partitions(0, 7, 3, -1, "note")
    request = OffsetCommitRequest("g", topics=[Topics("t", [partition])], **fields)
    answer = client.ask(request, version)
    return int(answer.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", range(10))
def test_commit(client: GroupClient, version: int) -> None:
    assert commit(client, version) == 0
    wanted = [OffsetFetchRequest.Topics("t", [0])]
    (topic,) = client.ask(OffsetFetchRequest(group_id="g", topics=wanted), 7).topics
    (found,) = topic.partitions
    assert (found.committed_offset, found.metadata) == (7, "note")
    assert found.committed_leader_epoch == (3 if version >= 6 else -1)


@pytest.mark.parametrize("version", range(10))
def test_commit_of_a_member(client: GroupClient, version: int) -> None:
    joined = join(client, 5, group_instance_id="i")
    sync(client, 5, joined, group_instance_id="i")
    mine = {"member_id": joined.member_id, "generation_id_or_member_epoch": 1}
    # The oldest version has no members, so that a group with members refuses it.
    assert commit(client, version, **mine) == (0 if version else 25)
    assert commit(client, version, **mine | {"generation_id_or_member_epoch": 2}) == (
        22 if version else 25
    )
    assert commit(client, version, **mine | {"member_id": "x"}) == 25
    other = {**mine, "member_id": "x", "group_instance_id": "i"}
    assert commit(client, version, **other) == (82 if version >= 7 else 25)


@pytest.mark.parametrize(
    ("version", "expires"), [(1, False), (2, True), (3, True), (4, True), (5, False)]
)
def test_retention_of_a_commit_in_versions_2_to_4(
    client: GroupClient, version: int, expires: bool
) -> None:
    assert commit(client, version, retention_time_ms=HOUR) == 0
    commits, _ = client.groups._offsets.fetch(0, "g")
    found = commits["t", 0]
    if expires:
        assert found.expire_timestamp - found.commit_timestamp in range(HOUR - HOUR // 2, HOUR + 1)
    else:
        assert found.expire_timestamp == -1
