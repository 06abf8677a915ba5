"""Searches in the offset index: how the keys are spread, and the targets that are looked up."""

import numpy as np
from numpy.typing import NDArray

SHAPES = ("even", "uniform", "bursty", "exponential")
BASE_OFFSET = 10**10
ENTRIES = 262_144  # the index of a 1 GiB segment at its default interval
LARGEST = 1_310_720  # the most that a default index file holds

Int64s = NDArray[np.int64]


def keys(shape: str, count: int) -> Int64s:
    """Relative offsets, strictly rising, below 2^31.

    even: batches of like sizes, as a steady producer leaves them. uniform: any offset is as
    likely. bursty: runs of single offsets between large gaps. exponential: ever larger steps.
    """
    random = np.random.default_rng(7)
    if shape == "even":
        return np.cumsum(random.integers(30, 50, count))
    if shape == "uniform":
        drawn = np.unique(random.integers(1, 2**31 - 1, count + count // 8))
        return np.sort(random.permutation(drawn)[:count])
    if shape == "bursty":
        steps = np.ones(count, np.int64)
        steps[::500] = random.integers(1, 2**31 // (count // 500 + 1) - 500, steps[::500].size)
        return np.cumsum(steps)
    grown = np.exp(np.linspace(0, np.log(2**31 - 1 - count), count)).astype(np.int64)
    return np.maximum.accumulate(grown) + np.arange(count)


def entries(relative: Int64s) -> bytes:
    """An index file: the entry in slot n has position n + 1."""
    rows = np.empty((relative.size, 2), ">u4")
    rows[:, 0] = relative
    rows[:, 1] = np.arange(1, relative.size + 1)
    return rows.tobytes()


def targets(relative: Int64s, count: int) -> Int64s:
    """Relative offsets to look up: on and just beyond random entries, in no order."""
    random = np.random.default_rng(11)
    return relative[random.integers(0, relative.size, count)] + random.integers(0, 2, count)
