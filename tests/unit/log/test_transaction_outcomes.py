"""Outcomes of transactions while the log is truncated, by its writer and seen by a reader."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.clock import now_ms
from kstore.errors import LogTruncationError, OffsetOutOfRangeError
from kstore.log import read_committed, view
from kstore.log.log import Log
from kstore.log.read_committed import HeaderWalker
from kstore.log.transaction_outcomes import TransactionOutcomes
from kstore.log.view import LogView
from oracle.plain import PlainRecord
from oracle.writer import batch
from support.once_before import once_before
from support.stores import QUIET

Change = Callable[[Log], None]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Log]:
    with kstore.open(tmp_path / "data") as store:
        yield store.create_topic("t", config={"segment.bytes": 1 << 20})[0]


@pytest.fixture(params=["writer", "reader"])
def log(request: pytest.FixtureRequest, tmp_path: Path, writer: Log) -> Iterator[Log]:
    """The log that reads: the writer's own, or that of another store."""
    if request.param == "writer":
        yield writer
        return
    with kstore.open(tmp_path / "data", mode="r") as store:
        yield store["t"][0]


def transact(log: Log, producer_id: int, *, value: bytes = b"v", sequence: int = 0) -> None:
    rows = [PlainRecord(0, now_ms(), b"", value, ())]
    log.append_as_leader(
        batch(
            rows,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
    )


def end(log: Log, producer_id: int, *, commit: bool) -> None:
    log.append_end_marker(producer_id, 0, commit=commit)


def append_plain(log: Log, count: int) -> None:
    for _ in range(count):
        log.append(b"plain")


def read(view: LogView) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in view]


def scanned(view: LogView) -> list[tuple[int, bytes | None]]:
    return [
        row
        for columns in view.scan()
        for row in zip(columns.offsets.tolist(), columns.values.to_list(), strict=True)
    ]


def test_a_view_that_is_iterated_again_after_a_truncation(writer: Log, log: Log) -> None:
    """What was known of the transactions that were removed does not count for those now there."""
    for producer_id in (1, 2):
        transact(writer, producer_id)
        end(writer, producer_id, commit=True)
    view = log.view(isolation="read_committed")
    assert read(view) == [(0, b"v"), (2, b"v")]
    writer.truncate_to(2)
    transact(writer, 3, value=b"aborted")
    end(writer, 3, commit=False)
    assert read(view) == [(0, b"v")]


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("take", [read, scanned])
def test_a_slice_decides_by_its_own_markers(
    monkeypatch: pytest.MonkeyPatch,
    writer: Log,
    log: Log,
    commit: bool,
    take: Callable[[LogView], list[tuple[int, bytes | None]]],
) -> None:
    """The log has other records at the same offsets when the outcome is looked up."""
    append_plain(writer, 1)
    transact(writer, 1)
    end(writer, 1, commit=commit)
    append_plain(writer, 1)

    def change() -> None:
        writer.truncate_to(1)
        transact(writer, 2)
        transact(writer, 1)
        end(writer, 1, commit=not commit)
        end(writer, 2, commit=not commit)

    called = once_before(monkeypatch, TransactionOutcomes, "aborted_within", change)
    found = take(log.view(isolation="read_committed"))
    assert found == [(0, b"plain"), *[(1, b"v")] * commit, (3, b"plain")]
    assert called


def test_an_outcome_that_was_removed_is_an_error(
    monkeypatch: pytest.MonkeyPatch, writer: Log, log: Log
) -> None:
    """Its marker was in the next segment: neither all records nor fewer are the answer."""
    append_plain(writer, 1)
    transact(writer, 1)
    writer.roll()
    end(writer, 1, commit=True)

    def change() -> None:
        writer.truncate_to(1)
        append_plain(writer, 2)

    called = once_before(monkeypatch, TransactionOutcomes, "aborted_within", change)
    with pytest.raises(LogTruncationError, match="truncated while it was read") as caught:
        read(log.view(isolation="read_committed"))
    assert called
    assert caught.value.offset == 0


