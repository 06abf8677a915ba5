"""One line for the empty partitions of an internal topic, which has fifty.

JSON and the offsets of ``get-offsets`` are read by programs, and list every partition.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kstore.partition_files import filenames

if TYPE_CHECKING:
    from kstore.log.log import Log


class EmptyPartitions:
    """Counts the partitions of internal topics that have no line of their own."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def omit(self, topic: str, *, is_empty: bool) -> bool:
        """Whether a partition is counted, and its line omitted."""
        if not is_empty or topic not in filenames.INTERNAL_TOPICS:
            return False
        self._counts[topic] += 1
        return True

    def lines(self, state: str) -> list[str]:
        """A line for each topic that has partitions without a line; each is in this state."""
        return [
            f"{topic}: {count} empty partition{'s' * (count != 1)}, {state}"
            for topic, count in sorted(self._counts.items())
        ]


def is_empty(log: "Log") -> bool:
    """Whether a partition never had a record."""
    return log.end_offset == 0


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)
