"""Work over a partition grows with its bytes and segments, and not with their square.

Counted, not timed: calls to the disk, bytes read, names listed, segments replayed for producers,
calls of functions. The directories have tiny segments, so that what is done for each counts most.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kstore import Store
from kstore.log.log import Log
from kstore.producer_state import replay as producer_replay
from kstore.store.partition_factory import peek_end_offset
from kstore.verify.distributed import merge_reports, plan_ranges, verify_range
from kstore.verify.partition import verify_partition
from support.disks import CountingDisk, HastyDisk
from support.logs import open_log, read_log
from support.producers import NOW, sent
from support.stores import QUIET, leave_to_kafka

FEWEST = 250
MEMORY = "/dev/shm"  # thousands of files are made and removed: used where there is room
ROOM = 1 << 29
SETTINGS = {"clock": lambda: NOW, "producer_id_expiration_ms": 2**62, "file_delete_delay_ms": 0}


class Counts(NamedTuple):
    """What one call took."""

    disk_calls: int
    bytes_read: int
    names_listed: int
    replays: int
    function_calls: int
    most_open: int


# --- the directories ---------------------------------------------------------------------


def fill(directory: Path, count: int) -> None:
    """A log of so many rolled segments: idempotent batches, aborted and committed transactions."""
    log = open_log(directory, files=HastyDisk(), **SETTINGS)
    for number in range(count):
        log.append_as_leader(sent(1, 0, number))
        log.append_as_leader(sent(2, 0, number, transactional=True))
        log.append_end_marker(2, 0, commit=number % 2 == 1)
        log.roll()
    log.append(b"last", key=b"key")
    log.close()


class Directories:
    """A filled directory of each size, made once; tests get copies."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._made = 0

    def copy(self, count: int) -> Path:
        """A partition directory; files never written in place are links to the first one's."""
        first = self.root / f"made-{count}" / "t-0"
        if not first.exists():
            fill(first, count)
        if self._made:  # thousands of files: one copy at a time
            shutil.rmtree(self.root / f"copy-{self._made}", ignore_errors=True)
        self._made += 1
        copy = self.root / f"copy-{self._made}" / "t-0"
        copy.mkdir(parents=True)
        in_place = 4 * count - 4  # the offset where the last two segments begin
        for entry in os.scandir(first):
            is_linked = entry.name[:20].isdigit() and int(entry.name[:20]) < in_place
            (os.link if is_linked else shutil.copyfile)(entry.path, copy / entry.name)
        return copy


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directories]:
    root = tmp_path_factory.mktemp("many")
    if os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free > ROOM:
        root = Path(tempfile.mkdtemp(prefix="kstore-many-", dir=MEMORY))
    yield Directories(root)
    shutil.rmtree(root)


def bases(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.log"))


def remove(directory: Path, *endings: str) -> None:
    for ending in endings:
        found = list(directory.glob(f"*.{ending}"))
        assert found
        for path in found:
            path.unlink()


# --- the work ----------------------------------------------------------------------------

Work = Callable[[CountingDisk], Any]


def opens(directory: Path, **named: Any) -> Work:
    return lambda disk: open_log(directory, files=disk, **{**SETTINGS, **named})


def open_after_clean_stop(directory: Path) -> Work:
    return opens(directory)


def open_without_side_files(directory: Path) -> Work:
    remove(directory, "snapshot", "txnindex", "index", "timeindex")
    return opens(directory)


def open_with_bad_snapshots(directory: Path) -> Work:
    remove(directory, "txnindex")
    for path in list(directory.glob("*.snapshot")):
        size = path.stat().st_size
        path.unlink()
        path.write_bytes(bytes(size))
    return opens(directory)


def recover_all_of_it(directory: Path) -> Work:
    return opens(directory, clean=False)


def recover_half_of_it(directory: Path) -> Work:
    return opens(directory, clean=False, recovery_point=bases(directory)[-1] // 2)


def recover_without_indexes(directory: Path) -> Work:
    remove(directory, "txnindex", "timeindex")
    return opens(directory, clean=False)


def recover_as_kafka_from_the_first_segment(directory: Path) -> Work:
    """Every later segment is put aside."""
    path = directory / f"{0:020}.log"
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:-1])

    def work(disk: CountingDisk) -> None:
        from kstore.config import LogConfig
        from kstore.recovery.recover_partition import recover_partition

        found = recover_partition(disk, directory, 0, LogConfig(), mode="kafka")
        assert len(found.segments) == 1

    return work


