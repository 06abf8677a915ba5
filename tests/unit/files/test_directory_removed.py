"""A partition's directory that is removed, moved or replaced while a writer has it open."""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import kstore
from kstore import Log, LogConfig
from kstore.errors import LogDirOfflineError
from support.disks import CountingDisk
from support.logs import open_log
from support.stores import QUIET


def remove(directory: Path) -> None:
    shutil.rmtree(directory)


def move(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))


def replace(directory: Path) -> None:
    """By a copy: the same names, other files."""
    copy = directory.with_name("copy")
    shutil.copytree(directory, copy)
    shutil.rmtree(directory)
    copy.rename(directory)


def remove_only_the_segment(directory: Path) -> None:
    for path in directory.glob("*.log"):
        path.unlink()


TAKE_AWAY = [remove, move, replace, remove_only_the_segment]


def check_refuses(log: Log) -> None:
    end = log.end_offset
    for _ in range(2):
        with pytest.raises(LogDirOfflineError, match="removed, moved or replaced"):
            log.append(b"value")
        with pytest.raises(LogDirOfflineError):
            log.flush()
    assert log.end_offset == end


@pytest.mark.parametrize("take_away", TAKE_AWAY)
def test_the_next_flush_notices(tmp_path: Path, take_away: Callable[[Path], None]) -> None:
    log = open_log(tmp_path / "t-0")
    log.append(b"value")
    take_away(tmp_path / "t-0")
    with pytest.raises(LogDirOfflineError, match="records from offset 0 on"):
        log.flush()
    check_refuses(log)
    with pytest.raises(LogDirOfflineError):
        log.close()
    assert not log.close()


@pytest.mark.parametrize("take_away", TAKE_AWAY)
def test_a_flush_without_new_records_notices_a_removed_directory(
    tmp_path: Path, take_away: Callable[[Path], None]
) -> None:
    log = open_log(tmp_path / "t-0")
    log.append(b"value")
    log.flush()
    take_away(tmp_path / "t-0")
    with pytest.raises(LogDirOfflineError):
        log.flush()
    check_refuses(log)


@pytest.mark.parametrize("take_away", TAKE_AWAY)
def test_appends_notice_after_64_index_entries(
    tmp_path: Path, take_away: Callable[[Path], None]
) -> None:
    """256 KiB with the default index interval; nothing was flushed."""
    log = open_log(tmp_path / "t-0")
    log.append(b"value")
    take_away(tmp_path / "t-0")
    appended = 0
    with suppress(LogDirOfflineError):
        while appended < 1 << 20:
            log.append(b"x" * 1000)
            appended += 1000
    assert appended <= 66 * (4096 + 1100)
    check_refuses(log)
    with pytest.raises(LogDirOfflineError):
        log.close()
    assert not log.close()


def test_close_reports_the_failure_that_an_append_noticed(tmp_path: Path) -> None:
    """No append follows: the close may not end as if all were on disk."""
    log = open_log(tmp_path / "t-0", index_interval_bytes=0)
    log.append(b"value")
    remove(tmp_path / "t-0")
    while log._writer.state.appender.ready:
        log.append(b"value")
    assert log.end_offset < 70
    with pytest.raises(LogDirOfflineError):
        log.close()


def test_the_next_append_to_a_parked_log_notices_a_removed_directory(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    log.append(b"value")
    assert log.park()
    remove(tmp_path / "t-0")
    check_refuses(log)


def test_other_partitions_take_appends_and_the_store_does_not_close_as_clean(
    tmp_path: Path,
) -> None:
    store = kstore.open(tmp_path, config=QUIET)
    topic = store.create_topic("t", 2, config=LogConfig(segment_index_bytes=4096))
    for log in topic:
        log.append(b"value")
    remove(tmp_path / "t-0")
    with pytest.raises(LogDirOfflineError):
        topic[0].flush()
    topic[1].append(b"more")
    topic[1].flush()
    with pytest.raises(LogDirOfflineError):
        store.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    with kstore.open(tmp_path, config=QUIET) as store:
        assert store["t"][1].end_offset == 2


def test_an_append_is_a_single_call_to_the_disk(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = open_log(tmp_path / "t-0", files=disk)
    log.append(b"value")
    before = disk.calls
    for _ in range(10):
        log.append(b"value")
    assert disk.calls == before + 10  # one write each
    assert os.path.exists(tmp_path / "t-0")
