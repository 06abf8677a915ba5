"""Inputs that are as fresh as those of a service, not one hot list again and again.

Values and batches are made before the clock starts, more of them than a core's caches hold, and
used in turn. Beside them, contestants whose name ends in ``HOT`` get the same input at each call.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, cycle, islice
from typing import TypeVar

from engine.data.batches import VALUE_SIZE

POOL = 48 << 20  # bytes of inputs that differ, at most
HOT = ", one hot input"
T = TypeVar("T")
R = TypeVar("R")


@lru_cache(maxsize=2)
def value_lists(count: int, records: int = 1000) -> tuple[list[bytes], ...]:
    """At most ``count`` lists of so many values of 100 bytes; no value is in two of them."""
    size = records * VALUE_SIZE
    lists = max(1, min(count, POOL // size))
    draw = random.Random(records)
    found = []
    for _ in range(lists):
        block = draw.randbytes(size)
        found.append([block[at : at + VALUE_SIZE] for at in range(0, size, VALUE_SIZE)])
    return tuple(found)


def values_in_turn(count: int) -> list[bytes]:
    """``count`` values of 100 bytes, as different as :func:`value_lists`."""
    return in_turn(chain.from_iterable(value_lists(-(-count // 1000))), count)


def copies(batch: bytes, count: int) -> list[bytes]:
    """``count`` references to copies of a batch, each in memory of its own up to ``POOL`` bytes."""
    own = max(1, min(count, POOL // len(batch)))
    return in_turn([bytes(memoryview(batch)) for _ in range(own)], count)


def in_turn(items: Iterable[T], count: int) -> list[T]:
    """So many of the items, from the first on, again from the first after the last."""
    return list(islice(cycle(items), count))


def hot(calls: Iterable[str]) -> frozenset[str]:
    """The contestants that get the same input at each call."""
    return frozenset(name for name in calls if name.endswith(HOT))


def each_in_turn(work: Callable[[T], R], items: Sequence[T]) -> Callable[[], R]:
    """A contestant that works on the next item at each call."""
    turn = cycle(items)
    return lambda: work(next(turn))
