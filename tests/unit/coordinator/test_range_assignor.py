"""Kafka's range assignor for classic members."""

from kstore.coordinator.group.range_assignor import Subscriber, assign
from kstore.topic_partition import TopicPartition


def numbers(found: dict[str, list[TopicPartition]], topic: str) -> dict[str, list[int]]:
    return {
        member: [tp.partition for tp in partitions if tp.topic == topic]
        for member, partitions in found.items()
    }


def test_members_get_consecutive_partitions_and_the_first_ones_the_rest() -> None:
    members = [Subscriber(name, None, ("a", "b")) for name in ("m2", "m1", "m3")]
    found = assign(members, {"a": range(7), "b": range(2)})
    assert numbers(found, "a") == {"m1": [0, 1, 2], "m2": [3, 4], "m3": [5, 6]}
    assert numbers(found, "b") == {"m1": [0], "m2": [1], "m3": []}


def test_members_with_an_instance_id_come_first() -> None:
    members = [Subscriber("a", None, ("t",)), Subscriber("z", "i", ("t",))]
    assert numbers(assign(members, {"t": range(3)}), "t") == {"z": [0, 1], "a": [2]}


def test_only_subscribers_of_a_topic_get_it() -> None:
    members = [Subscriber("a", None, ("t",)), Subscriber("b", None, ("t", "u"))]
    found = assign(members, {"t": range(2), "u": range(2), "other": range(4)})
    assert found["a"] == [TopicPartition("t", 0)]
    assert found["b"] == [TopicPartition("t", 1), TopicPartition("u", 0), TopicPartition("u", 1)]


def test_only_the_given_partitions_are_assigned() -> None:
    members = [Subscriber(name, None, ("t",)) for name in "ab"]
    assert numbers(assign(members, {"t": (1, 4, 9)}), "t") == {"a": [1, 4], "b": [9]}
