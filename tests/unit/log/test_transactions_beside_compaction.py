"""Which transactions were aborted, while the cleaner removes their records and their markers.

A reader has a slice of a file from before, and looks for the ends of its transactions in the log
of afterwards.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.log import view
from kstore.log.log import Log
from kstore.log.transaction_outcomes import TransactionOutcomes
from kstore.store.store import Store
from oracle.plain import PlainRecord
from oracle.writer import batch
from support.disks import HastyDisk
from support.once_before import once_before
from support.stores import QUIET
from support.waiting import until

CONFIG = {"cleanup.policy": "compact", "delete.retention.ms": 0, "min.cleanable.dirty.ratio": 0}
_RENAMES = 7  # of log files, in two rounds
Rows = list[tuple[int, bytes | None]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path / "data", config=QUIET) as store:
        store.create_topic("t", config=CONFIG)
        yield store


@pytest.fixture
def writer(store: Store) -> Log:
    return store["t"][0]


@pytest.fixture(params=["writer", "reader"])
def reading(request: pytest.FixtureRequest, tmp_path: Path, store: Store) -> Iterator[Store]:
    """The store that reads: the writer's own, or another one."""
    with ExitStack() as stack:
        is_writer = request.param == "writer"
        yield store if is_writer else stack.enter_context(kstore.open(tmp_path / "data", mode="r"))


