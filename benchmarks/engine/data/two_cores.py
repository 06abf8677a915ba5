"""Bounds of contestants with two threads: the same reads by two threads."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kstore._native.bench import memory_loops

READ_BY_TWO = "read every byte, two cores"
T = TypeVar("T")
_other = ThreadPoolExecutor(1)  # a thread that has started


def halves(work: Callable[[Sequence[T]], int], items: Sequence[T]) -> int:
    """Work on every second item in another thread, on the others in this one; sum the results."""
    theirs = _other.submit(work, items[1::2])
    return work(items[::2]) + theirs.result()


def read_by_two(buffer: memoryview) -> None:
    """Read every byte of memory, half of it in another thread."""
    middle = len(buffer) // 2
    theirs = _other.submit(memory_loops.read_all, buffer[middle:])
    memory_loops.read_all(buffer[:middle])
    theirs.result()
