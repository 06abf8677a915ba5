"""A follower of another process's log is woken by changes of its files, and by nothing else."""

import asyncio
import errno
import logging
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore._native.files.inotify import open_inotify
from kstore.errors import OffsetOutOfRangeError, UnknownTopicIdError, UnknownTopicOrPartitionError
from kstore.files import directory_watch
from kstore.files.directory_watch import FileWait, FileWaits
from kstore.files.files import Files
from kstore.log import reader as reader_module
from kstore.log.followed_files import FollowedFiles
from kstore.log.log import Log
from kstore.log.writable_log import WritableLog
from kstore.store.store import Store
from oracle.plain import PlainRecord
from oracle.writer import batch
from support.waiting import until, until_in_loop

WAIT = 20  # seconds, which no test takes


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("t", config={"segment.bytes": 1 << 20})
    return tmp_path / "data"


@pytest.fixture
def writer(directory: Path) -> Iterator[Log]:
    with kstore.open(directory) as store:
        yield store["t"][0]


@pytest.fixture
def store(directory: Path, writer: Log) -> Iterator[kstore.Store]:
    with kstore.open(directory, mode="r") as store:
        yield store


@pytest.fixture
def reader(store: kstore.Store) -> Log:
    return store["t"][0]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long a follower would wait at most, each time that it begins to."""
    found: list[float] = []
    next_pause = FileWait.next_pause

    def noted(self: FileWait, seconds: float | None) -> float:
        pause = next_pause(self, seconds)
        found.append(pause)
        return pause

    monkeypatch.setattr(FileWait, "next_pause", noted)
    return found


@pytest.fixture
def other() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def waits(log: Log) -> list[FileWait]:
    assert log._reader is not None
    return [wait for wait in log._reader.waits._used if wait.is_waiting]


class Following:
    """Follows a log in another thread, up to a number of records; it waits when this is made."""

    def __init__(self, pool: ThreadPoolExecutor, log: Log, count: int = 1) -> None:
        self._log, self._count = log, count
        self._found: list[bytes | None] = []
        self._future: Future[None] = pool.submit(self._follow)
        self.wait_behind(0)

    def _follow(self) -> None:
        for record in islice(self._log.follow(timeout=WAIT), self._count):
            self._found.append(record.value)

    def wait_behind(self, count: int) -> None:
        """Until it has that many records, and waits for the next."""
        until(lambda: len(self._found) == count and waits(self._log))

    def result(self) -> list[bytes | None]:
        self._future.result(WAIT)
        return self._found


def test_an_idle_follower_does_not_wake(
    writer: Log, reader: Log, other: ThreadPoolExecutor, pauses: list[float]
) -> None:
    following = Following(other, reader)
    (wait,) = waits(reader)
    assert not wait.must_poll
    assert len(pauses) == 1  # without a change it never reads the files
    assert pauses[0] > 1
    writer.append(b"v")
    assert following.result() == [b"v"]
    assert min(pauses) > 1  # no wait was that of a poll


def test_a_writer_in_another_process(directory: Path, other: ThreadPoolExecutor) -> None:
    with kstore.open(directory, mode="r") as store:
        following = Following(other, store["t"][0], 3)
        program = (
            "import sys, kstore\n"
            "with kstore.open(sys.argv[1]) as store:\n"
            "    log = store['t'][0]\n"
            "    log.append(b'a'); log.roll(); log.append(b'b'); log.extend([b'c'])\n"
        )
        subprocess.run([sys.executable, "-c", program, str(directory)], check=True)
        assert following.result() == [b"a", b"b", b"c"]


def test_a_follower_waits_beyond_a_roll(
    writer: Log, reader: Log, other: ThreadPoolExecutor
) -> None:
    following = Following(other, reader, 2)
    writer.append(b"a")
    writer.roll()
    following.wait_behind(1)
    writer.append(b"b")
    assert following.result() == [b"a", b"b"]


def test_a_truncation_is_noticed(writer: Log, reader: Log, other: ThreadPoolExecutor) -> None:
    def follow() -> None:
        for _ in reader.follow(start=0, timeout=WAIT):
            pass

    writer.extend([b"a", b"b"])
    writer.roll()
    writer.extend([b"c"])
    following = other.submit(follow)
    until(lambda: waits(reader))
    writer.truncate_to(1)
    with pytest.raises(OffsetOutOfRangeError, match="truncated"):
        following.result(WAIT)


@pytest.mark.parametrize("of_files", [False, True])
def test_a_truncation_of_what_was_not_returned_does_not_end_it(
    writer: Log, reader: Log, other: ThreadPoolExecutor, of_files: bool
) -> None:
    """Of an open transaction, after the last stable offset."""
    writer.append(b"a")
    assert isinstance(writer, WritableLog)
    state = writer._state
    for number in range(2):
        rows = [PlainRecord(0, 0, b"", b"open", ())]
        writer.append_as_leader(
            batch(rows, producer_id=7, producer_epoch=0, base_sequence=number, transactional=True)
        )
    followed = reader if of_files else writer
    found = other.submit(
        lambda: [
            record.value
            for record in islice(
                followed.follow(start=0, timeout=WAIT, isolation="read_committed"), 2
            )
        ]
    )
    until(lambda: waits(reader) if of_files else state.appender.waiters > 0)
    writer.truncate_to(2)
    writer.append_end_marker(7, 0, commit=False)
    writer.append(b"b")
    assert found.result(WAIT / 2) == [b"a", b"b"]


def test_a_deletion_of_the_topic_ends_it(
    directory: Path, tmp_path: Path, other: ThreadPoolExecutor
) -> None:
    with kstore.open(directory) as writer, kstore.open(directory, mode="r") as store:
        following = Following(other, store["t"][0])
        writer.delete_topic("t")
        with pytest.raises((UnknownTopicIdError, UnknownTopicOrPartitionError)):
            following.result()


def test_closing_the_reader_ends_it(
    writer: Log, reader: Log, store: kstore.Store, other: ThreadPoolExecutor
) -> None:
    following = Following(other, reader)
    store.close()
    assert following.result() == []
    assert reader._reader is not None
    assert reader._reader.waits._idle == []


def test_a_moved_partition_is_followed(tmp_path: Path, other: ThreadPoolExecutor) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with kstore.open(paths) as writer:
        log = writer.create_topic("t")[0]
        with kstore.open(paths, mode="r") as store:
            following = Following(other, store["t"][0], 2)
            target = next(path for path in paths if str(path) != os.path.dirname(log.path))
            writer.move("t", 0, target)
            log.append(b"a")
            following.wait_behind(1)
            log.append(b"b")
            assert following.result() == [b"a", b"b"]


def test_the_fall_of_a_barrier_shows_what_it_hid(
    directory: Path, other: ThreadPoolExecutor
) -> None:
    from kstore.files.publish_barrier import read_barrier

    with kstore.open(directory) as writer, kstore.open(directory, mode="r") as store:
        log, reader = writer["t"][0], store["t"][0]
        manifest = directory / "manifest"
        manifest.write_text('{"format":1}')
        fence = Path(log.path) / "kstore.fence"
        fence.write_text(
            '{"format":1,"segment":0,"position":0,"offset":0,"manifest":"../manifest"}'
        )
        assert read_barrier(store._files, log.path) is not None
        log.append(b"hidden")
        assert reader.end_offset == 0
        following = other.submit(
            lambda: [each.value for each in islice(reader.follow(timeout=WAIT), 1)]
        )
        until(lambda: waits(reader))
        manifest.unlink()
        assert following.result(WAIT) == [b"hidden"]


def set_log_start(directory: Path, offset: int) -> None:
    entries = "0\n" if offset == 0 else f"1\nt 0 {offset}\n"
    (directory / "log-start-offset-checkpoint").write_text(f"0\n{entries}")


def test_a_log_start_beyond_the_end_may_be_lowered(
    directory: Path, writer: Log, reader: Log, other: ThreadPoolExecutor
) -> None:
    """A broker that has truncated a log below its start keeps the entry for up to a minute."""
    writer.extend([b"x"] * 3)
    set_log_start(directory, 5)
    assert (reader.start_offset, reader.end_offset) == (5, 5)
    following = other.submit(
        lambda: [each.value for each in islice(reader.follow(timeout=WAIT), 1)]
    )
    until(lambda: waits(reader))
    set_log_start(directory, 0)
    for value in b"3456":
        writer.append(bytes([value]))
    assert following.result(WAIT) == [b"5"]
    assert (reader.start_offset, reader.end_offset) == (0, 7)


def test_hidden_records_are_reported_to_a_reader_that_reads_once(
    directory: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even within a clock tick of the last change of the directory, whose time then says little."""
    monkeypatch.setattr(reader_module, "is_settled", lambda modified_ns: False)
    with kstore.open(directory) as writing:
        writing["t"][0].extend([b"x"] * 3)
    set_log_start(directory, 5)
    with kstore.open(directory, mode="r") as store, caplog.at_level(logging.WARNING, "kstore"):
        log = store["t"][0]
        assert (log.start_offset, log.end_offset) == (5, 5)
        assert list(log) == []
    assert len(caplog.records) == 1
    assert "those at offsets 0 to 2 are in its files and hidden" in caplog.text


