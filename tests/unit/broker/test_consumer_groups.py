"""Consumer groups (KIP-848) over the wire: raw requests, and confluent-kafka's consumer."""

from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import confluent_kafka
import pytest

import kstore
from kstore.broker.consumer_group_service import ConsumerGroupService
from kstore.coordinator.group.consumer_events import ConsumerHeartbeat
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kstore.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kstore.protocol.messages.delete_groups import DeleteGroupsRequest
from kstore.protocol.messages.describe_groups import DescribeGroupsRequest
from kstore.protocol.messages.find_coordinator import FindCoordinatorRequest
from kstore.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kstore.protocol.messages.join_group import JoinGroupRequest
from kstore.protocol.messages.list_groups import ListGroupsRequest
from kstore.protocol.messages.offset_commit import OffsetCommitRequest
from kstore.protocol.messages.offset_delete import OffsetDeleteRequest
from kstore.protocol.messages.offset_fetch import OffsetFetchRequest
from support.raw_client import RawClient
from unit.coordinator.test_group_migration import subscription

SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 100,
}
Partitions = ConsumerGroupHeartbeatRequest.TopicPartitions
WAIT = 60.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        topic = store.create_topic("orders", 4)
        for number in range(40):
            topic[number % 4].append(str(number).encode())
        store.create_topic("other", 1)
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


def beat(
    client: RawClient, member: str, epoch: int, version: int = 1, **fields: Any
) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest("g", member, epoch, **fields)
    while (answer := client.ask(request, version)).error_code == 14:
        pass
    assert isinstance(answer, ConsumerGroupHeartbeatResponse)
    return answer


def join(
    client: RawClient, member: str = "m", version: int = 1, **fields: Any
) -> ConsumerGroupHeartbeatResponse:
    values: dict[str, Any] = {
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["orders"],
        "topic_partitions": [],
    }
    return beat(client, member, 0, version, **values | fields)


def numbers(answer: ConsumerGroupHeartbeatResponse) -> list[int]:
    assert answer.assignment is not None
    return [n for each in answer.assignment.topic_partitions for n in each.partitions]


def commit(client: RawClient, member: str, epoch: int, version: int = 9) -> int:
    partition = OffsetCommitRequest.Topics.Partitions(0, 5)
    request = OffsetCommitRequest(
        "g", epoch, member, topics=[OffsetCommitRequest.Topics("orders", [partition])]
    )
    return int(client.ask(request, version).topics[0].partitions[0].error_code)


@pytest.mark.parametrize("version", [0, 1])
def test_member_joins_and_gets_its_partitions(client: RawClient, version: int) -> None:
    answer = join(client, "" if version == 0 else "m", version)
    assert (answer.error_code, answer.member_epoch) == (0, 1)
    assert answer.heartbeat_interval_ms == 100
    assert numbers(answer) == [0, 1, 2, 3]
    assert answer.member_id
    again = beat(client, answer.member_id, 1, version)
    assert (again.error_code, again.assignment) == (0, None)