@pytest.mark.parametrize("commit", [True, False])
def test_a_truncation_behind_the_slice_leaves_it_valid(
    monkeypatch: pytest.MonkeyPatch, writer: Log, log: Log, commit: bool
) -> None:
    append_plain(writer, 1)
    transact(writer, 1)
    writer.roll()
    end(writer, 1, commit=not commit)

    def change() -> None:
        writer.truncate_to(2)
        end(writer, 1, commit=commit)

    called = once_before(monkeypatch, TransactionOutcomes, "aborted_within", change)
    found = read(log.view(isolation="read_committed"))
    assert found == [(0, b"plain"), *[(1, b"v")] * commit]
    assert called


def test_a_transaction_that_is_open_now_is_not_left_out(
    monkeypatch: pytest.MonkeyPatch, writer: Log, log: Log
) -> None:
    """The reader chose its end before; an answer without the open one's records would be short."""
    append_plain(writer, 1)
    transact(writer, 1)
    end(writer, 1, commit=True)
    append_plain(writer, 1)

    def change() -> None:
        writer.truncate_to(1)
        transact(writer, 2)
        append_plain(writer, 2)

    called = once_before(monkeypatch, TransactionOutcomes, "mark", change)
    with pytest.raises(LogTruncationError, match="truncated while it was read"):
        read(log.view(isolation="read_committed"))
    assert called


@pytest.mark.parametrize("commit", [True, False])
def test_a_truncation_during_the_walk(
    monkeypatch: pytest.MonkeyPatch, writer: Log, commit: bool
) -> None:
    """The walk has the old log's beginning and continues in the new one: it is repeated."""
    append_plain(writer, 1)
    transact(writer, 1)
    end(writer, 1, commit=commit)

    def change() -> None:
        writer.truncate_to(1)
        append_plain(writer, 5)
        transact(writer, 1)
        end(writer, 1, commit=not commit)

    called = once_before(monkeypatch, TransactionOutcomes, "_has_finished", change)
    found = read(writer.view(isolation="read_committed"))
    assert found == [(0, b"plain"), *[(1, b"v")] * commit]
    assert called


def test_a_deletion_is_no_truncation(
    monkeypatch: pytest.MonkeyPatch, writer: Log, log: Log
) -> None:
    transact(writer, 1)
    writer.roll()
    end(writer, 1, commit=True)
    append_plain(writer, 2)

    def change() -> None:
        writer.roll()
        writer.delete_records(4)
        writer.apply_retention()

    called = once_before(monkeypatch, TransactionOutcomes, "aborted_within", change)
    with pytest.raises(OffsetOutOfRangeError) as caught:
        read(log.view(isolation="read_committed"))
    assert called
    assert type(caught.value) is OffsetOutOfRangeError


def test_a_follower_reads_again(monkeypatch: pytest.MonkeyPatch, writer: Log, log: Log) -> None:
    """Nothing that it returned is gone: it continues with what the log has now."""
    transact(writer, 1)
    writer.roll()
    end(writer, 1, commit=True)

    def change() -> None:
        writer.truncate_to(0)
        append_plain(writer, 2)

    called = once_before(monkeypatch, TransactionOutcomes, "aborted_within", change)
    follower = log.follow(start="earliest", isolation="read_committed", timeout=0)
    assert [(record.offset, record.value) for record in follower] == [(0, b"plain"), (1, b"plain")]
    assert called


def test_a_consumer_reads_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with kstore.open(tmp_path / "consumed") as store:
        writer = store.create_topic("t")[0]
        transact(writer, 1)
        writer.roll()
        end(writer, 1, commit=True)

        def change() -> None:
            writer.truncate_to(0)
            append_plain(writer, 2)

        called = once_before(monkeypatch, TransactionOutcomes, "aborted_within", change)
        consumer = store.consumer("t", isolation_level="read_committed", timeout=0)
        found = [(record.offset, record.value) for record in consumer.records()]
        assert found == [(0, b"plain"), (1, b"plain")]
        assert called


