"""Exact intervals of the fastest rounds."""

from itertools import combinations
from math import comb

import numpy as np
import pytest

from kstore.bench.report import shift


@pytest.mark.parametrize(("one", "other"), [(1, 1), (2, 3), (4, 4), (3, 5)])
def test_the_chances_of_mann_and_whitney_are_those_of_all_orders(one, other):
    every = range(one + other)
    pairs = [
        sum(a > b for a in chosen for b in set(every) - set(chosen))
        for chosen in combinations(every, one)
    ]
    counts = np.cumsum(np.bincount(pairs)) / comb(one + other, one)
    assert np.allclose(shift._chances(one, other), counts)


def test_too_few_rounds_have_no_interval():
    assert shift.rounds_needed(0.001) == 7
    assert shift.shift([1.0] * 6, [2.0] * 6, 0.001) is None
    assert shift.shift([1.0] * 7, [2.0] * 7, 0.001) == shift.Shift(2.0, 2.0, 2.0)


def test_too_few_pairs_have_no_interval():
    assert shift.pairs_needed(0.001) == 10
    assert shift.shift_of_pairs([1.0] * 9, [2.0] * 9, 0.001) is None
    assert shift.shift_of_pairs([1.0] * 10, [2.0] * 10, 0.001) == shift.Shift(2.0, 2.0, 2.0)


def test_a_round_without_a_partner_does_not_count():
    found = shift.shift_of_pairs([1.0] * 11, [2.0] * 10, 0.001)
    assert found == shift.shift_of_pairs([1.0] * 10, [2.0] * 12, 0.001) == shift.Shift(2, 2, 2)
    assert shift.ratio_of_pairs([1.0, 5.0], [2.0]) == shift.ratio_of_pairs([1.0], [2.0, 5.0]) == 2


def test_a_disturbance_of_both_calls_of_a_pair_does_not_widen_the_interval():
    """As a disk with neighbours does: a commit takes 0.15 ms or 15, for milliseconds at a time."""
    draw = np.random.default_rng(8)
    disk = np.where(draw.random(300) < 0.5, 1.0, 100.0) * np.exp(draw.normal(0, 0.5, 300))
    was, now = (disk * np.exp(draw.normal(0, 0.1, 300)) for _ in range(2))
    found = shift.shift_of_pairs(was, 1.3 * now, 0.001)
    assert 1.2 < found.low < 1.3 < found.high < 1.4
    assert shift.ratio_of_pairs(was, 1.3 * now) == pytest.approx(found.ratio)
    apart = shift.shift(was, 1.3 * now, 0.001)
    assert apart.high / apart.low > found.high / found.low


@pytest.mark.parametrize("pairs", [10, 50])
def test_an_interval_of_pairs_is_wrong_no_more_often_than_its_risk(pairs):
    draw = np.random.default_rng(4)
    wrong = 0
    for _ in range(1000):
        was, now = np.exp(draw.standard_cauchy((2, pairs)).clip(-50, 50))
        found = shift.shift_of_pairs(was, now, 0.05)
        wrong += found.low > 1
    assert 5 <= wrong <= 70  # of 50, or fewer since the chances have steps


def test_the_fastest_round_of_a_group_counts():
    was = [1.0, 5.0, 9.0] * shift.GROUPS
    now = [9.0, 5.0, 1.3] * shift.GROUPS
    found = shift.shift(was, now, 0.001)
    assert [found.ratio, found.low, found.high] == pytest.approx([1.3] * 3)


def test_groups_of_two_runs_have_equal_lengths():
    """The fastest of many rounds is faster than the fastest of few."""
    draw = np.random.default_rng(5)
    was, now = np.exp(draw.normal(0, 0.3, 20)), np.exp(draw.normal(0, 0.3, 900))
    found = shift.shift(was, now, 0.01)
    assert found.low < 1 < found.high
    assert abs(np.log(found.ratio)) < 0.2


def test_an_interval_is_wrong_no_more_often_than_its_risk():
    draw = np.random.default_rng(3)
    wrong = 0
    for _ in range(1000):
        was, now = np.exp(draw.standard_t(3, (2, 10)))
        found = shift.shift(was, now, 0.05)
        wrong += found.low > 1
    assert 20 <= wrong <= 70  # of 50, or fewer since the chances have steps
