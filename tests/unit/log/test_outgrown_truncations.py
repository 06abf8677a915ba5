"""Truncations that a log has outgrown before anyone looked again."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import NoReturn

import pytest

import kstore
from kstore.errors import OffsetOutOfRangeError
from kstore.log import follow
from kstore.log.last_stable_offset import LastStableOffset
from kstore.log.log import Log
from kstore.log.read_committed import HeaderWalker
from kstore.log.writable_log import WritableLog
from oracle.plain import PlainRecord
from oracle.writer import batch
from support.logs import open_log, read_log
from support.waiting import until

WAIT = 20  # seconds, which no test takes
COMMITTED = "read_committed"


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Log]:
    with kstore.open(tmp_path / "data") as store:
        yield store.create_topic("t", config={"segment.bytes": 1 << 20})[0]


@pytest.fixture
def reader(tmp_path: Path, writer: Log) -> Iterator[Log]:
    with kstore.open(tmp_path / "data", mode="r") as store:
        yield store["t"][0]


def open_transaction(writer: Log, count: int) -> None:
    for number in range(count):
        rows = [PlainRecord(0, 0, b"", b"open", ())]
        writer.append_as_leader(
            batch(rows, producer_id=7, producer_epoch=0, base_sequence=number, transactional=True)
        )


def outgrow(writer: Log) -> None:
    """Of an open transaction keep one record, then end it, and append another record."""
    writer.truncate_to(2)
    writer.append_end_marker(7, 0, commit=False)
    writer.append(b"b")


def settle(directory: Path, seconds: int) -> None:
    """Make the last change of the directory's names an old one: a reader lists them once."""
    os.utime(directory, (seconds, seconds))


def walks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where walks of headers for a last stable offset begin."""
    found: list[int] = []
    begin = LastStableOffset._begin

    def noted(self: LastStableOffset, start: int, end: int) -> HeaderWalker:
        found.append(start)
        return begin(self, start, end)

    monkeypatch.setattr(LastStableOffset, "_begin", noted)
    return found


@pytest.mark.parametrize("count", [1, 2, 3], ids=["longer", "longer by a record", "as long"])
def test_a_reader_leaves_no_transaction_open(writer: Log, reader: Log, count: int) -> None:
    """The reader looks before it and after it, and sees an end that did not fall."""
    writer.append(b"a")
    open_transaction(writer, count)
    assert (reader.last_stable_offset, reader.end_offset) == (1, 1 + count)
    if count == 1:
        open_transaction(writer, 1)  # which it does not see
    outgrow(writer)
    assert (reader.last_stable_offset, reader.end_offset) == (4, 4)
    assert [record.value for record in reader.view(isolation=COMMITTED)] == [b"a", b"b"]


@pytest.mark.parametrize("of_files", [False, True])
@pytest.mark.parametrize("count", [2, 3])
def test_a_follower_that_was_busy_continues(
    writer: Log, reader: Log, tmp_path: Path, count: int, of_files: bool
) -> None:
    writer.append(b"a")
    open_transaction(writer, count)
    settle(tmp_path / "data" / "t-0", 1)
    following = iter(
        (reader if of_files else writer).follow(start=0, timeout=WAIT, isolation=COMMITTED)
    )
    assert next(following).value == b"a"
    outgrow(writer)
    settle(tmp_path / "data" / "t-0", 2)
    assert next(following).value == b"b"


@pytest.mark.parametrize("of_files", [False, True])
def test_a_follower_that_waits_continues(writer: Log, reader: Log, of_files: bool) -> None:
    writer.append(b"a")
    open_transaction(writer, 3)
    assert isinstance(writer, WritableLog)
    state = writer._state
    files = reader._reader_of_files()
    assert files is not None
    followed = reader if of_files else writer
    with ThreadPoolExecutor(1) as other:
        following = followed.follow(start=0, timeout=WAIT, isolation=COMMITTED)
        found = other.submit(lambda: [record.value for record in islice(following, 2)])
        until(
            lambda: (
                [wait for wait in files.waits._used if wait.is_waiting]
                if of_files
                else state.appender.waiters > 0
            )
        )
        with files._lock if of_files else state.lock:  # it looks again afterwards
            outgrow(writer)
        assert found.result(WAIT / 2) == [b"a", b"b"]


def test_a_truncation_during_the_comparison_says_so(
    writer: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last record that was returned is read again, and just then it is gone."""
    writer.extend([b"a", b"b", b"c"])
    following = writer.follow(start=0, timeout=0)
    assert [record.value for record in following] == [b"a", b"b", b"c"]

    def truncated(log: Log, *_: int) -> NoReturn:
        log.truncate_to(1)
        raise OffsetOutOfRangeError("offset 2 is outside the log", path=log.path)

    monkeypatch.setattr(follow, "LogView", truncated)
    with pytest.raises(OffsetOutOfRangeError, match="truncated while it was followed"):
        following._check_last(writer.segments)


def test_a_change_of_names_alone_begins_no_other_walk(
    writer: Log, reader: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.append(b"a")
    open_transaction(writer, 2)
    begun = walks(monkeypatch)
    assert reader.last_stable_offset == 1
    before = reader.segments
    (tmp_path / "data" / "t-0" / "another").touch()
    writer.roll()
    writer.append(b"b")
    assert reader.last_stable_offset == 1
    assert reader.segments is not before
    assert len(begun) == 1


def test_a_file_that_is_cut_and_extended_in_place(tmp_path: Path) -> None:
    """As a Kafka broker does with its active segment: no name changes, and the end never falls."""
    contents = []
    for name, is_open in (("one", True), ("other", False)):
        (tmp_path / name).mkdir()
        log = open_log(tmp_path / name)
        log.append(b"a")
        if is_open:
            open_transaction(log, 1)
        else:
            log.append_as_leader(batch([PlainRecord(0, 0, b"", b"open", ())]))  # as large
            log.extend([b"b"] * 2)
        contents.append(
            (tmp_path / name / f"{0:020}.log").read_bytes()[: log.segments.views[-1].size]
        )
        log.close()
    shared = tmp_path / "shared"
    shared.mkdir()
    file = shared / f"{0:020}.log"
    file.write_bytes(contents[0])
    settle(shared, 1_000_000_000)
    reader = read_log(shared)
    assert (reader.last_stable_offset, reader.end_offset) == (1, 2)
    with file.open("r+b") as changed:
        changed.write(contents[1])
    assert (reader.end_offset, reader.last_stable_offset) == (4, 4)
    reader.close()
