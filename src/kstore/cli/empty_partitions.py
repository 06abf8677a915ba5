"""Summarizes the empty partitions of an internal topic, which has fifty, in one line.

JSON output and ``get-offsets``, which programs read, list every partition.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kstore.partition_files import count_of, filenames

if TYPE_CHECKING:
    from kstore.log.log import Log


class EmptyPartitions:
    """Counts the partitions of internal topics that have no line of their own."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def omit(self, topic: str, *, is_empty: bool) -> bool:
        """Whether to omit a partition's line, which then is counted."""
        if not is_empty or topic not in filenames.INTERNAL_TOPICS:
            return False
        self._counts[topic] += 1
        return True

    def lines(self, state: str) -> list[str]:
        """A line for each topic with omitted partitions; ``state`` describes them."""
        return [
            f"{topic}: {count_of(count, 'empty partition')}, {state}"
            for topic, count in sorted(self._counts.items())
        ]


def is_empty(log: "Log") -> bool:
    """Whether a partition never had a record."""
    return log.end_offset == 0


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)
