"""The result of applying retention: how many segments it deleted, and which records went."""

from collections.abc import Iterable, Mapping
from typing import Self

from kstore.integers import count_of
from kstore.topic_partition import TopicPartition


class RetentionReport(int):
    """How many segments retention deleted. An int, whose ``repr`` and ``summary`` name them.

    ``size`` is the bytes of their log files, ``start_offsets`` the new log starts of the
    partitions that lost records.
    """

    size: int
    start_offsets: Mapping[TopicPartition, int]

    def __new__(
        cls,
        segments: int = 0,
        size: int = 0,
        start_offsets: Mapping[TopicPartition, int] | None = None,
    ) -> Self:
        report = super().__new__(cls, segments)
        report.size, report.start_offsets = size, dict(start_offsets or {})
        return report

    @classmethod
    def merge(cls, reports: Iterable[int]) -> Self:
        """The sum of several reports on different partitions."""
        several = [each for each in reports if isinstance(each, cls)]
        starts = {tp: start for each in several for tp, start in each.start_offsets.items()}
        return cls(sum(several), sum(each.size for each in several), starts)

    @property
    def summary(self) -> str:
        """A sentence: how many segments and bytes, and the new log starts."""
        if not self:
            return "nothing was deleted"
        starts = (
            f"{topic}-{partition} starts at {offset}"
            for (topic, partition), offset in self.start_offsets.items()
        )
        what = f"{count_of(int(self), 'segment')}, {self.size:,} bytes"
        return f"deleted {what}: {', '.join(starts)}"

    def __str__(self) -> str:
        return int.__repr__(self)

    def __repr__(self) -> str:
        return f"<kstore.RetentionReport: {self.summary}>"
