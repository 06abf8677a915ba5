"""One contest of each workload of the engine under pytest-benchmark, which stores kstore's time.

``make bench`` shows each contest beside its peers and its ceiling. This is for those who watch a
machine with pytest-benchmark: ``pytest benchmarks/test_timed.py --benchmark-autosave``. The peers'
seconds of one call each are in ``extra_info``, from the run that checks the results.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from engine.workloads import WORKLOADS
from kstore.bench.workload import Setting, Workload

ROUNDS = 5


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.title)
def test_contest(workload: Workload, benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    setting = Setting(tmp_path, workload.size("quick"), "quick")
    contests = iter(workload.contests(setting))  # removes the files of a contest before the next
    contest = next(contests)
    seconds = contest.check()  # the results, before anything is timed
    ours = contest.bars[0][0] if contest.bars else next(iter(contest.calls))
    assert ours in seconds
    benchmark.extra_info.update({"contest": contest.name, "seconds of one call": seconds})
    call: Callable[[], object] = contest.calls[ours]
    benchmark.pedantic(call, rounds=ROUNDS, warmup_rounds=1)
