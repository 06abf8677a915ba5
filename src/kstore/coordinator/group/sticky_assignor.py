"""Kafka's sticky assignors for classic members: balanced, and members keep what they have."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kstore.coordinator.group.range_assignor import Subscriber
from kstore.topic_partition import TopicPartition

NAME, COOPERATIVE_NAME = "sticky", "cooperative-sticky"
Owned = Mapping[str, Sequence[TopicPartition]]
_Found = dict[str, list[TopicPartition]]


def assign(
    subscribers: Iterable[Subscriber],
    partitions: Mapping[str, Sequence[int]],
    owned: Owned,
) -> dict[str, list[TopicPartition]]:
    """The partitions of each member, by the rules of Kafka's StickyAssignor without racks.

    ``owned`` are the partitions that each member has had; a partition of two members is neither's.
    """
    members = {each.member_id: frozenset(each.topics) for each in sorted(subscribers)}
    found = _kept(members, partitions, owned)
    taken = {tp for kept in found.values() for tp in kept}
    topics = sorted(frozenset().union(*members.values()) & partitions.keys())
    every = [TopicPartition(topic, number) for topic in topics for number in partitions[topic]]
    if len(set(members.values())) == 1:
        _share(found, every)
    else:
        _deal(found, members, [tp for tp in every if tp not in taken])
    return {member: sorted(found[member]) for member in found}


def without_transfers(
    assigned: Mapping[str, Sequence[TopicPartition]], owned: Owned
) -> dict[str, list[TopicPartition]]:
    """As the cooperative assignor: no partition goes to another member before its owner has given
    it up, which begins another rebalance."""
    owner = {tp: member for member, kept in owned.items() for tp in kept}
    return {
        member: [tp for tp in found if owner.get(tp, member) == member]
        for member, found in assigned.items()
    }


def _kept(
    members: Mapping[str, frozenset[str]], partitions: Mapping[str, Sequence[int]], owned: Owned
) -> _Found:
    """What each member had, without what is gone or was another member's as well."""
    counts: dict[TopicPartition, int] = {}
    for member in members:
        for tp in owned.get(member, ()):
            counts[tp] = counts.get(tp, 0) + 1
    return {
        member: [
            tp
            for tp in owned.get(member, ())
            if counts[tp] == 1
            and tp.topic in topics
            and tp.partition in partitions.get(tp.topic, ())
        ]
        for member, topics in members.items()
    }


def _share(found: _Found, every: Sequence[TopicPartition]) -> None:
    """Share partitions among members with equal subscriptions: each gets as many or one more."""
    least, more = divmod(len(every), len(found))
    below: deque[str] = deque()
    exact: deque[str] = deque()
    for member, kept in found.items():
        if len(kept) > least and more:
            more -= 1
            del kept[least + 1 :]
        elif len(kept) < least:
            below.append(member)
        else:
            del kept[least:]
            exact.append(member)
    taken = {tp for kept in found.values() for tp in kept}
    for tp in every:
        if tp in taken:
            continue
        member = (below or exact).popleft()
        found[member].append(tp)
        if len(found[member]) < least:
            below.append(member)
        elif len(found[member]) == least:
            exact.append(member)


def _deal(
    found: _Found, members: Mapping[str, frozenset[str]], free: Iterable[TopicPartition]
) -> None:
    """Give each free partition to the subscriber with the fewest, then even out."""
    for tp in free:
        member = min(
            (each for each in found if tp.topic in members[each]), key=lambda each: len(found[each])
        )
        found[member].append(tp)
    while (move := next(_moves(found, members), None)) is not None:
        giver, taker, tp = move
        found[giver].remove(tp)
        found[taker].append(tp)


def _moves(
    found: _Found, members: Mapping[str, frozenset[str]]
) -> Iterator[tuple[str, str, TopicPartition]]:
    """Moves of a partition to a subscriber that has at least two fewer."""
    for giver in sorted(found, key=lambda each: -len(found[each])):
        for taker in sorted(found, key=lambda each: len(found[each])):
            if len(found[giver]) - len(found[taker]) < 2:
                break
            for tp in reversed(found[giver]):
                if tp.topic in members[taker]:
                    yield giver, taker, tp
