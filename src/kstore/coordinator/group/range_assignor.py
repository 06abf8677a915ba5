"""Kafka's range assignor for classic members: each gets consecutive partitions of each topic."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kstore.topic_partition import TopicPartition

NAME = "range"


class Subscriber(NamedTuple):
    """A member, and the topics that it subscribes to."""

    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]


def in_order(subscribers: Iterable[Subscriber]) -> list[Subscriber]:
    """As Kafka's assignors sort members: first those with an instance id, by that id, then the
    others by their member id."""
    return sorted(
        subscribers,
        key=lambda each: (each.instance_id is None, each.instance_id or each.member_id),
    )


def assign(
    subscribers: Iterable[Subscriber], partitions: Mapping[str, Sequence[int]]
) -> dict[str, list[TopicPartition]]:
    """The partitions of each member, by Kafka's RangeAssignor without racks.

    ``partitions`` are the partition numbers of each topic, in order. Of a topic with n partitions
    and c subscribers each gets n div c consecutive ones, and the first n mod c get one more.
    """
    ordered = in_order(subscribers)
    found: dict[str, list[TopicPartition]] = {each.member_id: [] for each in ordered}
    for topic, numbers in sorted(partitions.items()):
        members = [each.member_id for each in ordered if topic in each.topics]
        if not members:
            continue
        share, more = divmod(len(numbers), len(members))
        first = 0
        for position, member in enumerate(members):
            size = share + (position < more)
            found[member] += [TopicPartition(topic, n) for n in numbers[first : first + size]]
            first += size
    return found
