"""Every workload of `kstore bench` runs once: results are checked, and no kernel is left out."""

import re
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram

import goals
from kstore import bench
from kstore.bench.peers import availability
from kstore.bench.report import results
from kstore.bench.runner.rounds import Outcome
from kstore.bench.workload import Setting, workloads
from support import kernels

CEILINGS = "_loops"  # how modules of bare C loops end
# Kernels without a contest of their own, and why.
WITHOUT = {
    "argument.HeldBytes": "how every kernel holds a buffer that it is given",
    "argument.HeldColumn": "how every kernel holds an array that it is given",
    "batch_appender.BatchAppender": "the base of record_appender.RecordAppender",
    "log_end.LogEnd": "the base of record_appender.RecordAppender",
    "record_appender.append_as_coordinator": "append_as_leader of a coordinator, without checks",
    "salvage.ValidBatches": "the result of scan_valid_batches",
    "batch_walk.BatchWalk": "the base of what surveys and compacts",
    "validate_batch.LeaderReport": "the result of validate_leader",
    "decode.Block": "the result of a Scanner",
    "decode.RecordScan": "the result of a Scanner",
    "record.Record": "the result of a Scanner",
    "batch_table.BatchTable": "the result of scan",
    "batch_table.FramePositions": "the result of walk_frames",
    "segment_view.Slice": "the result of a SegmentList",
    "segment_view.slice_of_bytes": "wraps bytes that were read, does no work on them",
    "reentrant_lock.Attempt": "the result of a ReentrantLock",
    "tally.KeyBytes": "the result of a Tally",
    "segment_view.find_largest_time": "the header walk of find_time, which is measured, to the end",
    "owned_descriptor.OwnedDescriptor": "closes a file when its owner is collected",
    "arrow_batches.sum_row_hashes": "part of Spark writes with a writeId, which are measured whole",
    "jit.Frame": "the result of next_frame",
    "jit.FrameRecord": "the result of next_record",
    "jit.Groups": "the result of group_by_key",
    "jit.Windows": "the result of tumbling",
    "jit.Predicate": "the result of compile_predicate",
    "jit.Row": "the argument of a predicate",
    "jit.part": "a view from which rows are made",
    "checksum.cpu_path": "returns a constant",
    "checksum.supported_paths": "returns constants",
    "status.name": "the text of an error",
    "status.reason": "the text of an error",
    "kernel_addresses.addresses": "a table for numba, built once per process",
    **{
        f"batch_fields.{name}": "reads or writes a field of one header, outside of loops; counted"
        for name in (
            *("attributes", "base_offset", "declared_size", "frame_size", "last_offset"),
            *("last_offset_delta", "leader_epoch", "magic", "next_position", "producer_id"),
            *("record_count", "stamp", "stored_crc"),
        )
    },
}
_called: dict[str, set[str]] = {}  # workload: the kernels that its contests called


@pytest.fixture(name="run_contests")
def _run_contests(tmp_path, monkeypatch):
    """Run all contests of a workload once, and record the kernels that they call."""
    monkeypatch.setattr("kstore.bench.peers.kafka._provider", None)  # see test_log_contests
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def run(workload):
        level = "full" if workload.group == "engine" else "quick"  # the others have more contests
        directory = tmp_path / workload.title
        directory.mkdir(parents=True)
        setting = Setting(directory, workload.size(level), level)
        names, figures = [], []
        with kernels.seen() as called:
            for contest in workload.contests(setting):
                outcome = Outcome(contest, {})
                for name, seconds, result in contest.first_calls():
                    outcome.note(name, seconds, result)
                figures += outcome.times
                assert contest.ceiling in ("", *contest.calls)
                assert workload.title in goals.SECONDS or not goals.has_bar(contest)
                names.append(contest.name)
        _called[workload.title] = called
        return names, [*figures, *names, *setting.missing, *availability.missing]

    return run


@pytest.mark.parametrize("workload", workloads(), ids=lambda workload: workload.title)
def test_results_of_every_contest_are_right(workload, run_contests):
    names, texts = run_contests(workload)
    assert len(names) == len(set(names)) > 0
    assert len(names) <= 2 * workload.count[0]
    for shown in workload.shows.split("; "):
        assert any(contains_words(each, shown) for each in texts), (shown, texts)


def test_every_kernel_is_called_by_a_contest(run_contests):
    for workload in workloads(["engine"]):
        if workload.title not in _called:
            run_contests(workload)
    called = set().union(*_called.values()) | names_of_compiled_loops()
    public = {name for name in kernels.public() if CEILINGS not in name.split(".")[0]}
    assert public - called - WITHOUT.keys() == set(), "a kernel without a contest"
    assert WITHOUT.keys() - public == set(), "no such kernel"


def names_of_compiled_loops() -> set[str]:
    """Functions of ``kstore.jit`` that the contests name: compiled code calls them, unseen."""
    folder = Path(bench.__file__).parent
    named = set().union(*(kernels.named_in(path, "jit") for path in folder.rglob("*.py")))
    return {f"jit.{name}" for name in named}


def contains_words(name: str, words: str) -> bool:
    """Whether the name has these as whole words: "read" is not in "threads"."""
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
