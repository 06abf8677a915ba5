"""Several log directories: one fails and the others work; unrecognized ones are named."""

import errno
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig, Store, StoreConfig
from kstore.errors import (
    ClosedError,
    LogDirOfflineError,
    StorageError,
    StoreLockedError,
    UnknownTopicOrPartitionError,
)
from kstore.files.failure_detector import FailureDetectingFiles, is_failure, keeps_from_opening
from kstore.files.files import Files
from support.disks import FaultyDisk
from support.process_exit import close_as_at_exit
from support.stores import MARKER, QUIET


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_as_at_exit()


@pytest.fixture
def dirs(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "d1", tmp_path / "d2"


def fail_all_calls(disk: FaultyDisk) -> None:
    """From now on every call on the disk's path fails."""
    disk.arm(0, lambda: StorageError("cannot write", errno=errno.EIO), sticky=True)


def spread(dirs: tuple[Path, Path], files: Files) -> Store:
    """Topic "t" has a partition in each directory, with a record each."""
    store = Store(dirs, config=QUIET, files=files)
    for log in store.create_topic("t", 2):
        log.append(b"x")
        log.flush()
    store.checkpoint()
    return store


# --- a disk fails while it is used -------------------------------------------------------------


@pytest.mark.parametrize("use", ["append", "flush", "checkpoint", "roll"])
def test_a_failed_directory_refuses_and_the_others_take_appends(
    dirs: tuple[Path, Path], use: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultyDisk(dirs[0])
    store = spread(dirs, disk)
    bad, good = store["t"][0], store["t"][1]
    more = list(store.create_topic("u", 4))
    assert (bad.path, good.path) == (str(dirs[0] / "t-0"), str(dirs[1] / "t-1"))
    if use == "flush":
        bad.append(b"y")
    assert bad[0].value == b"x"
    fail_all_calls(disk)
    if use == "checkpoint":
        store.checkpoint()  # logged only: the other directories continue
    else:
        with pytest.raises(StorageError):
            bad.append(b"y") if use == "append" else getattr(bad, use)()
    assert isinstance(store.log_dirs[0].offline, StorageError)
    assert store.log_dirs[1].offline is None
    assert [each.levelname for each in caplog.records if "is offline" in each.message] == ["ERROR"]
    calls = len(disk.calls)
    with pytest.raises(LogDirOfflineError) as refused:
        bad.append(b"y")
    assert refused.value.code == 56
    for log in more:
        if log.path.startswith(str(dirs[0])):
            with pytest.raises(LogDirOfflineError, match=str(dirs[0])):
                log.append(b"z")
        else:
            log.append(b"z")
    assert bad[0].value == b"x"  # while its bytes are mapped
    assert good.append(b"y") == 1
    good.flush()
    assert {log.path.rpartition("/")[0] for log in store.create_topic("v", 2)} == {str(dirs[1])}
    store.checkpoint()
    store.apply_retention()
    assert len(disk.calls) == calls
    if use == "flush":  # what could not be flushed is named once more
        with pytest.raises(LogDirOfflineError, match="t-0 from offset 1 to 1"):
            store.close()
    else:
        store.close()
    assert len(disk.calls) == calls
    assert not (dirs[0] / MARKER).exists()
    assert (dirs[1] / MARKER).exists()
    with kstore.open(dirs, config=QUIET) as store:
        assert store.log_dirs[0].offline is None
        assert store["t"][0][0].value == b"x"
        assert store["t"][1].end_offset == 2
        store["t"][0].append(b"again")


def test_logs_that_were_not_open_refuse_too(dirs: tuple[Path, Path]) -> None:
    spread(dirs, Files()).close()
    disk = FaultyDisk(dirs[0])
    with Store(dirs, config=QUIET, files=disk) as store:
        store.create_topic("u", 2)
        fail_all_calls(disk)
        with pytest.raises(StorageError):
            store["u"][0].append(b"x")
        with pytest.raises(LogDirOfflineError, match="offline until the store is reopened"):
            store["t"][0]
        assert store["t"][1].end_offset == 1
        assert ("t", 0) not in store.end_offsets()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE, errno.EDQUOT])
def test_a_full_disk_does_not_take_its_directory_offline(
    dirs: tuple[Path, Path], code: int
) -> None:
    disk = FaultyDisk(dirs[0])
    with spread(dirs, disk) as store:
        disk.arm(0, lambda: StorageError("cannot write", errno=code))
        with pytest.raises(StorageError):
            store["t"][0].append(b"y")
        disk.fail_at = -1
        assert store.log_dirs[0].offline is None
        assert store["t"][0].append(b"y") == 1


