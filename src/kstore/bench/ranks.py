"""Which of many figures of two runs differ: tests of ranks, which no outlier deceives.

Everything here is exact or a permutation, so that three rounds are three rounds: no bell curve is
assumed of times.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import erfc, sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
PERMUTATIONS = 9999
MANY = 2500  # pairs of rounds from which on the normal approximation is as good
PLAIN = 2.0  # standard deviations below which no permutation is drawn: nothing is found at 2 %


def chance(larger: Floats, smaller: Floats, factor: float) -> float:
    """How likely chance makes one run's rounds this much larger, were they in truth at most
    ``factor`` times as large: the one-sided test of Wilcoxon, and of Mann and Whitney.

    Exact for up to ``MANY`` pairs of rounds; ties count as not larger.
    """
    n, m = larger.size, smaller.size
    won = int((larger[:, None] > smaller * factor).sum())
    if n * m > MANY:
        deviation = sqrt(n * m * (n + m + 1) / 12)
        return _normal((won - 0.5 - n * m / 2) / deviation)
    return _upper(min(n, m), max(n, m))[won]


@cache
def _upper(n: int, m: int) -> tuple[float, ...]:
    """The probability of at least so many won pairs of n and m rounds, were there no difference.

    The counts are the coefficients of the Gaussian binomial, multiplied out in whole numbers.
    """
    counts = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for at in range(n * m, m + i - 1, -1):
            counts[at] -= counts[at - m - i]
        for at in range(i, n * m + 1):
            counts[at] += counts[at - i]
    total, above, found = sum(counts), 0, []
    for count in reversed(counts):
        above += count
        found.append(above / total)
    return tuple(reversed(found))


def _normal(deviations: float) -> float:
    return erfc(deviations / sqrt(2)) / 2


def found(chances: Sequence[float], rate: float) -> list[bool]:
    """Which of many tests found something (Benjamini and Hochberg).

    At most ``rate`` of those found are false, on average; where nothing is there to be found, the
    probability that any is called found is ``rate``, however many there are.
    """
    order = sorted(range(len(chances)), key=chances.__getitem__)
    last = max(
        (rank for rank, i in enumerate(order, 1) if chances[i] <= rate * rank / len(chances)),
        default=0,
    )
    taken = set(order[:last])
    return [i in taken for i in range(len(chances))]


@dataclass(frozen=True)
class Stratum:
    """One contest in two runs: the rounds of some of its contestants, a row for each."""

    now: Floats
    was: Floats

    def scores(self, factor: float) -> Floats:
        """One score for each round, those of ``now`` first: its mean rank among all rounds."""
        both = np.concatenate([self.now, self.was * factor], axis=1)
        below = (both[:, :, None] > both[:, None, :]).sum(axis=2)
        equal = (both[:, :, None] == both[:, None, :]).sum(axis=2)
        ranks: Floats = (below + equal / 2).mean(axis=0) / both.shape[1]
        return np.asarray(ranks - ranks.mean(), float)


def together(strata: Iterable[Stratum], factor: float) -> float:
    """As :func:`chance`, for all rounds of several contests taken together.

    Ranks are made within a contest and summed over contests (van Elteren). The chance is that of a
    permutation of the rounds of the two runs within each contest, which moves all contestants of a
    round together: they shared what slowed it, and a ceiling. Few rounds of many contests tell as
    much as many of one. At least 1 in ``PERMUTATIONS`` + 1; the same rounds, the same answer.
    """
    scored = [(stratum.scores(factor), stratum.now.shape[1]) for stratum in strata]
    seen = sum(float(scores[:size].sum()) for scores, size in scored)
    variance = sum(
        size * (scores.size - size) / scores.size * float(scores @ scores) / (scores.size - 1)
        for scores, size in scored
    )
    if variance <= 0 or seen < PLAIN * sqrt(variance):
        return _normal(seen / sqrt(variance)) if variance > 0 else 1.0
    random = np.random.default_rng(1)
    drawn = np.zeros(PERMUTATIONS)
    for scores, size in scored:
        order = random.random((PERMUTATIONS, scores.size)).argsort(axis=1)
        drawn += scores[order[:, :size]].sum(axis=1)
    return float((1 + (drawn >= seen - 1e-9).sum()) / (PERMUTATIONS + 1))
