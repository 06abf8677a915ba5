"""Compaction on disks that fail, after kills, and as a store does it by itself."""

import os
import shutil
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig, StoreConfig
from kstore.cli import main
from kstore.compaction import log_cleaner
from kstore.errors import LogFailedError, PolicyViolationError, StorageError
from kstore.files.files import Files
from kstore.record import Record
from support.compaction import (
    NOW,
    RETENTION,
    batches_of,
    contents,
    fill,
    live_segments,
    open_compacted,
)
from support.disks import FaultyDisk, HastyDisk
from support.logs import read_log
from support.stores import leave_to_kafka

# --- disks that fail -----------------------------------------------------------------------


def stuff(directory):
    return [
        (r.offset, r.key, r.value) for b in batches_of(live_segments(directory)) for r in b.records
    ]


@pytest.mark.parametrize("sticky", [False, True])
def test_every_call_fails_once_or_for_ever(tmp_path, sticky):
    """Whatever fails, the log, opened again, has the records from before or from after."""
    base = tmp_path / "base" / "t-0"
    fill(base, rounds=3, segment_bytes=1000).close()
    before = stuff(base)
    after = None
    outcomes = set()
    for at in range(1000):
        directory = tmp_path / f"{at}" / "t-0"
        shutil.copytree(base, directory)
        disk = FaultyDisk()
        log = open_compacted(directory, files=disk, segment_bytes=1000)
        disk.arm(at, lambda: StorageError("injected", errno=28), sticky=sticky)
        try:
            log.compact()
            failed = False
        except StorageError:
            failed = True
        reached = len(disk.calls) > at
        disk.fail_at = -1
        if failed and log._writer.state.failure is None:
            log.append(b"still", key=b"writable", timestamp=NOW)
        crash = tmp_path / f"{at}-crash" / "t-0"
        shutil.copytree(directory, crash)  # as if the process were killed here
        log.close()
        for each in (crash, directory):
            again = open_compacted(each, clean=False)
            found = [one for one in contents(again) if one[1] != b"writable"]
            again.verify().raise_if_corrupt()
            again.close()
            if after is None and not failed and not reached:
                after = found
            outcomes.add(tuple(found))
            shutil.rmtree(each.parent)
        if not reached:
            break
    assert after is not None
    assert at > 30
    # Groups are swapped one by one, so there are states in between, each with every latest.
    latest = {key: value for _, key, value in before}
    for found in outcomes:
        assert {key: value for _, key, value in found} == latest
        assert set(found) <= set(before)
        assert set(after) <= set(found)
    assert tuple(before) in outcomes


@pytest.mark.parametrize("sticky", [False, True])
def test_any_failure_while_expired_tombstones_go_keeps_every_value(tmp_path, sticky):
    base = tmp_path / "base" / "t-0"
    log = fill(base, rounds=2, segment_bytes=1000)
    log.extend([Record(-1, NOW, b"k%02d" % n, None) for n in range(0, 20, 2)])
    log.roll()
    log.compact()
    log.close()
    before = stuff(base)
    values = [row for row in before if row[2] is not None]
    assert len(before) > len(values) == 10
    later = NOW + RETENTION
    lengths = set()
    for at in range(1000):
        directory, crash = tmp_path / f"{at}" / "t-0", tmp_path / f"{at}-crash" / "t-0"
        shutil.copytree(base, directory)
        disk = FaultyDisk()
        log = open_compacted(directory, files=disk, segment_bytes=1000, now=later)
        disk.arm(at, lambda: StorageError("injected", errno=28), sticky=sticky)
        with suppress(StorageError):
            log.compact()
        reached = len(disk.calls) > at
        disk.fail_at = -1
        shutil.copytree(directory, crash)  # as if the process were killed here
        log.close()
        for each in (crash, directory):
            again = open_compacted(each, clean=False, now=later)
            found = contents(again)
            again.verify().raise_if_corrupt()
            again.close()
            assert [row for row in found if row[2] is not None] == values
            assert set(found) <= set(before)
            lengths.add(len(found))
            shutil.rmtree(each.parent)
        if not reached:
            break
    assert at > 10
    assert {len(before), len(values)} <= lengths


def test_a_compaction_killed_at_any_rename_keeps_every_key(tmp_path):
    """Kill before each rename: what a loader has to finish or to undo."""
    base = tmp_path / "base" / "t-0"
    fill(base, rounds=3).close()
    before = stuff(base)

    class Killed(BaseException):
        pass

    seen = set()
    for at in range(100):
        directory = tmp_path / f"{at}" / "t-0"
        shutil.copytree(base, directory)
        disk = FaultyDisk()
        log = open_compacted(directory, files=disk)
        renames = 0

        def step(name, at=at, disk=disk):
            nonlocal renames
            disk.calls.append(name)
            renames += name == "rename"
            return renames > at and name in ("rename", "remove")

        disk._step = step
        disk.error = Killed
        with suppress(Killed, LogFailedError):
            log.compact()
        beside = read_log(directory)
        seen_beside = contents(beside)
        beside.close()
        again = open_compacted(directory, clean=False)
        found = contents(again)
        assert {key: value for _, key, value in seen_beside} == {k: v for _, k, v in before}
        assert set(found) <= set(seen_beside) <= set(before)
        assert [row[0] for row in seen_beside] == sorted({row[0] for row in seen_beside})
        again.verify().raise_if_corrupt()
        again.close()
        assert {key: value for _, key, value in found} == {k: v for _, k, v in before}
        assert len(found) in (20, 60)
        seen.add(len(found))
        if renames <= at:
            break
    assert seen == {20, 60}
    assert at > 8


