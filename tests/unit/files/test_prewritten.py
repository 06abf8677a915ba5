"""``preallocate``: the active segment's file reaches beyond the log's end, with written zeros."""

import errno
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kstore
import kstore.verify.partition
from kstore import LogConfig
from kstore.errors import StorageError
from kstore.files.filenames import FENCE
from kstore.files.files import DISK, Files
from kstore.files.map_budget import MapBudget
from kstore.log.reader import LogReader
from support.damage import write_damaged
from support.disks import HalfDisk
from support.logs import open_log, read_log
from support.recording_disk import Op, Recorder
from support.stores import QUIET

MIB = 1 << 20
KIB4 = b"v" * 4096
ON: dict[str, Any] = {"preallocate": True}


def segment(directory: Path, base: int = 0) -> Path:
    return directory / f"{base:020d}.log"


def used(log: Any) -> int:
    return int(log.segments.views[-1].size)


def assert_zeros_behind(path: Path, size: int) -> None:
    assert not any(path.read_bytes()[size:])


# --- how far the file reaches ---------------------------------------------------------------------


def test_zeros_are_written_ahead_a_step_at_a_time_and_not_beyond_the_segment(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path, segment_bytes=2_500_000, **ON)
    file = segment(tmp_path)
    assert file.stat().st_size == 0  # nothing was appended yet
    sizes = []
    while len(log.segments.views) == 1:
        log.append(KIB4)
        if len(log.segments.views) == 1:
            size = file.stat().st_size
            sizes += [size] if sizes[-1:] != [size] else []
            assert used(log) <= size
    assert sizes == [MIB, 2 * MIB, 2_500_000]
    first = log.segments.views[0]
    assert file.stat().st_size == first.size <= 2_500_000  # cut where it was rolled
    assert segment(tmp_path, first.next_offset).stat().st_size == MIB
    log.close()
    assert segment(tmp_path, first.next_offset).stat().st_size == used(log)


def test_zeros_are_written_and_not_a_hole(tmp_path: Path) -> None:
    log = open_log(tmp_path, **ON)
    log.append(b"x")
    log.flush()
    assert segment(tmp_path).stat().st_blocks * 512 >= MIB
    assert_zeros_behind(segment(tmp_path), used(log))


def test_without_the_setting_the_file_ends_with_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(b"x")
    assert segment(tmp_path).stat().st_size == used(log)


def test_a_large_append_is_not_written_twice(tmp_path: Path) -> None:
    disk = Recorder(tmp_path)
    log = open_log(tmp_path, files=disk, batch_size=MIB, **ON)
    log.append(b"x" * 200_000)
    writes = [op for op in disk.ops if op.kind == "write" and op.node == node_of(disk)]
    assert len(writes) == 1
    assert segment(tmp_path).stat().st_size == used(log)
    log.append(b"small")
    assert segment(tmp_path).stat().st_size == MIB
    assert [record.value for record in log] == [b"x" * 200_000, b"small"]


# --- what a commit asks of the disk ---------------------------------------------------------------


def node_of(disk: Recorder, base: int = 0) -> int:
    return disk._nodes[f"{base:020d}.log"]


def test_a_commit_is_one_write_within_the_file_and_one_sync(tmp_path: Path) -> None:
    disk = Recorder(tmp_path)
    log = open_log(tmp_path, files=disk, index_interval_bytes=MIB, **ON)
    log.append(KIB4)
    log.flush()  # the zeros, the name
    for _ in range(5):
        before, end, size = len(disk.ops), used(log), segment(tmp_path).stat().st_size
        log.append(KIB4)
        log.flush()
        write, sync = disk.ops[before:]
        assert (write.kind, write.position, len(write.data)) == ("write", end, used(log) - end)
        assert (sync.kind, sync.node) == ("sync", write.node)
        assert segment(tmp_path).stat().st_size == size == MIB


def test_the_native_append_writes_in_place(tmp_path: Path) -> None:
    log = open_log(tmp_path, **ON)
    values = [b"%d" % n * 50 for n in range(300)]
    for value in values:
        log.append(value)
    log.extend(values)  # larger than a small write: two writes, or one
    stat = segment(tmp_path).stat()
    assert stat.st_size == MIB
    assert_zeros_behind(segment(tmp_path), used(log))
    assert [record.value for record in log] == values * 2
    log.append_as_follower(shifted(log, log.end_offset))
    log.append_as_leader(bytes(log.read(0, 1).memory()))
    assert log.end_offset == 1201
    assert segment(tmp_path).stat().st_size == MIB
    assert_zeros_behind(segment(tmp_path), used(log))
    assert [record.value for record in log] == values * 4 + values[:1]


