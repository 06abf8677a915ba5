"""Ceilings of contests: one that a contestant passes by more than the noise is called none."""

import pytest

from kstore.bench.contest import Contest, Timed
from kstore.bench.report import results, text_table
from kstore.bench.runner.rounds import run


def contestant(*seconds):
    """Takes so long in its rounds; the first call is no round."""
    left = iter((seconds[0], *seconds))
    return lambda: Timed(next(left), result=1)


def table(ours, floor, *, ceiling="floor", rounds=7, **more):
    calls = {"kstore": contestant(*ours), "floor": contestant(*floor)}
    contest = Contest(name="a", calls=calls, ceiling=ceiling, rounds=rounds, **more)
    tree = results.as_tree("engine", "engine/some", run(contest))
    return tree, "\n".join(text_table.lines(tree))


def test_a_ceiling_that_a_contestant_exceeds_is_not_called_a_ceiling():
    tree, text = table([1.0, 1.1, 0.9, 1.0, 1.0, 1.1, 1.0], [2.0] * 7)
    assert tree["passed_by"] == {"kstore": 2.0}
    assert "NO CEILING: kstore is 2.00 times as fast as floor" in text
    assert "of floor" in text
    assert "the floor, no ceiling" in text
    assert "of ceiling" not in text


@pytest.mark.parametrize("floor", [[1.03] * 7, [0.5, 1.5, 0.9, 1.6, 1.4, 0.8, 1.2], [0.5] * 7])
def test_a_ceiling_within_the_noise_stays_one(floor):
    tree, text = table([1.0] * 7, floor)
    assert tree["passed_by"] == {}
    assert "of ceiling" in text
    assert "the ceiling" in text


def test_the_fastest_of_a_contest_without_a_ceiling_is_called_so():
    tree, text = table([1.0] * 7, [2.0] * 7, ceiling="")
    assert not tree["has_ceiling"]
    assert tree["passed_by"] == {}
    assert "of fastest" in text
    assert "ceiling" not in text


def test_too_few_rounds_pass_no_ceiling():
    assert table([1.0] * 3, [2.0] * 3, rounds=3)[0]["passed_by"] == {}


def test_easier_work_passes_no_ceiling_and_is_not_the_fastest():
    easier = frozenset(["kstore"])
    assert table([1.0] * 7, [2.0] * 7, easier=easier)[0]["passed_by"] == {}
    assert table([1.0] * 7, [2.0] * 7, ceiling="", easier=easier)[0]["ceiling"] == "floor"


def test_a_target_passes_no_ceiling():
    tree, _ = table([1.0] * 7, [2.0] * 7, targets=frozenset(["kstore"]))
    assert tree["passed_by"] == {}