@pytest.mark.parametrize("log", ["reader"], indirect=True)  # a writer knows it without a walk
def test_the_last_stable_offset_is_that_of_one_log(
    log: Log, writer: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A walk that a truncation overtakes begins again: it has met transactions that are gone."""
    transact(writer, 1)
    assert log.last_stable_offset == 0
    append_plain(writer, 1)

    def cut() -> None:
        writer.truncate_to(0)
        append_plain(writer, 2)
        writer.roll()

    once_before(monkeypatch, HeaderWalker, "advance", cut)
    assert log.last_stable_offset == log.end_offset == 2


@pytest.mark.parametrize("read", [read, scanned])
def test_a_transaction_ends_in_a_later_slice_of_a_segment(
    log: Log,
    writer: Log,
    read: Callable[[LogView], list[tuple[int, bytes | None]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A roll, which is no truncation, hides none of its records from a reader."""
    monkeypatch.setattr(view, "_READ", 200)
    values = [b"0", b"1", b"2", b"3"]
    for sequence, value in enumerate(values):
        transact(writer, 1, value=value, sequence=sequence)
    end(writer, 1, commit=True)
    append_plain(writer, 4)
    once_before(monkeypatch, TransactionOutcomes, "aborted_within", writer.roll)
    found = [value for _, value in read(log.view(isolation="read_committed"))]
    assert found == [*values, *[b"plain"] * 4]


def test_after_a_roll_too_a_transaction_is_walked_once(
    log: Log, writer: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in reads, which are small here."""
    monkeypatch.setattr(view, "_READ", 200)
    monkeypatch.setattr(read_committed, "_READ", 200)
    for sequence in range(100):
        transact(writer, 1, sequence=sequence)
    end(writer, 1, commit=True)
    once_before(monkeypatch, TransactionOutcomes, "aborted_within", writer.roll)
    reads: list[int] = []
    original = type(log).read

    def counted(log: Log, offset: int, *arguments: Any, **options: Any) -> Any:
        reads.append(offset)
        return original(log, offset, *arguments, **options)

    monkeypatch.setattr(type(log), "read", counted)
    assert len(read(log.view(isolation="read_committed"))) == 100
    assert len(reads) < 1000  # 5,000 if each slice were walked to the end


@pytest.mark.parametrize("commit", [True, False])
def test_a_compaction_is_no_truncation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, commit: bool
) -> None:
    """A reader holds a slice whose transaction ends behind it, and the cleaner rewrites both."""
    monkeypatch.setattr(view, "_READ", 300)
    config = {"cleanup.policy": "compact"}
    with kstore.open(tmp_path / "compacted", config=QUIET) as store:
        writer = store.create_topic("t", config=config)[0]
        for number in range(8):
            rows = [
                PlainRecord(n, 0, key, b"v", ()) for n, key in enumerate((b"a", b"k%d" % number))
            ]
            writer.append_as_leader(
                batch(
                    rows,
                    producer_id=1,
                    producer_epoch=0,
                    base_sequence=2 * number,
                    transactional=True,
                )
            )
        end(writer, 1, commit=commit)
        writer.append(b"x", key=b"z")
        with kstore.open(tmp_path / "compacted", mode="r") as reader:
            log = reader["t"][0]

            def change() -> None:
                writer.compact(roll=True)

            called = once_before(monkeypatch, TransactionOutcomes, "aborted_within", change)
            found = {record.key for record in log.view(isolation="read_committed")}
            of_transaction = {b"a", *(b"k%d" % n for n in range(8))} if commit else set()
            assert found == {b"z", *of_transaction}
            assert called


@pytest.mark.parametrize("follows", [1, 2, 5])
def test_a_truncation_of_a_compacted_log_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, follows: int
) -> None:
    with kstore.open(tmp_path / "compacted", config=QUIET) as store:
        writer = store.create_topic("t", config={"cleanup.policy": "compact"})[0]
        writer.append(b"first", key=b"k")
        transact(writer, 1)
        writer.roll()
        end(writer, 1, commit=False)
        with kstore.open(tmp_path / "compacted", mode="r") as reader:

            def change() -> None:
                writer.truncate_to(1)
                for _ in range(follows):
                    writer.append(b"other", key=b"k")

            called = once_before(monkeypatch, TransactionOutcomes, "aborted_within", change)
            with pytest.raises(LogTruncationError, match="truncated while it was read"):
                read(reader["t"][0].view(isolation="read_committed"))
            assert called
