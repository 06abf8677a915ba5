"""Medians with bootstrap intervals, and percentiles."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESAMPLES = 2000
CONFIDENCE = 0.95
TINY = 1e-12  # seconds, below every measured figure
BEYOND = 10  # samples that remain beyond the last percentile of a curve
LEAST_VALUES = 5  # that have an interval
PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)


@dataclass(frozen=True)
class Estimate:
    """A median with its 95 % confidence interval.

    The interval is a percentile bootstrap with a fixed seed, so that the same figures have the
    same interval. Of fewer than ``LEAST_VALUES`` it is their range, which is no such interval.
    """

    median: float
    low: float
    high: float


def estimate(values: Sequence[float]) -> Estimate:
    """The median of the rounds."""
    found = np.asarray(values, float)
    if found.size < LEAST_VALUES:
        return Estimate(float(np.median(found)), float(found.min()), float(found.max()))
    low, high = np.quantile(_medians(found, 1), _tails())
    return Estimate(float(np.median(found)), float(low), float(high))


def estimate_mean(values: Sequence[float]) -> Estimate:
    """The mean with its interval, for rates of equal times: a stall counts as long as it lasted."""
    found = np.asarray(values, float)
    if found.size < LEAST_VALUES:
        return Estimate(float(found.mean()), float(found.min()), float(found.max()))
    low, high = np.quantile(_drawn(found, 1).mean(axis=1), _tails())
    return Estimate(float(found.mean()), float(low), float(high))


def quotient(over: Sequence[float], under: Sequence[float]) -> Estimate:
    """The ratio of the medians of two runs that were not interleaved."""
    a, b = at_least_tiny(over), at_least_tiny(under)
    middle = float(np.median(a) / np.median(b))
    if min(a.size, b.size) < LEAST_VALUES:
        return Estimate(middle, float(a.min() / b.max()), float(a.max() / b.min()))
    low, high = np.quantile(_medians(a, 1) / _medians(b, 2), _tails())
    return Estimate(middle, float(low), float(high))


def paired(over: Sequence[float], under: Sequence[float]) -> Estimate:
    """The median of the rounds' ratios of two contestants of one run."""
    if len(over) != len(under):
        raise ValueError(f"{len(over)} rounds cannot be paired with {len(under)}")
    return estimate((at_least_tiny(over) / at_least_tiny(under)).tolist())


def at_least_tiny(values: Sequence[float]) -> NDArray[np.float64]:
    """Figures as divisors: at least a picosecond, also for a delay of zero."""
    return np.asarray(np.maximum(np.asarray(values, float), TINY), float)


def _medians(values: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    return np.asarray(np.median(_drawn(values, seed), axis=1), float)


def _drawn(values: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Samples of the values, as many of each as there are."""
    drawn = np.random.default_rng(seed).integers(0, values.size, (RESAMPLES, values.size))
    return np.asarray(values[drawn], float)


def _tails() -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2
    return tail, 1 - tail


def percentiles(samples: Sequence[ArrayLike]) -> dict[str, float]:
    """Exact p50 to p99.99 and maximum of the nanoseconds of all rounds.

    Percentiles with fewer than ten samples beyond them are omitted.
    """
    together = np.concatenate([np.asarray(some, np.int64) for some in samples])
    found = {
        f"p{share:g}": float(np.percentile(together, share, method="higher"))
        for share in PERCENTILES
        if has_tail(together.size, share) or share == 50.0
    }
    return found | {"max": float(together.max())}


def has_tail(count: int, share: float) -> bool:
    """Whether at least ten of ``count`` samples lie beyond a percentile."""
    return round(count * (100 - share), 6) >= 1000


def highest_share(count: int, most: int = 99) -> int:
    """The highest percentile without a fraction, up to ``most``, beyond which ten of ``count``
    samples lie; 0 if they are too few for any."""
    return next((share for share in range(most, 0, -1) if has_tail(count, share)), 0)


def percentile(samples: ArrayLike, share: float) -> float:
    """One exact percentile of some samples."""
    return float(np.percentile(np.asarray(samples, np.int64), share, method="higher"))


def curve(samples: Sequence[ArrayLike], points: int = 200) -> list[tuple[float, float]]:
    """Percentiles and nanoseconds for a plot, spaced by nines as in an HDR histogram.

    The last one has ten samples beyond it, since what is rarer says little; it is at least p50.
    """
    together = np.sort(np.concatenate([np.asarray(some, np.int64) for some in samples]))
    beyond = np.geomspace(1, min(max(BEYOND / together.size, 1e-6), 0.5), points)
    at = np.minimum((together.size * (1 - beyond)).astype(int), together.size - 1)
    return [
        (round(100 * (1 - float(share)), 6), float(together[index]))
        for share, index in zip(beyond, at, strict=True)
    ]
