"""Logs that are flushed together: one call for their files, and each log for itself."""

import errno
import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from kstore import Log, LogConfig
from kstore.errors import LogFailedError, StorageError
from kstore.files.files import DISK, Files
from kstore.log import flush_together as module
from kstore.log.flush_together import Errors, SkippedError, flush_together
from kstore.store.store import Store
from support.stores import QUIET

CONFIG = LogConfig(segment_bytes=1000, segment_index_bytes=4096)
RECORD = bytes(300)
WAIT = 60  # seconds, which no test takes


class SyncedTogether(Files):
    """Notes the files of each call, may let some fail, and may call something meanwhile."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.failing: set[str] = set()
        self.meanwhile: Callable[[], object] | None = None
        self.synced: dict[str, int] = {}  # the sizes of files at their last sync

    def fdatasync_each(self, fds: Sequence[int]) -> list[StorageError | None]:
        paths = [os.readlink(f"/proc/self/fd/{fd}") for fd in fds]
        names = [os.path.basename(os.path.dirname(path)) for path in paths]
        self.calls.append(names)
        if self.meanwhile is not None:
            self.meanwhile()
        errors = super().fdatasync_each(fds)
        for fd, name in zip(fds, names, strict=True):
            self.synced[name] = os.fstat(fd).st_size
        return [
            StorageError("injected", errno=errno.ENOSPC) if name in self.failing else error
            for name, error in zip(names, errors, strict=True)
        ]

    def sync_all(
        self, fds: Sequence[int], directories: Collection[str] = (), *, only_data: bool = False
    ) -> None:
        super().sync_all(fds, directories, only_data=only_data)
        for fd in fds:
            name = os.path.basename(os.path.dirname(os.readlink(f"/proc/self/fd/{fd}")))
            self.synced[name] = os.fstat(fd).st_size


@pytest.fixture
def files() -> SyncedTogether:
    return SyncedTogether()


@pytest.fixture
def logs(tmp_path: Path, files: SyncedTogether) -> Iterator[list[Log]]:
    """Three logs that have synced before, with a record each that is not on disk."""
    store = Store(tmp_path, config=QUIET, files=files)
    found = list(store.create_topic("t", partitions=3, config=CONFIG))
    for log in found:
        log.append(b"first")
        log.flush()
        log.append(b"second")
    assert files.calls == []
    yield found
    files.meanwhile = None
    with suppress(LogFailedError):  # of a test whose sync failed
        store.close()


def skipped(errors: Errors) -> list[int]:
    """The partitions of the logs that were skipped, if there is no other error."""
    assert all(isinstance(error, SkippedError) for error in errors.values())
    return [log.partition for log in errors]


def test_files_are_synced_by_one_call(files: SyncedTogether, logs: list[Log]) -> None:
    assert flush_together(logs) == {}
    assert files.calls == [["t-0", "t-1", "t-2"]]
    assert [log.recovery_point for log in logs] == [2, 2, 2]
    assert skipped(flush_together(logs)) == [0, 1, 2]
    assert len(files.calls) == 1  # nothing is left to sync


def test_an_error_fails_its_log_only(files: SyncedTogether, logs: list[Log]) -> None:
    files.failing = {"t-1"}
    errors = flush_together(logs)
    assert [(log.partition, str(error)) for log, error in errors.items()] == [(1, "injected")]
    assert [log.recovery_point for log in logs] == [2, 1, 2]
    with pytest.raises(LogFailedError, match="injected"):
        logs[1].append(b"x")
    assert isinstance(flush_together(logs)[logs[1]], LogFailedError)  # it does not sync again
    logs[0].append(b"third")
    assert skipped(flush_together([logs[0], logs[2]])) == [2]  # nothing is left to sync
    assert logs[0].recovery_point == 3


def test_what_is_appended_meanwhile_is_not_on_disk(files: SyncedTogether, logs: list[Log]) -> None:
    files.meanwhile = lambda: logs[0].append(b"third")
    assert flush_together(logs[:2]) == {}
    assert (logs[0].recovery_point, logs[0].end_offset) == (2, 3)
    assert files.calls == [["t-0", "t-1"]]


def test_a_log_keeps_its_name_until_its_sync_is_noted(
    files: SyncedTogether, logs: list[Log]
) -> None:
    """A truncation waits for the sync, so that no later record counts as synced."""
    thread = threading.Thread(target=logs[0].truncate_to, args=[1])
    states: list[bool] = []

    def truncate() -> None:
        thread.start()
        thread.join(0.05)
        states.append(thread.is_alive())

    files.meanwhile = truncate
    assert flush_together(logs[:2]) == {}
    thread.join()
    assert states == [True]
    assert (logs[0].end_offset, logs[0].recovery_point) == (1, 1)


@pytest.mark.parametrize("name", ["flush_lock", "lock"])
def test_a_log_that_another_thread_holds_is_skipped(
    files: SyncedTogether, logs: list[Log], name: str
) -> None:
    lock = getattr(logs[1]._require_writer().state, name)
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            release.wait(WAIT)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(WAIT)
    assert skipped(flush_together(logs)) == [1]
    assert skipped(flush_together(logs[1:2])) == [1]
    release.set()
    thread.join()
    assert files.calls == [["t-0", "t-2"]]
    assert [log.recovery_point for log in logs] == [2, 1, 2]
    assert flush_together(logs[1:2]) == {}
    assert logs[1].recovery_point == 2


def test_an_append_after_the_sync_skips_no_log(
    files: SyncedTogether, logs: list[Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the log's lock for a moment only."""
    lock = logs[1]._require_writer().state.lock
    held = threading.Event()
    waited = threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            waited.wait(WAIT)

    thread = threading.Thread(target=hold)

    def begin() -> None:
        thread.start()
        held.wait(WAIT)

    def pause(seconds: float) -> None:
        waited.set()
        thread.join()

    files.meanwhile = begin
    monkeypatch.setattr(module, "sleep", pause)
    monkeypatch.setattr(module, "_PATIENCE", WAIT)
    assert flush_together(logs) == {}
    assert [log.recovery_point for log in logs] == [2, 2, 2]