def recover_as_kafka_with_damage_everywhere(directory: Path) -> Work:
    """Each segment is cut, and its bytes kept."""
    for base in bases(directory)[:-2]:
        path = directory / f"{base:020}.log"
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data[:-1])
    remove(directory, "index")

    def work(disk: CountingDisk) -> None:
        from kstore.config import LogConfig
        from kstore.recovery.recover_partition import recover_partition

        found = recover_partition(disk, directory, None, LogConfig(), mode="kafka")
        assert len(found.report.kept) == len(found.segments) - 2

    return work


def finish_a_swap(directory: Path) -> Work:
    """A compaction of all segments was killed before its renames."""
    for base in bases(directory)[:-2]:
        for ending in ("log", "index", "timeindex"):
            path = directory / f"{base:020}.{ending}"
            path.rename(f"{path}.swap")
    return opens(directory)


def reader_opens(directory: Path) -> Work:
    return lambda disk: read_log(directory, files=disk).end_offset


def reader_asks_for_aborted_transactions(directory: Path) -> Work:
    def work(disk: CountingDisk) -> None:
        log = read_log(directory, files=disk)
        assert len(log.aborted_transactions(0, log.end_offset)) == len(bases(directory)) // 2
        assert log.last_stable_offset == log.end_offset

    return work


def reader_asks_without_side_files(directory: Path) -> Work:
    remove(directory, "txnindex", "snapshot")
    return reader_asks_for_aborted_transactions(directory)


def reader_scans_what_is_committed(directory: Path) -> Work:
    def work(disk: CountingDisk) -> None:
        log = read_log(directory, files=disk)
        found = log.view(isolation="read_committed").scan()
        rolled = len(bases(directory)) - 1
        assert sum(len(each) for each in found) == rolled + rolled // 2 + 1

    return work


def store_lists_topics(directory: Path) -> Work:
    leave_to_kafka(directory.parent)

    def work(disk: CountingDisk) -> None:
        with Store(directory.parent, "r", config=QUIET, files=disk) as store:
            assert list(store) == ["t"]
            assert store["t"][0].end_offset > 0

    return work


def verify(directory: Path) -> Work:
    def work(disk: CountingDisk) -> None:
        report = verify_partition(disk, directory)
        assert report.ok, report.findings
        assert report.segments == len(bases(directory))

    return work


