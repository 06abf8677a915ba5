"""Records that are not in memory: a disk worker reads them, the loop's thread does not wait."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import kstore
from kstore._native.read import segment_pages
from kstore._native.read.segment_view import SegmentList
from kstore.broker import fetch_reader
from kstore.broker.fetch_frames import FetchFrames
from kstore.broker.fetch_session import FetchSessions
from kstore.broker.handlers.fetch import FetchHandlers
from kstore.errors import StorageError
from kstore.producer_state import replay
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.fetch import FetchRequest
from oracle.plain import PlainRecord
from oracle.writer import batch
from support.cold_pages import drop_pages, require_dropped
from support.frame_pair import request_frame
from support.handler_tester import HandlerTester

VALUES = [os.urandom(1000) for _ in range(3000)]
VERSION = 11  # by topic name, as it is in the log
MANY = 1 << 30


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path) as store:
        yield store


@pytest.fixture
def log(store: kstore.Store) -> kstore.Log:
    """A log of two segments, all written back."""
    log = store.create_topic("t", config={"batch.size": 20_000})[0]
    log.extend(VALUES[:2000])
    log.roll()
    log.extend(VALUES[2000:])
    log.flush()
    return log


@pytest.fixture
def broker(store: kstore.Store, log: kstore.Log) -> Iterator[HandlerTester]:
    with HandlerTester(store, FetchHandlers) as tester:
        tester.partitions.get("t", 0)
        yield tester


def forget_pages(log: kstore.Log) -> None:
    """Drop the first segment's pages from memory, as the system does when it needs room."""
    view = log.segments[0]
    view.unmap()
    view.opener(view)
    forget_untouched_pages(log)
    require_dropped(segment_pages.is_resident(log.segments, view.base_offset, 1 << 20))


def forget_untouched_pages(log: kstore.Log) -> None:
    """The same, but for pages that a mapping has touched."""
    drop_pages(log.segments[0].path)


def fetch(*offsets: int, max_bytes: int = 1 << 20, **fields: Any) -> FetchRequest:
    wanted = [
        FetchRequest.Topics.Partitions(0, fetch_offset=each, partition_max_bytes=max_bytes)
        for each in offsets
    ]
    return FetchRequest(
        min_bytes=1, max_bytes=MANY, topics=[FetchRequest.Topics("t", partitions=wanted)], **fields
    )


def records(answer: Any) -> bytes:
    [topic] = answer.responses
    return b"".join(bytes(each.records) for each in topic.partitions)


def test_a_disk_worker_reads_what_is_not_in_memory(log: kstore.Log, broker: HandlerTester) -> None:
    wanted = bytes(log.read(700, 1 << 20) or b"")
    forget_pages(log)
    asked = broker.start(fetch(700), VERSION)
    assert asked.pending is not None  # nothing was read on this thread
    assert records(asked.answer()) == wanted
    assert segment_pages.is_resident(log.segments, 700, 1 << 20)


def test_what_is_in_memory_is_answered_at_once(log: kstore.Log, broker: HandlerTester) -> None:
    segment_pages.load(log.segments, 0, 1 << 20)
    asked = broker.start(fetch(0), VERSION)
    assert asked.pending is None
    assert len(records(asked.answer())) > 1_000_000
    assert broker.workers.is_idle


def test_a_segment_that_is_not_mapped_is_mapped_by_a_disk_worker(
    log: kstore.Log, broker: HandlerTester
) -> None:
    log.segments[0].unmap()
    asked = broker.start(fetch(5), VERSION)
    assert asked.pending is not None
    assert records(asked.answer())


def test_a_request_that_waits_has_its_place_behind_the_read(
    log: kstore.Log, broker: HandlerTester
) -> None:
    forget_pages(log)
    asked = broker.start(fetch(500, max_wait_ms=600_000), VERSION)
    assert records(asked.answer())  # the segment ends: answered without more bytes


def test_frames_leave_cold_reads_to_the_other_handler(
    log: kstore.Log, broker: HandlerTester
) -> None:
    frames = FetchFrames(broker.services, FetchSessions(1, monotonic))
    frame = memoryview(request_frame(fetch(0), VERSION))[4:]
    segment_pages.load(log.segments, 0, 1 << 20)
    assert frames.handle_frame(frame) is not None
    forget_pages(log)
    assert frames.handle_frame(frame) is None


