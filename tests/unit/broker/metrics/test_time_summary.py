"""Count, sum and recent quantiles of times."""

import math
import random

import pytest

from kstore.broker.metrics.time_summary import WINDOW_SECONDS, TimeSummary


def test_quantiles_are_at_most_a_sixteenth_too_large() -> None:
    summary, times = TimeSummary(), []
    for _ in range(5000):
        seconds = 10 ** random.Random(len(times)).uniform(-6, 3)
        times.append(seconds)
        summary.add(seconds)
    times.sort()
    for share, found in zip((0.5, 0.99, 1.0), summary.quantiles((0.5, 0.99, 1.0)), strict=True):
        exact = times[math.ceil(share * len(times)) - 1]
        assert exact <= found <= exact * (1 + 1 / 16) + 2e-6
    assert summary.count == 5000
    assert summary.total == pytest.approx(sum(times))


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 1e-7, 5e6])
def test_any_time_has_a_bucket(seconds: float) -> None:
    summary = TimeSummary()
    summary.add(seconds)
    (found,) = summary.quantiles((0.5,))
    assert 0 < found < 4400


def test_old_times_leave_the_quantiles_and_stay_in_the_count() -> None:
    now = [0.0]
    summary = TimeSummary(lambda: now[0])
    summary.add(1.0)
    now[0] = WINDOW_SECONDS
    assert summary.quantiles((0.5,))[0] > 0.9
    assert summary.quantiles((0.5,))[0] > 0.9  # the window before still counts
    now[0] = 2 * WINDOW_SECONDS
    assert summary.quantiles((0.5,))[0] > 0.9
    now[0] = 3 * WINDOW_SECONDS
    assert math.isnan(summary.quantiles((0.5,))[0])
    assert (summary.count, summary.total) == (1, 1.0)
