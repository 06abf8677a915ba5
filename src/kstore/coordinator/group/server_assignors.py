"""The assignors of consumer groups (KIP-848): ``uniform`` and ``range``.

Both are deterministic. ``uniform`` balances the number of partitions and moves as few as possible.
``range`` gives each member consecutive partitions of each topic, so that equal partition numbers of
topics with the same partition count go to the same member.
"""

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from kstore.errors import InvalidConfigError

if TYPE_CHECKING:
    from kstore.coordinator.group.consumer_events import Assignment

Subscriptions = Mapping[str, frozenset[bytes]]  # topic ids by member id
Counts = Mapping[bytes, int]  # partitions by topic id
Assignments = dict[str, "Assignment"]
Assignor = Callable[[Subscriptions, Counts, Mapping[str, "Assignment"]], Assignments]
Partition = tuple[bytes, int]


def assign_range(
    subscriptions: Subscriptions, counts: Counts, previous: "Mapping[str, Assignment]"
) -> Assignments:
    """Give each subscriber of a topic consecutive partitions; the first members get one more."""
    del previous
    result: dict[str, dict[bytes, frozenset[int]]] = {member: {} for member in subscriptions}
    for topic_id, members in _subscribers(subscriptions, counts).items():
        size, more = divmod(counts[topic_id], len(members))
        start = 0
        for index, member in enumerate(members):
            stop = start + size + (index < more)
            if stop > start:
                result[member][topic_id] = frozenset(range(start, stop))
            start = stop
    return dict(result)


def assign_uniform(
    subscriptions: Subscriptions, counts: Counts, previous: "Mapping[str, Assignment]"
) -> Assignments:
    """Balance the partitions, keeping as many as possible with their current members."""
    subscribers = _subscribers(subscriptions, counts)
    owner: dict[Partition, str] = {}
    for member in sorted(subscriptions):
        for topic_id, partitions in previous.get(member, {}).items():
            if topic_id in subscriptions[member]:
                for each in partitions:
                    if each < counts.get(topic_id, 0):
                        owner.setdefault((topic_id, each), member)
    if len(set(subscriptions.values())) <= 1:
        _balance_equal(sorted(subscriptions), subscribers, counts, owner)
    else:
        _balance(subscriptions, subscribers, counts, owner)
    result: dict[str, dict[bytes, set[int]]] = {member: {} for member in subscriptions}
    for (topic_id, partition), member in owner.items():
        result[member].setdefault(topic_id, set()).add(partition)
    return {
        member: {topic_id: frozenset(each) for topic_id, each in found.items()}
        for member, found in result.items()
    }


ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
DEFAULT_ASSIGNORS = tuple(ASSIGNORS)
_KAFKAS_CLASSES = {
    f"org.apache.kafka.coordinator.group.assignor.{name.title()}Assignor": name
    for name in ASSIGNORS
}


def assignors_of(setting: str) -> tuple[str, ...]:
    """The names in ``group.consumer.assignors``, in order; the first one is the default.

    Raises InvalidConfigError for one that does not exist here, and for none.
    """
    words = [each.strip() for each in setting.split(",") if each.strip()]
    names = tuple(dict.fromkeys(_KAFKAS_CLASSES.get(each, each) for each in words))
    unknown = [each for each in names if each not in ASSIGNORS]
    if unknown or not names:
        raise InvalidConfigError(
            f"group.consumer.assignors has some of {', '.join(ASSIGNORS)}, not {setting!r}"
        )
    return names


def _subscribers(subscriptions: Subscriptions, counts: Counts) -> dict[bytes, list[str]]:
    """The members of each topic that exists, sorted."""
    found: dict[bytes, list[str]] = {}
    for member in sorted(subscriptions):
        for topic_id in subscriptions[member]:
            if counts.get(topic_id):
                found.setdefault(topic_id, []).append(member)
    return dict(sorted(found.items()))


def _balance_equal(
    members: list[str],
    subscribers: Mapping[bytes, list[str]],
    counts: Counts,
    owner: dict[Partition, str],
) -> None:
    """Assign if all members subscribe to the same topics: each gets the quota, or one more."""
    if not members:
        return
    total = sum(counts[topic_id] for topic_id in subscribers)
    quota, more = divmod(total, len(members))
    held: dict[str, list[Partition]] = {member: [] for member in members}
    for partition, member in sorted(owner.items()):
        held[member].append(partition)
    # The members with the most partitions get the extra ones.
    for member in sorted(members, key=lambda each: (-len(held[each]), each)):
        most = quota + (more > 0 and len(held[member]) > quota)
        more -= most > quota
        for partition in held[member][most:]:
            del owner[partition]
        del held[member][most:]
    free = (
        (topic_id, partition)
        for topic_id in subscribers
        for partition in range(counts[topic_id])
        if (topic_id, partition) not in owner
    )
    room = [(len(held[member]), member) for member in members]
    heapify(room)
    for partition in free:
        count, member = heappop(room)
        owner[partition] = member
        heappush(room, (count + 1, member))


def _balance(
    subscriptions: Subscriptions,
    subscribers: Mapping[bytes, list[str]],
    counts: Counts,
    owner: dict[Partition, str],
) -> None:
    """Assign if subscriptions differ: the least loaded subscriber gets each free partition. Then
    partitions move to members with at least two fewer, until none has."""
    load = dict.fromkeys(subscriptions, 0)
    for member in owner.values():
        load[member] += 1
    partitions = [
        (topic_id, partition)
        for topic_id in sorted(subscribers, key=lambda each: (len(subscribers[each]), each))
        for partition in range(counts[topic_id])
    ]
    for partition in partitions:
        if partition not in owner:
            member = min(subscribers[partition[0]], key=lambda each: (load[each], each))
            owner[partition] = member
            load[member] += 1
    has_moved = True
    while has_moved:  # terminates: each move decreases the sum of the squared loads
        has_moved = False
        for partition in partitions:
            member = owner[partition]
            least = min(subscribers[partition[0]], key=lambda each: (load[each], each))
            if load[member] > load[least] + 1:
                owner[partition] = least
                load[member] -= 1
                load[least] += 1
                has_moved = True
