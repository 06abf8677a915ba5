"""Run a contest: check the results first, then time interleaved rounds.

On a shared machine a figure alone says little, since the clock speed changes between two runs. So
every round calls each contestant in turn, and a ratio is the median of the rounds' ratios.

The first call of each contestant checks its result and warms up: it is no figure. A time limit
holds however slow the machine is: fewer rounds are made, and a contest without time for one has no
figure at all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from kstore.bench.contest import Contest, Timed, describe_error
from kstore.bench.runner.estimate import LEAST_VALUES, Estimate, has_tail, paired, percentile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST_SECONDS = 0.002  # a faster contestant is called several times per round
TRIES = 3
LONG_SECONDS = 1.0  # a contestant whose first call took longer is called once per round
LEAST_ROUNDS = LEAST_VALUES  # made even if they exceed the contest's own time
TAILS = (99.0, 99.9)  # percentiles of each round that has enough samples
NO_TIME = "skipped: the time was up"
NO_ROUND = "no figure: the time was up after the warm-up"
BeforeCall = Callable[[int, Mapping[str, int]], bool]


@dataclass
class Outcome:
    """The figures of a contest.

    Attributes
    ----------
    times
        Seconds of a unit of work, one figure per round, by contestant; further figures as
        ``"contestant name"``. Contestants that failed are not included.
    samples
        Nanoseconds of single units in all rounds, of contestants that timed them.
    failed, left_out
        Contestants that failed, and that have no figure for lack of time, with the reason.
    wanted, seconds
        How many rounds were planned, and how long the contest took.
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
        """The contestant of which the others are shown as a fraction."""
        if self.contest.ceiling in self.times:
            return self.contest.ceiling
        measured = [name for name in self.contest.calls if name in self.times]
        others = self.contest.targets | self.contest.easier
        real = [name for name in measured if name not in others]
        return min(real or measured, key=lambda name: median(self.times[name]))

    def ratio(self, ours: str, peer: str) -> float:
        """How many times as fast as ``peer``: the median of the rounds' ratios."""
        return self.compared(ours, peer).median

    def compared(self, ours: str, peer: str) -> Estimate:
        """The same with its interval."""
        return paired(self.times[peer], self.times[ours])

    def note(self, name: str, seconds: float, result: object) -> None:
        """Record the result of a contestant's call in a round."""
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
        """Remove the figures of a contestant that failed."""
        for each in [each for each in self.times if self.owner(each) == name]:
            del self.times[each]
            self.samples.pop(each, None)

    def owner(self, figure: str) -> str:
        """The contestant of a figure: ``kstore`` for ``kstore p99``."""
        names = sorted(self.contest.calls, key=len, reverse=True)
        return next(name for name in names if figure == name or figure.startswith(f"{name} "))


def _calls_for(call: Callable[[], object]) -> int:
    """How often to call a contestant in a round. The fastest of several tries counts, since a
    neighbour that interrupts one would leave a round of a single call."""
    calls = 1
    while calls < 1 << 20 and min(_taken(call, calls) for _ in range(TRIES)) < LEAST_SECONDS:
        calls *= 4
    return calls


def _taken(call: Callable[[], object], calls: int) -> float:
    started = perf_counter()
    for _ in range(calls):
        call()
    return perf_counter() - started


def run(
    contest: Contest,
    *,
    rounds: int | None = None,
    seconds: float | None = None,
    most: float | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    calls: Mapping[str, int] | None = None,
    before_call: BeforeCall | None = None,
    keep_going: bool = False,
) -> Outcome:
    """Check every result, then time the rounds.

    Parameters
    ----------
    rounds
        How many, instead of the contest's own number.
    seconds
        How long the contest should take, checks included: no round starts that would end later,
        except the first five, without which a figure has no interval.
    most
        How long it may take: no round starts that would end later, and no first call starts later.
        If not even one round fits, all contestants are skipped: a warm-up is no figure.
    on_progress
        Called with the number of rounds done and planned.
    calls
        How often to call contestants in a round, by name, instead of measuring it.
    before_call
        Called before each contestant's turn in a round, with the number of the round and how often
        each contestant is called in one. False, which it may return at the beginning of a round,
        ends the contest.
    keep_going
        Whether the others continue when a contestant fails; RuntimeError if none is left.
    """
    began = perf_counter()
    outcome = Outcome(contest, {}, wanted=contest.rounds if rounds is None else rounds)
    first = _first_calls(outcome, most, keep_going)
    a_round = sum(taken for taken, _ in first.values())
    if most is not None and perf_counter() - began + a_round > most:
        outcome.left_out = dict.fromkeys(first, NO_ROUND) | outcome.left_out
    else:
        often = _how_often(outcome, first, keep_going, calls or {})
        for number in range(outcome.wanted):
            if on_progress is not None:
                on_progress(number, outcome.wanted)
            started = perf_counter()
            if not _a_round(outcome, number, often, keep_going, before_call):
                break
            now = perf_counter()
            limits = (most, seconds if number + 1 >= LEAST_ROUNDS else None)
            next_end = now - began + (now - started)
            if any(limit is not None and next_end > limit for limit in limits):
                break
    if not outcome.times and not outcome.left_out:
        raise RuntimeError("; ".join(f"{name}: {why}" for name, why in outcome.failed.items()))
    outcome.seconds = perf_counter() - began
    return outcome


def _first_calls(
    outcome: Outcome, most: float | None, keep_going: bool
) -> dict[str, tuple[float, object]]:
    """The seconds and the result of each contestant's first call."""
    began = perf_counter()
    first: dict[str, tuple[float, object]] = {}
    for name, taken, result in outcome.contest.first_calls(outcome.failed if keep_going else None):
        first[name] = (taken, result)
        if most is not None and perf_counter() - began > most:
            late = [each for each in outcome.contest.calls if each not in first]
            outcome.left_out = {each: NO_TIME for each in late if each not in outcome.failed}
            break
    return first


def _how_often(
    outcome: Outcome,
    first: dict[str, tuple[float, object]],
    keep_going: bool,
    given: Mapping[str, int],
) -> dict[str, int]:
    """How often to call each contestant per round; once if it times itself."""
    calls = {}
    for name, (taken, result) in first.items():
        try:
            once = isinstance(result, Timed) or taken > LONG_SECONDS
            call = outcome.contest.calls[name]
            calls[name] = 1 if once else given.get(name) or _calls_for(call)
        except Exception as error:
            if not keep_going:
                raise
            outcome.failed[name] = describe_error(error)
    return calls


def _a_round(
    outcome: Outcome,
    number: int,
    calls: dict[str, int],
    keep_going: bool,
    before_call: BeforeCall | None,
) -> bool:
    """Call each contestant; False if ``before_call`` ended the contest."""
    for name in _in_turn(list(calls), number):
        if before_call is not None and not before_call(number, calls):
            return False
        _call(outcome, name, calls, keep_going)
    return True


def _in_turn(names: list[str], number: int) -> list[str]:
    """Start each round with another contestant: each leaves dirty pages or a warm cache behind."""
    first = number % len(names) if names else 0
    return names[first:] + names[:first]


def _call(outcome: Outcome, name: str, calls: dict[str, int], keep_going: bool) -> None:
    call, repeat = outcome.contest.calls[name], range(calls[name])
    result: object = None
    try:
        started = perf_counter()
        for _ in repeat:
            result = call()
        outcome.note(name, (perf_counter() - started) / calls[name], result)
    except Exception as error:
        if not keep_going:
            raise
        outcome.failed[name] = describe_error(error)
        outcome.drop(name)
        del calls[name]
