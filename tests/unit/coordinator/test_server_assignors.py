"""The assignors of consumer groups: balanced, complete, and with few moves."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore.coordinator.group.consumer_events import Assignment
from kstore.coordinator.group.consumer_member import partitions_of
from kstore.coordinator.group.server_assignors import ASSIGNORS, assign_range, assign_uniform

TOPICS = [bytes([each]) * 16 for each in range(4)]
SUBSCRIPTIONS = st.dictionaries(
    st.sampled_from("abcdefg"), st.frozensets(st.sampled_from(TOPICS)), min_size=1
)
COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 12))


def owners(found: Mapping[str, Assignment]) -> dict[tuple[bytes, int], str]:
    result: dict[tuple[bytes, int], str] = {}
    for member, assignment in found.items():
        for partition in partitions_of(assignment):
            assert partition not in result, "two owners"
            result[partition] = member
    return result


@pytest.mark.parametrize("name", ASSIGNORS)
@given(subscriptions=SUBSCRIPTIONS, counts=COUNTS, before=SUBSCRIPTIONS)
def test_every_partition_has_one_subscriber(
    name: str,
    subscriptions: dict[str, frozenset[bytes]],
    counts: dict[bytes, int],
    before: dict[str, frozenset[bytes]],
) -> None:
    previous = ASSIGNORS[name](before, counts, {})
    found = ASSIGNORS[name](subscriptions, counts, previous)
    assert found.keys() == subscriptions.keys()
    owned = owners(found)
    for (topic_id, _), member in owned.items():
        assert topic_id in subscriptions[member]
    used = frozenset[bytes]().union(*subscriptions.values())
    assert owned.keys() == {(each, n) for each in used for n in range(counts.get(each, 0))}


@given(subscriptions=SUBSCRIPTIONS, counts=COUNTS, before=SUBSCRIPTIONS)
def test_uniform_is_balanced(
    subscriptions: dict[str, frozenset[bytes]],
    counts: dict[bytes, int],
    before: dict[str, frozenset[bytes]],
) -> None:
    found = assign_uniform(subscriptions, counts, assign_uniform(before, counts, {}))
    load = {member: len(list(partitions_of(each))) for member, each in found.items()}
    for (topic_id, _), member in owners(found).items():
        least = min(load[each] for each in subscriptions if topic_id in subscriptions[each])
        assert load[member] <= least + 1


@given(subscriptions=SUBSCRIPTIONS, counts=COUNTS)
def test_uniform_moves_nothing_without_need(
    subscriptions: dict[str, frozenset[bytes]], counts: dict[bytes, int]
) -> None:
    found = assign_uniform(subscriptions, counts, {})
    assert assign_uniform(subscriptions, counts, found) == found


def test_uniform_moves_as_few_as_a_new_member_needs() -> None:
    wanted = frozenset(TOPICS[:1])
    before = assign_uniform(dict.fromkeys("abc", wanted), {TOPICS[0]: 12}, {})
    after = assign_uniform(dict.fromkeys("abcd", wanted), {TOPICS[0]: 12}, before)
    moved = [each for each, member in owners(after).items() if owners(before)[each] != member]
    assert len(moved) == 3


def test_range_gives_the_same_members_the_same_numbers() -> None:
    wanted = frozenset(TOPICS[:2])
    found = assign_range(dict.fromkeys("ab", wanted), dict.fromkeys(TOPICS[:2], 5), {})
    assert found == {
        "a": dict.fromkeys(TOPICS[:2], frozenset({0, 1, 2})),
        "b": dict.fromkeys(TOPICS[:2], frozenset({3, 4})),
    }