def test_a_log_with_more_to_sync_is_skipped(files: SyncedTogether, logs: list[Log]) -> None:
    for _ in range(4):
        logs[0].append(RECORD)
    assert len(logs[0].segments.views) > 1
    assert skipped(flush_together(logs)) == [0]
    assert files.calls == [["t-1", "t-2"]]
    assert [log.recovery_point for log in logs] == [1, 2, 2]


def test_the_seconds_of_a_sync_are_reported(files: SyncedTogether, logs: list[Log]) -> None:
    seconds: list[float] = []
    for log in logs:
        log._require_writer().flusher.on_synced = seconds.append
    files.failing = {"t-2"}
    flush_together(logs)
    assert len(seconds) == 2
    assert min(seconds) > 0


def test_a_closed_log_is_an_error_of_its_own(files: SyncedTogether, logs: list[Log]) -> None:
    logs[2].close()
    assert set(flush_together(logs)) == {logs[2]}
    assert files.calls == [["t-0", "t-1"]]
    assert logs[0].recovery_point == 2


# --- other threads ----------------------------------------------------------------------------


class Extend(threading.Thread):
    """Extends a log, and calls something from the source, while it holds the log's lock."""

    def __init__(self, log: Log, within: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.log = log
        self.within = within
        self.holds, self.goes_on = threading.Event(), threading.Event()
        self.error: BaseException | None = None

    def source(self) -> Iterator[bytes]:
        self.holds.set()
        assert self.goes_on.wait(WAIT)
        self.within()
        yield b"third"

    def run(self) -> None:
        try:
            self.log.extend(self.source())
        except BaseException as error:
            self.error = error


def flush_during(files: SyncedTogether, logs: list[Log], extends: list[Extend]) -> Errors:
    """Flush logs together, while other threads hold their locks from the sync on."""
    found: list[Errors] = []

    def begin() -> None:
        for extend in extends:
            extend.start()
            assert extend.holds.wait(WAIT)
        for extend in extends:
            extend.goes_on.set()

    files.meanwhile = begin
    thread = threading.Thread(target=lambda: found.append(flush_together(logs)), daemon=True)
    thread.start()
    for each in (thread, *extends):
        each.join(WAIT)
        assert not each.is_alive()
    return found[0]


@pytest.mark.parametrize("count", [1, 2])
def test_sources_of_extends_may_flush_other_logs(
    files: SyncedTogether, logs: list[Log], count: int
) -> None:
    """Each waits for a log of the round, whose thread must not wait for them meanwhile."""
    appended = {log: log.segments.views[0].size for log in logs}
    extends = [Extend(log, logs[2].flush) for log in logs[:count]]
    for number in skipped(flush_during(files, logs, extends)):
        logs[number].flush()
    assert [extend.error for extend in extends] == [None] * count
    for log in logs:
        assert log.recovery_point >= 2
        assert log.end_offset == (3 if log in logs[:count] else 2)
        durable = appended[log] if log.recovery_point == 2 else log.segments.views[0].size
        assert files.synced[f"t-{log.partition}"] >= durable


def test_a_round_ends_while_a_log_stays_locked(files: SyncedTogether, logs: list[Log]) -> None:
    """Even if the source of the extend waits for the round's acknowledgement of another log."""
    acknowledged = threading.Event()
    extend = Extend(logs[0], lambda: acknowledged.wait(WAIT))
    extend.goes_on.set()

    def begin() -> None:
        extend.start()
        assert extend.holds.wait(WAIT)

    files.meanwhile = begin
    assert skipped(flush_together(logs)) == [0]
    assert [log.recovery_point for log in logs] == [1, 2, 2]
    acknowledged.set()
    extend.join(WAIT)
    assert extend.error is None


def test_a_failed_sync_is_noted_before_another_one_may_begin(
    files: SyncedTogether, logs: list[Log]
) -> None:
    """The system reports an error once: a second sync of the file would succeed."""
    files.failing = {"t-0"}
    state = logs[0]._require_writer().state
    failed: list[bool] = []

    def wait_for_release() -> None:
        while state.flush_lock.locked():
            sleep(0.001)
        failed.append(state.failure is not None)

    extend = Extend(logs[0], wait_for_release)
    errors = flush_during(files, logs, [extend])
    assert set(errors) == {logs[0]}
    assert failed == [True]
    assert isinstance(extend.error, LogFailedError)
    assert [log.recovery_point for log in logs] == [1, 2, 2]


def test_a_log_that_failed_while_its_files_were_opened_stays_failed(
    logs: list[Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = logs[0]._require_writer()
    assert writer.park()
    attach = writer.active_segment._attach

    def fail_first(*arguments: Any) -> None:
        writer.state.fail(StorageError("injected"))
        attach(*arguments)

    monkeypatch.setattr(writer.active_segment, "_attach", fail_first)
    with suppress(LogFailedError):
        logs[0].append(b"third")
    with pytest.raises(LogFailedError):
        logs[0].append(b"fourth")


# --- errors -----------------------------------------------------------------------------------


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_an_unknown_result_fails_the_logs_and_releases_them(
    files: SyncedTogether, logs: list[Log]
) -> None:
    states = [log._require_writer().state for log in logs]
    before = descriptors()

    def fail() -> None:
        raise MemoryError

    files.meanwhile = fail
    with pytest.raises(MemoryError):
        flush_together(logs[:2])
    assert descriptors() == before
    assert [state.flush_lock.locked() for state in states] == [False] * 3
    assert [state.failure is None for state in states] == [False, False, True]
    assert [log.recovery_point for log in logs] == [1, 1, 1]


def test_a_callback_that_raises_leaves_no_log_locked(logs: list[Log]) -> None:
    def fail(seconds: float) -> None:
        raise ValueError("callback")

    logs[0]._require_writer().flusher.on_synced = fail
    before = descriptors()
    with pytest.raises(ValueError, match="callback"):
        flush_together(logs)
    logs[0]._require_writer().flusher.on_synced = None
    assert descriptors() == before
    assert not any(log._require_writer().state.flush_lock.locked() for log in logs)
    assert [log.recovery_point for log in logs] == [2, 2, 2]


def test_a_file_that_cannot_be_closed_is_its_logs_error(
    files: SyncedTogether, logs: list[Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[int] = []

    def close(fd: int) -> None:
        Files.close(files, fd)
        closed.append(fd)
        if len(closed) == 2:
            raise StorageError("injected")

    monkeypatch.setattr(files, "close", close)
    errors = flush_together(logs)
    monkeypatch.undo()
    assert {log.partition: str(error) for log, error in errors.items()} == {1: "injected"}
    assert len(closed) == 3
    assert not any(log._require_writer().state.flush_lock.locked() for log in logs)


def test_a_log_whose_preallocation_changed_is_skipped(
    files: SyncedTogether, logs: list[Log]
) -> None:
    writer = logs[1]._require_writer()
    writer.active_segment.configure(replace(CONFIG, preallocate=True))
    assert skipped(flush_together(logs)) == [1]
    assert files.calls == [["t-0", "t-2"]]
    logs[1].flush()
    assert files.synced["t-1"] >= logs[1].segments.views[0].size
    assert [log.recovery_point for log in logs] == [2, 2, 2]


# --- the files --------------------------------------------------------------------------------


def test_each_file_has_its_own_error(tmp_path: Path) -> None:
    fds = [os.open(tmp_path / str(n), os.O_CREAT | os.O_WRONLY) for n in range(40)]
    read, write = os.pipe()
    try:
        assert DISK.fdatasync_each(fds) == [None] * 40
        found = DISK.fdatasync_each([*fds[:2], write, fds[2]])
        assert [None if each is None else each.errno for each in found] == [None, None, 22, None]
        assert DISK.fdatasync_each([]) == []
    finally:
        for fd in (*fds, read, write):
            os.close(fd)


def test_a_test_double_of_one_sync_gets_a_call_for_each_file(tmp_path: Path) -> None:
    class Failing(Files):
        def fdatasync(self, fd: int) -> None:
            if fd == 8:
                raise StorageError("injected", errno=5)

    found = Failing().fdatasync_each([7, 8, 9])
    assert [str(each) for each in found] == ["None", "injected", "None"]