def test_background_work_continues_for_the_others(dirs: tuple[Path, Path]) -> None:
    disk = FaultyDisk(dirs[0])
    config = StoreConfig(retention_check_interval_ms=5)
    with Store(dirs, config=config, files=disk) as store:
        for log in store.create_topic("t", 2, config=LogConfig(flush_ms=2)):
            log.append(b"x")
            log.flush()
        fail_all_calls(disk)
        with pytest.raises(StorageError):
            store["t"][0].append(b"y")
        good = store["t"][1]
        offset = good.append(b"y")
        for _ in range(2000):
            if good.recovery_point > offset:
                break
            threading.Event().wait(0.005)
        assert good.recovery_point == offset + 1
        assert store.end_offsets()["t", 1] == 2  # the other disk's error is not raised here


def test_close_succeeds_when_all_directories_failed(dirs: tuple[Path, Path]) -> None:
    disk = FaultyDisk(dirs[0].parent)
    store = spread(dirs, disk)
    fail_all_calls(disk)
    for log in store["t"]:
        with pytest.raises(StorageError):
            log.append(b"y")
    with pytest.raises(StorageError):
        store.create_topic("u")
    store.close()  # all that was acknowledged is on disk
    for each in dirs:
        assert not (each / MARKER).exists()


def test_close_names_what_may_not_be_on_a_failed_disk(dirs: tuple[Path, Path]) -> None:
    """No later call reports it: the append was acknowledged, and nothing flushed it."""
    disk = FaultyDisk(dirs[0])
    store = spread(dirs, disk)
    bad, good = store["t"][0], store["t"][1]
    for log in (bad, good):
        log.extend([b"y", b"z"])
    fail_all_calls(disk)
    store.checkpoint()  # in the background, say: no caller gets the error
    with pytest.raises(LogDirOfflineError, match=r"t-0 from offset 1 to 2") as said:
        store.close()
    assert str(dirs[0]) in str(said.value)
    assert "t-1 from" not in str(said.value)
    assert store.closed
    assert (dirs[1] / MARKER).exists()
    store.close()  # said once
    with kstore.open(dirs, config=QUIET) as store:
        assert store["t"][1].end_offset == 3


# --- a directory that cannot be opened -----------------------------------------------------------


def test_a_missing_disk_is_skipped(dirs: tuple[Path, Path]) -> None:
    spread(dirs, Files()).close()
    dirs[0].rename(dirs[0].with_name("away"))
    dirs[0].write_bytes(b"no directory")
    for mode in ("a", "r"):
        with kstore.open(dirs, mode, config=QUIET) as store:
            assert isinstance(store.log_dirs[0].offline, StorageError)
            assert store["t"].partitions == (1,)
            assert len(store["t"]) == 2  # keys go where they always went
            assert store["t"][1].end_offset == 1
            with pytest.raises(LogDirOfflineError, match="d1"):
                store["t"][0]
            with pytest.raises(UnknownTopicOrPartitionError):
                store["t"][2]
    with kstore.open(dirs, config=QUIET) as store:
        with pytest.raises(LogDirOfflineError):
            store.move("t", 1, dirs[0])
        store.create_topic("u", 2)
    dirs[0].unlink()
    dirs[0].with_name("away").rename(dirs[0])
    with kstore.open(dirs, config=QUIET) as store:
        assert {topic: len(store[topic]) for topic in store} == {"t": 2, "u": 2}
        assert store["t"][0][0].value == b"x"


def test_topics_of_a_missing_disk_are_not_recreated(dirs: tuple[Path, Path]) -> None:
    with Store(dirs, config=QUIET) as store:
        log = store.create_topic("t")[0]
        assert log.path.startswith(str(dirs[0]))
    dirs[0].rename(dirs[0].with_name("away"))
    dirs[0].write_bytes(b"no directory")
    with kstore.open(dirs, config=QUIET) as store:
        assert list(store) == []
        for exist_ok in (False, True):
            with pytest.raises(LogDirOfflineError):
                store.create_topic("t", exist_ok=exist_ok)


def test_open_raises_if_no_directory_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    paths = [tmp_path / "file" / "d1", tmp_path / "file" / "d2"]
    for mode in ("a", "r"):
        with pytest.raises(StorageError):
            kstore.open(paths, mode)
        with pytest.raises(StorageError):
            kstore.open(paths[0], mode)


def test_a_locked_directory_is_not_offline(dirs: tuple[Path, Path]) -> None:
    with kstore.open(dirs[0]), pytest.raises(StoreLockedError):
        kstore.open(dirs)
    kstore.open(dirs).close()


