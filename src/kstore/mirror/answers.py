"""What a source tells, in terms that need no client library."""

from typing import NamedTuple

EARLIEST, LATEST = -2, -1
OFFSET_OUT_OF_RANGE = 1
# Kafka's codes of what passes by itself, or with new metadata: no leader yet, a leader that
# moved, a broker that starts, a topic id that is not known yet.
PASSING = frozenset({-1, 3, 5, 6, 7, 8, 9, 13, 14, 15, 56, 70, 71, 72, 74, 75, 78, 100, 103, 106})


class TopicDescription(NamedTuple):
    """A topic as the cluster describes it. ``topic_id``: None before Kafka 2.8."""

    name: str
    topic_id: str | None
    partition_count: int


class Position(NamedTuple):
    """Where to go on with a partition. ``epoch``: the last batch's leader epoch; -1 unknown."""

    offset: int
    epoch: int = -1


class Fetched(NamedTuple):
    """What a leader answered for one partition; offsets are -1 where it did not say.

    ``diverged`` is where the local log parts from the leader's, by their leader epochs.
    """

    error: int
    high_watermark: int
    log_start_offset: int
    records: bytes
    diverged: int | None = None
