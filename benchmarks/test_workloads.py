"""Every workload of `kstore bench`, each contest once with its results checked."""

import re

import pytest
from hdrh.histogram import HdrHistogram

import goals
from kstore.bench import peers, results
from kstore.bench.runner import Outcome
from kstore.bench.workload import Setting, workloads
from support import kernels


@pytest.mark.parametrize("workload", workloads(), ids=lambda workload: workload.title)
def test_results(workload, tmp_path, monkeypatch):
    monkeypatch.setattr("kstore.bench.peers._kafka", [])  # its turn is in test_log_contests
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    level = "full" if workload.group == "engine" else "quick"  # the others have more contests
    setting = Setting(tmp_path, workload.size(level), level)
    names, told = [], []
    with kernels.seen() as called:
        for contest in workload.contests(setting):
            outcome = Outcome(contest, {})
            for name, seconds, result in contest.first_calls():
                outcome.note(name, seconds, result)
            told += outcome.times
            assert contest.ceiling in ("", *contest.calls)
            assert workload.title in goals.SECONDS or not goals.has_bar(contest)
            names.append(contest.name)
    by_numba = {kernel for kernel in workload.kernels if kernel.startswith("jit.")}
    assert set(workload.kernels) - by_numba <= called
    assert len(names) == len(set(names)) > 0
    assert len(names) <= 2 * workload.count[0]
    told += [*names, *setting.missing, *peers.missing]
    for shown in workload.shows:
        assert any(tells(each, shown) for each in told), (shown, told)


def tells(name: str, shown: str) -> bool:
    """Whether these words are in it, whole: "read" is not in "threads"."""
    before = r"\b" if shown[0].isalnum() else ""
    behind = r"\b" if shown[-1].isalnum() else ""
    return re.search(f"{before}{re.escape(shown)}{behind}", name) is not None


def test_words_are_whole():
    assert tells("kstore, extend read", "read")
    assert not tells("extend, 4 threads", "read")
    assert not tells("110 partitions", "10 partitions")
    assert tells("CRC-32 of 100 bytes", "CRC-32 ")


def test_an_hdr_histogram_holds_every_sample():
    encoded = results.hdr([range(1000, 2000), [5_000_000]])
    histogram = HdrHistogram.decode(encoded)
    assert histogram.get_total_count() == 1001
    assert histogram.get_value_at_percentile(50) == pytest.approx(1500, rel=0.01)
    assert histogram.get_max_value() == pytest.approx(5_000_000, rel=0.01)