def test_a_disk_that_cannot_read_is_an_error_of_its_partition(
    log: kstore.Log, broker: HandlerTester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StorageError("the disk is broken", errno=5)

    monkeypatch.setattr(fetch_reader, "load_pages", fail)
    log.segments[0].unmap()
    [topic] = broker.ask(fetch(0), VERSION).responses
    [partition] = topic.partitions
    assert partition.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not partition.records


def test_a_first_batch_beyond_the_limit_is_loaded_completely(store: kstore.Store) -> None:
    log = store.create_topic("t", config={"batch.size": 900_000})[0]
    log.extend(VALUES * 3)
    log.roll()
    log.flush()
    forget_pages(log)
    segment_pages.load(log.segments, 4000, 10)
    forget_untouched_pages(log)
    assert segment_pages.is_resident(log.segments, 4000, 10)
    held = log.read(4000, 10)
    assert held is not None
    assert not held.is_resident()
    with HandlerTester(store, FetchHandlers) as broker:
        frames = FetchFrames(broker.services, FetchSessions(1, monotonic))
        broker.partitions.get("t", 0)
        request = fetch(4000, max_bytes=10)
        frame = memoryview(request_frame(request, VERSION))[4:]
        assert frames.handle_frame(frame) is None
        asked = broker.start(request, VERSION)
        assert asked.pending is not None
        assert records(asked.answer()) == bytes(held)
        assert held.is_resident()


def test_only_what_the_answer_may_have_is_loaded(
    log: kstore.Log, broker: HandlerTester, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(fetch_reader, "load_pages", lambda log, offset, size: sizes.append(size))
    reads = [
        fetch_reader.PartitionRead(wanted, broker.partitions.get("t", 0))
        for wanted in [_partition(offset) for offset in (0, 100, 200)]
    ]
    for read in reads:
        read.is_cold, read.size = True, 600
    parameters = fetch_reader.FetchParameters(VERSION, -1, False, 1000, 1, 0.0)
    fetch_reader.FetchReader(broker.partitions, parameters, None).load_cold(reads)
    assert sizes == [600, 400, 0]


def _partition(offset: int) -> Any:
    from kstore.broker.fetch_session import FetchedPartition

    wanted = FetchRequest.Topics.Partitions(0, fetch_offset=offset)
    return FetchedPartition("t", bytes(16), wanted)


# --- the engine's side ------------------------------------------------------------------------


def test_a_slice_knows_which_bytes_are_in_memory(log: kstore.Log) -> None:
    forget_pages(log)
    records = log.read(1000, 1 << 19)
    assert records is not None
    forget_untouched_pages(log)
    assert not records.is_resident()
    records.load()
    assert records.is_resident()
    for start, count in ((-1, 1), (0, records.size + 1), (records.size + 1, None), (5, -6)):
        with pytest.raises(ValueError, match="bytes from"):
            records.is_resident(start, count)
        with pytest.raises(ValueError, match="bytes from"):
            records.load(start, count)


@pytest.mark.parametrize("max_bytes", [-1, 0, 1, 100_000, 1 << 20, 1 << 62])
def test_what_was_loaded_is_what_a_read_wants(log: kstore.Log, max_bytes: int) -> None:
    for offset in (0, 1, 19, 20, 21, 777, 1999):
        forget_pages(log)
        segment_pages.load(log.segments, offset, max_bytes)
        assert segment_pages.is_resident(log.segments, offset, max_bytes)
        found = log.read(offset, max_bytes)
        assert found is not None
        assert found.is_resident(0, min(found.size, max(max_bytes, 0), 1 << 20))
        del found  # it keeps the mapping, and that its pages


def test_the_log_end_and_beyond_are_in_memory(log: kstore.Log) -> None:
    for offset in (-5, 3000, 3001, 1 << 62):
        assert segment_pages.is_resident(log.segments, offset, 100)
        segment_pages.load(log.segments, offset, 100)


def test_new_records_of_the_active_segment_need_no_second_look(log: kstore.Log) -> None:
    segments: SegmentList = log.segments
    assert segment_pages.is_resident(segments, 2990, 1 << 20) or log.read(2990) is not None
    segment_pages.load(segments, 2990, 1 << 20)
    assert segment_pages.is_resident(segments, 2990, 1 << 20)
    log.append(b"new")
    assert segment_pages.is_resident(log.segments, 3000, 1 << 20)


def test_a_file_that_was_cut_is_an_error_and_no_signal(log: kstore.Log) -> None:
    records = log.read(0, 1 << 20)
    assert records is not None
    os.truncate(log.segments[0].path, 8192)
    with pytest.raises(StorageError):
        records.load(100_000, 10_000)


def test_a_segment_that_was_removed_is_a_storage_error_and_is_reported(
    log: kstore.Log, broker: HandlerTester, caplog: pytest.LogCaptureFixture
) -> None:
    log.segments[0].unmap()
    os.unlink(log.segments[0].path)
    for _ in range(3):
        [topic] = broker.ask(fetch(0), VERSION).responses
        [partition] = topic.partitions
        assert partition.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    reported = [each for each in caplog.records if "cannot read" in each.message]
    assert len(reported) == 1
    assert "t-0" in reported[0].message
    assert records(broker.ask(fetch(2500), VERSION))


# --- aborted transactions -----------------------------------------------------------------------


@pytest.fixture
def reopened(tmp_path: Path) -> Iterator[kstore.Store]:
    """A store just opened, whose log has four rolled segments; one has an aborted transaction."""
    with kstore.open(tmp_path) as store:
        log = store.create_topic("t")[0]
        for number in range(4):
            log.append(bytes(100))
            if number == 2:
                row = PlainRecord(0, 1000, None, b"aborted")
                log.append_as_leader(
                    batch(
                        [row], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
                    )
                )
                log.append_end_marker(7, 0, commit=False)
            log.roll()
        log.append(b"last")
        log.flush()
    with kstore.open(tmp_path) as store:
        yield store


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """The searched segments, and whether this thread searched them."""
    found: list[tuple[int, bool]] = []
    replay_segment = replay.replay_segment

    def noted(files: Any, table: Any, view: Any, start: int, **options: Any) -> int:
        found.append((view.base_offset, threading.current_thread() is threading.main_thread()))
        return replay_segment(files, table, view, start, **options)

    monkeypatch.setattr(replay, "replay_segment", noted)
    return found


def test_a_disk_worker_searches_segments_for_aborted_transactions(
    reopened: kstore.Store, searches: list[tuple[int, bool]]
) -> None:
    log = reopened["t"][0]
    segment_pages.load(log.segments, 0, 1 << 20)
    with HandlerTester(reopened, FetchHandlers) as broker:
        broker.partitions.get("t", 0)
        frames = FetchFrames(broker.services, FetchSessions(1, monotonic))
        searches.clear()
        request = fetch(0, isolation_level=1)
        frame = memoryview(request_frame(request, VERSION))[4:]
        assert frames.handle_frame(frame) is None
        asked = broker.start(request, VERSION)
        assert asked.pending is not None
        assert not searches
        answer = asked.answer()
        assert records(answer) == bytes(log.read(0) or b"")
        assert answer.responses[0].partitions[0].aborted_transactions == []
        assert {base for base, _ in searches} == {0, 1}  # the third has an index
        assert not any(here for _, here in searches)
        searches.clear()
        assert broker.start(request, VERSION).pending is None  # it is known now
        assert frames.handle_frame(frame) is not None

        segment_pages.load(log.segments, 2, 1 << 20)
        [topic] = broker.start(fetch(2, isolation_level=1), VERSION).answer().responses
        [partition] = topic.partitions
        aborted = partition.aborted_transactions
        assert [(each.producer_id, each.first_offset) for each in aborted] == [(7, 3)]
        assert broker.start(fetch(5, isolation_level=1), VERSION).pending is not None
        assert not any(here for _, here in searches)


def test_a_marker_that_ends_a_wait_makes_this_thread_search_nothing(
    tmp_path: Path, searches: list[tuple[int, bool]]
) -> None:
    row = PlainRecord(0, 1000, None, b"open")
    with kstore.open(tmp_path) as store:
        log = store.create_topic("t")[0]
        log.append_as_leader(
            batch([row], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        )
        for _ in range(3):
            log.append(b"behind")
            log.roll()
    with kstore.open(tmp_path) as store, HandlerTester(store, FetchHandlers) as broker:
        log = store["t"][0]
        broker.partitions.get("t", 0)
        segment_pages.load(log.segments, 0, 1 << 20)
        searches.clear()
        asked = broker.start(fetch(0, isolation_level=1, max_wait_ms=600_000), VERSION)
        broker.run_until(lambda: broker.services.delayed_fetches.requests == 1)
        log.append_end_marker(7, 0, commit=False)
        [topic] = asked.answer().responses
        aborted = topic.partitions[0].aborted_transactions
        assert [(each.producer_id, each.first_offset) for each in aborted] == [(7, 0)]
        assert searches
        assert not any(here for _, here in searches)


@pytest.mark.parametrize("by_frame", [False, True])
def test_a_segment_that_leaves_the_log_during_a_read_takes_no_aborted_transaction_along(
    reopened: kstore.Store, monkeypatch: pytest.MonkeyPatch, *, by_frame: bool
) -> None:
    """As by retention in another thread; the records are mapped, and would be sent."""
    log = reopened["t"][0]
    log.aborted_transactions(0, log.end_offset)
    segment_pages.load(log.segments, 3, 1 << 20)
    with HandlerTester(reopened, FetchHandlers) as broker:
        broker.partitions.get("t", 0)
        read = type(log).read

        def overtaken(self: Any, *arguments: Any, **options: Any) -> Any:
            found = read(self, *arguments, **options)
            log.delete_records(log.end_offset)
            return found

        monkeypatch.setattr(type(log), "read", overtaken)
        request = fetch(3, isolation_level=1)
        if by_frame:
            frames = FetchFrames(broker.services, FetchSessions(1, monotonic))
            assert frames.handle_frame(memoryview(request_frame(request, VERSION))[4:]) is None
        else:
            answer = broker.ask(request, VERSION)
            assert answer.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
