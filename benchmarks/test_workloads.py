"""Every workload, of the machine and of the engine, runs once, and its results are checked."""

import re

import pytest
from hdrh.histogram import HdrHistogram

import goals
from engine.workloads import CATALOG
from kstore._native.format import crc
from kstore.bench.peers import availability
from kstore.bench.report import results
from kstore.bench.runner.rounds import Outcome
from kstore.bench.workload import Setting, workloads


@pytest.fixture(name="run_contests")
def _run_contests(tmp_path, monkeypatch):
    """Run all contests of a workload once."""
    monkeypatch.setattr("engine.peers.kafka._provider", None)  # see test_log_contests
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def run(workload):
        level = "full" if workload.group == "engine" else "quick"  # the others have more contests
        directory = tmp_path / workload.title
        directory.mkdir(parents=True)
        setting = Setting(directory, workload.size(level), level)
        names, figures = [], []
        for contest in workload.contests(setting):
            outcome = Outcome(contest, {})
            for name, seconds, result in contest.first_calls():
                outcome.note(name, seconds, result)
            figures += outcome.times
            assert contest.ceiling in ("", *contest.calls)
            assert workload.title in goals.SECONDS or not goals.has_bar(contest)
            names.append(contest.name)
        return names, [*figures, *names, *setting.missing, *availability.missing]

    return run


CONTESTS = [each for each in workloads(catalog=CATALOG) if each.group != "verdict"]


@pytest.mark.parametrize("workload", CONTESTS, ids=lambda workload: workload.title)
def test_results_of_every_contest_are_right(workload, run_contests):
    names, texts = run_contests(workload)
    assert len(names) == len(set(names)) > 0
    assert len(names) <= 2 * workload.count[0]
    for shown in workload.shows.split("; "):
        is_here = any(contains_words(each, shown) for each in texts)
        assert is_here or not runs_here(shown), (shown, texts)


def runs_here(shown: str) -> bool:
    """False for a path of the kernels that this CPU does not have."""
    return not shown.startswith("path ") or shown.removeprefix("path ") in crc.supported_paths()


def contains_words(name: str, words: str) -> bool:
    """Whether the name contains these as complete words: "read" is not in "threads"."""
    before = r"\b" if words[0].isalnum() else ""
    behind = r"\b" if words[-1].isalnum() else ""
    return re.search(f"{before}{re.escape(words)}{behind}", name) is not None


def test_only_whole_words_match():
    assert contains_words("kstore, extend read", "read")
    assert not contains_words("extend, 4 threads", "read")
    assert not contains_words("110 partitions", "10 partitions")
    assert contains_words("CRC-32 of 100 bytes", "CRC-32 ")


def test_an_hdr_histogram_holds_every_sample():
    encoded = results.hdr([range(1000, 2000), [5_000_000]])
    histogram = HdrHistogram.decode(encoded)
    assert histogram.get_total_count() == 1001
    assert histogram.get_value_at_percentile(50) == pytest.approx(1500, rel=0.01)
    assert histogram.get_max_value() == pytest.approx(5_000_000, rel=0.01)
