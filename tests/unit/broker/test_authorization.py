"""Access control lists over sockets: native paths, sessions, operations, the APIs of lists."""

import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import kstore
from kstore.broker import consumer_group_service
from kstore.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kstore.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kstore.protocol.messages.create_acls import CreateAclsRequest
from kstore.protocol.messages.delete_acls import DeleteAclsRequest
from kstore.protocol.messages.describe_acls import DescribeAclsRequest
from kstore.protocol.messages.describe_cluster import DescribeClusterRequest
from kstore.protocol.messages.describe_groups import DescribeGroupsRequest
from kstore.protocol.messages.fetch import FetchRequest
from kstore.protocol.messages.find_coordinator import FindCoordinatorRequest
from kstore.protocol.messages.metadata import MetadataRequest
from kstore.protocol.messages.offset_commit import OffsetCommitRequest
from kstore.protocol.messages.produce import ProduceRequest
from kstore.record.builder import BatchBuilder
from support.raw_client import RawClient

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TOPIC, GROUP, CLUSTER, LITERAL = 2, 3, 4, 3
READ, WRITE, DELETE, DESCRIBE, DENY, ALLOW = 3, 4, 6, 8, 2, 3
NOT_ASKED = -(2**31)  # authorized operations of a request that does not ask for them
SETTINGS: dict[str, object] = {
    "listeners": "INTERNAL://127.0.0.1:0,CLEAR://127.0.0.1:0",
    "listener.security.protocol.map": "INTERNAL:SASL_PLAINTEXT,CLEAR:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.internal.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_root="secret";'
    ),
    "kstore.sasl.plain.without.tls": True,
    "authorizer.class.name": STANDARD,
    "super.users": "User:root",
}


class Admin:
    """The super user, and a client of whom nothing is known."""

    def __init__(self, broker: kstore.Broker) -> None:
        from kstore.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
        from kstore.protocol.messages.sasl_handshake import SaslHandshakeRequest

        assert broker._listeners is not None
        self.root = RawClient(broker._listeners.bound["INTERNAL"].port)
        self.root.ask(SaslHandshakeRequest("PLAIN"), 1)
        assert self.root.ask(SaslAuthenticateRequest(b"\0root\0secret"), 2).error_code == 0
        self.client = RawClient(broker._listeners.bound["CLEAR"].port)

    def create(self, *acls: tuple[Any, ...], version: int = 3) -> list[int]:
        asked = [CreateAclsRequest.Creations(*each) for each in acls]
        results = self.root.ask(CreateAclsRequest(asked), version).results
        return [each.error_code for each in results]


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[Admin]:
    with kstore.serve(tmp_path / "data", settings=SETTINGS) as broker:
        for name in ("orders", "audit"):
            broker.store.create_topic(name)[0].append(b"before")
        found = Admin(broker)
        with found.root, found.client:
            yield found


def acl(name: str, operation: int, permission: int = ALLOW) -> tuple[Any, ...]:
    return TOPIC, name, LITERAL, "User:ANONYMOUS", "127.0.0.1", operation, permission


def group_acl(name: str, operation: int, permission: int = ALLOW) -> tuple[Any, ...]:
    return GROUP, *acl(name, operation, permission)[1:]


def produce(client: RawClient, *topics: str) -> dict[str, int]:
    builder = BatchBuilder()
    builder.append(b"x", timestamp=1)
    batch = builder.build()
    Topic = ProduceRequest.TopicData  # noqa: N806
    asked = ProduceRequest(
        acks=1, timeout_ms=1000,
        topic_data=[Topic(name, partition_data=[Topic.PartitionData(0, batch)]) for name in topics],
    )  # fmt: skip
    answer = client.ask(asked, 9)
    return {each.name: each.partition_responses[0].error_code for each in answer.responses}


def fetch(client: RawClient, session: int, epoch: int, *topics: str) -> Any:
    partition = FetchRequest.Topics.Partitions(partition=0, partition_max_bytes=1 << 20)
    return client.ask(
        FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=0,
            session_id=session, session_epoch=epoch,
            topics=[FetchRequest.Topics(topic=name, partitions=[partition]) for name in topics],
        ),
        11,
    )  # fmt: skip