def test_which_errors_are_the_disks() -> None:
    failures = [errno.EIO, errno.ENODEV, errno.EROFS, errno.ESTALE]
    assert all(is_failure(StorageError("x", errno=code)) for code in failures)
    ours = [errno.ENOSPC, errno.EMFILE, errno.ENOENT, errno.EACCES, None]
    assert not any(is_failure(StorageError("x", errno=code)) for code in ours)
    assert keeps_from_opening(StorageError("x", errno=errno.ENOENT))
    assert keeps_from_opening(StorageError("x", errno=errno.EACCES))
    assert not keeps_from_opening(StorageError("x", errno=errno.EMFILE))


def test_the_failure_detector_wraps_every_method_of_files() -> None:
    public = {name for name, value in vars(Files).items() if callable(value) and name[0] != "_"}
    assert public <= set(vars(FailureDetectingFiles))


# --- leftover folders -------------------------------------------------------------------------


def test_leftover_directories_are_named_and_left(dirs: tuple[Path, Path]) -> None:
    unique = "0123456789abcdef0123456789abcdef"
    with Store(dirs, config=QUIET) as store:
        store.create_topic("own", config=LogConfig(file_delete_delay_ms=0))
    for name in (f"kafkas-0.{unique}-delete", f"own-7.{unique}-delete", f"a-0.{unique}-stray"):
        (dirs[0] / name).mkdir()
        (dirs[0] / name / f"{0:020d}.log").write_bytes(b"")
    (dirs[1] / f"kafkas-1.{unique}-future").mkdir()
    (dirs[1] / "lost+found").mkdir()
    with kstore.open(dirs, config=QUIET) as store:
        first, second = store.log_dirs
        assert first.deleted == (f"kafkas-0.{unique}-delete", f"own-7.{unique}-delete")
        assert first.strays == (f"a-0.{unique}-stray",)
        assert second.futures == (f"kafkas-1.{unique}-future",)
        assert second.strangers == ("lost+found",)
        assert first.partitions == (("own", 0),)
        store.apply_retention()
        assert store.log_dirs[0].deleted == (f"kafkas-0.{unique}-delete",)
    assert (dirs[0] / f"a-0.{unique}-stray" / f"{0:020d}.log").exists()
    assert (dirs[1] / f"kafkas-1.{unique}-future").exists()


def test_a_folder_waits_for_its_deletion(dirs: tuple[Path, Path]) -> None:
    with Store(dirs, config=QUIET) as store:
        store.create_topic("own", config=LogConfig(file_delete_delay_ms=60_000))
    (dirs[0] / "own-7.0-delete").mkdir()
    with kstore.open(dirs, config=QUIET) as store:
        store.apply_retention()
        assert store.log_dirs[0].deleted == ("own-7.0-delete",)


# --- locks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["close", "delete", "configure", "move"])
def test_a_source_that_opens_another_log_does_not_delay_the_end_of_the_first(
    dirs: tuple[Path, Path], end: str
) -> None:
    """extend holds its log's lock while its source waits for the store's."""
    store = kstore.open(dirs, config=QUIET)
    log = store.create_topic("t")[0]
    store.create_topic("u")
    inside, other = threading.Event(), None

    def finish() -> None:
        assert inside.wait(30)
        {
            "close": store.close,
            "delete": lambda: store.delete_topic("t"),
            "configure": lambda: store.alter_topic("t", config={"segment_ms": 77}),
            "move": lambda: store.move("t", 0, dirs[1]),
        }[end]()

    def source() -> Iterator[bytes]:
        yield b"a"
        inside.set()
        other.join(0.2)  # it waits for this log by now
        store["u"][0].append(b"b")
        yield b"c"

    other = threading.Thread(target=finish, daemon=True)
    other.start()
    done: list[object] = []

    def fill() -> None:
        try:
            done.append(log.extend(source()))
        except ClosedError as error:
            done.append(error)

    filling = threading.Thread(target=fill, daemon=True)
    filling.start()
    for thread in (filling, other):
        thread.join(30)
        assert not thread.is_alive()
    assert isinstance(done[0], ClosedError if end == "close" else range)


def test_a_closed_log_raises_closed_error(dirs: tuple[Path, Path]) -> None:
    with kstore.open(dirs, config=QUIET) as store:
        log = store.create_topic("t")[0]
        log.extend([b"a", b"b"])
        before = log[0:]
    for use in (lambda: log[0], lambda: log[0:], lambda: iter(log), lambda: log.view()):
        with pytest.raises(ClosedError):
            use()
    assert before.start == 0
    assert os.path.basename(log.path) == "t-0"
    logging.getLogger("kstore").debug("%r", log)
