"""Readers beside a writer, followers, and those who wait: nothing missed or promised twice."""

import asyncio
import errno
import os
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore import StoreConfig
from kstore.background.scheduler import Scheduler
from kstore.errors import CorruptRecordError, OffsetOutOfRangeError, StorageError
from kstore.files.files import DISK, Files
from kstore.log.group_commit import Committer
from kstore.recovery.loader import load_active
from kstore.segment.segment import load_indexes
from kstore.store.partition_factory import peek_end_offset
from kstore.store.store import Store
from support.damage import write_damaged
from support.logs import open_log, read_log
from support.stores import QUIET, leave_to_kafka

FIRST = "00000000000000000000"


# --- readers in other processes ---------------------------------------------------------------


def test_a_reader_knows_the_largest_timestamp_of_the_active_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, index_interval_bytes=100)
    log.append(b"x", timestamp=10**12)
    for _ in range(300):
        log.append(b"x" * 500, timestamp=1000)
    reader = read_log(tmp_path)
    assert log.offset_at(10**12) == 0
    assert reader.offset_at(10**12) == 0
    reader.close()
    log.close()


def test_a_reader_sees_a_roll_in_the_tick_of_its_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "kstore.files.modification_time.TICK_NS", 10**12
    )  # a slow machine is no slow clock
    log = open_log(tmp_path)
    log.append(b"x")
    tick = time.time_ns()
    os.utime(tmp_path, ns=(tick, tick))
    reader = read_log(tmp_path)
    assert reader.end_offset == 1
    log.roll()
    log.append(b"y")
    os.utime(tmp_path, ns=(tick, tick))
    assert reader.end_offset == 2
    reader.close()
    log.close()


def settle(path: Path) -> None:
    """Make a directory look as if nothing in it had changed for years."""
    os.utime(path, (1_600_000_000, 1_600_000_000))


