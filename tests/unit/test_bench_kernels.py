"""No kernel without a contest: ``kstore bench`` measures every one, or a reason is given here."""

from pathlib import Path

import pytest

from kstore import bench
from kstore._native import keys
from kstore._native.keys import murmur2
from kstore.bench.workload import workloads
from support import kernels

CEILINGS = "limits"  # C loops beside them: modules that begin so
# What has no contest of its own, and why.
WITHOUT = {
    "admit.Admission": "the base of append.Appender",
    "log_end.LogEnd": "the base of append.Appender",
    "batch_walk.BatchWalk": "the base of what surveys and compacts",
    "batch.LeaderReport": "what validate_leader gives",
    "decode.Block": "what a Scanner gives",
    "decode.RecordScan": "what a Scanner gives",
    "record.Record": "what a Scanner gives",
    "frames.BatchTable": "what scan gives",
    "frames.FramePositions": "what walk_frames gives",
    "locate.Slice": "what a SegmentList gives",
    "locate.slice_of_bytes": "makes one of bytes that were read; does nothing with them",
    "lock.Attempt": "what a ReentrantLock gives",
    "tally.KeyBytes": "what a Tally gives",
    "jit.Frame": "what next_frame gives",
    "jit.FrameRecord": "what next_record gives",
    "jit.Groups": "what group_by_key gives",
    "jit.Windows": "what tumbling gives",
    "jit.Predicate": "what compile_predicate gives",
    "jit.Row": "what a predicate is given",
    "jit.part": "a view, of which rows are made",
    "checksum.cpu_path": "a word",
    "checksum.supported_paths": "words",
    "status.name": "a word of an error",
    "status.reason": "words of an error",
    "symbols.addresses": "a table for numba, once a process",
}


def measured() -> set[str]:
    return {kernel for workload in workloads() for kernel in workload.kernels}


def test_every_kernel_is_measured():
    there = {name for name in kernels.public() if not name.startswith(CEILINGS)}
    assert there - measured() - WITHOUT.keys() == set(), "a kernel without a contest"
    assert measured() - there == set(), "no such kernel"
    assert WITHOUT.keys() - there == set(), "no such kernel"
    assert WITHOUT.keys() & measured() == set(), "measured all the same"


def test_what_numba_has_is_in_the_compiled_loops():
    """Of the others `benchmarks/test_workloads.py` sees that they are called."""
    (workload,) = workloads(["engine/jit"])
    here = Path(bench.__file__).parent
    named = kernels.named_in(here / "kernels_jit.py", "jit")
    named |= kernels.named_in(here / "contests" / "jit.py", "jit")
    assert {name.removeprefix("jit.") for name in workload.kernels} <= named


def test_calls_are_seen_and_nothing_stays():
    with kernels.seen() as called:
        assert keys.murmur2(b"21") == -973932308
        assert keys.murmur2.__name__ == "murmur2"
    assert called == {"keys.murmur2"}
    assert keys.murmur2 is murmur2
    with pytest.raises(AttributeError):
        _ = keys.murmur2._kernel
