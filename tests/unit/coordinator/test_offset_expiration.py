"""``offsets.retention.minutes`` by the state of a group, as pure functions of time."""

import pytest

from kstore.coordinator.group.classic_group import ClassicGroup, GroupState
from kstore.coordinator.group.consumer_group import ConsumerGroup
from kstore.coordinator.group.consumer_member import ConsumerMember
from kstore.coordinator.group.offset_expiration import (
    Retention,
    RetentionFacts,
    consumer_retention_facts,
    retention_facts,
)
from kstore.coordinator.group.offset_records import OffsetCommit

WEEK = 7 * 86_400_000
KEY = ("t", 0)


@pytest.mark.parametrize(
    ("state", "protocol_type", "topics", "expected"),
    [
        (GroupState.EMPTY, None, None, RetentionFacts(True)),
        (GroupState.EMPTY, "consumer", frozenset(), RetentionFacts(True, 1_000_000 - 60_000)),
        (GroupState.STABLE, "consumer", frozenset("t"), RetentionFacts(True, None, {"t"})),
        (GroupState.STABLE, "consumer", None, RetentionFacts(False)),
        (GroupState.STABLE, "connect", None, RetentionFacts(False)),
        (GroupState.PREPARING_REBALANCE, "consumer", frozenset("t"), RetentionFacts(False)),
        (GroupState.COMPLETING_REBALANCE, "consumer", frozenset("t"), RetentionFacts(False)),
    ],
)
def test_facts_follow_the_state(
    state: GroupState,
    protocol_type: str | None,
    topics: frozenset[str] | None,
    expected: RetentionFacts,
) -> None:
    group = ClassicGroup("g", 40.0)
    group.state, group.protocol_type, group.topics = state, protocol_type, topics
    assert retention_facts(group, 100.0, 1_000_000) == expected


@pytest.mark.parametrize(
    ("subscribed", "empty_since", "expected"),
    [
        ([], 40.0, RetentionFacts(True, 1_000_000 - 60_000, frozenset())),
        ([], None, RetentionFacts(True, None, frozenset())),  # loaded from records
        ([{"t"}], None, RetentionFacts(True, None, {"t"})),
        ([{"t"}, {"t", "u"}], None, RetentionFacts(True, None, {"t", "u"})),
    ],
)
def test_facts_of_a_consumer_group_follow_its_members(
    subscribed: list[set[str]], empty_since: float | None, expected: RetentionFacts
) -> None:
    group = ConsumerGroup("g", 40.0)
    group.empty_since = empty_since
    for number, topics in enumerate(subscribed):
        member = ConsumerMember(str(number))
        member.topics = tuple(sorted(topics))
        group.members[member.member_id] = member
    assert consumer_retention_facts(group, 100.0, 1_000_000) == expected


@pytest.mark.parametrize(
    ("committed", "own", "facts", "served_since", "expires_at"),
    [
        (5, -1, RetentionFacts(True), 0, 5 + WEEK),
        (5, -1, RetentionFacts(True, 1000), 0, 1000 + WEEK),  # since the group is empty
        (2000, -1, RetentionFacts(True, 1000), 0, 2000 + WEEK),  # committed for an empty group
        (5, -1, RetentionFacts(True), 3000, 3000 + WEEK),  # of another process
        (5, 70, RetentionFacts(True), 0, 70),  # of an old version, with a time of its own
        (5, 70, RetentionFacts(True), 3000, 3000 + WEEK),
        (5, 2 * WEEK, RetentionFacts(True), 3000, 2 * WEEK),
        (5, -1, RetentionFacts(True, None, {"t"}), 0, None),  # a member subscribes
        (5, -1, RetentionFacts(True, None, {"u"}), 0, 5 + WEEK),
        (5, -1, RetentionFacts(False), 0, None),
    ],
)
def test_offsets_expire_by_kafkas_rules(
    committed: int, own: int, facts: RetentionFacts, served_since: int, expires_at: int | None
) -> None:
    commits = {KEY: OffsetCommit(1, committed, expire_timestamp=own)}
    retention = Retention(WEEK, served_since)
    if expires_at is None:
        assert retention.expired(commits, facts, 100 * WEEK) == set()
    else:
        assert retention.expired(commits, facts, expires_at - 1) == set()
        assert retention.expired(commits, facts, expires_at) == {KEY}