def test_produce_is_checked_for_each_topic(admin: Admin) -> None:
    assert produce(admin.client, "orders") == {"orders": 29}
    assert admin.create(acl("orders", WRITE)) == [0]
    assert produce(admin.client, "orders") == {"orders": 0}
    assert produce(admin.client, "orders", "audit") == {"orders": 0, "audit": 29}
    assert produce(admin.root, "audit") == {"audit": 0}


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
def test_rules_of_a_host_apply_at_a_listener_of_both_protocols(tmp_path: Path) -> None:
    settings = {
        **SETTINGS,
        "listeners": "INTERNAL://127.0.0.1:0,CLEAR://[::]:0",
        "advertised.listeners": "INTERNAL://127.0.0.1:0,CLEAR://127.0.0.1:0",
    }
    with kstore.serve(tmp_path / "data", settings=settings) as broker:
        broker.store.create_topic("orders")
        admin = Admin(broker)
        with admin.root, admin.client:
            assert admin.create(acl("orders", WRITE)) == [0]
            assert produce(admin.client, "orders") == {"orders": 0}
            assert admin.create(acl("orders", WRITE, DENY)) == [0]
            assert produce(admin.client, "orders") == {"orders": 29}


def test_a_session_loses_what_is_denied_later(admin: Admin) -> None:
    admin.create(acl("orders", READ), acl("audit", READ))
    answer = fetch(admin.client, 0, 0, "orders", "audit")
    assert [each.partitions[0].error_code for each in answer.responses] == [0, 0]
    admin.create(acl("orders", READ, DENY))
    answer = fetch(admin.client, answer.session_id, 1)
    assert [(each.topic, each.partitions[0].error_code) for each in answer.responses] == [
        ("orders", 29),
        ("audit", 0),  # its records again, since the request has no other offset
    ]
    assert not answer.responses[0].partitions[0].records
    answer = fetch(admin.client, 0, -1, "orders")
    assert answer.responses[0].partitions[0].error_code == 29


def test_metadata_shows_only_what_is_allowed(admin: Admin) -> None:
    admin.create(acl("orders", READ))
    everything = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    [topic] = admin.client.ask(everything, 9).topics
    assert (topic.name, topic.topic_authorized_operations) == ("orders", 1 << READ | 1 << DESCRIBE)
    assert [each.name for each in admin.root.ask(everything, 9).topics] == ["audit", "orders"]
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert admin.client.ask(asked, 0).cluster_authorized_operations == 0
    assert admin.root.ask(asked, 0).cluster_authorized_operations > 0


@pytest.mark.parametrize(("version", "error"), [(10, 42), (11, 42), (12, 100), (13, 100)])
def test_metadata_by_id_does_not_say_which_ids_exist(
    admin: Admin, version: int, error: int
) -> None:
    everything = MetadataRequest(topics=None)
    ids = {each.name: each.topic_id for each in admin.root.ask(everything, 12).topics}
    for topic_id in (ids["orders"], bytes(15) + b"\5"):
        topic = MetadataRequest.Topics(name=None, topic_id=topic_id)
        [found] = admin.client.ask(MetadataRequest(topics=[topic]), version).topics
        assert (found.error_code, found.name or "") == (error, "")


def group_operations(client: RawClient, *, consumer: bool, asked: bool = True) -> tuple[int, int]:
    """The error code and the operations in the description of a group."""
    if consumer:
        request: Any = ConsumerGroupDescribeRequest(["grown"], include_authorized_operations=asked)
    else:
        request = DescribeGroupsRequest(["classic"], include_authorized_operations=asked)
    [group] = client.ask(request, 0 if consumer else 5).groups
    return group.error_code, group.authorized_operations