def verify_in_parts(directory: Path) -> Work:
    """In eight parts: the job plans by its number of tasks, not by that of the segments."""

    def work(disk: CountingDisk) -> None:
        sizes = [
            (base, (directory / f"{base:020}.log").stat().st_size) for base in bases(directory)
        ]
        parts = plan_ranges(sizes, sum(size for _, size in sizes) // 8)
        assert 8 <= len(parts) <= 9
        merged = merge_reports([verify_range(disk, directory, part) for part in parts])
        assert merged is not None
        assert merged.ok, merged.findings

    return work


def end_is_peeked(directory: Path) -> Work:
    return lambda disk: peek_end_offset(disk, str(directory), 0)


def on_writer(directory: Path, act: Callable[[Log], Any], **settings: Any) -> Work:
    """Something done to a log that is open; opening it is not counted."""
    log = open_log(directory, files=HastyDisk(), **{**SETTINGS, **settings})

    def work(disk: CountingDisk) -> None:
        writer = log._writer
        assert writer is not None
        log._files = writer.state.files = writer.state.producers._files = disk
        act(log)

    return work


def compact(directory: Path) -> Work:
    """Every segment stays one of its own."""
    settings = {"cleanup_policy": "compact", "segment_bytes": 300}
    return on_writer(directory, lambda log: log.compact(), **settings)


def compact_with_a_delay(directory: Path) -> Work:
    """Replaced files wait for their removal."""
    settings = {
        "cleanup_policy": "compact",
        "segment_bytes": 300,
        "file_delete_delay_ms": 60_000,
    }
    return on_writer(directory, lambda log: log.compact(), **settings)


def compact_into_few(directory: Path) -> Work:
    return on_writer(directory, lambda log: log.compact(), cleanup_policy="compact")


def apply_retention(directory: Path) -> Work:
    rolled = len(bases(directory)) - 1

    def act(log: Log) -> None:
        assert log.apply_retention() == rolled

    return on_writer(directory, act, retention_bytes=1)


def delete_records(directory: Path) -> Work:
    return on_writer(directory, lambda log: log.delete_records(log.end_offset))


def look_up_by_time(directory: Path) -> Work:
    return on_writer(directory, lambda log: log.offset_at(NOW + 1_000_000_000))


def truncate(directory: Path) -> Work:
    return on_writer(directory, lambda log: log.truncate_to(1))


def seal(directory: Path) -> Work:
    return on_writer(directory, lambda log: log.seal())


def flush_each_roll(directory: Path) -> Work:
    """As many rolls as there are segments."""

    def act(log: Log) -> None:
        for _ in bases(directory):
            log.append(b"value")
            log.roll()
            log.flush()

    return on_writer(directory, act)


def close_after_many_rolls(directory: Path) -> Work:
    """Nothing was flushed."""

    def act(log: Log) -> None:
        for _ in bases(directory):
            log.append(b"value")
            log.roll()
        assert log.close()

    return on_writer(directory, act)


WORK = (
    open_after_clean_stop,
    open_without_side_files,
    open_with_bad_snapshots,
    recover_all_of_it,
    recover_half_of_it,
    recover_without_indexes,
    recover_as_kafka_from_the_first_segment,
    recover_as_kafka_with_damage_everywhere,
    finish_a_swap,
    reader_opens,
    reader_asks_for_aborted_transactions,
    reader_asks_without_side_files,
    reader_scans_what_is_committed,
    store_lists_topics,
    end_is_peeked,
    verify,
    verify_in_parts,
    compact,
    compact_with_a_delay,
    compact_into_few,
    apply_retention,
    delete_records,
    look_up_by_time,
    truncate,
    seal,
    flush_each_roll,
    close_after_many_rolls,
)


def count(work: Work, monkeypatch: pytest.MonkeyPatch) -> Counts:
    disk = CountingDisk()
    replays = calls = 0
    replay = producer_replay.replay_segment

    def replayed(*arguments: Any, **named: Any) -> int:
        nonlocal replays
        replays += 1
        return replay(*arguments, **named)

    def called(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    with monkeypatch.context() as patch:
        patch.setattr(producer_replay, "replay_segment", replayed)
        before = sys.getprofile()
        sys.setprofile(called)
        try:
            work(disk)
        finally:
            sys.setprofile(before)
    return Counts(disk.calls, disk.bytes_read, disk.names_listed, replays, calls, disk.most_open)


def check_linear(few: Counts, many: Counts, ratio: float) -> list[str]:
    """What grew by more than the ratio of the sizes; descriptors must not grow at all."""
    wrong = [
        f"{name}: {getattr(few, name)} grew to {getattr(many, name)}"
        for name in Counts._fields[:-1]
        if getattr(many, name) > getattr(few, name) * ratio * 1.05 + 20
    ]
    if many.most_open > few.most_open:
        wrong.append(f"files open at once: {few.most_open} grew to {many.most_open}")
    return wrong


@pytest.mark.parametrize("prepare", WORK, ids=lambda work: work.__name__)
def test_work_is_linear_in_segments(
    directories: Directories,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[Path], Work],
) -> None:
    few = count(prepare(directories.copy(FEWEST)), monkeypatch)
    many = count(prepare(directories.copy(4 * FEWEST)), monkeypatch)
    assert check_linear(few, many, 4) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "prepare",
    [
        open_after_clean_stop,
        open_without_side_files,
        recover_all_of_it,
        recover_half_of_it,
        reader_asks_without_side_files,
        store_lists_topics,
        verify,
        compact_into_few,
        apply_retention,
    ],
    ids=lambda work: work.__name__,
)
def test_work_is_linear_up_to_4000_segments(
    directories: Directories,
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[Path], Work],
) -> None:
    few = count(prepare(directories.copy(FEWEST)), monkeypatch)
    many = count(prepare(directories.copy(16 * FEWEST)), monkeypatch)
    assert check_linear(few, many, 16) == []
