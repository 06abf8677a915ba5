"""Kafka's round-robin assignor for classic members; the examples are those of its documentation."""

from kstore.coordinator.group.range_assignor import Subscriber
from kstore.coordinator.group.roundrobin_assignor import assign


def named(found: dict[str, list[tuple[str, int]]]) -> dict[str, list[str]]:
    return {
        member: [f"{topic}p{partition}" for topic, partition in partitions]
        for member, partitions in found.items()
    }


def test_equal_subscriptions_differ_by_at_most_one_partition() -> None:
    members = [Subscriber(name, None, ("t0", "t1")) for name in ("C1", "C0")]
    found = assign(members, {"t1": range(3), "t0": range(3)})
    assert named(found) == {"C0": ["t0p0", "t0p2", "t1p1"], "C1": ["t0p1", "t1p0", "t1p2"]}


def test_members_are_passed_over_for_topics_without_their_subscription() -> None:
    topics = {"C0": ("t0",), "C1": ("t0", "t1"), "C2": ("t0", "t1", "t2")}
    members = [Subscriber(name, None, each) for name, each in topics.items()]
    found = assign(members, {"t0": range(1), "t1": range(2), "t2": range(3), "other": range(2)})
    assert named(found) == {
        "C0": ["t0p0"],
        "C1": ["t1p0"],
        "C2": ["t1p1", "t2p0", "t2p1", "t2p2"],
    }


def test_members_with_an_instance_id_come_first() -> None:
    members = [Subscriber("a", None, ("t",)), Subscriber("z", "i", ("t",))]
    assert named(assign(members, {"t": (1, 4, 9)})) == {"z": ["tp1", "tp9"], "a": ["tp4"]}
