"""The short form of ``make torture PART=crash-states``, and what it stands on."""

import os
from pathlib import Path
from random import Random

import pytest

import kstore
from support.damage import write_damaged
from support.logs import open_log, read_log
from support.recording_disk import Op, Recorder, Trace, read_tree
from torture.checks import is_gap_reported
from torture.crash_disk import CrashDisk
from torture.crash_states import ALL, explore_all, record
from torture.parts import Budget
from torture.world import QUIET


@pytest.mark.parametrize("name", ALL)
def test_the_recorder_misses_nothing(tmp_path: Path, name: str) -> None:
    """The trace, played on a computed disk, ends in the very directory that the kernel has."""
    trace = record(name, str(tmp_path / "data"))
    disk = CrashDisk(trace)
    for index, op in enumerate(trace.ops):
        disk.apply(index, op)
    (end,) = disk.states("kill", 1, Random(1), None)
    assert end == read_tree(tmp_path / "data")
    assert len(trace.ops) > 20
    assert len(trace.notes) > 3


# One moment in so many of the long ones: `make torture` takes all.
EVERY = {
    "broker's transactions": 19,
    "compaction": 12,
    "delete records": 8,
    "durable broker": 60,
    "move": 24,
    "publication": 24,
    "recompress": 16,
    "reindex": 12,
    "retention": 16,
    "transactions": 40,
    "truncated transactions": 40,
}


@pytest.mark.timeout(900)  # work that is counted, not timed: a busy machine takes minutes
@pytest.mark.parametrize("name", ALL)
def test_crash_states(name: str) -> None:
    figures = explore_all(Budget(3600), names=[name], bound=1, rounds=1, every=EVERY.get(name, 4))
    print(figures.line(f"crash-states, {name}", Budget(0), None))
    assert figures.violations == []
    assert figures.counts["distinct"] > 30
    assert min(figures.counts[model] for model in ("kill", "ordered", "hostile")) > 0


def test_a_gap_that_a_power_cut_left_between_segments_is_reported(tmp_path: Path) -> None:
    """A rolled segment lost its unsynced end at a batch's boundary, the next kept its bytes."""
    log = open_log(tmp_path, segment_bytes=10_000)
    sizes = []
    for n in range(4):
        log.append(b"%d" % n)
        sizes.append(log.size)
    log.roll()
    log.append(b"4")
    log.close()
    os.truncate(tmp_path / f"{0:020d}.log", sizes[1])
    again = open_log(tmp_path, clean=False, recovery_point=1)
    assert [record.offset for record in again] == [0, 1, 4]
    assert again.recovery is not None
    assert "ends before offset 2 and the next segment begins at 4" in str(again.recovery)
    again.close()
    assert "begins at" not in str(open_log(tmp_path, clean=True).recovery)


def test_the_checks_know_a_report_of_a_lost_segment(tmp_path: Path) -> None:
    """A power cut lost the name of a segment in the middle, which was never synced."""
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t")[0]
        for n in range(3):
            log.append(b"%d" % n)
            log.roll()
    (tmp_path / "t-0" / f"{1:020d}.log").unlink()
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (tmp_path / name).unlink()
    with kstore.open(tmp_path, config=QUIET) as store:
        assert [record.offset for record in store["t"][0]] == [0, 2]
        assert is_gap_reported(store, ("t", 0))


