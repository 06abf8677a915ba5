"""Kafka's range assignor: consecutive partitions of each topic for each member."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kstore.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment
from kstore.protocol.records.consumer_protocol_subscription import ConsumerProtocolSubscription
from kstore.protocol.wire import Reader, Writer
from kstore.topic_partition import TopicPartition

NAME = "range"
_VERSION = 1  # of subscriptions and assignments; every client since 0.9 reads it


class Subscriber(NamedTuple):
    """A member, and the topics that it subscribes to."""

    member_id: str
    instance_id: str | None
    topics: tuple[str, ...]


def assign(
    subscribers: Iterable[Subscriber], partition_counts: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """The partitions of each member, by Kafka's RangeAssignor without racks.

    Of a topic with n partitions and c subscribers each gets n div c consecutive ones, and the
    first n mod c get one more. Members with an instance id come first, by that id; the others
    follow by their member id.
    """
    ordered = sorted(
        subscribers,
        key=lambda each: (each.instance_id is None, each.instance_id or each.member_id),
    )
    found: dict[str, list[TopicPartition]] = {each.member_id: [] for each in ordered}
    for topic, count in sorted(partition_counts.items()):
        members = [each.member_id for each in ordered if topic in each.topics]
        if not members:
            continue
        share, more = divmod(count, len(members))
        first = 0
        for position, member in enumerate(members):
            size = share + (position < more)
            found[member] += [TopicPartition(topic, first + n) for n in range(size)]
            first += size
    return found


def encode_subscription(topics: Iterable[str]) -> bytes:
    """Encode a member's subscription for JoinGroup."""
    writer = Writer()
    writer.int16(_VERSION)
    ConsumerProtocolSubscription(topics=sorted(topics)).encode(writer, _VERSION)
    return writer.to_bytes()


def decode_subscription(data: bytes) -> tuple[str, ...]:
    """The topics of a subscription. Raises InvalidMessageError."""
    reader = Reader(data)
    reader.int16()
    return tuple(ConsumerProtocolSubscription.decode(reader, 0).topics)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Encode a member's assignment for SyncGroup."""
    topics: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        topics.setdefault(tp.topic, []).append(tp.partition)
    Assigned = ConsumerProtocolAssignment.AssignedPartitions  # noqa: N806 (a class)
    writer = Writer()
    writer.int16(_VERSION)
    ConsumerProtocolAssignment(
        assigned_partitions=[Assigned(name, numbers) for name, numbers in topics.items()]
    ).encode(writer, _VERSION)
    return writer.to_bytes()