def test_a_failed_output_leaves_the_log_writable(tmp_path):
    class Full(HastyDisk):
        native = False
        full = False

        def write(self, fd, *buffers):
            if self.full and os.readlink(f"/proc/self/fd/{fd}").endswith(".cleaned"):
                raise StorageError("cannot write", errno=28)
            return super().write(fd, *buffers)

    disk = Full()
    log = fill(tmp_path / "t-0", files=disk)
    before = contents(log)
    disk.full = True
    with pytest.raises(StorageError):
        log.compact()
    assert contents(log) == before
    assert not list((tmp_path / "t-0").glob("*.cleaned"))
    log.append(b"1", key=b"k")
    disk.full = False
    log.compact()
    assert len(contents(log)) == 21
    log.close()


# --- a store's own work --------------------------------------------------------------------

COMPACT = LogConfig(cleanup_policy="compact", segment_bytes=2000, file_delete_delay_ms=0)


def fill_topic(store, name, config, rounds=6):
    topic = store.create_topic(name, config=config)
    for number in range(rounds):
        topic[0].extend([Record(-1, NOW, b"k%02d" % n, b"%d" % number) for n in range(20)])
        topic[0].roll()
    return topic[0]


def test_a_store_compacts_by_itself(tmp_path):
    config = StoreConfig(log_cleaner_backoff_ms=10, log_cleaner_threads=2)
    # A log that is cleaned while it is filled may end half dirty, which is not enough by default.
    eager = replace(COMPACT, min_cleanable_dirty_ratio=0.1)
    with kstore.open(tmp_path, config=config) as store:
        logs = [fill_topic(store, name, eager) for name in ("a", "b")]
        kept = fill_topic(store, "c", LogConfig(segment_bytes=2000))
        done = threading.Event()
        for _ in range(500):
            if all(sum(1 for _ in log) == 20 for log in logs):
                break
            done.wait(0.02)
        assert [sum(1 for _ in log) for log in logs] == [20, 20]
        assert sum(1 for _ in kept) == 120
    names = {thread.name for thread in threading.enumerate()}
    assert log_cleaner.CleanerThread.NAME not in names


def test_the_dirtiest_log_is_taken_first(tmp_path):
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as store:
        clean, half, dirty = (fill_topic(store, name, COMPACT) for name in ("x", "y", "z"))
        clean.compact()
        half.compact()
        for _ in range(3):
            half.extend([Record(-1, NOW, b"k%02d" % n, b"more") for n in range(20)])
            half.roll()
        manager = store._manager
        order = [manager.cleaner.grab_filthiest(manager) for _ in range(3)]
        assert order == [dirty, half, None]


def test_close_ends_a_compaction(tmp_path):
    config = StoreConfig(log_cleaner_backoff_ms=10, log_cleaner_io_max_bytes_per_second=20_000.0)
    store = kstore.open(tmp_path, config=config)
    log = fill_topic(store, "a", COMPACT, rounds=50)
    pause = threading.Event()
    for _ in range(500):
        if list(Path(log.path).glob("*.cleaned")) or sum(1 for _ in log) < 1000:
            break
        pause.wait(0.01)
    store.close()
    with kstore.open(tmp_path) as store:
        assert {r.key: r.value for r in store["a"][0]} == {b"k%02d" % n: b"49" for n in range(20)}


def test_a_topic_that_compacts_and_deletes_does_both(tmp_path):
    both = LogConfig(
        cleanup_policy="compact,delete",
        segment_bytes=2000,
        file_delete_delay_ms=0,
        retention_ms=1000,
    )
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as store:
        log = fill_topic(store, "a", both)
        log.compact()
        assert sum(1 for _ in log) == 20
        store.apply_retention()  # the records are from long ago
        assert sum(1 for _ in log) == 0
        assert log.start_offset == log.end_offset == 120
        kept = fill_topic(store, "b", LogConfig(
            cleanup_policy="compact", retention_ms=1000, segment_bytes=2000
        ))  # fmt: skip
        store.apply_retention()
        assert sum(1 for _ in kept) == 120, "compacted only: never deleted by age"


def test_a_topic_of_kafka_is_not_compacted(tmp_path):
    default = StoreConfig(background=False, log=COMPACT)
    with kstore.open(tmp_path, config=default) as store:
        fill_topic(store, "a", COMPACT)
    leave_to_kafka(tmp_path)
    with kstore.open(tmp_path, config=default) as store:
        manager = store._manager
        assert manager.cleaner.grab_filthiest(manager) is None
        with pytest.raises(PolicyViolationError):
            store["a"][0].compact()