def make_groups(client: RawClient) -> None:
    """A classic group with an offset, and a consumer group with a member."""
    while client.ask(FindCoordinatorRequest(key="grown"), 3).error_code:
        pass
    partition = OffsetCommitRequest.Topics.Partitions(0, 1)
    commit = OffsetCommitRequest(
        group_id="classic", topics=[OffsetCommitRequest.Topics("orders", partitions=[partition])]
    )
    while client.ask(commit, 5).topics[0].partitions[0].error_code == 14:
        pass
    join = ConsumerGroupHeartbeatRequest(
        "grown", "m", 0,
        rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"], topic_partitions=[],
    )  # fmt: skip
    while client.ask(join, 1).error_code == 14:
        pass


@pytest.mark.parametrize("consumer", [False, True], ids=["classic", "consumer"])
def test_groups_are_described_with_the_operations_that_the_client_may(
    admin: Admin, consumer: bool
) -> None:
    make_groups(admin.root)
    name = "grown" if consumer else "classic"
    everything = 1 << READ | 1 << DELETE | 1 << DESCRIBE
    assert group_operations(admin.root, consumer=consumer) == (0, everything)
    assert group_operations(admin.root, consumer=consumer, asked=False) == (0, NOT_ASKED)
    assert group_operations(admin.client, consumer=consumer) == (30, NOT_ASKED)
    if consumer:  # its members' topics are checked as well
        assert admin.create(group_acl(name, DESCRIBE)) == [0]
        assert group_operations(admin.client, consumer=True) == (29, NOT_ASKED)
        assert admin.create(acl("orders", DESCRIBE)) == [0]
    for operations, shown in [
        ((DESCRIBE,), 1 << DESCRIBE),
        ((READ,), 1 << READ | 1 << DESCRIBE),
        ((DELETE,), everything),
    ]:
        assert set(admin.create(*(group_acl(name, each) for each in operations))) == {0}
        assert group_operations(admin.client, consumer=consumer) == (0, shown)
    assert admin.create(group_acl(name, READ, DENY)) == [0]
    assert group_operations(admin.client, consumer=consumer) == (0, everything & ~(1 << READ))


def test_a_pattern_matches_only_topics_that_the_member_may_describe(admin: Admin) -> None:
    assert admin.create(group_acl("g", READ), acl("orders", DESCRIBE)) == [0, 0]
    admin.root.ask(FindCoordinatorRequest(key="g"), 3)

    def assigned(client: RawClient, pattern: str) -> set[str]:
        request = ConsumerGroupHeartbeatRequest(
            "g", "m", 0,
            rebalance_timeout_ms=60_000, subscribed_topic_regex=pattern, topic_partitions=[],
        )  # fmt: skip
        while (answer := client.ask(request, 1)).error_code == 14:
            pass
        assert answer.error_code == 0
        names = {topic.topic_id: topic.name for topic in topics}
        return {names[each.topic_id] for each in answer.assignment.topic_partitions}

    topics = admin.root.ask(MetadataRequest(topics=None), 10).topics
    assert assigned(admin.client, "(orders|audit)") == {"orders"}
    assert assigned(admin.client, "aud.*") == set()
    assert assigned(admin.root, "a.*t") == {"audit"}


def test_a_change_of_acls_is_a_change_of_what_a_pattern_matches(admin: Admin) -> None:
    """At the next heartbeat, without news in it, of each group."""
    assert admin.create(group_acl("g", READ), acl("orders", DESCRIBE)) == [0, 0]
    admin.root.ask(FindCoordinatorRequest(key="g"), 3)
    names = {each.topic_id: each.name for each in admin.root.ask(MetadataRequest(None), 10).topics}
    joining = ConsumerGroupHeartbeatRequest(
        "g", "m", 0,
        rebalance_timeout_ms=60_000, subscribed_topic_regex="orders|audit", topic_partitions=[],
    )  # fmt: skip
    while (answer := admin.client.ask(joining, 1)).error_code == 14:
        pass
    assert [names[each.topic_id] for each in answer.assignment.topic_partitions] == ["orders"]

    def beat() -> set[str] | None:
        nonlocal answer
        request = ConsumerGroupHeartbeatRequest("g", "m", answer.member_epoch)
        answer = admin.client.ask(request, 1)
        assert answer.error_code == 0
        if answer.assignment is None:
            return None
        return {names[each.topic_id] for each in answer.assignment.topic_partitions}

    assert beat() is None
    assert admin.create(acl("audit", DESCRIBE)) == [0]
    assert beat() == {"orders", "audit"}
    assert beat() is None
    delete = DeleteAclsRequest.Filters(TOPIC, "audit", LITERAL, None, None, 1, 1)
    [result] = admin.root.ask(DeleteAclsRequest([delete]), 3).filter_results
    assert (result.error_code, len(result.matching_acls)) == (0, 1)
    assert beat() == {"orders"}