class Meanwhile(Files):
    """A disk on which something happens just before the log starts are read."""

    def __init__(self) -> None:
        self.before: list[Callable[[], object]] = []

    def read(self, path: str | os.PathLike[str], limit: int = 1 << 28) -> bytes:
        if self.before and str(path).endswith("log-start-offset-checkpoint"):
            self.before.pop()()
        return super().read(path, limit)


def test_records_deleted_during_a_listing_hide_none(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The reader has listed one segment when the start moves into the next."""
    files = Meanwhile()
    with kstore.open(directory) as writing, Store(directory, mode="r", files=files) as store:
        writer, reader = writing["t"][0], store["t"][0]
        writer.extend([b"a"] * 3)

        def delete() -> None:
            writer.roll()
            writer.extend([b"b"] * 3)
            writing.close()  # after a roll it writes the checkpoints in the background
            set_log_start(directory, 5)

        set_log_start(directory, 0)
        files.before.append(delete)
        with caplog.at_level(logging.WARNING, "kstore"):
            assert reader.end_offset >= 5
            assert (reader.start_offset, reader.end_offset) == (5, 6)
    assert files.before == []
    assert caplog.records == []


def test_two_followers_of_one_log_are_both_woken(
    writer: Log, reader: Log, other: ThreadPoolExecutor
) -> None:
    futures = [other.submit(reader.wait_beyond, 0, WAIT) for _ in range(2)]
    until(lambda: len(waits(reader)) == 2)
    writer.append(b"v")
    assert [each.result(WAIT) for each in futures] == [True, True]
    assert reader._reader is not None
    assert len(reader._reader.waits._idle) == 1  # the next caller takes it
    assert not reader.wait_beyond(1, 0.01)
    assert len(reader._reader.waits._idle) == 1


def test_a_loop_follows_without_polling(writer: Log, reader: Log, pauses: list[float]) -> None:
    async def run() -> list[bytes | None]:
        found: list[bytes | None] = []

        async def follow() -> None:
            async for record in reader.follow():
                found.append(record.value)
                if len(found) == 2:
                    return

        following = asyncio.create_task(follow())
        await until_in_loop(lambda: pauses)
        await asyncio.to_thread(writer.append, b"a")
        writer.roll()
        await until_in_loop(lambda: found)
        await asyncio.to_thread(writer.append, b"b")
        await asyncio.wait_for(following, WAIT)
        return found

    assert asyncio.run(run()) == [b"a", b"b"]
    assert set(pauses) == {5.0}
    assert len(pauses) <= 20
    assert reader._reader is not None
    assert reader._reader.waits._used == []


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[FollowedFiles]:
    """Has an item for each call of a loop because of a change."""
    found: list[FollowedFiles] = []
    take = FollowedFiles._take

    def noted(self: FollowedFiles) -> None:
        found.append(self)
        take(self)

    monkeypatch.setattr(FollowedFiles, "_take", noted)
    return found


def test_a_busy_program_does_not_spin(
    writer: Log, reader: Log, pauses: list[float], taken: list[FollowedFiles]
) -> None:
    """Changes while the program is elsewhere call the loop once, and not until they are read."""

    async def run() -> int:
        following: Any = aiter(reader.follow())
        first = asyncio.ensure_future(anext(following))
        await until_in_loop(lambda: pauses)
        writer.append(b"a")
        await first
        before = len(taken)
        writer.append(b"b")  # not asked for now
        await until_in_loop(lambda: len(taken) > before)
        for _ in range(5):  # turns of the loop
            await asyncio.sleep(0)
        await following.aclose()
        return len(taken) - before

    assert asyncio.run(run()) == 1


@pytest.mark.parametrize(
    ("error", "limit"),
    [
        (OSError(errno.EMFILE, "Too many"), "`ulimit -n` or fs.inotify.max_user_instances"),
        (OSError(errno.ENOSPC, "No space"), "fs.inotify.max_user_watches"),
    ],
)
def test_without_inotify_files_are_polled(
    writer: Log,
    reader: Log,
    other: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: OSError,
    limit: str,
) -> None:
    def fail(*_: object) -> int:
        raise error

    monkeypatch.setattr(directory_watch, "_reported", set())
    monkeypatch.setattr(directory_watch, "open_inotify", fail)
    with caplog.at_level(logging.WARNING, "kstore"):
        following = Following(other, reader)
        (wait,) = waits(reader)
        assert wait.must_poll
        writer.append(b"v")
        assert following.result() == [b"v"]
        assert not reader.wait_beyond(1, 0.01)
    assert len(caplog.records) == 1  # not for each wait
    assert "are polled" in caplog.text
    assert limit in caplog.text

    async def run() -> bytes | None:
        async for record in reader.follow(start=0, timeout=WAIT):
            return record.value
        return None

    assert asyncio.run(run()) == b"v"


def test_a_network_file_system_is_polled(
    writer: Log, reader: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_watch, "file_system_type", lambda path: 0x6969)
    wait = FileWait()
    assert not wait.watch([reader.path])
    assert wait.must_poll
    assert wait.fileno() == -1
    pauses = [wait.next_pause(None) for _ in range(10)]
    assert pauses[0] == 0.001
    assert pauses[-1] == 0.05
    assert wait.next_pause(0.002) == 0.002


@pytest.mark.parametrize("number", [0x6969, 0xBACBACBC, 0x6B414653])
def test_what_cannot_be_watched_is_tried_once(
    reader: Log, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    opened: list[int] = []

    def count() -> int:
        opened.append(open_inotify())
        return opened[-1]

    monkeypatch.setattr(directory_watch, "open_inotify", count)
    monkeypatch.setattr(directory_watch, "file_system_type", lambda path: number)
    for _ in range(3):
        assert not reader.wait_beyond(0, 0.002)
    assert len(opened) == 1
    assert reader._reader is not None
    assert reader._reader.waits._idle == []  # no wait watches


def test_no_free_descriptor_is_an_error_of_one_wait(
    writer: Log, reader: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(directory_watch, "open_inotify", fail)
        assert not reader.wait_beyond(0, 0.002)
    assert not reader.wait_beyond(0, 0.002)
    assert reader._reader is not None
    assert len(reader._reader.waits._idle) == 1  # this one watches


def test_a_file_system_without_events_is_read_now_and_then(tmp_path: Path) -> None:
    wait = FileWait()
    assert wait.watch([str(tmp_path)])
    assert wait.next_pause(None) == wait.next_pause(1000) == 5.0
    assert wait.next_pause(2) == 2


def test_after_records_a_polling_loop_reads_often_again(
    writer: Log, reader: Log, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    monkeypatch.setattr(directory_watch, "file_system_type", lambda path: 0x6969)

    async def run() -> None:
        following: Any = aiter(reader.follow(timeout=WAIT))
        for value in (b"a", b"b"):
            taken = asyncio.ensure_future(anext(following))
            pauses.clear()
            await until_in_loop(lambda: 0.05 in pauses)
            writer.append(value)
            assert (await taken).value == value
        await following.aclose()

    asyncio.run(run())
    assert pauses[0] == 0.001  # behind the first record


def test_a_loop_that_knows_no_descriptors_polls(
    writer: Log, reader: Log, pauses: list[float]
) -> None:
    class Loop(asyncio.SelectorEventLoop):
        def add_reader(self, fd: Any, callback: Any, *arguments: Any) -> None:
            if getattr(callback, "__func__", None) is FollowedFiles._take:
                raise NotImplementedError
            super().add_reader(fd, callback, *arguments)

    async def run() -> bytes | None:
        following: Any = aiter(reader.follow(timeout=WAIT))
        taken = asyncio.ensure_future(anext(following))
        await until_in_loop(lambda: pauses)
        writer.append(b"v")
        record = await taken
        await following.aclose()
        return record.value

    with asyncio.Runner(loop_factory=Loop) as runner:
        assert runner.run(run()) == b"v"
    assert pauses[0] == 0.001
    assert not reader.wait_beyond(1, 0.002)
    assert reader._reader is not None
    assert len(reader._reader.waits._idle) == 1  # other waits watch


def test_a_forked_child_takes_no_events_of_its_parent(tmp_path: Path) -> None:
    waits = FileWaits(can_watch=True)
    wait = waits.begin()
    assert wait.watch([str(tmp_path)])
    fd = wait.fileno()
    waits.end(wait)
    (tmp_path / "file").touch()
    child = os.fork()
    if child == 0:
        try:
            theirs = waits.begin()
            theirs.clear()
            is_new = theirs.watch([str(tmp_path)])
            waits.close()
            os._exit(0 if is_new else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert select.select([fd], [], [], 0)[0] == [fd]  # the event of the file
    wait.clear()
    assert not wait.watch([str(tmp_path)])  # it is watched still
    assert select.select([fd], [], [], 0)[0] == []


def test_a_directory_that_is_missing_is_polled_until_it_is_there(tmp_path: Path) -> None:
    wait = FileWait()
    path = tmp_path / "later"
    assert not wait.watch([str(path)])
    assert wait.must_poll
    path.mkdir()
    assert wait.watch([str(path)])
    assert not wait.must_poll
    assert not wait.watch([str(path)])
    path.rmdir()
    path.mkdir()
    assert wait.watch([str(path)])  # another one of the same name


def test_the_wake_of_another_thread_is_not_lost(tmp_path: Path) -> None:
    wait = FileWait()
    assert wait.watch([str(tmp_path)])
    wait.clear()
    threading.Thread(target=wait.wake).start()
    wait.wait(None)
    assert wait.watch([str(tmp_path)])