def test_an_unsynced_index_of_a_rolled_segment_is_rebuilt(tmp_path: Path) -> None:
    """Its log was flushed before the roll, its indexes came to the disk as zeros."""
    settings = {"index_interval_bytes": 0, "segment_index_bytes": 240}
    log = open_log(tmp_path, **settings)
    for n in range(4):
        log.append(b"%d" % n, timestamp=1000 + n)
    log.roll()
    log.append(b"4")
    log.close()
    index = tmp_path / f"{0:020d}.index"
    times = tmp_path / f"{0:020d}.timeindex"
    sound = index.read_bytes(), times.read_bytes()
    for path in (index, times):
        data = path.read_bytes()
        for kept in (0, len(data) // 3 // 12 * 12 if path is times else 8):
            write_damaged(path, data[:kept] + bytes(len(data) - kept))
            open_log(tmp_path, clean=False, recovery_point=4, **settings).close()
            assert (index.read_bytes(), times.read_bytes()) == sound


def test_a_truncation_over_segments_leaves_no_hole(tmp_path: Path) -> None:
    """Each removed segment is on disk before an older one changes."""
    disk = Recorder(tmp_path)
    log = open_log(tmp_path, files=disk)
    for _ in range(3):
        log.extend([b"x"] * 2)
        log.append(b"y")
        log.roll()
    log.flush()
    before = len(disk.ops)
    log.truncate_to(2)
    changes = [op for op in disk.ops[before:] if op.kind in ("remove", "rename", "sync_names")]
    steps = [op.name or op.kind for op in changes if op.kind != "remove" or ".log" in op.name]
    assert steps[:9] == [
        "sync_names", f"{9:020d}.log", "sync_names", f"{6:020d}.log", "sync_names",
        f"{3:020d}.log", "sync_names", f"{0:020d}.log.cleaned", "sync_names",
    ]  # fmt: skip
    log.close()


def test_dropping_several_segments_leaves_no_hole(tmp_path: Path) -> None:
    """Each name that goes is on disk before that of a later segment."""
    disk = Recorder(tmp_path)
    log = open_log(tmp_path, files=disk)
    for _ in range(3):
        log.extend([b"x"] * 2)
        log.roll()
    log.flush()
    before = len(disk.ops)
    log.delete_records(6)
    changes = [op for op in disk.ops[before:] if op.kind in ("rename", "sync_names")]
    steps = [op.name or op.kind for op in changes if op.kind != "rename" or ".log" in op.name]
    assert steps[-5:] == [
        f"{0:020d}.log", "sync_names", f"{2:020d}.log", "sync_names", f"{4:020d}.log",
    ]  # fmt: skip
    log.close()


def test_damage_that_moves_an_offset_does_not_hide_later_segments(tmp_path: Path) -> None:
    """A reader that skips damage continues with the next segment, whatever a bad header says."""
    log = open_log(tmp_path)
    for n in range(3):
        log.append(b"%d" % n)
    log.roll()
    log.append(b"3")
    log.close()
    segment = tmp_path / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    data[len(data) // 3 + 24] ^= 4  # the last offset's delta of the batch in the middle
    write_damaged(segment, data)
    found = [record.offset for record in read_log(tmp_path).view().records(on_damage="skip")]
    assert found == [0, 2, 3]


# --- the computed disk ------------------------------------------------------------------------


def states(ops: list[Op], model: str) -> list[dict[str, bytes | None]]:
    disk = CrashDisk(Trace({}, ops, []))
    for index, op in enumerate(ops):
        disk.apply(index, op)
    return list(disk.states(model, 10_000, Random(1), None))


MAKE = Op("make", 0, "a", to=1)
WRITE = Op("write", 1, position=0, data=b"x" * 600)


def test_unsynced_bytes_may_be_anything() -> None:
    found = {tree.get("a") for tree in states([MAKE, WRITE], "hostile")}
    assert {None, b"", b"x" * 600, bytes(600), b"x" * 512 + bytes(88)} <= found
    assert bytes(512) + b"x" * 88 in found  # the later sector came first


def test_an_unsynced_end_may_be_an_old_block() -> None:
    """A batch that was written long ago, checksum and all, stands after the last one."""
    old, new = b"o" * 100, b"n" * 100
    ops = [
        MAKE, Op("sync_names", 0, position=1),
        Op("write", 1, position=0, data=old), Op("sync", 1, position=3),
        Op("write", 1, position=100, data=new),
    ]  # fmt: skip
    found = {tree["a"] for tree in states(ops, "hostile")}
    assert {old, old + new, old + old, old + bytes(100)} <= found


def test_a_synced_file_may_lack_its_name_and_not_its_bytes() -> None:
    ops = [MAKE, WRITE, Op("sync", 1, position=2)]
    found = {tree.get("a") for tree in states(ops, "hostile")}
    assert found == {None, b"x" * 600}
    ops.append(Op("sync_names", 0, position=3))
    assert states(ops, "hostile") == [{"a": b"x" * 600}]


def test_names_come_in_any_subset_or_in_order() -> None:
    ops = [MAKE, Op("make", 0, "b", to=2)]
    hostile = {frozenset(tree) for tree in states(ops, "hostile")}
    assert hostile == {frozenset(s) for s in ((), ("a",), ("b",), ("a", "b"))}
    ordered = {frozenset(tree) for tree in states(ops, "ordered")}
    assert ordered == {frozenset(s) for s in ((), ("a",), ("a", "b"))}


def test_a_rename_is_all_or_nothing() -> None:
    base = {"new": b"2", "old": b"1"}
    disk = CrashDisk(Trace(base, [], []))
    disk.apply(0, Op("rename", 0, "new", position=1, to=0, to_name="old"))
    found = list(disk.states("hostile", 100, Random(1), None))
    assert found == [{"old": b"2"}, base]


def test_a_write_during_a_sync_is_not_covered_by_it() -> None:
    ops = [MAKE, Op("sync_names", 0, position=1), WRITE, Op("sync", 1, position=2)]
    assert len(states(ops, "hostile")) > 1


def test_a_write_that_changes_nothing_gives_its_file_one_version() -> None:
    """More states than are wanted are drawn by number, and each number is one of them."""
    same = Op("write", 2, position=0, data=b"x")
    ops = [MAKE, Op("make", 0, "b", to=2), same, Op("sync_names", 0, position=3)]
    ops += [Op("sync", 2, position=4), same]
    disk = CrashDisk(Trace({}, ops, []))
    for index, op in enumerate([*ops, WRITE]):
        disk.apply(index, op)
    found = list(disk.states("hostile", 3, Random(1), None))
    assert {"a": b"x" * 600, "b": b"x"} in found
    assert {tree["b"] for tree in found} == {b"x"}


def test_the_recorder_sees_only_changes_below_its_root(tmp_path: Path) -> None:
    disk = Recorder(tmp_path / "in")
    disk.make_directory(tmp_path / "in")
    disk.write_atomically(tmp_path / "in" / "f", b"data")
    assert [op.kind for op in disk.ops] == [
        "make", "write", "sync", "rename", "sync_names",
    ]  # fmt: skip
    fd = disk.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    disk.close(fd)
    assert disk.outside == [str(tmp_path / "out")]
