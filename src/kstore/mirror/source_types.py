"""What a source of the mirror answers."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from kstore.remote.fetches import Fetched as Fetched
from kstore.remote.fetches import Position as Position

EARLIEST, LATEST = -2, -1
OFFSET_OUT_OF_RANGE = 1
# Kafka's codes of temporary errors, and of those that new metadata resolves: no leader yet, a
# leader that moved, a broker that starts, a topic id that is not known yet.
PASSING = frozenset({-1, 3, 5, 6, 7, 8, 9, 13, 14, 15, 56, 70, 71, 72, 74, 75, 78, 100, 103, 106})


class TopicDescription(NamedTuple):
    """A topic as the cluster describes it. ``topic_id``: None before Kafka 2.8."""

    name: str
    topic_id: str | None
    partition_count: int


class Source(Protocol):
    """A cluster, as far as the copy needs it: :class:`kstore.mirror.source.KafkaSource`."""

    @property
    def topic(self) -> str: ...
    def describe(self) -> TopicDescription: ...
    def offsets(self, partitions: Sequence[int], when: int) -> dict[int, int]: ...
    def fetch(
        self,
        positions: Mapping[int, Position],
        *,
        max_wait_ms: int,
        max_bytes: int,
        partition_max_bytes: int,
    ) -> dict[int, Fetched]: ...
    def sentence(self, code: int) -> str: ...

    def leader_of(self, partition: int) -> str:
        """The broker that leads a partition, and its address, for a sentence."""
        ...

    def problem(self, partition: int) -> str:
        """Why the last fetch has no answer for a partition; empty if that is unknown."""
        ...
