"""A contest: several ways to do the same work, and the goals for their ratios."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

from kstore.errors import KStoreError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Calls = dict[str, Callable[[], object]]  # contestants by name
Bar = tuple[str, str, float | None]  # ours, peer, how many times as fast ours should be


@dataclass(frozen=True)
class Timed:
    """The result of a contestant that times itself, without its set-up and checks.

    Attributes
    ----------
    seconds
        For one unit of work; the median if units were timed one by one.
    result
        Compared with the results of the other contestants.
    also
        More figures in seconds, shown and compared as ``"contestant p99"``. A name that ends in
        ``CPU`` is processor time for a unit of work, shown per gigabyte; a name that ends
        in ``, MiB`` is memory.
    samples
        Nanoseconds of the single units, if they were timed one by one. Percentiles are over all
        rounds.
    waits
        The same for other latencies, by name, shown as ``"contestant ack"``.
    """

    seconds: float
    result: object = None
    also: dict[str, float] = field(default_factory=dict)
    samples: "Sequence[int] | NDArray[np.int64]" = ()
    waits: "Mapping[str, Sequence[int] | NDArray[np.int64]]" = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Several ways to do one thing on the same data.

    Attributes
    ----------
    name
        The work, with its sizes.
    calls
        From a contestant's name to a function without arguments. All must return equal results,
        bare or in a :class:`Timed`.
    amount, unit
        What one call handles (bytes, records), for a rate; 0 shows no rate.
    bars
        ``(ours, peer, wanted)``: ours should be at least ``wanted`` times as fast as peer; with
        None, the ratio is only reported.
    expected
        The correct result, if known in advance; else that of the first contestant.
    unchecked
        Contestants whose result is of another kind (a ceiling that only reads, for example).
    rounds
        Number of calls of each contestant; fewer for calls that take seconds.
    ceiling
        The contestant of which the others are shown as a fraction; by default the fastest of the
        run that is not a target.
    targets
        Contestants that only return a goal, for comparison in ``bars``.
    easier
        Contestants with easier work than the others (the same input at each call, for example):
        never the fastest of the contest, and a ceiling does not bound them.
    size, axis
        Its position on the axis of the workload's plot, and the label of that axis.
    """

    name: str
    calls: dict[str, Callable[[], object]]
    amount: float = 0
    unit: str = "B"
    bars: tuple[tuple[str, str, float | None], ...] = ()
    expected: object = None
    unchecked: frozenset[str] = field(default_factory=frozenset)
    rounds: int = 15
    ceiling: str = ""
    targets: frozenset[str] = field(default_factory=frozenset)
    easier: frozenset[str] = field(default_factory=frozenset)
    size: int = 0
    axis: str = "bytes of a request"

    def check(self) -> dict[str, float]:
        """Call every contestant once; AssertionError if a result is wrong.

        Returns the seconds that each call took, including set-up and checks.
        """
        return {name: seconds for name, seconds, _ in self.first_calls()}

    def first_calls(
        self, failed: dict[str, str] | None = None
    ) -> "Iterator[tuple[str, float, object]]":
        """Call each contestant once: its name, the seconds that the call took, and its result.

        AssertionError if a result is wrong. With ``failed`` an error does not end the contest
        for the others: it is stored there by the contestant's name instead.
        """
        expected = self.expected
        for name, call in self.calls.items():
            started = perf_counter()
            try:
                result = call()
                seconds = perf_counter() - started
                got = result.result if isinstance(result, Timed) else result
                if name not in self.unchecked:
                    expected = got if expected is None else expected
                    if got != expected:
                        raise AssertionError(
                            f"{self.name}: {name} gave {_short(got)}, not {_short(expected)}"
                        )
            except Exception as error:
                if failed is None:
                    raise
                failed[name] = describe_error(error)
                continue
            yield name, seconds, result


def _short(result: object, most: int = 500) -> str:
    """A result as text for a message, shortened: some are complete segments."""
    text = repr(result)
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def describe_error(error: Exception) -> str:
    """An error as text, for the report."""
    return f"{type(error).__name__}: {error}"


LARGEST_SCALE = 1e9
_part = [1.0]


def scale() -> float:
    """``KSTORE_BENCH_SCALE``, by which the sizes of the data are multiplied; 1.0 unless set.

    KStoreError unless it is a number above 0 and up to ``LARGEST_SCALE``.
    """
    text = os.environ.get("KSTORE_BENCH_SCALE", "1")
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= LARGEST_SCALE:  # False for nan, too
        raise KStoreError(
            f"KSTORE_BENCH_SCALE is {text!r}: it multiplies sizes, so it must be a number above 0 "
            f"and up to {LARGEST_SCALE:g}"
        )
    return found


@contextmanager
def part_of(part: float) -> Iterator[None]:
    """Within, ``scaled`` returns this fraction of what it returns elsewhere. Not thread-safe."""
    _part.append(part)
    try:
        yield
    finally:
        _part.pop()


def scaled(size: int, least: int = 1) -> int:
    """A size multiplied by the scale, at least ``least``."""
    return max(least, int(size * scale() * _part[-1]))
