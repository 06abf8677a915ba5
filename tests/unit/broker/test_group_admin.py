"""Groups as Kafka's admin clients see them: kafka-python's against a broker in this process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.delete_groups import DeleteGroupsRequest
from kstore.protocol.messages.describe_groups import DescribeGroupsRequest
from kstore.protocol.messages.find_coordinator import FindCoordinatorRequest
from kstore.protocol.messages.join_group import JoinGroupRequest
from kstore.protocol.messages.list_groups import ListGroupsRequest
from kstore.protocol.messages.offset_commit import OffsetCommitRequest
from kstore.protocol.messages.offset_delete import OffsetDeleteRequest
from kstore.protocol.messages.offset_fetch import OffsetFetchRequest
from kstore.protocol.messages.sync_group import SyncGroupRequest
from support.raw_client import RawClient

SETTINGS = {"group.initial.rebalance.delay.ms": 0}
SUBSCRIBED = b"\0\3\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\xff\xff"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("t", 2)
        store.create_topic("u", 1)
        yield store


@pytest.fixture
def broker(store: kstore.Store) -> Iterator[kstore.Broker]:
    with kstore.Broker(store, port=0, settings=SETTINGS) as broker:
        yield broker


@pytest.fixture
def client(broker: kstore.Broker) -> Iterator[RawClient]:
    with RawClient(broker.port) as client:
        client.ask(FindCoordinatorRequest(key="g"), 3)
        yield client


def join(client: RawClient) -> str:
    """Join group g as its only member; returns the member id."""
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocols("range", SUBSCRIBED)],
    )
    while (joined := client.ask(request, 3)).error_code == 14:
        pass
    assert joined.error_code == 0
    synced = client.ask(
        SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[SyncGroupRequest.Assignments(joined.member_id, b"mine")],
        ),
        3,
    )
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    return str(joined.member_id)


def commit(client: RawClient, topic: str = "t", offset: int = 7, **fields: Any) -> int:
    partition = OffsetCommitRequest.Topics.Partitions(0, offset, -1, -1, "note")
    values: dict[str, Any] = {"group_id": "g", **fields}
    request = OffsetCommitRequest(topics=[OffsetCommitRequest.Topics(topic, [partition])], **values)
    while (code := client.ask(request, 8).topics[0].partitions[0].error_code) == 14:
        pass
    return int(code)


def fetch(client: RawClient, version: int = 7) -> dict[tuple[str, int], int]:
    answer = client.ask(OffsetFetchRequest(group_id="g", topics=None), version)
    assert answer.error_code == 0
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", range(7))
def test_stable_group_is_described(client: RawClient, version: int) -> None:
    member = join(client)
    (found,) = client.ask(DescribeGroupsRequest(groups=["g"]), version).groups
    assert (found.error_code, found.group_state, found.protocol_type) == (0, "Stable", "consumer")
    (each,) = found.members
    assert (each.member_id, each.client_host, each.member_assignment) == (
        member, "/127.0.0.1", b"mine",
    )  # fmt: skip
    assert each.member_metadata == SUBSCRIBED


@pytest.mark.parametrize(("version", "error"), [(5, 0), (6, 69)])
def test_unknown_group_is_dead(client: RawClient, version: int, error: int) -> None:
    commit(client)
    request = DescribeGroupsRequest(groups=["h"])
    while (found := client.ask(request, version).groups[0]).error_code == 14:
        pass
    assert (found.error_code, found.group_state) == (error, "Dead")


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed(client: RawClient, version: int) -> None:
    join(client)
    (found,) = client.ask(ListGroupsRequest(), version).groups
    assert (found.group_id, found.protocol_type) == ("g", "consumer")
    if version >= 4:
        assert found.group_state == "Stable"
    if version == 5:
        assert found.group_type == "classic"


@pytest.mark.parametrize(
    ("states", "types", "count"),
    [(["stable"], [], 1), (["Empty"], [], 0), ([], ["Classic"], 1), ([], ["consumer"], 0)],
)
def test_groups_are_listed_by_state_and_type(
    client: RawClient, states: list[str], types: list[str], count: int
) -> None:
    join(client)
    answer = client.ask(ListGroupsRequest(states_filter=states, types_filter=types), 5)
    assert len(answer.groups) == count


def test_group_of_an_embedded_consumer_is_listed(store: kstore.Store, client: RawClient) -> None:
    assert commit(client) == 0
    store.alter_group_offsets("embedded", {("t", 1): 3})
    found = {each.group_id: each for each in client.ask(ListGroupsRequest(), 4).groups}
    assert found.keys() == {"g", "embedded"}
    assert (found["embedded"].group_state, found["embedded"].protocol_type) == ("Empty", "")


@pytest.mark.parametrize("version", range(3))
def test_group_is_deleted_without_members_only(
    store: kstore.Store, client: RawClient, version: int
) -> None:
    member = join(client)
    assert commit(client, member_id=member, generation_id_or_member_epoch=1) == 0
    delete = DeleteGroupsRequest(groups_names=["g"])
    assert client.ask(delete, version).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    client.leave("g", member)
    assert client.ask(delete, version).results[0].error_code == 0
    assert client.ask(delete, version).results[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert fetch(client) == {}
    assert "g" not in store.groups()


def test_offsets_are_deleted_where_no_member_subscribes(client: RawClient) -> None:
    member = join(client)
    for topic in "tu":
        fields = {"member_id": member, "generation_id_or_member_epoch": 1}
        assert commit(client, topic, **fields) == 0
    topics = [
        OffsetDeleteRequest.Topics(name, [OffsetDeleteRequest.Topics.Partitions(0)])
        for name in ("t", "u", "missing")
    ]
    answer = client.ask(OffsetDeleteRequest("g", topics), 0)
    assert [each.partitions[0].error_code for each in answer.topics] == [86, 0, 3]
    assert fetch(client) == {("t", 0): 7}
    answer = client.ask(OffsetDeleteRequest("none", topics), 0)
    assert answer.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, 14)


@pytest.mark.parametrize("version", range(10))
def test_committed_offsets_are_fetched_in_every_version(client: RawClient, version: int) -> None:
    assert commit(client) == 0
    wanted = OffsetFetchRequest.Topics("t", [0, 1])
    group = OffsetFetchRequest.Groups("g", topics=[OffsetFetchRequest.Groups.Topics("t", [0, 1])])
    request = OffsetFetchRequest(group_id="g", topics=[wanted], groups=[group])
    answer = client.ask(request, version)
    topics = answer.groups[0].topics if version >= 8 else answer.topics
    assert [(each.committed_offset, each.metadata) for each in topics[0].partitions] == [
        (7, "note"), (-1, ""),
    ]  # fmt: skip


def test_commit_is_refused_per_partition(client: RawClient) -> None:
    assert commit(client, "missing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    fields = {"member_id": "x", "generation_id_or_member_epoch": 0}
    assert commit(client, **fields) == ErrorCode.UNKNOWN_MEMBER_ID
    partitions = [
        OffsetCommitRequest.Topics.Partitions(0, 1, -1, -1, "m" * 4097),
        OffsetCommitRequest.Topics.Partitions(1, 2, -1, -1, "m" * 4096),
    ]
    request = OffsetCommitRequest("g", topics=[OffsetCommitRequest.Topics("t", partitions)])
    answer = client.ask(request, 8)
    assert [each.error_code for each in answer.topics[0].partitions] == [12, 0]
    assert fetch(client) == {("t", 1): 2}


def test_error_of_the_group_takes_precedence_over_that_of_the_metadata(client: RawClient) -> None:
    commit(client)
    partitions = [
        OffsetCommitRequest.Topics.Partitions(0, 1, -1, -1, "m" * 4097),
        OffsetCommitRequest.Topics.Partitions(9, 1, -1, -1, ""),
    ]
    request = OffsetCommitRequest("g", 3, topics=[OffsetCommitRequest.Topics("t", partitions)])
    answer = client.ask(request, 8)
    assert [each.error_code for each in answer.topics[0].partitions] == [25, 3]


@pytest.mark.parametrize("version", range(7))
def test_coordinator_is_this_broker(broker: kstore.Broker, version: int) -> None:
    with RawClient(broker.port) as client:
        answer = client.ask(FindCoordinatorRequest(key="g", coordinator_keys=["g"]), version)
        found = answer.coordinators[0] if version >= 4 else answer
        assert (found.error_code, found.port) == (0, broker.port)
        assert found.error_message == ("NONE" if 1 <= version <= 3 else "")  # as Kafka


@pytest.mark.parametrize(("key_type", "error"), [(2, 42), (9, 42)])
def test_a_coordinator_of_another_type_is_an_error(
    client: RawClient, key_type: int, error: int
) -> None:
    answer = client.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]), 6)
    assert (answer.coordinators[0].error_code, answer.coordinators[0].port) == (error, -1)


def test_offsets_topic_has_kafkas_form(store: kstore.Store, client: RawClient) -> None:
    commit(client)
    assert len(store["__consumer_offsets"]) == 50
    assert store["__consumer_offsets"].config.cleanup_policy == "compact"


def test_group_id_is_required(client: RawClient) -> None:
    request = JoinGroupRequest(group_id="", session_timeout_ms=10_000)
    assert client.ask(request, 5).error_code == ErrorCode.INVALID_GROUP_ID


def test_expired_offsets_are_deleted_with_their_group(store: kstore.Store) -> None:
    settings = {**SETTINGS, "offsets.retention.check.interval.ms": 20}
    with (
        kstore.Broker(store, port=0, settings=settings) as broker,
        RawClient(broker.port) as client,
    ):
        client.ask(FindCoordinatorRequest(key="g"), 3)
        topics = [OffsetCommitRequest.Topics("t", [OffsetCommitRequest.Topics.Partitions(0, 7)])]
        for group, retention in (("g", 1), ("kept", -1)):
            request = OffsetCommitRequest(group, retention_time_ms=retention, topics=topics)
            answer = client.ask(request, 2)
            assert answer.topics[0].partitions[0].error_code == 0
        names = {"g", "kept"}
        while names != {"kept"}:
            names = {each.group_id for each in client.ask(ListGroupsRequest(), 4).groups}
            assert "kept" in names
        assert "g" not in store.groups()


def test_broker_keeps_since_when_it_serves(tmp_path: Path) -> None:
    with kstore.open(tmp_path / "data") as store:
        with kstore.Broker(store, port=0) as broker:
            first = broker._services.metadata.served_since
        with kstore.Broker(store, port=0) as broker:
            assert broker._services.metadata.served_since == first > 0