def shifted(log: Any, by: int) -> bytes:
    """All of a log's batches with offsets that begin at by."""
    data, position = bytearray(log.read(0, MIB).memory()), 0
    while position < len(data):
        base = int.from_bytes(data[position : position + 8], "big") + by
        data[position : position + 8] = base.to_bytes(8, "big")
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return bytes(data)


# --- appends that fail ----------------------------------------------------------------------------


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_nothing_of_a_failed_append_stays_behind_a_shorter_one(tmp_path: Path, writes: int) -> None:
    """Whether the batch failed or the zeros in front of it (the first two writes)."""
    disk = HalfDisk()
    log = open_log(tmp_path, files=disk, **ON)
    if writes == 0:
        log.append(b"first" * 100)
    disk.arm(writes)
    if writes == 2:
        disk.arm(4)  # 1 MiB of zeros comes in four writes
    with pytest.raises(StorageError):
        log.append(b"torn" * 500)
    disk.left = -1
    assert segment(tmp_path).stat().st_size == used(log)  # cut back
    log.append(b"short")
    assert segment(tmp_path).stat().st_size == MIB
    assert_zeros_behind(segment(tmp_path), used(log))
    kept = [record.value for record in log]
    assert kept[-1] == b"short"
    again = open_log(tmp_path, clean=False)  # as after a kill
    assert [record.value for record in again] == kept
    assert again.recovery is not None
    assert again.recovery.kept == ()


def test_a_log_whose_tail_cannot_be_cut_refuses_appends(tmp_path: Path) -> None:
    class Stubborn(HalfDisk):
        stubborn = False

        def truncate(self, fd: int, size: int) -> None:
            if self.stubborn:
                raise StorageError("injected", errno=errno.EIO)
            super().truncate(fd, size)

    disk = Stubborn()
    log = open_log(tmp_path, files=disk, **ON)
    log.append(b"a")
    log.append(b"b")
    disk.stubborn = True
    disk.arm()
    with pytest.raises(StorageError):
        log.append(b"c")
    with pytest.raises(kstore.errors.LogFailedError):
        log.append(b"d")
    assert [record.value for record in log] == [b"a", b"b"]


# --- the file is cut ------------------------------------------------------------------------------


def test_a_rolled_segment_is_cut_and_synced_before_the_next_one_is_created(tmp_path: Path) -> None:
    disk = Recorder(tmp_path)
    log = open_log(tmp_path, files=disk, **ON)
    log.append(b"a")
    log.flush()
    before, size = len(disk.ops), used(log)
    log.roll()
    node = node_of(disk)
    steps = [op for op in disk.ops[before:] if op.node == node or op.name == f"{1:020d}.log"]
    assert steps[0] == Op("resize", node, position=size)
    assert [op.kind for op in steps[1:3]] == ["sync", "make"]
    log.close()


def test_the_cut_of_a_parked_log_is_on_disk_too_before_the_next_name(tmp_path: Path) -> None:
    disk = Recorder(tmp_path)
    log = open_log(tmp_path, files=disk, **ON)
    log.append(b"a")
    writer = log._require_writer()
    assert writer.park()
    assert segment(tmp_path).stat().st_size == used(log)
    before = len(disk.ops)
    log.roll()
    steps = [op.kind for op in disk.ops[before:] if op.node == node_of(disk) or op.kind == "make"]
    assert steps.index("sync") < steps.index("make")
    log.close()


def test_a_parked_log_takes_appends(tmp_path: Path) -> None:
    log = open_log(tmp_path, **ON)
    for n in range(3):
        log.append(b"%d" % n)
        assert segment(tmp_path).stat().st_size == MIB
        assert log._require_writer().park()
        assert segment(tmp_path).stat().st_size == used(log)
    assert [record.value for record in log] == [b"0", b"1", b"2"]


def test_a_sync_that_fails_during_a_roll_ends_the_log(tmp_path: Path) -> None:
    class Unsynced(Files):
        failing = False

        def fdatasync(self, fd: int) -> None:
            if self.failing:
                raise StorageError("injected", errno=errno.EIO)

    disk = Unsynced()
    log = open_log(tmp_path, files=disk, **ON)
    log.append(b"a")
    disk.failing = True
    with pytest.raises(StorageError):
        log.roll()
    disk.failing = False
    assert not segment(tmp_path, 1).exists()
    with pytest.raises(kstore.errors.LogFailedError):
        log.append(b"b")
    assert [record.value for record in open_log(tmp_path, clean=False)] == [b"a"]


def test_a_kill_leaves_zeros_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(tmp_path, **ON)
    log.extend([b"%d" % n for n in range(10)])
    size = used(log)
    with caplog.at_level(logging.WARNING, "kstore"):
        again = open_log(tmp_path, clean=False, **ON)
    assert caplog.records == []
    assert segment(tmp_path).stat().st_size == size
    assert again.recovery is not None
    assert (again.recovery.cut_size, again.recovery.kept_in) == (MIB - size, None)
    again.append(b"10")
    assert [record.value for record in again] == [b"%d" % n for n in range(11)]
    assert not list(tmp_path.glob("kstore.cut*"))


