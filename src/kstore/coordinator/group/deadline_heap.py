"""A heap of deadlines."""

from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")


class DeadlineHeap(Generic[T]):
    """Deadlines in seconds, on any clock. Not thread-safe."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._order = count()

    @property
    def next(self) -> float | None:
        """The earliest deadline; None if there is none."""
        return self._heap[0][0] if self._heap else None

    def add(self, when: float, timer: T) -> None:
        heappush(self._heap, (when, next(self._order), timer))

    def pop(self, now: float) -> tuple[float, T] | None:
        """Remove and return the earliest deadline if it has passed."""
        if not self._heap or self._heap[0][0] > now:
            return None
        when, _, timer = heappop(self._heap)
        return when, timer

    def __len__(self) -> int:
        return len(self._heap)
