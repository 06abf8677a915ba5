"""Kafka's round-robin assignor for classic members: partitions of all topics are dealt in turn."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle

from kstore.coordinator.group.range_assignor import Subscriber, in_order
from kstore.topic_partition import TopicPartition

NAME = "roundrobin"


def assign(
    subscribers: Iterable[Subscriber], partitions: Mapping[str, Sequence[int]]
) -> dict[str, list[TopicPartition]]:
    """The partitions of each member, by Kafka's RoundRobinAssignor.

    ``partitions`` are the partition numbers of each topic, in order. Each partition goes to the
    next member that subscribes to its topic. Topics without a subscriber are omitted.
    """
    ordered = in_order(subscribers)
    found: dict[str, list[TopicPartition]] = {each.member_id: [] for each in ordered}
    subscribed = {topic for each in ordered for topic in each.topics}
    members = cycle(ordered)
    for topic in sorted(subscribed & partitions.keys()):
        for number in partitions[topic]:
            member = next(each for each in members if topic in each.topics)
            found[member.member_id].append(TopicPartition(topic, number))
    return found