class Late(Files):
    """A disk on which something happens just before a file is opened."""

    def __init__(self) -> None:
        self.before: list[object] = []

    def open(self, path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
        if self.before and str(path).endswith(".log"):
            self.before.pop()()
        return super().open(path, flags)


@pytest.mark.parametrize("own", [True, False])
def test_a_segment_that_vanishes_before_it_is_opened_is_below_the_start(
    tmp_path: Path, own: bool
) -> None:
    log = open_log(tmp_path, segment_bytes=2000, file_delete_delay_ms=0)
    for _ in range(30):
        log.append(b"x" * 300)
    files = Late()
    reader = read_log(tmp_path, files=files, own=own)
    assert reader.end_offset == 30
    settle(tmp_path)
    assert reader.end_offset == 30
    files.before.append(lambda: log.delete_records(20))
    with pytest.raises(OffsetOutOfRangeError):
        reader.read(0)
    assert not files.before
    assert next(iter(reader)).offset == reader.start_offset
    reader.close()
    log.close()


def test_a_segment_that_is_cut_before_it_is_mapped_is_listed_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(50):
        log.append(b"x" * 1000)
    log.roll()
    log.append(b"last")
    files = Late()
    reader = read_log(tmp_path, files=files)
    assert reader.end_offset == 51
    settle(tmp_path)
    assert reader.end_offset == 51
    files.before.append(lambda: log.truncate_to(3))
    assert reader.read(0) is not None
    assert reader.end_offset == 3
    assert [record.offset for record in reader] == [0, 1, 2]
    reader.close()
    log.close()


def test_damage_in_a_brokers_segment_is_named(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=20_000)
    for _ in range(100):
        log.append(b"x" * 300)
    log.close()
    path = tmp_path / f"{FIRST}.log"
    data = bytearray(path.read_bytes())
    size = 12 + int.from_bytes(data[8:12], "big")
    data[3 * size + 9] |= 0x40  # the fourth batch leaps over the end
    path.write_bytes(data)
    reader = read_log(tmp_path, own=False)
    for read in (lambda: list(reader), lambda: reader[5]):
        with pytest.raises(CorruptRecordError) as raised:
            read()
        assert (raised.value.path, raised.value.position) == (str(path), 3 * size)
    reader.close()


def test_a_wrong_index_does_not_mislead_a_reader_of_a_brokers_log(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=20_000)
    for _ in range(100):
        log.append(b"x" * 300)
    log.close()
    path = tmp_path / f"{FIRST}.index"
    entries = bytearray(path.read_bytes())
    entries[15] ^= 0x15
    write_damaged(path, entries)
    wanted = int.from_bytes(entries[8:12], "big") + 1
    reader = read_log(tmp_path, own=False)
    assert reader[wanted].offset == wanted
    reader.close()


def test_readers_that_are_kept_do_not_keep_their_files(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        for log in store.create_topic("t", 40):
            log.append(b"x")
    with kstore.open(tmp_path, "r", config=StoreConfig(max_open_logs=4)) as store:
        logs = list(store["t"])
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(2):
            for log in logs:
                assert log.end_offset == 1
                assert log[0].value == b"x"
        assert len(os.listdir("/proc/self/fd")) <= before + 5


def test_a_lookup_by_time_does_not_keep_every_index_mapped(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=20_000, index_interval_bytes=100)
    for number in range(200):
        log.append(b"x" * 500, timestamp=1000 + number)
    log.close()
    log = open_log(tmp_path, segment_bytes=20_000)
    assert log.offset_at(1150) == 150
    held = [view.base_offset for view in log.segments.views[:-1] if view.index_count]
    assert len(held) <= 1
    log.close()


@pytest.mark.parametrize("own", [True, False])
def test_an_index_that_names_no_batch_does_not_hide_the_end(tmp_path: Path, own: bool) -> None:
    log = open_log(tmp_path)
    for _ in range(100):
        log.append(b"x" * 300)
    log.close()
    (tmp_path / f"{FIRST}.index").write_bytes((5).to_bytes(4, "big") + (7).to_bytes(4, "big"))
    reader = read_log(tmp_path, own=own)
    assert reader.end_offset == 100
    assert [record.offset for record in reader] == list(range(100))
    reader.close()


# --- ends and indexes -------------------------------------------------------------------------


def test_the_end_is_found_chunk_by_chunk_where_an_index_is_empty(tmp_path: Path) -> None:
    log = open_log(tmp_path, max_message_bytes=4 << 20)
    for size in (100, 3 << 20, 500_000, 700_000, 3 << 20, 1):
        log.append(b"x" * size, timestamp=5000 - size % 1000)
    log.close()
    (tmp_path / f"{FIRST}.index").write_bytes(b"")
    again = open_log(tmp_path)
    assert again.end_offset == 6
    assert again.segments.views[0].index_count == 0
    assert again.segments.views[0].max_timestamp == 5000
    assert load_indexes(Files(), str(tmp_path), again.segments.views[0])
    again.close()


# --- followers --------------------------------------------------------------------------------


def test_following_as_a_coroutine_ends_when_the_log_is_closed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(b"a")

    async def run() -> list[int]:
        got = []
        async for record in log.follow(start=0):
            got.append(record.offset)
            log.close()
        return got

    assert asyncio.run(asyncio.wait_for(run(), 10)) == [0]


def test_following_ends_when_the_log_is_closed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(b"a")
    got: list[int] = []

    def run() -> None:
        for record in log.follow(start=0):
            got.append(record.offset)

    thread = threading.Thread(target=run)
    thread.start()
    while not got:
        time.sleep(0.001)
    log.close()
    thread.join(10)
    assert not thread.is_alive()
    assert got == [0]


def test_a_follower_sees_a_truncation(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.extend([b"a"] * 10)
    records: Iterator[kstore.Record] = iter(log.follow(start=0, timeout=5))
    assert [next(records).offset for _ in range(10)] == list(range(10))
    log.truncate_to(5)  # one batch: all of it goes
    log.append(b"new")
    with pytest.raises(OffsetOutOfRangeError, match="truncated"):
        next(records)
    log.close()


# --- promises ---------------------------------------------------------------------------------


def test_records_after_a_truncation_are_durable_only_once_synced(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with Committer(log) as committer:
        for _ in range(100):
            log.append(b"a")
        assert committer.wait(timeout=10)
        log.truncate_to(50)
        log.append(b"b")
        assert committer.durable_offset == 50
        assert committer.wait(timeout=10)
        assert log.recovery_point == committer.durable_offset == 51
    log.close()


def test_a_flush_without_a_free_descriptor_may_be_tried_again(tmp_path: Path) -> None:
    class Few(Files):
        few = False

        def sync_directory(self, path: str | os.PathLike[str]) -> None:
            if self.few:
                raise StorageError("too many open files", errno=errno.EMFILE, path=path)
            super().sync_directory(path)

    files = Few()
    log = open_log(tmp_path, files=files)
    log.append(b"a")
    files.few = True
    with pytest.raises(StorageError):
        log.flush()
    files.few = False
    log.append(b"b")
    log.flush()
    assert log.recovery_point == 2
    log.close()


def test_background_work_continues_after_an_error() -> None:
    calls: list[int] = []
    errors: list[Exception] = []
    failed, again = threading.Event(), threading.Event()

    def work() -> float:
        calls.append(1)
        if len(calls) == 1:
            raise StorageError("full for a moment", errno=errno.ENOSPC)
        again.set()
        return 60.0

    def on_error(error: Exception) -> None:
        errors.append(error)
        failed.set()

    upkeep = Scheduler(work, on_error)
    upkeep.start()
    assert failed.wait(10)
    upkeep.wake()
    assert again.wait(10)
    assert [type(error) for error in errors] == [StorageError]
    upkeep.stop()


def test_a_topic_whose_creation_failed_can_be_created(tmp_path: Path) -> None:
    class Full(Files):
        left = 2

        def make_directory(self, path: str | os.PathLike[str]) -> None:
            if self.left == 0:
                raise StorageError("no space", errno=errno.ENOSPC, path=path)
            self.left -= 1
            super().make_directory(path)

    files = Full()
    (tmp_path / "d").mkdir()
    with Store(tmp_path / "d", files=files, config=QUIET) as store:
        with pytest.raises(StorageError):
            store.create_topic("t", 4)
        assert "t" not in store
        files.left = 100
        topic = store.create_topic("t", 4)
        assert topic.append(b"x", partition=3).offset == 0
        topic_id = topic.topic_id
    with kstore.open(tmp_path / "d", config=QUIET) as store:
        assert store["t"].topic_id == topic_id
        assert len(store["t"]) == 4


def test_a_process_out_of_descriptors_continues_when_it_has_some(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=2000)
    log.append(b"x" * 1500)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(StorageError) as raised:
            log.append(b"x" * 1500)  # must roll
        assert raised.value.errno == errno.EMFILE
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert log.append(b"x" * 1500) == 1
    assert [record.offset for record in log] == [0, 1]
    log.close()


def test_a_topic_with_an_unrecognized_directory_in_it_can_be_deleted(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_bytes(b"kept")
    with kstore.open(tmp_path / "d", config=QUIET) as store:
        store.create_topic("t").append(b"x")
        odd = tmp_path / "d" / "t-0" / "odd"
        (odd / "deeper").mkdir(parents=True)
        (odd / "file").write_bytes(b"1")
        (odd / "link").symlink_to(tmp_path / "elsewhere")
        store.delete_topic("t")
    assert not list((tmp_path / "d").glob("t-*"))
    assert (tmp_path / "elsewhere" / "kept").read_bytes() == b"kept"
    with kstore.open(tmp_path / "d", config=QUIET) as store:
        assert "t" not in store


@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_batch_below_the_recovery_point_is_not_taken_for_an_unfinished_write(
    tmp_path, clean
):
    with kstore.open(tmp_path) as store:
        log = store.create_topic("a")[0]
        for value in (b"one", b"two", b"three"):
            log.append(value)
    path = tmp_path / "a-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[log.segments.views[0].size // 3 + 70] ^= 1  # in the second batch
    write_damaged(path, data)
    if not clean:
        (tmp_path / "recovery-point-offset-checkpoint").unlink()
    with kstore.open(tmp_path, "r") as store:
        log = store["a"][0]
        assert log.end_offset == (3 if clean else 1)
        seen = log.view().records(on_damage="skip")
        assert [record.value for record in seen] == ([b"one", b"three"] if clean else [b"one"])
        if clean:
            with pytest.raises(CorruptRecordError) as raised:
                list(log)
            assert raised.value.offset == 1


def damaged_tail(directory: Path, field: bytes, at: int) -> tuple[Path, int]:
    """A flushed log of ten batches; the seventh one's field is overwritten, in the tail that no
    index entry lies behind."""
    with kstore.open(directory, config=QUIET) as store:
        log = store.create_topic("t")[0]
        for n in range(10):
            log.append(b"%d" % n)
        size = log.size // 10
    path = directory / "t-0" / f"{FIRST}.log"
    with path.open("r+b") as file:
        file.seek(6 * size + at)
        file.write(field)
    return path, 6 * size


@pytest.mark.parametrize(
    ("field", "at"),
    [
        (b"\0\0\0\0", 8),  # the size: none, negative, beyond the file
        (b"\xff\xff\xff\xff", 8),
        (b"\0\0\xff\xff", 8),
        (b"\x07", 16),  # the magic byte
    ],
)
def test_an_end_below_the_recovery_point_is_damage(tmp_path: Path, field: bytes, at: int) -> None:
    """Not the silent end of the log: all of it had been on disk."""
    path, position = damaged_tail(tmp_path, field, at)
    with kstore.open(tmp_path, mode="r") as store:
        log = store["t"][0]
        assert log.end_offset == 10
        seen: list[int] = []
        with pytest.raises(CorruptRecordError) as caught:
            seen += [record.offset for record in log]
        assert (caught.value.path, caught.value.position) == (str(path), position)
        assert caught.value.offset == 6
        for offset in range(6):
            assert log[offset].value == b"%d" % offset
        with pytest.raises(CorruptRecordError):
            _ = log[8]
    point = tmp_path / "recovery-point-offset-checkpoint"
    point.write_text("0\n1\nt 0 6\n")  # above it, it does not exist yet
    with kstore.open(tmp_path, mode="r") as store:
        assert [record.offset for record in store["t"][0]] == list(range(6))


def test_a_foreign_reader_is_not_misled_by_an_index_entry(tmp_path: Path) -> None:
    """An entry that leads beyond the batches it stands for would hide those in between."""
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t", config=kstore.LogConfig(index_interval_bytes=100))[0]
        for n in range(40):
            log.append(b"%d" % n * 20)
        log.roll()
        log.append(b"later")
        positions = [log.read(n).position for n in range(40)]
    leave_to_kafka(tmp_path)  # of another program: nothing is mapped
    index = tmp_path / "t-0" / f"{FIRST}.index"
    first, *_ = (index.read_bytes()[n : n + 8] for n in range(0, 8, 8))
    offset = int.from_bytes(first[:4], "big")
    for wrong in (positions[30], positions[30] + 7):
        write_damaged(index, first[:4] + wrong.to_bytes(4, "big"))
        with kstore.open(tmp_path, mode="r") as store:
            log = store["t"][0]
            for n in range(offset, 40):
                assert log[n].offset == n
            found = [record.offset for record in log.view(offset + 1, 29)]
            assert found == list(range(offset + 1, 29))


def test_an_old_block_where_an_index_entry_points_hides_nothing(tmp_path: Path) -> None:
    """What a power cut may leave: the entry of an append, and a block with older bytes."""
    log = open_log(tmp_path, index_interval_bytes=1)
    for n in range(6):
        log.append(b"%d" % n * 50)
    cut = log.read(4).position
    log.close()
    path = tmp_path / f"{FIRST}.log"
    data = path.read_bytes()
    write_damaged(path, data[:cut] + data[: len(data) - cut])
    reader = read_log(tmp_path)
    assert [record.offset for record in reader] == [0, 1, 2, 3]
    reader.close()
    assert peek_end_offset(DISK, str(tmp_path), 0) == 4
    assert load_active(DISK, str(tmp_path), 0).next_offset == 4


def test_entries_behind_a_wrong_one_are_not_used(tmp_path: Path, caplog) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t", config=kstore.LogConfig(index_interval_bytes=100))[0]
        for n in range(40):
            log.append(b"%d" % n * 20, timestamp=1_000 + n)
        log.roll()
        log.append(b"later")
    index = tmp_path / "t-0" / f"{FIRST}.index"
    data = index.read_bytes()
    write_damaged(index, data[:16] + data[8:16] + data[16:])
    with kstore.open(tmp_path, mode="r") as store:
        assert [store["t"][0][n].offset for n in range(40)] == list(range(40))
    assert f"{index}: offsets of the offset index do not increase (position 16)" in caplog.text


@pytest.mark.parametrize("opener", [None, read_log])
@pytest.mark.parametrize("grown", [50, 60, 61, 5000])
def test_following_a_log_that_was_truncated_and_has_grown_again(tmp_path, opener, grown) -> None:
    """The records that were returned are gone, whatever end the log has by now."""
    log = open_log(tmp_path)
    log.extend([b"old%d" % n for n in range(5000)])
    followed = log if opener is None else opener(tmp_path)
    records = iter(followed.follow(start=0, timeout=0))
    returned = [next(records).offset for _ in range(60)]
    assert returned == list(range(60))
    log.truncate_to(7)
    log.extend([b"new%d" % n for n in range(7, grown)])
    left = []
    with pytest.raises(OffsetOutOfRangeError, match="truncated"):
        left.extend(record.value for record in records)
    assert left == [b"old%d" % n for n in range(60, 60 + len(left))]
    assert len(left) <= 1000
    log.close()


@pytest.mark.parametrize("opener", [None, read_log])
def test_following_a_log_that_is_compacted(tmp_path, opener) -> None:
    log = open_log(tmp_path / "t-0", cleanup_policy="compact", file_delete_delay_ms=0)
    for n in range(3):
        log.append(b"%d" % n, key=b"k")
    followed = log if opener is None else opener(tmp_path / "t-0")
    records = iter(followed.follow(start=0, timeout=0))
    assert [next(records).offset for _ in range(3)] == [0, 1, 2]
    log.append(b"3", key=b"k")
    log.roll()
    log.compact()
    log.append(b"4", key=b"k")
    assert [record.offset for record in log.view()] == [3, 4]  # 2, returned last, is compacted away
    assert [record.offset for record in records] == [3, 4]
    log.close()


def test_a_raised_log_start_is_seen_elsewhere_with_the_checkpoint_and_a_listing(
    tmp_path: Path,
) -> None:
    """Complete segments leave at once; docs/guide/read.md says so."""
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t")[0]
        for _ in range(2):
            log.extend([b"x"] * 10)
            log.roll()
        folder = Path(log.path)
        with kstore.open(tmp_path, "r") as reading:
            elsewhere = reading["t"][0]
            starts = [elsewhere.start_offset]
            log.delete_records(15)
            settle(folder)
            starts.append(elsewhere.start_offset)
            store._manager.checkpoints.write()  # as the store does every minute
            starts.append(elsewhere.start_offset)
            log.append(b"y")
            log.roll()
            starts.append(elsewhere.start_offset)
        assert (log.start_offset, starts) == (15, [0, 10, 10, 15])
