"""How much longer one run took than another, with an exact interval that assumes no distribution.

The rounds of two installations that took turns are pairs: both met the same neighbours, since one
followed the other within milliseconds. The median of the pairs' ratios counts, and the interval is
that of the sign test, which a pair that a neighbour disturbed moves no more than any other.

Two runs that were made one after the other have no pairs. Noise only slows down, and lasts: on a
machine with neighbours most rounds may be twice as long as the undisturbed ones, for seconds. So
the rounds are cut into at most ``GROUPS`` groups of consecutive rounds, and the fastest round of
each group counts. The interval is that of Mann and Whitney's test.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, count
from math import comb

import numpy as np
from numpy.typing import NDArray

from kstore.bench.runner.estimate import at_least_tiny

GROUPS = 10
LEAST_ROUNDS = 5  # of each run, for an interval
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Shift:
    """How many times as long the second run took (1.3: 30 % longer), and its interval."""

    ratio: float
    low: float
    high: float


def shift_of_pairs(was: Sequence[float], now: Sequence[float], risk: float) -> Shift | None:
    """The shift between rounds that took turns; None if they are too few for the risk.

    ``risk``: the chance that one end of the interval is wrong.
    """
    before, after = _pairs(was, now)
    logs = np.sort(np.log(after) - np.log(before))
    outside = _beyond(logs.size, risk)
    if logs.size < LEAST_ROUNDS or outside == 0:
        return None
    ends = logs[outside - 1], logs[logs.size - outside]
    low, middle, high = np.exp([ends[0], np.median(logs), ends[1]]).tolist()
    return Shift(middle, low, high)


def ratio_of_pairs(was: Sequence[float], now: Sequence[float]) -> float:
    """The ratio of :func:`shift_of_pairs` alone, of any number of pairs."""
    before, after = _pairs(was, now)
    return float(np.median(after / before))


def _pairs(was: Sequence[float], now: Sequence[float]) -> tuple[Floats, Floats]:
    """The rounds that have a partner: an interrupted measurement ends with one that has none."""
    pairs = min(len(was), len(now))
    return at_least_tiny(was[:pairs]), at_least_tiny(now[:pairs])


def pairs_needed(risk: float) -> int:
    """The least number of pairs with which an interval has this risk."""
    return next(number for number in count(LEAST_ROUNDS) if _beyond(number, risk))


@lru_cache(maxsize=64)
def _beyond(pairs: int, risk: float) -> int:
    """How many of the smallest ratios of some pairs lie outside of an interval with this risk: of
    equal runs, so many or fewer signs are positive with the chance ``risk`` at most."""
    chances = accumulate(comb(pairs, positive) for positive in range(pairs // 2))
    return sum(1 for ways in chances if ways / 2**pairs <= risk)


def shift(was: Sequence[float], now: Sequence[float], risk: float) -> Shift | None:
    """The shift between the rounds of two runs; None if they are too few for the risk.

    ``risk``: the chance that one end of the interval is wrong.
    """
    before, after = _fastest(was, now)
    between = _differences(before, after)
    outside = int(np.searchsorted(_chances(before.size, after.size), risk, side="right"))
    is_few = min(before.size, after.size) < LEAST_ROUNDS
    if is_few or outside == 0 or 2 * outside > between.size:
        return None
    ends = between[outside - 1], between[between.size - outside]
    low, middle, high = np.exp([ends[0], np.median(between), ends[1]]).tolist()
    return Shift(middle, low, high)


def ratio(was: Sequence[float], now: Sequence[float]) -> float:
    """The ratio of :class:`Shift` alone, of any number of rounds."""
    return float(np.exp(np.median(_differences(*_fastest(was, now)))))


def rounds_needed(risk: float) -> int:
    """The least number of rounds of each run with which an interval has this risk."""
    return next(number for number in count(LEAST_ROUNDS) if _chances(number, number)[0] <= risk)


def _fastest(was: Sequence[float], now: Sequence[float]) -> tuple[Floats, Floats]:
    """The logarithms of the fastest rounds of groups, which are as long in both runs: the fastest
    of many rounds is faster than the fastest of few."""
    length = max(1, min(len(was), len(now)) // GROUPS)
    before, after = (_of_groups(at_least_tiny(rounds), length) for rounds in (was, now))
    return before, after


def _of_groups(times: Floats, length: int) -> Floats:
    groups = min(times.size // length, GROUPS)
    return np.asarray(np.log(times[: groups * length].reshape(groups, length).min(axis=1)), float)


def _differences(before: Floats, after: Floats) -> Floats:
    """The sorted differences of all pairs; the ends of intervals are among them."""
    return np.sort((after[:, None] - before[None, :]).ravel())


@lru_cache(maxsize=64)
def _chances(one: int, other: int) -> Floats:
    """The chances that at most 0, 1, 2 ... pairs of rounds of equal runs are in the wrong order."""
    # Gaussian binomial coefficients: the ways to choose ``one`` of the ranks, by their sum.
    ways = [[0] * (one * other + 1) for _ in range(one + 1)]
    ways[0][0] = 1
    for rank in range(one + other):
        for chosen in range(min(one, rank + 1), 0, -1):
            above = rank - (chosen - 1)  # how far this one lies above its lowest rank
            for pairs in range(one * other, above - 1, -1):
                ways[chosen][pairs] += ways[chosen - 1][pairs - above]
    total = sum(ways[one])
    return np.array([each / total for each in accumulate(ways[one])])
