"""What a comparison is: several ways of doing one thing, and the ratios that are wanted."""

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


@dataclass(frozen=True)
class Timed:
    """What a contestant returns that has a clock of its own: set-up and checks are outside it.

    Attributes
    ----------
    seconds
        Of one piece of the work (its median, where pieces were timed one by one).
    result
        Compared as any other contestant's.
    also
        More figures in seconds, shown and compared as ``"contestant p99"``. One whose name ends
        in ``CPU`` is processor time for a piece of the work, shown for each gigabyte; one that
        ends in ``, MiB`` is memory.
    samples
        Nanoseconds of the single pieces, where they were timed one by one: all rounds' together
        give the percentiles.
    waits
        The same of other things that were waited for, by name: shown as ``"contestant ack"``.
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
        What is done, with its sizes.
    calls
        Contestant's name to a function without arguments. All must return equal results, bare
        or in a :class:`Timed`.
    amount, unit
        What one call handles (bytes, records), for a rate; 0 shows none.
    bars
        ``(ours, peer, wanted)``: ours should be at least ``wanted`` times as fast as peer; None
        only reports the ratio.
    expected
        The right result, where it is known beforehand; else the first contestant's.
    unchecked
        Contestants whose result is of another kind (a limit that only reads, say).
    rounds
        How often each is called; less where a call takes seconds.
    ceiling
        The contestant that others are shown as a fraction of; without one it is the fastest of
        the run that is no target.
    targets
        Contestants that only return a wanted figure, so that it can be compared in ``bars``.
    size, axis
        Where it stands in a picture of all contests of a workload, and what that counts.
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
    size: int = 0
    axis: str = "bytes of a request"

    def check(self) -> dict[str, float]:
        """Call every contestant once and raise AssertionError if a result is wrong.

        Returns the seconds that each call took, set-up and checks included.
        """
        return {name: seconds for name, seconds, _ in self.first_calls()}

    def first_calls(
        self, failed: dict[str, str] | None = None
    ) -> "Iterator[tuple[str, float, object]]":
        """Call one contestant after the other, each once: its name, the seconds that the call took
        and what it returned.

        AssertionError if a result is wrong. With ``failed`` nobody's error ends the contest for
        the others: it is put there by the contestant's name instead.
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
                failed[name] = in_words(error)
                continue
            yield name, seconds, result


def _short(result: object, most: int = 500) -> str:
    """A result for a message: some are whole segments."""
    text = repr(result)
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def in_words(error: Exception) -> str:
    """What happened, for whoever reads why somebody has no figure."""
    return f"{type(error).__name__}: {error}"


LARGEST_SCALE = 1e9
_part = [1.0]


def scale() -> float:
    """``KSTORE_BENCH_SCALE``: 1.0 unless set; sizes of the data are multiplied by it.

    KStoreError where it is no number above 0 and up to ``LARGEST_SCALE``.
    """
    told = os.environ.get("KSTORE_BENCH_SCALE", "1")
    try:
        found = float(told)
    except ValueError:
        found = 0.0
    if not 0 < found <= LARGEST_SCALE:  # nan neither
        raise KStoreError(
            f"KSTORE_BENCH_SCALE is {told!r}: it multiplies sizes, so it must be a number above 0 "
            f"and up to {LARGEST_SCALE:g}"
        )
    return found


@contextmanager
def part_of(part: float) -> Iterator[None]:
    """Within, ``scaled`` gives so small a part of what it gives elsewhere; for one thread."""
    _part.append(part)
    try:
        yield
    finally:
        _part.pop()


def scaled(size: int, least: int = 1) -> int:
    """A size multiplied by the scale, at least ``least``."""
    return max(least, int(size * scale() * _part[-1]))