@pytest.fixture
def in_general(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Members and epochs of the heartbeats that do not only renew a session."""
    found: list[tuple[str, int]] = []
    general = ConsumerGroupService.heartbeat

    def heartbeat(service: ConsumerGroupService, request: ConsumerHeartbeat, *rest: Any) -> None:
        found.append((request.member_id, request.member_epoch))
        general(service, request, *rest)

    monkeypatch.setattr(ConsumerGroupService, "heartbeat", heartbeat)
    return found


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("instance_id", [None, "i"])
def test_heartbeat_without_news_only_renews_the_session(
    client: RawClient,
    in_general: list[tuple[str, int]],
    version: int,
    instance_id: str | None,
) -> None:
    join(client, instance_id=instance_id)
    answer = beat(client, "m", 1, version, instance_id=instance_id)
    assert answer == ConsumerGroupHeartbeatResponse(
        member_id="m", member_epoch=1, heartbeat_interval_ms=100
    )
    assert in_general == [("m", 0)]
    fenced = beat(client, "m", 2, version, instance_id=instance_id)
    assert fenced.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert in_general == [("m", 0), ("m", 2)]


@pytest.mark.parametrize(
    ("fields", "epoch"),
    [
        ({"subscribed_topic_names": ["orders"]}, 1),
        ({"topic_partitions": []}, 1),
        ({"subscribed_topic_regex": ""}, 1),
        ({"server_assignor": "range"}, 2),
        ({"rack_id": "r"}, 2),
        ({"rebalance_timeout_ms": 50_000}, 1),
    ],
)
def test_heartbeat_with_news_is_answered_in_general(
    client: RawClient, in_general: list[tuple[str, int]], fields: dict[str, Any], epoch: int
) -> None:
    join(client)
    answer = beat(client, "m", 1, **fields)
    assert (answer.error_code, answer.member_epoch) == (0, epoch)
    assert in_general == [("m", 0), ("m", 1)]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member": ""}, ErrorCode.INVALID_REQUEST),  # from version 1 on, the client makes it
        ({"server_assignor": "none"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "(a"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "(a)\\1"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "a" * 5000}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"instance_id": "taken"}, ErrorCode.UNRELEASED_INSTANCE_ID),
    ],
)
def test_an_invalid_heartbeat_gets_kafkas_error_code_and_a_message(
    client: RawClient, fields: dict[str, Any], error: ErrorCode
) -> None:
    join(client, "first", instance_id="taken")
    answer = join(client, **fields)
    assert (answer.error_code, answer.member_epoch) == (error, 0)
    assert answer.error_message


def test_patterns_find_new_topics(store: kstore.Store, client: RawClient) -> None:
    answer = join(client, subscribed_topic_names=None, subscribed_topic_regex="o[r].*s")
    assert numbers(answer) == [0, 1, 2, 3]
    store.create_topic("ores", 2)
    end = monotonic() + WAIT
    while answer.member_epoch == 1 and monotonic() < end:
        answer = beat(client, "m", 1)
    assert sorted(numbers(answer)) == [0, 0, 1, 1, 2, 3]


def test_epochs_guard_offsets(client: RawClient) -> None:
    join(client)
    assert commit(client, "m", 1) == 0
    assert commit(client, "m", 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(client, "m", 1, 8) == ErrorCode.UNSUPPORTED_VERSION
    assert commit(client, "x", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    for member, epoch, error in (("m", 1, 0), ("m", 7, 113), ("x", 1, 25), (None, -1, 0)):
        group = OffsetFetchRequest.Groups("g", member, epoch, None)
        (found,) = client.ask(OffsetFetchRequest(groups=[group]), 9).groups
        assert found.error_code == error
        assert bool(found.topics) == (error == 0)


@pytest.mark.parametrize("version", [0, 1])
def test_group_is_described(client: RawClient, version: int) -> None:
    join(client, rack_id="r", subscribed_topic_regex="oth.*" if version else None)
    (group,) = client.ask(ConsumerGroupDescribeRequest(["g"], True), version).groups
    assert (group.error_code, group.group_state, group.group_epoch) == (0, "Stable", 1)
    assert (group.assignor_name, group.assignment_epoch) == ("uniform", 1)
    (member,) = group.members
    assert (member.member_id, member.rack_id, member.client_host) == ("m", "r", "/127.0.0.1")
    topics = [(each.topic_name, each.partitions) for each in member.assignment.topic_partitions]
    assert ("orders", [0, 1, 2, 3]) in topics
    assert len(member.target_assignment.topic_partitions) == len(topics)
    assert member.member_type == (1 if version else -1)
    (unknown,) = client.ask(ConsumerGroupDescribeRequest(["h"]), version).groups
    assert unknown.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, 14)


def test_a_deleted_topic_is_not_described(store: kstore.Store, client: RawClient) -> None:
    join(client, subscribed_topic_names=["orders", "other"])
    store.delete_topic("other")
    (group,) = client.ask(ConsumerGroupDescribeRequest(["g"]), 1).groups
    assert group.error_code == 0
    (member,) = group.members
    for assignment in (member.assignment, member.target_assignment):
        assert [each.topic_name for each in assignment.topic_partitions] == ["orders"]


def test_group_is_listed_and_no_classic_one(client: RawClient) -> None:
    join(client)
    (found,) = client.ask(ListGroupsRequest(types_filter=["Consumer"]), 5).groups
    assert (found.group_id, found.group_type, found.group_state) == ("g", "consumer", "Stable")
    assert client.ask(ListGroupsRequest(types_filter=["classic"]), 5).groups == []
    (described,) = client.ask(DescribeGroupsRequest(groups=["g"]), 6).groups
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_group_is_deleted_without_members_only(store: kstore.Store, client: RawClient) -> None:
    join(client)
    commit(client, "m", 1)
    topics = [
        OffsetDeleteRequest.Topics("orders", [OffsetDeleteRequest.Topics.Partitions(0)]),
    ]
    answer = client.ask(OffsetDeleteRequest("g", topics), 0)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    delete = DeleteGroupsRequest(groups_names=["g"])
    assert client.ask(delete, 2).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    assert beat(client, "m", -1).member_epoch == -1
    assert client.ask(delete, 2).results[0].error_code == 0
    assert "g" not in store.groups()
    assert client.ask(ListGroupsRequest(), 5).groups == []


def test_empty_groups_change_their_protocol(client: RawClient) -> None:
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
        protocol_type="consumer", protocols=[JoinGroupRequest.Protocols("range", b"")],
    )  # fmt: skip
    while (classic := client.ask(request, 3)).error_code == 14:
        pass
    assert join(client).error_code == ErrorCode.GROUP_ID_NOT_FOUND  # it has a member
    client.leave("g", classic.member_id)
    assert join(client).error_code == 0
    assert client.ask(request, 3).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    beat(client, "m", -1)
    assert client.ask(request, 3).error_code == 0
    (found,) = client.ask(ListGroupsRequest(), 5).groups
    assert found.group_type == "classic"


def test_group_with_members_keeps_its_protocol_where_that_is_set(store: kstore.Store) -> None:
    settings = {**SETTINGS, "group.consumer.migration.policy": "Disabled"}
    with (
        kstore.Broker(store, port=0, settings=settings) as broker,
        RawClient(broker.port) as client,
    ):
        client.ask(FindCoordinatorRequest(key="g"), 3)
        request = JoinGroupRequest(
            group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocols("range", subscription("orders"))],
        )  # fmt: skip
        while client.ask(request, 3).error_code == 14:
            pass
        answer = join(client)
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert "online upgrade is disabled" in (answer.error_message or "")


def test_group_outlives_a_broker(store: kstore.Store) -> None:
    for epoch in (0, 1):
        with (
            kstore.Broker(store, port=0, settings=SETTINGS) as broker,
            RawClient(broker.port) as client,
        ):
            client.ask(FindCoordinatorRequest(key="g"), 3)
            if epoch == 0:
                join(client)
            assert beat(client, "m", 1, topic_partitions=None).error_code == 0
    assert store.groups()["g"].offsets == {}


def test_groups_have_settings_of_their_own(store: kstore.Store) -> None:
    settings = {**SETTINGS, "group.consumer.min.session.timeout.ms": 200}
    with (
        kstore.Broker(store, port=0, settings=settings) as broker,
        RawClient(broker.port) as client,
    ):
        client.ask(FindCoordinatorRequest(key="g"), 3)
        resource = IncrementalAlterConfigsRequest.Resources
        own = {"consumer.session.timeout.ms": "200", "consumer.heartbeat.interval.ms": "150"}
        changes = [resource.Configs(name, 0, value) for name, value in own.items()]
        request = IncrementalAlterConfigsRequest([resource(32, "g", changes)])
        assert client.ask(request, 1).responses[0].error_code == 0
        assert join(client).heartbeat_interval_ms == 150
        end = monotonic() + WAIT
        while client.ask(ConsumerGroupDescribeRequest(["g"]), 1).groups[0].members:
            assert monotonic() < end  # the broker's session would be 45 s


def test_setting_switches_it_off(store: kstore.Store) -> None:
    settings = {**SETTINGS, "group.coordinator.rebalance.protocols": "classic"}
    with kstore.Broker(store, port=0, settings=settings) as broker:
        served = {api.key for api in broker._services.apis}
    assert not served & {68, 69}


# --- confluent-kafka ----------------------------------------------------------------------------


class Readers:
    """Consumers of confluent-kafka with the new protocol, which are closed with the test."""

    def __init__(self, broker: kstore.Broker) -> None:
        self.broker = broker
        self.open: list[Any] = []

    def start(self, *topics: str, **settings: Any) -> Any:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "group.id": "g",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **settings,
            }
        )
        consumer.subscribe(list(topics) or ["orders"])
        self.open.append(consumer)
        return consumer

    def poll_until(self, condition: Any, *consumers: Any) -> list[bytes]:
        """Values that the consumers read until the condition holds."""
        values: list[bytes] = []
        end = monotonic() + WAIT
        while not condition(values):
            assert monotonic() < end, (values, [each.assignment() for each in consumers])
            for consumer in consumers:
                message = consumer.poll(0.05)
                if message is not None and message.error() is None:
                    values.append(message.value())
        return values

    def close(self) -> None:
        for consumer in self.open:
            consumer.close()


@pytest.fixture
def readers(broker: kstore.Broker) -> Iterator[Readers]:
    readers = Readers(broker)
    yield readers
    readers.close()


def test_confluent_consumers_share_a_topic(store: kstore.Store, readers: Readers) -> None:
    first = readers.start()
    values = readers.poll_until(lambda found: len(found) == 40, first)
    assert sorted(values) == sorted(str(number).encode() for number in range(40))
    first.commit(asynchronous=False)
    second = readers.start()
    readers.poll_until(
        lambda _: len(first.assignment()) == len(second.assignment()) == 2, first, second
    )
    owned = {each.partition for consumer in (first, second) for each in consumer.assignment()}
    assert owned == {0, 1, 2, 3}
    for number in range(4):
        store["orders"][number].append(b"new")
    assert set(readers.poll_until(lambda found: len(found) == 4, first, second)) == {b"new"}
    second.close()
    readers.open.remove(second)
    readers.poll_until(lambda _: len(first.assignment()) == 4, first)
    assert {tp.partition: each.offset for tp, each in store.group("g").offsets.items()} == {
        0: 10, 1: 10, 2: 10, 3: 10,
    }  # fmt: skip


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_confluent_consumer_chooses_the_assignor(
    client: RawClient, readers: Readers, assignor: str
) -> None:
    reader = readers.start(**{"group.remote.assignor": assignor})
    readers.poll_until(lambda found: len(found) == 40, reader)
    (group,) = client.ask(ConsumerGroupDescribeRequest(["g"]), 0).groups
    assert group.assignor_name == assignor


def test_confluent_consumer_subscribes_by_pattern(readers: Readers) -> None:
    reader = readers.start("^ord.*")
    readers.poll_until(lambda found: len(found) == 40, reader)
    assert {each.topic for each in reader.assignment()} == {"orders"}


def test_confluent_static_member_comes_back(client: RawClient, readers: Readers) -> None:
    first = readers.start(**{"group.instance.id": "i"})
    readers.poll_until(lambda found: len(found) == 40, first)
    first.commit(asynchronous=False)
    first.close()
    readers.open.remove(first)
    (group,) = client.ask(ConsumerGroupDescribeRequest(["g"]), 0).groups
    assert [each.member_epoch for each in group.members] == [-2]
    second = readers.start(**{"group.instance.id": "i"})
    readers.poll_until(lambda _: len(second.assignment()) == 4, second)
    (group,) = client.ask(ConsumerGroupDescribeRequest(["g"]), 0).groups
    assert (group.group_epoch, group.members[0].member_epoch) == (1, 1)


def test_confluent_consumer_that_was_fenced_joins_again(
    broker: kstore.Broker, client: RawClient, readers: Readers
) -> None:
    reader = readers.start()
    readers.poll_until(lambda found: len(found) == 40, reader)
    (group,) = client.ask(ConsumerGroupDescribeRequest(["g"]), 0).groups
    member = group.members[0].member_id
    beat(client, member, -1)  # as if its session had ended

    def is_back(_: list[bytes]) -> bool:
        (group,) = client.ask(ConsumerGroupDescribeRequest(["g"]), 0).groups
        return bool(group.members) and len(reader.assignment()) == 4

    readers.poll_until(is_back, reader)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_confluent_consumers_of_both_protocols_share_a_group(
    store: kstore.Store, client: RawClient, readers: Readers, strategy: str
) -> None:
    """A living group is upgraded by a consumer of the new protocol, and downgraded without it."""

    def type_of_group() -> tuple[str, str]:
        (found,) = client.ask(ListGroupsRequest(), 5).groups
        return found.group_type, found.group_state

    classic = {"group.protocol": "classic", "partition.assignment.strategy": strategy}
    first = readers.start(**classic, **{"session.timeout.ms": 10_000})
    values = readers.poll_until(lambda found: len(found) == 40, first)
    assert len(values) == 40
    first.commit(asynchronous=False)
    assert type_of_group() == ("classic", "Stable")
    second = readers.start()
    readers.poll_until(
        lambda _: len(first.assignment()) == len(second.assignment()) == 2, first, second
    )
    assert type_of_group()[0] == "consumer"
    (group,) = client.ask(ConsumerGroupDescribeRequest(["g"]), 1).groups
    assert sorted(each.member_type for each in group.members) == [0, 1]
    for number in range(4):
        store["orders"][number].append(b"new")
    assert set(readers.poll_until(lambda found: len(found) == 4, first, second)) == {b"new"}
    first.commit(asynchronous=False)  # as a classic member of a consumer group
    second.commit(asynchronous=False)
    second.close()
    readers.open.remove(second)
    readers.poll_until(lambda _: len(first.assignment()) == 4, first)
    readers.poll_until(lambda _: type_of_group() == ("classic", "Stable"), first)
    for number in range(4):
        store["orders"][number].append(b"newer")
    assert set(readers.poll_until(lambda found: len(found) == 4, first)) == {b"newer"}
    first.commit(asynchronous=False)
    assert {each.offset for each in store.group("g").offsets.values()} == {12}


@pytest.mark.parametrize("is_consumer", [False, True])
def test_changed_group_outlives_a_broker(store: kstore.Store, is_consumer: bool) -> None:
    """What is stored of a group has one protocol after each change."""
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=60_000, rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocols("range", subscription("orders"))],
    )  # fmt: skip
    with (
        kstore.Broker(store, port=0, settings=SETTINGS) as broker,
        RawClient(broker.port) as client,
    ):
        client.ask(FindCoordinatorRequest(key="g"), 3)
        while (classic := client.ask(request, 3)).error_code == 14:
            pass
        assert join(client).member_epoch == 2
        request.member_id = classic.member_id
        assert client.ask(request, 3).generation_id == 2
        if not is_consumer:
            beat(client, "m", -1)
    with (
        kstore.Broker(store, port=0, settings=SETTINGS) as broker,
        RawClient(broker.port) as client,
    ):
        client.ask(FindCoordinatorRequest(key="g"), 3)
        while not (found := client.ask(ListGroupsRequest(), 5)).groups or found.error_code:
            pass
        assert found.groups[0].group_type == ("consumer" if is_consumer else "classic")
        if is_consumer:
            assert beat(client, "m", 2).error_code == 0
        request.member_id = classic.member_id
        assert client.ask(request, 3).error_code == 0
