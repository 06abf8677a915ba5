"""A source's answers, in types that need no client library."""

from collections.abc import Sequence
from typing import NamedTuple

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


class Position(NamedTuple):
    """Where to continue with a partition. ``epoch``: the last batch's leader epoch; -1 unknown.

    ``committed``: up to the last stable offset only, with the aborted transactions listed
    (read_committed), and without waiting for more.
    """

    offset: int
    epoch: int = -1
    committed: bool = False


class Fetched(NamedTuple):
    """What a leader answered for one partition; offsets are -1 if it did not send them.

    ``diverged`` is where the local log diverges from the leader's, by their leader epochs.
    ``aborted`` lists producer ids and first offsets, for a ``committed`` position.
    """

    error: int
    high_watermark: int
    log_start_offset: int
    records: bytes
    diverged: int | None = None
    last_stable_offset: int = -1
    aborted: Sequence[tuple[int, int]] = ()
