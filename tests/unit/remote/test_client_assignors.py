"""What members of a cluster's groups send for each assignor, and what a leader makes of it."""

import pytest

from kstore.coordinator.group.subscription import decode_subscription
from kstore.protocol.messages.join_group import JoinGroupResponse
from kstore.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from kstore.protocol.wire import Writer
from kstore.remote.client_assignors import COOPERATIVE, NAMES, STICKY, assign, subscription_of
from kstore.topic_partition import TopicPartition

T = [TopicPartition("t", number) for number in range(4)]


def member(name: str, metadata: bytes) -> JoinGroupResponse.Members:
    return JoinGroupResponse.Members(name, None, metadata)


@pytest.mark.parametrize("assignor", NAMES)
def test_partitions_of_one_topic(assignor: str) -> None:
    group = [member(name, subscription_of(assignor, ["t"], [], -1)) for name in "ab"]
    found = assign(assignor, group, {"t": range(4)})
    expected = [T[:2], T[2:]] if assignor == "range" else [T[::2], T[1::2]]
    assert list(found.values()) == expected


def test_the_user_data_of_sticky_members_are_kafkas() -> None:
    data = decode_subscription(subscription_of(STICKY, ["t"], T[1:3], 7)).user_data
    assert data == (b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\2" + b"\0\0\0\1" + b"\0\0\0\2" + b"\0\0\0\7")
    assert decode_subscription(subscription_of(STICKY, ["t"], [], 7)).user_data is None
    cooperative = decode_subscription(subscription_of(COOPERATIVE, ["t"], T[1:3], 7))
    assert cooperative.user_data == b"\0\0\0\7"
    (owned,) = cooperative.owned_partitions
    assert (owned.topic, owned.partitions) == ("t", [1, 2])


def test_sticky_members_keep_what_they_had() -> None:
    group = [
        member("a", subscription_of(STICKY, ["t"], [T[1], T[3]], 2)),
        member("b", subscription_of(STICKY, ["t"], [T[1]], 1)),  # an older generation
    ]
    assert assign(STICKY, group, {"t": range(4)}) == {"a": [T[1], T[3]], "b": [T[0], T[2]]}


def test_cooperative_members_get_what_nobody_owns() -> None:
    joined = [
        member("a", subscription_of(COOPERATIVE, ["t"], T, 1)),
        member("b", subscription_of(COOPERATIVE, ["t"], [], -1)),
    ]
    assert assign(COOPERATIVE, joined, {"t": range(4)}) == {"a": T[:2], "b": []}
    given_up = [member("a", subscription_of(COOPERATIVE, ["t"], T[:2], 2)), joined[1]]
    assert assign(COOPERATIVE, given_up, {"t": range(4)}) == {"a": T[:2], "b": T[2:]}


def test_a_newer_subscription_has_its_generation_itself() -> None:
    def newer(generation: int) -> bytes:
        writer = Writer()
        writer.int16(3)
        owned = [ConsumerProtocolSubscription.OwnedPartitions("t", [0])]
        ConsumerProtocolSubscription(["t"], None, owned, generation).encode(writer, 3)
        return writer.to_bytes()

    group = [member("a", newer(1)), member("b", newer(2))]
    assert assign(COOPERATIVE, group, {"t": range(1)}) == {"a": [], "b": T[:1]}


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\1", b"\0\0\0\1\0\1t\0\0\0\2\0\0\0\1", b"x"])
def test_user_data_of_other_kinds_are_nothing(data: bytes) -> None:
    writer = Writer()
    writer.int16(1)
    ConsumerProtocolSubscription(["t"], data).encode(writer, 1)
    for assignor in (STICKY, COOPERATIVE):
        found = assign(assignor, [member("a", writer.to_bytes())], {"t": range(2)})
        assert found == {"a": T[:2]}