def test_a_compaction_with_nothing_to_do_says_why_and_roll_solves_it(tmp_path):
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as store:
        topic = store.create_topic("a", partitions=2, config={"cleanup.policy": "compact"})
        topic[1].extend([(b"k", b"1"), (b"k", b"2")])
        report = topic[1].compact()
        assert report.passes == 0
        assert "has only its active segment: roll it first" in report.reason
        assert topic.compact().reason.startswith("the log has no records")  # of partition 0
        assert "; the active segment is never compacted" in store.compact().reason
        report = topic.compact(roll=True)
        assert (report.records_read, report.records_kept, report.reason) == (2, 1, "")
        assert [record.value for record in topic[1]] == [b"2"]
    with kstore.open(tmp_path / "b", config=StoreConfig(background=False)) as store:
        assert store.compact().reason == "no topic has cleanup.policy=compact"


def test_the_command_compacts_compacted_topics_only(tmp_path, capsys):
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as store:
        fill_topic(store, "a", COMPACT)
        fill_topic(store, "b", LogConfig(segment_bytes=2000))
    assert main(["compact", "--log-dir", str(tmp_path), "--topic", "a|b"]) == 0
    shown = capsys.readouterr()
    assert "a-0: 120 records to 20," in shown.out
    assert "compacted up to offset 120" in shown.out
    assert "b: cleanup.policy does not contain 'compact'" in shown.err
    assert main(["compact", "--log-dir", str(tmp_path)]) == 0
    assert "a-0: nothing to compact; the first dirty offset is 120: " in capsys.readouterr().out
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as store:
        store["a"][0].append(b"new", key=b"k")
    assert main(["compact", "--log-dir", str(tmp_path)]) == 0
    assert "roll it first, by roll=True or --roll" in capsys.readouterr().out
    assert main(["compact", "--roll", "--log-dir", str(tmp_path)]) == 0
    assert "compacted up to offset 121" in capsys.readouterr().out
    assert main(["compact", "--log-dir", str(tmp_path), "--partitions", "7"]) == 1
    assert "no such partition: 7; the store has 0" in capsys.readouterr().err
    assert main(["compact", "--log-dir", str(tmp_path), "--topic", "c"]) == 1
    assert "Topic 'c' does not exist as expected; existing topics: a, b" in capsys.readouterr().err
    assert main(["compact", "--log-dir", str(tmp_path), "--partitions", "x"]) == 1
    assert main(["compact", "--log-dir", str(tmp_path), "--dedupe-buffer-size", "0"]) == 1


def test_a_reader_gets_past_a_compaction_that_is_ahead_of_it(tmp_path):
    """Each segment is emptied just before the reader opens it."""
    log = open_compacted(tmp_path / "t-0")
    for number in range(8):
        log.append(b"%d" % number, key=b"k")
        log.roll()
    log.append(b"last", key=b"k")
    swept = set()

    class Swept(Files):
        def open(self, path, *arguments, **named):
            name = os.path.basename(path)
            if name.endswith(".log") and name < f"{8:020}" and name not in swept:
                swept.add(name)
                Path(f"{path}.tmp").touch()
                os.replace(f"{path}.tmp", path)
            return super().open(path, *arguments, **named)

    reader = read_log(tmp_path / "t-0", files=Swept())
    assert [record.value for record in reader] == [b"last"]
    assert len(swept) == 8
    reader.close()
    log.close()


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_gaps_that_compaction_left_are_no_warning_after_a_kill(tmp_path: Path, policy: str) -> None:
    """What the cleaner's checkpoint covers is explained, also where the policy changed back.

    Without the checkpoint a compacted log reports possible gaps without a warning; any
    other log warns.
    """
    config = LogConfig(cleanup_policy="compact", segment_bytes=200)
    quiet = StoreConfig(background=False)
    killed = tmp_path / "killed"
    with kstore.open(tmp_path / "made", config=quiet) as store:
        log = store.create_topic("t", config=config)[0]
        for number in range(20):
            log.append(b"x" * 100, key=b"%d" % (number % 3))
        log.compact()
        if policy == "delete":
            store.alter_topic("t", unset=["cleanup.policy"])
        shutil.copytree(tmp_path / "made", killed)  # as if it were killed here

    def recovered() -> tuple[list[str], bool]:
        (killed / ".kafka_cleanshutdown").unlink(missing_ok=True)
        (killed / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
        with kstore.open(killed, config=quiet) as store:
            report = store["t"][0].recovery
            assert report is not None
            assert report.segments_scanned > 1
            return [step for step in report.steps if "lost" in step], report.alarming

    assert recovered() == ([], False)
    (killed / "cleaner-offset-checkpoint").unlink()
    gaps, is_alarming = recovered()
    assert gaps
    assert all("compaction removed" in gap for gap in gaps) == (policy == "compact")
    assert is_alarming == (policy == "delete")
