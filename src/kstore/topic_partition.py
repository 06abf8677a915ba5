"""Names of partitions (topic and number) and records (partition and offset)."""

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Never, TypeVar, overload

from kstore.hints.kafka_names import (
    OF_NAMES_OF_GROUPS,
    OF_NAMES_OF_TOPICS,
    OF_PARTITION_NUMBERS,
    OF_POSITIONS,
    OF_TOPIC_PARTITIONS,
)
from kstore.hints.missing_names import answer_names
from kstore.integers import INT32_MAX, INT32_MIN, check_integer

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
D = TypeVar("D")


class Position(NamedTuple):
    """A record's partition and offset.

    In a coroutine ``await topic.append(...)`` gives it too: the append was complete before.
    """

    partition: int
    offset: int

    def __await__(self) -> Generator[Any, None, "Position"]:
        return self
        yield


class TopicPartition(NamedTuple):
    """A partition's topic and number."""

    topic: str
    partition: int


class PartitionNumber(int):
    """A partition's number. An int like any other, except that it explains a log's names."""


class TopicName(str):
    """A topic's name. A str like any other, except that it explains a topic's names."""

    __slots__ = ()


class GroupName(str):
    """A consumer group's name. A str like any other, except that it explains a group's names."""

    __slots__ = ()


PartitionLike = TopicPartition | tuple[str, int]
PartitionArgument = PartitionLike | Iterable[PartitionLike]


class Partitions(frozenset[TopicPartition]):
    """A set of partitions. A set like any other, except that it explains a call."""

    def __call__(self) -> Never:
        raise TypeError("this is an attribute, a set of partitions: write it without ()")


class ByPartition(dict[TopicPartition, T]):
    """Values by partition: ``found["orders", 0]``. A dict whose call is a TypeError with advice."""

    if TYPE_CHECKING:  # at run time a dict finds pairs anyway

        def __getitem__(self, partition: PartitionLike, /) -> T: ...
        @overload  # type: ignore[override]
        def get(self, partition: PartitionLike, /) -> T | None: ...
        @overload
        def get(self, partition: PartitionLike, default: D, /) -> T | D: ...
        def get(self, partition: PartitionLike, default: object = None, /) -> object: ...

    def __call__(self) -> Never:
        raise TypeError("this is an attribute, a dict by (topic, partition): write it without ()")


class PartitionMapping(Mapping[TopicPartition, T_co]):
    """An immutable mapping of values by partition: ``found["orders", 0]``."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[TopicPartition, T_co]) -> None:
        self._values = values

    def __getitem__(self, partition: PartitionLike, /) -> T_co:
        return self._values[partition]  # type: ignore[index]  # a pair equals a TopicPartition

    if TYPE_CHECKING:

        @overload
        def get(self, partition: PartitionLike, /) -> T_co | None: ...
        @overload
        def get(self, partition: PartitionLike, default: D, /) -> T_co | D: ...
        def get(self, partition: PartitionLike, default: object = None, /) -> object: ...

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)


answer_names(PartitionNumber, OF_PARTITION_NUMBERS)
answer_names(Position, OF_POSITIONS)
answer_names(GroupName, OF_NAMES_OF_GROUPS)
answer_names(TopicName, OF_NAMES_OF_TOPICS)
answer_names(TopicPartition, OF_TOPIC_PARTITIONS)


def as_topic_partition(pair: object) -> TopicPartition:
    """Check and convert any pair (topic, number)."""
    if isinstance(pair, tuple | list) and len(pair) == 2:
        topic, partition = pair
        if isinstance(topic, str):
            return TopicPartition(topic, as_partition(partition))
    raise TypeError(f"a partition is named by a pair (topic, number), not {pair!r}")


def as_partition(partition: object) -> int:
    """A partition's number, also of NumPy's types; TypeError for anything else.

    Refuses True and 1.0, too, which equal 1 and would find partition 1 only if its log is open.
    InvalidConfigError for a number that is not an int32.
    """
    return check_integer("partition", partition, INT32_MIN, INT32_MAX)
