"""read_committed: up to the last stable offset, without the records of aborted transactions."""

import asyncio
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kstore
from kstore._native.read.aborted_transactions import AbortedRanges, TransactionWalk
from kstore._native.read.decode import Scanner
from kstore.errors import InvalidConfigError
from kstore.log.log import Log
from oracle.transactions import read_committed
from support.logs import log_bytes, open_log, read_log
from support.stores import QUIET
from support.transactions import WHEN, TransactionWriter

COMMITTED = "read_committed"


def offsets(log: Log, start: int | None = None, stop: int | None = None) -> list[int]:
    return [record.offset for record in log.view(start, stop, isolation=COMMITTED)]


def scanned(log: Log, start: int | None = None, stop: int | None = None, **options) -> list[int]:
    found = log.view(start, stop, isolation=COMMITTED).scan(**options)
    return [offset for columns in found for offset in columns.offsets.tolist()]


@pytest.fixture
def log(tmp_path: Path):
    with_log = open_log(tmp_path)
    yield with_log
    with_log.close()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("data"), st.sampled_from([-1, 1, 1, 2, 3, 2**62]), st.integers(1, 4)),
        st.tuples(st.just("end"), st.sampled_from([1, 2, 3, 2**62]), st.booleans()),
        st.tuples(st.just("empty"), st.sampled_from([1, 2, 3, 2**62]), st.just(0)),
        st.tuples(st.just("roll"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=steps,
    window=st.tuples(st.integers(0, 60), st.integers(0, 60)),
    codec=st.sampled_from([0, 1]),
)
def test_interleaved_transactions_as_the_oracle_says(
    tmp_path_factory: pytest.TempPathFactory, steps, window, codec
) -> None:
    directory = tmp_path_factory.mktemp("log")
    log = open_log(directory)
    teller = TransactionWriter(log)
    for what, producer_id, argument in steps:
        if what == "data":
            teller.data(producer_id, argument, codec=codec)
        elif what == "end":
            teller.end(producer_id, commit=argument)
        elif what == "empty":
            teller.empty(producer_id)
        else:
            log.roll()
    shown = read_committed(teller.batches, log.end_offset)
    low, high = min(window), max(window)
    inside = [offset for offset in shown.offsets if low <= offset < high]
    reader = read_log(directory)
    for each in (log, reader):
        assert each.last_stable_offset == shown.last_stable_offset
        assert offsets(each) == shown.offsets
        assert scanned(each) == shown.offsets
        assert scanned(each, threads=2) == shown.offsets
        assert offsets(each, low, high) == inside
        assert scanned(each, low, high) == inside
        assert [r.offset for r in each.view(low, high, isolation=COMMITTED)] == inside
        followed = each.follow(start=0, timeout=0, isolation=COMMITTED)
        assert [record.offset for record in followed] == shown.offsets
    reader.close()
    log.close()


def test_read_committed_stops_at_an_open_transaction(log: Log) -> None:
    teller = TransactionWriter(log)
    teller.data(-1)
    teller.data(7, 2)
    teller.data(-1)
    assert (log.last_stable_offset, log.end_offset) == (1, 4)
    assert offsets(log) == [0]
    assert offsets(log, 3) == []
    teller.end(7, commit=True)
    assert log.last_stable_offset == log.end_offset == 5
    assert offsets(log) == [0, 1, 2, 3]


def test_a_marker_ends_only_its_own_producer_s_transaction(log: Log) -> None:
    teller = TransactionWriter(log)
    teller.data(7)
    teller.data(8)
    teller.end(7, commit=False)
    teller.data(7)
    teller.end(8, commit=True)
    teller.end(7, commit=True)
    assert offsets(log) == [1, 3]


def test_the_outcome_may_lie_beyond_the_last_stable_offset(log: Log) -> None:
    teller = TransactionWriter(log)
    teller.data(7)  # aborted by a marker beyond the open transaction of 8
    teller.data(8)
    teller.end(7, commit=False)
    assert log.last_stable_offset == 1
    assert offsets(log) == []


def test_small_windows_know_the_outcome_of_a_long_transaction(log: Log) -> None:
    teller = TransactionWriter(log)
    for _ in range(50):
        teller.data(7, 3)
        teller.data(-1)
    teller.end(7, commit=False)
    shown = read_committed(teller.batches, log.end_offset).offsets
    found = [o for start in range(0, log.end_offset, 7) for o in offsets(log, start, start + 7)]
    assert found == shown


def test_a_view_shows_everything_unless_asked(log: Log) -> None:
    teller = TransactionWriter(log)
    teller.data(7)
    teller.end(7, commit=False)
    assert [record.offset for record in log] == [0]
    assert [record.offset for record in log.view()] == [0]
    assert log.view().isolation == "read_uncommitted"


@pytest.mark.parametrize("level", ["committed", "READ_COMMITTED", None, 1])
def test_an_unknown_isolation_is_refused(log: Log, level) -> None:
    for ask in (log.view, log.follow, lambda isolation: log.offset_at(1, isolation=isolation)):
        with pytest.raises(InvalidConfigError, match="read_uncommitted, read_committed"):
            ask(isolation=level)


def test_offsets_by_time_end_at_the_last_stable_offset(log: Log) -> None:
    teller = TransactionWriter(log)
    teller.data(-1)
    teller.data(7)
    teller.data(-1)
    assert log.offset_at(WHEN + 2) == 2
    assert log.offset_at(WHEN + 2, isolation=COMMITTED) == 1
    assert log.offset_at(WHEN, isolation=COMMITTED) == 0
    assert log.since(WHEN + 1, isolation=COMMITTED).isolation == COMMITTED
    assert [record.offset for record in log.since(WHEN, isolation=COMMITTED)] == [0]


def test_arrow_shows_the_committed_records(log: Log) -> None:
    teller = TransactionWriter(log)
    teller.data(7, 2)
    teller.end(7, commit=False)
    teller.data(8, 2)
    teller.end(8, commit=True)
    table = log.view(isolation=COMMITTED).to_arrow()
    assert table["offset"].to_pylist() == [3, 4]


def test_a_follower_waits_for_the_commit(log: Log) -> None:
    teller = TransactionWriter(log)
    teller.data(7, 2)
    found: list[int] = []
    there = threading.Event()

    def follow() -> None:
        for record in log.follow(start=0, timeout=20, isolation=COMMITTED):
            found.append(record.offset)
            if len(found) == 3:
                there.set()
                return

    thread = threading.Thread(target=follow)
    thread.start()
    teller.data(-1)
    assert not there.wait(0.05)
    assert found == []
    teller.end(7, commit=True)
    assert there.wait(20)
    thread.join()
    assert found == [0, 1, 2]


def test_an_asynchronous_follower_reads_committed(log: Log) -> None:
    teller = TransactionWriter(log)
    teller.data(7)
    teller.end(7, commit=False)
    teller.data(-1)

    async def follow() -> list[int]:
        follower = log.follow(start=0, timeout=0, isolation=COMMITTED)
        return [record.offset async for record in follower]

    assert asyncio.run(follow()) == [2]


def test_a_consumer_reads_committed(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t")[0]
        teller = TransactionWriter(log)
        teller.data(7, 5)
        teller.end(7, commit=False)
        teller.data(-1, 2)
        teller.data(8, 5)
        with store.consumer(
            "t", group="g", isolation_level=COMMITTED, max_poll_records=2, timeout=0
        ) as consumer:
            assert [record.offset for batch in consumer for record in batch] == [6, 7]
            assert consumer.position(("t", 0)) == log.last_stable_offset == 8
            consumer.seek_to_end()
            assert consumer.position(("t", 0)) == 8
            teller.end(8, commit=True)
            batches = list(consumer)
            assert [record.offset for batch in batches for record in batch] == [8, 9, 10, 11, 12]
            assert [r.offset for r in batches[0].view] == [8, 9]


def test_a_waiting_consumer_sees_the_commit(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        teller = TransactionWriter(store.create_topic("t")[0])
        teller.data(7)
        with store.consumer("t", isolation_level=COMMITTED) as consumer:
            assert consumer.poll(timeout=0.01) == {}
            timer = threading.Timer(0.05, teller.end, (7,), {"commit": True})
            timer.start()
            (records,) = consumer.poll(timeout=20).values()
            timer.join()
            assert [record.offset for record in records] == [0]
        with pytest.raises(InvalidConfigError, match=r"isolation\.level"):
            store.consumer("t", isolation_level="committed")


def test_a_truncated_log_is_walked_again(log: Log) -> None:
    teller = TransactionWriter(log)
    teller.data(-1)
    teller.data(7)
    assert log.last_stable_offset == 1
    log.truncate_to(1)
    assert log.last_stable_offset == 1
    teller.data(-1)
    assert log.last_stable_offset == 2


# --- a damaged log ----------------------------------------------------------------------------


def test_a_damaged_marker_decides_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    teller = TransactionWriter(log)
    teller.data(7)
    teller.end(7, commit=True)
    log.close()
    (path,) = tmp_path.glob("*.log")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    walk = TransactionWalk(0)
    assert walk.walk(bytes(data), 0, 100) == len(data)
    assert walk.open == {7: 0}


@given(data=st.binary(max_size=300), start=st.integers(0, 300))
def test_a_walk_over_any_bytes_ends(data: bytes, start: int) -> None:
    walk = TransactionWalk(0)
    position = walk.walk(data, start, 2**63 - 1)
    assert position == -1 or start <= position <= max(start, len(data))


def test_a_walk_over_flipped_bits_ends(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    teller = TransactionWriter(log)
    teller.data(7)
    teller.end(7, commit=False)
    log.close()
    intact = log_bytes(tmp_path)
    for bit in range(8 * len(intact)):
        data = bytearray(intact)
        data[bit // 8] ^= 1 << bit % 8
        walk = TransactionWalk(0)
        position = walk.walk(data, 0, 2**63 - 1)
        assert -1 <= position <= len(intact)
        if bit // 8 >= len(intact) - 78 + 17:  # the marker's checksum, and what it covers
            assert (walk.aborted, walk.open) == ([], {7: 0})


# --- the kernel -------------------------------------------------------------------------------


def test_ranges_are_of_one_producer_and_end_before_the_marker() -> None:
    ranges = AbortedRanges([(2, 10, 20), (1, 30, 40), (1, 5, 9)])
    assert ranges.count == 3
    inside = [(1, 5), (1, 8), (1, 30), (1, 39), (2, 10), (2, 19)]
    outside = [(1, 4), (1, 9), (1, 29), (1, 40), (2, 9), (2, 20), (0, 10), (3, 10)]
    assert all(batch in ranges for batch in inside)
    assert not any(batch in ranges for batch in outside)


def test_a_scan_without_transactions_never_asks_for_outcomes(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.extend([b"x"] * 100)
    log.close()

    def ask() -> AbortedRanges:
        raise AssertionError("asked")

    scanner = Scanner(log_bytes(tmp_path), find_aborted=ask)
    assert len(scanner.next_values()) == 100


def test_outcomes_are_asked_for_once(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    teller = TransactionWriter(log)
    for producer_id in (7, 8, 7):
        teller.data(producer_id)
    log.close()
    asked: list[int] = []

    def ask() -> AbortedRanges:
        asked.append(1)
        return AbortedRanges([(7, 0, 2)])

    scanner = Scanner(log_bytes(tmp_path), find_aborted=ask)
    assert [record.offset for record in scanner.records()] == [1, 2]
    assert asked == [1]