def test_the_setting_may_change_while_the_log_is_open(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t")[0]
        file = segment(Path(log.path))
        log.append(b"0")
        store.alter_topic("t", config={"preallocate": True})
        log.append(b"1")
        assert file.stat().st_size == MIB
        store.alter_topic("t", unset=["preallocate"])
        log.append(b"2")
        assert file.stat().st_size == used(log)
        store.alter_topic("t", config={"preallocate": "true"})
        log.append(b"3")
        assert file.stat().st_size == MIB
        assert [record.value for record in log] == [b"0", b"1", b"2", b"3"]
    with kstore.open(tmp_path, config=QUIET) as store:
        assert store["t"][0].recovery is not None
        assert store["t"][0].recovery.cut_size == 0
        assert store["t"].config.preallocate
    with pytest.raises(kstore.errors.InvalidConfigError, match="preallocate"):
        LogConfig(preallocate=1)


# --- what else changes a log's end ----------------------------------------------------------------


def truncate(log: Any) -> list[bytes]:
    log.truncate_to(3)
    return [b"0", b"1", b"2"]


def truncate_nothing(log: Any) -> list[bytes]:
    """It removes what failed appends left in the file, and the zeros with it."""
    log.truncate_to(log.end_offset)
    return [b"%d" % n for n in range(6)]


def truncate_all(log: Any) -> list[bytes]:
    log.truncate_to(0)
    return []


def truncate_over_a_roll(log: Any) -> list[bytes]:
    log.roll()
    log.append(b"6")
    log.truncate_to(2)
    return [b"0", b"1"]


def skip(log: Any) -> list[bytes]:
    log._require_writer().truncator.skip_to(9)
    return [b"%d" % n for n in range(6)]


def delete(log: Any) -> list[bytes]:
    log.delete_records(2)
    return [b"2", b"3", b"4", b"5"]


def delete_all(log: Any) -> list[bytes]:
    log.delete_records(-1)
    return []


@pytest.mark.parametrize(
    "change",
    [truncate, truncate_nothing, truncate_all, truncate_over_a_roll, skip, delete, delete_all],
)
def test_zeros_are_written_ahead_after_the_end_changes(
    tmp_path: Path, change: Callable[[Any], list[bytes]]
) -> None:
    log = open_log(tmp_path, segment_bytes=3 * MIB, **ON)
    for n in range(6):
        log.append(b"%d" % n)
    left = change(log)
    before = len(left)
    for n in range(3):
        log.append(b"new %d" % n)
        left.append(b"new %d" % n)
    active = log.segments.views[-1]
    file = segment(tmp_path, active.base_offset)
    assert file.stat().st_size == MIB
    assert_zeros_behind(file, active.size)
    assert [record.value for record in log] == left
    assert [record.value for record in read_log(tmp_path).view(log.start_offset)] == left
    again = open_log(tmp_path, clean=False, log_start_offset=log.start_offset, **ON)
    assert [record.value for record in again] == left
    assert before < len(left)


def test_a_partition_that_moves_takes_no_zeros_along(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with kstore.open(paths, config=QUIET) as store:
        log = store.create_topic("t", config=LogConfig(preallocate=True))[0]
        log.extend([b"x"] * 5)
        old, new = Path(log.path), next(p for p in paths if p != Path(log.path).parent)
        store.move("t", 0, new)
        assert segment(new / "t-0").stat().st_size == used(log)
        assert not old.exists()
        log.append(b"y")
        assert segment(new / "t-0").stat().st_size == MIB
        assert [record.value for record in log] == [b"x"] * 5 + [b"y"]


def test_compaction_does_not_change_the_active_segment(tmp_path: Path) -> None:
    config = LogConfig(preallocate=True, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t", config=config)[0]
        for n in range(6):
            log.append(b"%d" % n, key=b"k")
            if n in (2, 4):
                log.roll()
        log.compact()
        assert [record.value for record in log] == [b"4", b"5"]
        active = log.segments.views[-1]
        assert segment(Path(log.path), active.base_offset).stat().st_size == MIB
        for view in log.segments.views[:-1]:
            assert segment(Path(log.path), view.base_offset).stat().st_size == view.size


# --- readers --------------------------------------------------------------------------------------


class Counting(Files):
    def __init__(self) -> None:
        self.read_bytes = 0

    def pread(self, fd: int, size: int, position: int) -> bytes:
        data = super().pread(fd, size, position)
        self.read_bytes += len(data)
        return data


def test_a_reader_beside_ends_where_the_zeros_begin(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=2 * MIB, **ON)
    disk = Counting()
    reader = read_log(tmp_path, files=disk)
    count = looks = 0
    for n in range(700):
        log.append(KIB4)
        if n % 7 == 0:
            os.utime(tmp_path, (n, n))  # a directory that just changed is listed again
            assert reader.end_offset == n + 1
            disk.read_bytes = 0
            assert reader.end_offset == n + 1
            assert disk.read_bytes <= 8192  # a look costs no megabyte of zeros
            looks += 1
        count += 1
    assert looks == 100
    assert len(reader.segments.views) == 2
    assert sum(1 for _ in reader) == count
    assert reader.verify().ok
    tail = MIB - used(log) % MIB if used(log) < MIB else 2 * MIB - used(log)
    assert reader.verify().not_yet_there == tail


def test_what_a_fence_hides_is_hidden_where_the_file_did_not_grow(tmp_path: Path) -> None:
    """The publication begins between the moment when the size is seen and the read."""
    log = open_log(tmp_path / "t-0", **ON)
    log.append(b"shown")
    document = {
        "format": 1, "segment": 0, "position": used(log), "offset": 1, "manifest": "../manifest",
    }  # fmt: skip

    class Late(Files):
        armed = False

        def size(self, fd: int) -> int:
            size = super().size(fd)
            if self.armed and log.end_offset == 1:
                (tmp_path / "manifest").write_text("{}")
                (tmp_path / "t-0" / FENCE).write_text(json.dumps(document))
                log.append(b"hidden")
            return size

    disk = Late()
    reader = read_log(tmp_path / "t-0", files=disk)
    assert reader.end_offset == 1
    disk.armed = True
    assert reader.end_offset == 1
    assert log.end_offset == 2
    assert reader.end_offset == 1
    assert [record.value for record in reader] == [b"shown"]
    (tmp_path / "manifest").unlink()
    assert reader.end_offset == 2


def test_a_flush_between_two_looks_of_a_reader_is_no_damage(tmp_path: Path) -> None:
    """Zeros were read, and the recovery point after them: in between both had gone on."""
    log = open_log(tmp_path, **ON)
    log.append(b"0")

    def recovery_point() -> int:
        if log.end_offset == 1:
            log.append(b"1")
            log.flush()
        return log.recovery_point

    reader = LogReader(
        str(tmp_path), files=DISK, maps=MapBudget(4), own=True, recovery_point=recovery_point
    )
    assert reader.refresh().end_offset == 2
    assert reader._damage is None
    reader.close()


@pytest.mark.parametrize("condition", ["owned", "unclean"])
def test_zeros_below_the_recovery_point_are_damage_unless_their_owner_lives(
    tmp_path: Path, condition: str
) -> None:
    """A writer that has just truncated the log lowers its recovery point next."""
    log = open_log(tmp_path, **ON)
    log.append(b"0")
    reader = LogReader(
        str(tmp_path), files=DISK, maps=MapBudget(4), own=True,
        recovery_point=lambda: 5, condition=lambda: condition,
    )  # fmt: skip
    assert reader.refresh().end_offset == (1 if condition == "owned" else 5)
    assert (reader._damage is None) == (condition == "owned")
    reader.close()


def test_verify_beside_a_writer_finds_no_damage_in_new_records(tmp_path: Path) -> None:
    """A batch that comes into the zeros between two looks, or was read while it was written."""
    log = open_log(tmp_path, **ON)
    log.extend([b"x" * 100] * 20)
    without_late = segment(tmp_path).read_bytes()
    end = used(log)
    log.append(b"late" * 100)
    late = segment(tmp_path).read_bytes()[end : used(log)]

    for seen in (0, 70, 200):  # bytes of the new batch at the first look

        class Behind(Files):
            def preadv_into(self, fd: int, buffer: Any, position: int, seen: int = seen) -> int:
                count = super().preadv_into(fd, buffer, position)
                old = without_late[:end] + late[:seen] + bytes(len(without_late) - end - seen)
                buffer[:count] = old[position : position + count]
                return count

        report = kstore.verify.partition.verify_partition(Behind(), tmp_path)
        assert report.findings == []
    data = bytearray(segment(tmp_path).read_bytes())
    data[end + 100] ^= 1
    write_damaged(segment(tmp_path), data)
    assert not kstore.verify.partition.verify_partition(DISK, tmp_path).ok


def test_a_child_may_not_use_the_zeros_either(tmp_path: Path) -> None:
    log = open_log(tmp_path, **ON)
    log.append(b"0")
    child = os.fork()
    if child == 0:
        try:
            log.append(b"1")
        except kstore.errors.ForkedError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    log.append(b"1")
    assert [record.value for record in log] == [b"0", b"1"]
