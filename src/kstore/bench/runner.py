"""Running a contest: results checked first, then interleaved rounds; medians and paired ratios.

On a machine with neighbours a figure alone says little: the clock changes between two runs. So
every round calls each contestant once, in turn, and a ratio is the median of the rounds' ratios.

Where there is a limit of time, it holds however slow the machine is: fewer rounds are made, and in
the end the first calls, which check the results, are the only round.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from kstore.bench.contest import Contest, Timed, in_words
from kstore.bench.statistic import has_tail, paired, percentile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST_SECONDS = 0.002  # a contestant that is faster is called several times a round
LONG_SECONDS = 1.0  # a first call that took longer tells enough
LEAST_ROUNDS = 3  # where there is time for them at all
TAILS = (99.0, 99.9)  # percentiles of each round that has samples enough
NO_TIME = "left out: the time was up"


@dataclass
class Outcome:
    """What came of a contest.

    Attributes
    ----------
    times
        Seconds of a piece of the work, one figure a round, by contestant; further figures under
        ``"contestant name"``. Who failed is not there.
    samples
        Nanoseconds of single pieces, all rounds', of contestants that timed them.
    failed, left_out
        Who failed, and who was not begun as the time was up; each with the reason.
    wanted, seconds
        How many rounds were meant, and how long all of it took.
    """

    contest: Contest
    times: dict[str, list[float]]
    samples: "dict[str, list[Sequence[int] | NDArray[np.int64]]]" = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    wanted: int = 0
    seconds: float = 0.0

    @property
    def ceiling(self) -> str:
        """The contestant that the others are shown as a fraction of."""
        if self.contest.ceiling in self.times:
            return self.contest.ceiling
        measured = [name for name in self.contest.calls if name in self.times]
        real = [name for name in measured if name not in self.contest.targets]
        return min(real or measured, key=lambda name: median(self.times[name]))

    def ratio(self, ours: str, peer: str) -> float:
        """How many times as fast as ``peer``: the median of the rounds' ratios."""
        return paired(self.times[peer], self.times[ours]).median

    def note(self, name: str, seconds: float, result: object) -> None:
        """What a contestant's call in a round gave."""
        own = self.times.setdefault(name, [])
        if isinstance(result, Timed):
            seconds = result.seconds
            for what, more in result.also.items():
                self.times.setdefault(f"{name} {what}", []).append(more)
            if len(result.samples):
                self._sample(name, result.samples)
            for what, waited in result.waits.items():
                if len(waited):
                    half = percentile(waited, 50) / 1e9
                    self.times.setdefault(f"{name} {what}", []).append(half)
                    self._sample(f"{name} {what}", waited)
        own.append(seconds)

    def _sample(self, figure: str, samples: "Sequence[int] | NDArray[np.int64]") -> None:
        self.samples.setdefault(figure, []).append(samples)
        for share in TAILS:
            if has_tail(len(samples), share):
                tail = percentile(samples, share) / 1e9
                self.times.setdefault(f"{figure} p{share:g}", []).append(tail)

    def drop(self, name: str) -> None:
        """A contestant that failed has no figures: its rounds would not be the others'."""
        for each in [each for each in self.times if self.owner(each) == name]:
            del self.times[each]
            self.samples.pop(each, None)

    def owner(self, figure: str) -> str:
        """The contestant whose figure it is: ``kstore`` of ``kstore p99``."""
        names = sorted(self.contest.calls, key=len, reverse=True)
        return next(name for name in names if figure == name or figure.startswith(f"{name} "))


def _calls_for(call: Callable[[], object]) -> int:
    calls = 1
    while True:
        started = perf_counter()
        for _ in range(calls):
            call()
        if perf_counter() - started >= LEAST_SECONDS or calls >= 1 << 20:
            return calls
        calls *= 4


def run(
    contest: Contest,
    *,
    rounds: int | None = None,
    seconds: float | None = None,
    most: float | None = None,
    progress: Callable[[int, int], None] | None = None,
    careful: bool = False,
) -> Outcome:
    """Check every result, then time the rounds.

    ``rounds``: instead of the contest's own. ``seconds``: how long it should take, the checks
    included: no round begins that would end later, but the second and third. ``most``: how long
    it may take: no round at all begins that would end later. Where not even one fits, the first
    calls are the round, and contestants whose first call would begin later are left out.
    ``progress`` is told rounds done and wanted. ``careful``: an error is its contestant's only;
    RuntimeError where nobody is left.
    """
    began = perf_counter()
    outcome = Outcome(contest, {}, wanted=contest.rounds if rounds is None else rounds)
    first = _first_calls(outcome, most, careful)
    a_round = sum(taken for taken, _ in first.values())
    if most is not None and perf_counter() - began + a_round > most:
        for name, (taken, result) in first.items():
            outcome.note(name, taken, result)
    else:
        calls = _how_often(outcome, first, careful)
        for number in range(outcome.wanted):
            if progress is not None:
                progress(number, outcome.wanted)
            started = perf_counter()
            for name in _in_turn(list(calls), number):
                _round(outcome, name, calls, careful)
            now = perf_counter()
            limits = (most, seconds if number + 1 >= LEAST_ROUNDS else None)
            next_end = now - began + (now - started)
            if any(limit is not None and next_end > limit for limit in limits):
                break
    if not outcome.times:
        raise RuntimeError("; ".join(f"{name}: {why}" for name, why in outcome.failed.items()))
    outcome.seconds = perf_counter() - began
    return outcome


def _first_calls(
    outcome: Outcome, most: float | None, careful: bool
) -> dict[str, tuple[float, object]]:
    """Of each contestant the seconds of its first call and what that gave."""
    began = perf_counter()
    first: dict[str, tuple[float, object]] = {}
    for name, taken, result in outcome.contest.first_calls(outcome.failed if careful else None):
        first[name] = (taken, result)
        if most is not None and perf_counter() - began > most:
            late = [each for each in outcome.contest.calls if each not in first]
            outcome.left_out = {each: NO_TIME for each in late if each not in outcome.failed}
            break
    return first


def _how_often(
    outcome: Outcome, first: dict[str, tuple[float, object]], careful: bool
) -> dict[str, int]:
    """How often each is called in a round; who has a clock of its own, once."""
    calls = {}
    for name, (taken, result) in first.items():
        try:
            once = isinstance(result, Timed) or taken > LONG_SECONDS
            calls[name] = 1 if once else _calls_for(outcome.contest.calls[name])
        except Exception as error:
            if not careful:
                raise
            outcome.failed[name] = in_words(error)
    return calls


def _in_turn(names: list[str], number: int) -> list[str]:
    """Another one begins each round: whom one leaves dirty pages or a warm cache to changes."""
    first = number % len(names) if names else 0
    return names[first:] + names[:first]


def _round(outcome: Outcome, name: str, calls: dict[str, int], careful: bool) -> None:
    call, repeat = outcome.contest.calls[name], range(calls[name])
    result: object = None
    try:
        started = perf_counter()
        for _ in repeat:
            result = call()
        outcome.note(name, (perf_counter() - started) / calls[name], result)
    except Exception as error:
        if not careful:
            raise
        outcome.failed[name] = in_words(error)
        outcome.drop(name)
        del calls[name]


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
        if ours not in outcome.times or peer not in outcome.times:
            yield f"   {ours} against {peer}: too few samples, or left out"
            continue
        got = outcome.ratio(ours, peer)
        verdict = (
            "" if wanted is None else f"  bar {wanted:g}x {'ok' if got >= wanted else 'SHORT'}"
        )
        yield f"   {ours} against {peer}: {got:.3g}x{verdict}"
