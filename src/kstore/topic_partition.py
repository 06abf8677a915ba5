"""A partition by its topic and number, and a record by its partition and offset."""

from typing import NamedTuple

from kstore.integers import INT32_MAX, INT32_MIN, check_integer


class Position(NamedTuple):
    """Where a record is: its partition and its offset there."""

    partition: int
    offset: int


class TopicPartition(NamedTuple):
    """A partition by name."""

    topic: str
    partition: int


def as_place(place: object) -> TopicPartition:
    """A partition by name, from any pair (topic, number)."""
    if isinstance(place, tuple | list) and len(place) == 2:
        topic, partition = place
        if isinstance(topic, str):
            return TopicPartition(topic, as_partition(partition))
    raise TypeError(f"a partition is named by a pair (topic, number), not {place!r}")


def as_partition(partition: object) -> int:
    """A partition's number, NumPy's too; TypeError for anything else, True and 1.0 included.

    Both are equal to 1, and find the log of partition 1 where it is open. InvalidConfigError
    for what is no int32.
    """
    return check_integer("partition", partition, INT32_MIN, INT32_MAX)
