"""A member of a consumer group as tools show it: described by a broker, or read from a log."""

from typing import NamedTuple

from kstore.topic_partition import TopicPartition


class MemberDescription(NamedTuple):
    """A member and its assigned partitions; ``instance_id`` is empty for a dynamic one."""

    member_id: str
    instance_id: str
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    epoch: int | None = None  # of a group of KIP-848, like the next
    target: tuple[TopicPartition, ...] = ()
