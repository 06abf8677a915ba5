"""Kafka's range assignor, and the bytes of subscriptions and assignments."""

from kstore.remote.groups import assigned_partitions
from kstore.remote.range_assignor import (
    Subscriber,
    assign,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kstore.topic_partition import TopicPartition


def numbers(found: dict[str, list[TopicPartition]], topic: str) -> dict[str, list[int]]:
    return {
        member: [tp.partition for tp in partitions if tp.topic == topic]
        for member, partitions in found.items()
    }


def test_consecutive_partitions_and_the_rest_for_the_first_members() -> None:
    members = [Subscriber(name, None, ("a", "b")) for name in ("m2", "m1", "m3")]
    found = assign(members, {"a": 7, "b": 2})
    assert numbers(found, "a") == {"m1": [0, 1, 2], "m2": [3, 4], "m3": [5, 6]}
    assert numbers(found, "b") == {"m1": [0], "m2": [1], "m3": []}


def test_members_with_an_instance_id_come_first() -> None:
    members = [Subscriber("a", None, ("t",)), Subscriber("z", "i", ("t",))]
    assert numbers(assign(members, {"t": 3}), "t") == {"z": [0, 1], "a": [2]}


def test_only_subscribers_of_a_topic_get_it() -> None:
    members = [Subscriber("a", None, ("t",)), Subscriber("b", None, ("t", "u"))]
    found = assign(members, {"t": 2, "u": 2, "other": 4})
    assert found["a"] == [TopicPartition("t", 0)]
    assert found["b"] == [TopicPartition("t", 1), TopicPartition("u", 0), TopicPartition("u", 1)]


def test_bytes() -> None:
    assert encode_subscription(["t", "a"]).hex() == (
        "0001" "00000002" "000161" "000174" "ffffffff" "00000000"
    )  # fmt: skip
    assert decode_subscription(encode_subscription(["t", "a"])) == ("a", "t")
    partitions = [TopicPartition("t", 1), TopicPartition("t", 0)]
    data = encode_assignment(partitions)
    assert data.hex() == "000100000001000174000000020000000000000001ffffffff"
    assert assigned_partitions(data) == tuple(sorted(partitions))
    assert assigned_partitions(b"") == ()
    assert assigned_partitions(data[:9]) == ()
