"""pytest-benchmark's face of single kernels, each result against the other contestants'."""

from importlib import import_module
from itertools import islice

import pytest

CASES = [
    ("seal", 0, "make a seal"),
    ("seal", 0, "check a seal"),
    ("convert", 0, "kstore"),
    ("convert", 1, "kstore"),
    ("convert", 3, "kstore"),
    ("tally", 0, "kstore"),
    ("tally", 1, "kstore"),
    ("tally", 2, "kstore"),
    ("keys", 0, "kstore, one call"),
    ("keys", 0, "kstore, one call a key"),
    ("keys", 4, "kstore, 24 bytes a key"),
    ("columns", 0, "kstore"),
    ("columns", 1, "kstore"),
    ("columns", 3, "places, one call"),
    ("columns", 4, "kstore, from Arrow"),
    ("walks", 0, "producers"),
    ("walks", 0, "transactions"),
    ("walks", 1, "recovery's scan"),
]


@pytest.mark.parametrize(("module", "number", "contestant"), CASES)
def test_kernel(benchmark, module, number, contestant):
    contests = import_module(f"kstore.bench.contests.{module}").contests()
    contest = next(islice(contests, number, None))
    expected = contest.expected
    if expected is None:
        other = next(name for name in contest.calls if name not in {contestant, *contest.unchecked})
        expected = contest.calls[other]()
    assert benchmark(contest.calls[contestant]) == expected
    contests.close()