def test_a_change_of_acls_while_a_pattern_is_matched(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another group's heartbeat is the first after it: this group's next one matches again."""
    assert admin.create(group_acl("g", READ), acl("orders", DESCRIBE)) == [0, 0]
    admin.root.find_coordinators("g")
    joining = ConsumerGroupHeartbeatRequest(
        "g", "m", 0,
        rebalance_timeout_ms=60_000, subscribed_topic_regex="orders|audit", topic_partitions=[],
    )  # fmt: skip
    other = ConsumerGroupHeartbeatRequest(
        "h", "m", 0,
        rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"], topic_partitions=[],
    )  # fmt: skip
    is_matched, release = Event(), Event()
    match = consumer_group_service._matches

    def slow(*arguments: Any) -> Any:
        found = match(*arguments)
        is_matched.set()
        assert release.wait(60)
        return found

    monkeypatch.setattr(consumer_group_service, "_matches", slow)
    admin.client.send(joining, 1)
    assert is_matched.wait(60)
    assert admin.create(acl("audit", DESCRIBE)) == [0]
    assert admin.root.ask(other, 1).error_code == 0
    release.set()
    answer = admin.client.receive(joining.API_KEY, 1)
    assert len(answer.assignment.topic_partitions) == 1
    answer = admin.client.ask(ConsumerGroupHeartbeatRequest("g", "m", answer.member_epoch), 1)
    assert answer.assignment is not None
    assert len(answer.assignment.topic_partitions) == 2


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_access_rules_are_created_described_and_deleted(admin: Admin, version: int) -> None:
    prefixed = (TOPIC, "or", 4, "User:a", "*", READ, ALLOW)
    bad = (CLUSTER, "x", LITERAL, "User:a", "*", READ, ALLOW)
    made = [acl("orders", READ), bad] + ([prefixed] if version else [])
    assert admin.create(*made, version=version) == [0, 42, 0][: len(made)]
    everything = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
    described = admin.root.ask(everything, version)
    assert (described.error_code, described.error_message) == (0, "")  # Kafka 2.4's: null
    found = described.resources
    expected = [("orders", 1)] if version == 0 else [("or", 1), ("orders", 1)]
    assert [(each.resource_name, len(each.acls)) for each in found] == expected
    wrong = DeleteAclsRequest.Filters(99, None, 1, None, None, 1, 1)
    right = DeleteAclsRequest.Filters(2, None, 1, None, None, 1, 1)
    results = admin.root.ask(DeleteAclsRequest([wrong, right]), version).filter_results
    assert [(each.error_code, len(each.matching_acls)) for each in results] == [
        (42, 0),
        (0, len(expected)),
    ]
    assert admin.root.ask(everything, version).resources == []
    assert admin.client.ask(everything, version).error_code == 31


def test_without_an_authorizer_there_are_no_lists(tmp_path: Path) -> None:
    with kstore.serve(tmp_path / "data", port=0) as broker, RawClient(broker.port) as client:
        everything = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
        assert client.ask(everything, 3).error_code == 54
        creation = CreateAclsRequest.Creations(*acl("x", READ))
        assert client.ask(CreateAclsRequest([creation]), 3).results[0].error_code == 54
        deletion = DeleteAclsRequest.Filters(2, None, 1, None, None, 1, 1)
        assert client.ask(DeleteAclsRequest([deletion]), 3).filter_results[0].error_code == 54
