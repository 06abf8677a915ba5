"""Running a contest: results checked first, then interleaved rounds; medians and paired ratios.

On a machine with neighbours a figure alone says little: the clock changes between two runs. So
every round calls each contestant once, in turn, and a ratio is the median of the rounds' ratios.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from kstore.bench.contest import Contest, Timed
from kstore.bench.statistic import percentile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST_SECONDS = 0.002  # a contestant that is faster is called several times a round
LONG_SECONDS = 1.0  # a first call that took longer tells enough
LEAST_ROUNDS = 3  # however short the time
TAIL = 1000  # samples of a round that have a 99th percentile


@dataclass
class Outcome:
    """What came of a contest.

    Attributes
    ----------
    times
        Seconds of a piece of the work, one figure a round, by contestant; further figures under
        ``"contestant name"``.
    samples
        Nanoseconds of single pieces, all rounds', of contestants that timed them.
    """

    contest: Contest
    times: dict[str, list[float]]
    samples: "dict[str, list[Sequence[int] | NDArray[np.int64]]]" = field(default_factory=dict)

    @property
    def ceiling(self) -> str:
        """The contestant that the others are shown as a fraction of."""
        if self.contest.ceiling:
            return self.contest.ceiling
        measured = [name for name in self.contest.calls if name not in self.contest.targets]
        return min(measured, key=lambda name: median(self.times[name]))

    def ratio(self, ours: str, peer: str) -> float:
        """How many times as fast as ``peer``: the median of the rounds' ratios."""
        pairs = zip(self.times[ours], self.times[peer], strict=True)
        return median(b / a for a, b in pairs)


def _calls_for(call: Callable[[], object]) -> int:
    calls = 1
    while True:
        started = perf_counter()
        for _ in range(calls):
            if isinstance(call(), Timed):
                return 1
        if perf_counter() - started >= LEAST_SECONDS or calls >= 1 << 20:
            return calls
        calls *= 4


def run(
    contest: Contest,
    *,
    rounds: int | None = None,
    seconds: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Check every result, then time the rounds.

    ``rounds``: instead of the contest's own. ``seconds``: no further round begins after so long
    (the checks included) but the second and third, and those only within twice the time.
    ``progress`` is told rounds done and wanted.
    """
    wanted = contest.rounds if rounds is None else rounds
    began = perf_counter()
    first = contest.check()
    calls = {
        name: 1 if first[name] > LONG_SECONDS else _calls_for(call)
        for name, call in contest.calls.items()
    }
    outcome = Outcome(contest, {name: [] for name in contest.calls})
    for number in range(wanted):
        if progress is not None:
            progress(number, wanted)
        for name in _in_turn(list(contest.calls), number):
            _round(outcome, name, contest.calls[name], calls[name])
        if seconds is not None and _is_late(perf_counter() - began, seconds, number + 1):
            break
    return outcome


def _is_late(taken: float, seconds: float, rounds: int) -> bool:
    """Whether to stop: after the time and three rounds, or after twice the time whatever."""
    return taken > seconds and (rounds >= LEAST_ROUNDS or taken > 2 * seconds)


def _in_turn(names: list[str], number: int) -> list[str]:
    """Another one begins each round: whom one leaves dirty pages or a warm cache to changes."""
    first = number % len(names)
    return names[first:] + names[:first]


def _round(outcome: Outcome, name: str, call: Callable[[], object], calls: int) -> None:
    repeat = range(calls)
    result: object = None
    started = perf_counter()
    for _ in repeat:
        result = call()
    seconds = (perf_counter() - started) / calls
    if isinstance(result, Timed):
        seconds = result.seconds
        for what, more in result.also.items():
            outcome.times.setdefault(f"{name} {what}", []).append(more)
        if len(result.samples):
            outcome.samples.setdefault(name, []).append(result.samples)
            if len(result.samples) >= TAIL:
                tail = percentile(result.samples, 99) / 1e9
                outcome.times.setdefault(f"{name} p99", []).append(tail)
    outcome.times[name].append(seconds)


def report(outcome: Outcome) -> Iterable[str]:
    """Lines of text: the median and spread of each, then each wanted ratio."""
    contest = outcome.contest
    yield f"== {contest.name}"
    for name, seconds in outcome.times.items():
        middle = median(seconds)
        with_rate = contest.amount and name in contest.calls
        rate = f"{contest.amount / middle:12.4g} {contest.unit}/s" if with_rate else ""
        yield (
            f"   {name:<34} {middle * 1e6:12.3f} us {rate}"
            f"   ({min(seconds) * 1e6:.3f} .. {max(seconds) * 1e6:.3f})"
        )
    for ours, peer, wanted in contest.bars:
        got = outcome.ratio(ours, peer)
        verdict = (
            "" if wanted is None else f"  bar {wanted:g}x {'ok' if got >= wanted else 'SHORT'}"
        )
        yield f"   {ours} against {peer}: {got:.3g}x{verdict}"
