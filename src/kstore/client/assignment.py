"""The partitions that a consumer reads now, with its position in each."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kstore.errors import UnknownTopicOrPartitionError
from kstore.topic_partition import PartitionArgument, TopicPartition, as_topic_partition

if TYPE_CHECKING:
    from kstore.log.transaction_outcomes import TransactionOutcomes


class AssignedPartition:
    """One partition while a consumer reads it.

    A partition that is assigned again later, or whose topic was recreated, is another object: what
    was read from the first is not committed for the second. ``position`` is None until it is looked
    up.
    """

    __slots__ = ("end_offset", "is_paused", "outcomes", "position", "topic_id", "truncations")

    def __init__(self, topic_id: str | None, position: int | None = None) -> None:
        self.topic_id = topic_id
        self.position = position
        self.end_offset = 0  # of the log, at the last read
        self.is_paused = False
        self.outcomes: TransactionOutcomes | None = None  # with read_committed
        # The log's truncations, and how many it had, at the last read, which led to the position.
        self.truncations: tuple[Sequence[int], int] | None = None

    def seek(self, position: int | None) -> None:
        """Set a position to which no read of the log has led."""
        self.position, self.truncations = position, None


class Assignment:
    """The assigned partitions by name, in their order. The caller holds the consumer's lock."""

    def __init__(self) -> None:
        self.is_closed = False  # with its consumer
        self._partitions: dict[TopicPartition, AssignedPartition] = {}

    def __contains__(self, tp: object) -> bool:
        return tp in self._partitions

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)

    def __getitem__(self, tp: TopicPartition) -> AssignedPartition:
        return self._partitions[tp]

    def get(self, tp: TopicPartition) -> AssignedPartition | None:
        return self._partitions.get(tp)

    def replace(self, partitions: dict[TopicPartition, AssignedPartition]) -> None:
        """Read these partitions from now on, and no others."""
        self._partitions = partitions

    def put(self, tp: TopicPartition, partition: AssignedPartition) -> None:
        self._partitions[tp] = partition

    def remove(self, tp: TopicPartition) -> None:
        del self._partitions[tp]

    def restart(self, tp: TopicPartition, topic_id: str | None) -> None:
        """Forget what is known of a partition whose topic was recreated; it stays paused if it
        is."""
        restarted = AssignedPartition(topic_id)
        restarted.is_paused = self._partitions[tp].is_paused
        self._partitions[tp] = restarted

    def known(self, partitions: Iterable[PartitionArgument]) -> set[TopicPartition]:
        """These partitions, or all if there are none; UnknownTopicOrPartitionError for another.

        Each is a pair, or a list or set of pairs. An empty list is no partition, not all.
        """
        arguments = list(partitions)
        wanted: set[TopicPartition] = set() if arguments else set(self._partitions)
        for each in arguments:
            if isinstance(each, str):
                raise TypeError(
                    f"a partition is a pair, not {each!r}: without arguments it is for all "
                    "partitions; or ('orders', 0), or [tp for tp in consumer.assignment if "
                    "tp.topic == 'orders']"
                )
            wanted.update(as_topic_partition(pair) for pair in _pairs(each))
        for tp in wanted - self._partitions.keys():
            raise UnknownTopicOrPartitionError(
                f"partition {tp.topic}-{tp.partition} is not assigned to this consumer"
            )
        return wanted

    def active(self) -> list[tuple[TopicPartition, AssignedPartition]]:
        """The partitions that are not paused."""
        return [pair for pair in self._partitions.items() if not pair[1].is_paused]

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(tp for tp, each in self._partitions.items() if each.is_paused)

    def positions(self) -> dict[TopicPartition, int]:
        """The positions that are known."""
        return {
            tp: each.position for tp, each in self._partitions.items() if each.position is not None
        }

    def topic_ids(self) -> dict[str, str | None]:
        """The identities of the topics that are read, by name."""
        return {tp.topic: each.topic_id for tp, each in self._partitions.items()}


def _pairs(argument: PartitionArgument) -> Iterable[object]:
    """The pairs in a list or set of them; else the argument, which should be one."""
    if isinstance(argument, set | frozenset) or (
        isinstance(argument, list) and not (argument and isinstance(argument[0], str))
    ):
        return argument
    return (argument,)