def transact(log: Log, *rows: tuple[bytes, bytes], producer_id: int = 1) -> None:
    """Append one batch, with a sequence that is its offset."""
    log.append_as_leader(
        batch(
            [PlainRecord(n, 0, key, value, ()) for n, (key, value) in enumerate(rows)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=log.end_offset if _is_new(log, producer_id) else _next(log, producer_id),
            transactional=True,
        )
    )


def _is_new(log: Log, producer_id: int) -> bool:
    return all(each.producer_id != producer_id for each in log.producers())


def _next(log: Log, producer_id: int) -> int:
    (last,) = (each.last_sequence for each in log.producers() if each.producer_id == producer_id)
    return last + 1


def end(log: Log, *, commit: bool, producer_id: int = 1) -> None:
    log.append_end_marker(producer_id, 0, commit=commit)


def read(store: Store) -> Rows:
    found = store["t"][0].view(isolation="read_committed")
    return [(record.offset, record.value) for record in found]


def scanned(store: Store) -> Rows:
    return [
        row
        for columns in store["t"][0].view(isolation="read_committed").scan()
        for row in zip(columns.offsets.tolist(), columns.values.to_list(), strict=True)
    ]


def consumed(store: Store) -> Rows:
    with store.consumer("t", isolation_level="read_committed", timeout=0) as consumer:
        return [(record.offset, record.value) for record in consumer.records()]


Read = Callable[[Store], Rows]
READS = [read, scanned, consumed]


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("take", READS)
def test_a_slice_outlives_an_aborted_transaction(
    monkeypatch: pytest.MonkeyPatch, writer: Log, reading: Store, take: Read, rounds: int
) -> None:
    """The slice's last batch is still in the log; the one before it is gone, and, after the later
    rounds, so is the marker that says that it was aborted."""
    transact(writer, (b"k", b"aborted"))
    writer.append(b"first", key=b"first")
    writer.roll()
    end(writer, commit=False)
    transact(writer, (b"later", b"later"))
    end(writer, commit=True)
    writer.append(b"last", key=b"last")

    def change() -> None:
        for _ in range(rounds):
            writer.compact(roll=True)

    called = once_before(monkeypatch, TransactionOutcomes, "aborted_within", change)
    assert [value for _, value in take(reading)] == [b"first", b"later", b"last"]
    assert called


@pytest.mark.parametrize("take", READS)
def test_a_slice_shows_what_was_committed_and_is_superseded_now(
    monkeypatch: pytest.MonkeyPatch, writer: Log, reading: Store, take: Read
) -> None:
    """Its batch has another record left, so its marker is in the log."""
    transact(writer, (b"k", b"superseded"), (b"left", b"left"))
    writer.append(b"first", key=b"first")
    writer.roll()
    end(writer, commit=True)
    writer.append(b"last", key=b"k")
    change = partial(writer.compact, roll=True)
    called = once_before(monkeypatch, TransactionOutcomes, "aborted_within", change)
    values = [value for _, value in take(reading)]
    if take is consumed and values[0] != b"superseded":  # it reads again if it lists the topics
        values.insert(0, b"superseded")
    assert values == [b"superseded", b"left", b"first", b"last"]
    assert called


@pytest.mark.parametrize("take", READS)
def test_a_rewrite_is_no_truncation(
    monkeypatch: pytest.MonkeyPatch, store: Store, writer: Log, take: Read
) -> None:
    for commit in (True, False):
        transact(writer, (b"k", b"%d" % commit * 500))
        writer.append(b"plain" * 100, key=b"p%d" % commit)
        writer.roll()
        end(writer, commit=commit)
    change = partial(writer.recompress, "gzip")
    called = once_before(monkeypatch, TransactionOutcomes, "aborted_within", change)
    assert [value for _, value in take(store)] == [b"1" * 500, b"plain" * 100, b"plain" * 100]
    assert called


def test_the_last_stable_offset_passes_a_transaction_that_is_gone(
    tmp_path: Path, store: Store
) -> None:
    """It was open when a reader last walked the log; no record of it is left, and no marker."""
    config = kstore.LogConfig(
        cleanup_policy="compact", delete_retention_ms=0, producer_id_expiration_ms=1
    )
    writer = store.create_topic("expiring", config=config)[0]
    with kstore.open(tmp_path / "data", mode="r") as reader:
        log = reader["expiring"][0]
        transact(writer, (b"k", b"aborted"))
        writer.append(b"first", key=b"first")
        assert log.last_stable_offset == 0
        end(writer, commit=False)
        until(lambda: writer.expire_producers() == 1)
        for _ in range(4):
            writer.append(b"last", key=b"last")
            writer.compact(roll=True)
        assert [batch.producer_id for batch in writer.batches()] == [-1, -1]
        assert log.last_stable_offset == log.end_offset


class StoppingDisk(HastyDisk):
    """Stops a thread before its n-th rename of a log file until it is released."""

    def __init__(self) -> None:
        self.left = 1 << 30
        self.stopped, self.released = threading.Event(), threading.Event()

    def rename(self, source: Any, target: Any) -> None:
        self.left -= ".log" in str(source)
        if self.left < 0 and not self.stopped.is_set():
            self.stopped.set()
            assert self.released.wait(60)
        super().rename(source, target)


def test_a_swap_that_stands_still(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Before each rename of two rounds, which replace several segments."""
    found = [
        read_at_rename(monkeypatch, tmp_path / str(step), step, (read, scanned, consumed)[step % 3])
        for step in range(_RENAMES + 1)
    ]
    assert set(map(tuple, found)) == {(b"first", b"first", b"later", b"later", b"last")}


def read_at_rename(
    monkeypatch: pytest.MonkeyPatch, path: Path, step: int, take: Read
) -> list[bytes | None]:
    """The values that a reader of another store gets while the cleaner stands still."""
    disk = StoppingDisk()
    with Store(path, files=disk, config=QUIET) as store, ExitStack() as stack:
        writer = store.create_topic("t", config=CONFIG)[0]
        for n in range(2):
            transact(writer, (b"k%d" % n, b"aborted"), producer_id=n)
            writer.append(b"first", key=b"first%d" % n)
            writer.roll()
        for n in range(2):
            end(writer, commit=False, producer_id=n)
            transact(writer, (b"later%d" % n, b"later"), producer_id=n)
            end(writer, commit=True, producer_id=n)
        writer.append(b"last", key=b"last")

        def compact() -> None:
            for _ in range(2):
                writer.compact(roll=True)
            disk.stopped.set()

        thread = threading.Thread(target=compact)
        stack.callback(thread.join, 60)
        stack.callback(disk.released.set)

        def change() -> None:
            disk.left = step
            thread.start()
            assert disk.stopped.wait(60)

        reader = stack.enter_context(Store(path, "r"))
        with monkeypatch.context() as patch:
            called = once_before(patch, TransactionOutcomes, "aborted_within", change)
            values = [value for _, value in take(reader)]
        assert called
        assert (disk.left < 0) == (step < _RENAMES)
        return values


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("take", READS)
def test_random_logs(
    monkeypatch: pytest.MonkeyPatch, writer: Log, reading: Store, take: Read, seed: int
) -> None:
    """What is read is of before or of afterwards, and all that is in both."""
    rng = random.Random(seed)
    monkeypatch.setattr(view, "_READ", rng.choice((200, 8 << 20)))
    open_for: set[int] = set()
    for _ in range(rng.randrange(10, 40)):
        producer_id = rng.randrange(3)
        key = b"k%d" % rng.randrange(8)
        action = rng.random()
        if action < 0.4:
            transact(writer, (key, b"t%d" % writer.end_offset), producer_id=producer_id)
            open_for.add(producer_id)
        elif action < 0.65 and producer_id in open_for:
            end(writer, commit=rng.random() < 0.5, producer_id=producer_id)
            open_for.remove(producer_id)
        elif action < 0.8:
            writer.roll()
        else:
            writer.append(b"p%d" % writer.end_offset, key=key)
    before = read(reading)
    bound = writer.last_stable_offset

    def change() -> None:
        for producer_id in open_for:
            end(writer, commit=rng.random() < 0.5, producer_id=producer_id)
        for _ in range(rng.choice((1, 3))):
            writer.compact(roll=rng.random() < 0.7)

    called = once_before(
        monkeypatch, TransactionOutcomes, "aborted_within", change, rng.randrange(3)
    )
    found = [row for row in take(reading) if row[0] < bound]
    if not called:
        change()
    after = [row for row in read(reading) if row[0] < bound]
    assert found == sorted(found)
    assert set(before) & set(after) <= set(found) <= set(before)
