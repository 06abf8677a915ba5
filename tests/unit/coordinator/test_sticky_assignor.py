"""Kafka's sticky assignors: examples, and what holds for any group."""

from random import Random

import pytest

from kstore.coordinator.group.range_assignor import Subscriber
from kstore.coordinator.group.sticky_assignor import assign, without_transfers
from kstore.topic_partition import TopicPartition

Found = dict[str, list[TopicPartition]]


def tps(*numbers: int, topic: str = "t") -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def members(**topics: str) -> list[Subscriber]:
    return [Subscriber(name, None, tuple(text.split())) for name, text in topics.items()]


def test_partitions_are_dealt_in_turn_at_first() -> None:
    found = assign(members(b="t", a="t"), {"t": range(5)}, {})
    assert found == {"a": tps(0, 2, 4), "b": tps(1, 3)}


def test_a_new_member_gets_the_last_ones() -> None:
    had = {"a": tps(0, 1, 2, 3)}
    two = assign(members(a="t", b="t"), {"t": range(4)}, had)
    assert two == {"a": tps(0, 1), "b": tps(2, 3)}
    assert without_transfers(two, had) == {"a": tps(0, 1), "b": []}
    assert assign(members(a="t", b="t", c="t"), {"t": range(4)}, had) == {
        "a": tps(0, 1), "b": tps(2), "c": tps(3),
    }  # fmt: skip


def test_what_a_member_leaves_goes_to_the_others() -> None:
    had = {"a": tps(0, 4), "b": tps(1, 2)}
    found = assign(members(a="t", b="t"), {"t": range(6)}, had)
    assert found == {"a": tps(0, 3, 4), "b": tps(1, 2, 5)}


def test_partitions_of_two_members_are_neithers_and_gone_ones_are_dropped() -> None:
    had = {"a": tps(0, 1, 9), "b": tps(1, 2)}
    assert assign(members(a="t", b="t"), {"t": range(3)}, had) == {"a": tps(0, 1), "b": tps(2)}


def test_members_of_different_topics() -> None:
    had = {"a": [*tps(0, 1, 2), *tps(0, topic="u")]}
    found = assign(members(a="t u", b="t", c="v"), {"t": range(3), "u": range(1)}, had)
    assert found == {"a": [*tps(0), *tps(0, topic="u")], "b": tps(1, 2), "c": []}


def test_no_members_and_no_topics() -> None:
    assert assign(members(a="t"), {}, {}) == {"a": []}
    assert assign(members(a=""), {"t": range(2)}, {}) == {"a": []}


@pytest.mark.parametrize("seed", range(200))
def test_assignments_are_complete_balanced_and_sticky(seed: int) -> None:
    random = Random(seed)
    partitions = {topic: range(random.randrange(7)) for topic in "tuv"}
    names = "abcdef"[: random.randrange(1, 7)]
    same = " ".join(random.sample("tuv", 2))
    is_equal = random.random() < 0.5

    def some() -> str:
        return same if is_equal else " ".join(random.sample("tuv", random.randrange(1, 4)))

    group = members(**{name: some() for name in names})
    had: Found = {}
    for _ in range(4):
        found = assign(group, partitions, had)
        wanted = {each.member_id: set(each.topics) for each in group}
        subscribed = set().union(*wanted.values())
        every = [TopicPartition(t, n) for t in sorted(subscribed) for n in partitions[t]]
        assert sorted(tp for got in found.values() for tp in got) == every
        for member, got in found.items():
            assert {tp.topic for tp in got} <= wanted[member]
            for other, theirs in found.items():
                if len(theirs) + 1 < len(got):
                    assert not {tp.topic for tp in got} & wanted[other], "could be even"
        assert assign(group, partitions, found) == found, "nothing moves without a reason"
        if is_equal:
            share = len(every) // len(group)
            for member, got in found.items():
                kept = sorted(set(had.get(member, ())) & set(every))
                assert len(set(got) & set(kept)) >= min(len(kept), share)
        moved = without_transfers(found, had)
        owner = {tp: member for member, kept in had.items() for tp in kept}
        assert all(owner.get(tp, m) == m for m, got in moved.items() for tp in got)
        had = found
        if random.random() < 0.5 and len(group) > 1:
            had.pop(group.pop(random.randrange(len(group))).member_id)
        else:
            group.append(Subscriber(f"new{random.random()}", None, tuple(some().split())))
