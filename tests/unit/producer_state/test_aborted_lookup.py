"""Aborted transactions of a range: what a scan of the index gives, found in a few steps."""

import random
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kstore._native.read.segment_view import SegmentView
from kstore.log.writable_log import WritableLog
from kstore.producer_state import replay
from kstore.producer_state.collect_aborted import AbortedFinder
from kstore.segment import transaction_index
from kstore.segment.transaction_index import AbortedTransaction
from oracle.plain import PlainRecord
from oracle.writer import batch
from support.logs import open_log


def aborted(count: int) -> list[AbortedTransaction]:
    """Markers at 10, 20, 30 ...; the transactions began up to 25 offsets before."""
    choice = random.Random(3)
    ends = range(10, 10 * count + 1, 10)
    return [
        AbortedTransaction(0, n, max(0, end - choice.randint(1, 25)), end, max(0, end - 30))
        for n, end in enumerate(ends)
    ]


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_entries_ending_at_an_offset_are_those_of_a_scan(count: int) -> None:
    entries = aborted(count)
    data = transaction_index.encode(entries)
    for offset in range(10 * count + 12):
        found = list(transaction_index.entries_ending_at(data, offset))
        assert found == [entry for entry in entries if entry.last_offset >= offset]


def test_a_lookup_reads_few_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    data = transaction_index.encode(aborted(4096))
    read: list[int] = []
    entry_at = transaction_index._entry_at
    monkeypatch.setattr(
        transaction_index,
        "_entry_at",
        lambda data, number: read.append(number) or entry_at(data, number),
    )
    next(transaction_index.entries_ending_at(data, 40_001 - 10))
    assert len(read) < 20


def test_ranges_of_a_log_with_rolled_and_active_segments(tmp_path: Path) -> None:
    log: WritableLog = open_log(tmp_path)
    every: list[tuple[int, int, int]] = []
    for n in range(40):
        row = PlainRecord(0, 1000, None, b"value")
        first = log.append_as_leader(
            batch([row], producer_id=n, producer_epoch=0, base_sequence=0, transactional=True)
        ).first_offset
        end = log.append_end_marker(n, 0, commit=False).last_offset
        every.append((n, first, end))
        if n in (12, 25):
            log.roll()
    for start in range(0, 80, 7):
        for stop in range(start, 81, 9):
            found = [
                (each.producer_id, each.first_offset, each.last_offset)
                for each in log.aborted_transactions(start, stop)
            ]
            assert found == [each for each in every if each[2] >= start and each[1] < stop]


def rolled_log(directory: Path, aborted_in: tuple[int, ...] = ()) -> WritableLog:
    """Opened again: six rolled segments, of which some have an aborted transaction."""
    log: WritableLog = open_log(directory)
    for number in range(6):
        row = PlainRecord(0, int(time.time() * 1000), None, b"value")
        log.append_as_leader(
            batch([row], producer_id=number, producer_epoch=0, base_sequence=0, transactional=True)
        )
        log.append_end_marker(number, 0, commit=number not in aborted_in)
        log.roll()
    log.append(b"last")
    log.close()
    for path in directory.glob("*.txnindex"):
        if not path.stat().st_size:
            path.unlink()
    return open_log(directory)


def test_what_is_known_grows_segment_by_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = rolled_log(tmp_path, aborted_in=(4,))
    state = log._state
    state.producers._aborted.clear()
    assert log._known_aborted(0, 2) is None
    held: list[int] = []  # searches for each time that the lock was taken
    search = state.producers.aborted

    class CountedLock:
        def __enter__(self) -> None:
            held.append(0)

        def __exit__(self, *_: object) -> None:
            pass

    def counted(view: SegmentView, finder: AbortedFinder) -> list[AbortedTransaction]:
        held[-1] += 1
        return search(view, finder)

    monkeypatch.setattr(state.producers, "aborted", counted)
    monkeypatch.setattr(state, "names_lock", CountedLock())
    assert [each.producer_id for each in log.aborted_transactions(6, 9)] == [4]
    assert held == [1, 1]  # the entry of the fifth segment ends the walk
    assert [each.producer_id for each in log._known_aborted(6, 9) or ()] == [4]
    assert log._known_aborted(0, 2) is None
    assert log._known_aborted(10, 13) is None


@pytest.mark.parametrize("stop", [0, 1, 2])
def test_an_empty_range_behind_an_aborted_transaction(
    tmp_path: Path, stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a consumer asks at the last stable offset; the range's search must come to an end."""
    log: WritableLog = open_log(tmp_path)
    transactional = {"producer_epoch": 0, "base_sequence": 0, "transactional": True}
    row = PlainRecord(0, int(time.time() * 1000), None, b"value")
    log.append_as_leader(batch([row], producer_id=1, **transactional))
    log.append_end_marker(1, 0, commit=False)
    log.append_as_leader(batch([row], producer_id=2, **transactional))  # stays open
    for _ in range(3):
        log.roll()
        log.append(b"value")
    log._state.producers._aborted.clear()
    searches: list[SegmentView] = []
    search = log._state.producers.aborted

    def counted(view: SegmentView, finder: AbortedFinder) -> list[AbortedTransaction]:
        searches.append(view)
        assert len(searches) <= len(log.segments.views)
        return search(view, finder)

    monkeypatch.setattr(log._state.producers, "aborted", counted)
    assert log.aborted_transactions(2, stop) == []
    assert log._known_aborted(2, stop) == []


def test_a_lookup_waits_for_the_replay_after_a_truncation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = rolled_log(tmp_path, aborted_in=(1, 4))
    row = PlainRecord(0, int(time.time() * 1000), None, b"value")
    for number in (7, 8):
        log.append_as_leader(
            batch([row], producer_id=number, producer_epoch=0, base_sequence=0, transactional=True)
        )
        log.append_end_marker(number, 0, commit=False)
    known: list[object] = []
    found: list[int] = []

    def look_up() -> None:
        found.extend(each.producer_id for each in log.aborted_transactions(0, 99))

    reader = threading.Thread(target=look_up)
    replay_segment = replay.replay_segment

    def noted(*arguments: Any, **options: Any) -> int:
        if reader.ident is None:
            known.append(log._known_aborted(0, 99))
            reader.start()
            reader.join(0.1)
        return replay_segment(*arguments, **options)

    monkeypatch.setattr(replay, "replay_segment", noted)
    log.truncate_to(15)
    reader.join()
    assert known == [None]
    assert found == [1, 4, 7]


def test_a_truncation_of_a_log_that_starts_inside_a_transaction(tmp_path: Path) -> None:
    """The replay begins behind the first transaction's beginning, and finds its marker."""
    log: WritableLog = open_log(tmp_path)
    row = PlainRecord(0, int(time.time() * 1000), None, b"value")
    for number in (1, 2, 3):
        log.append_as_leader(
            batch([row], producer_id=number, producer_epoch=0, base_sequence=0, transactional=True)
        )
    for number in (3, 2, 1):
        log.append_end_marker(number, 0, commit=False)
    log.append(b"behind")
    before = log.aborted_transactions(0, 99)
    log.delete_records(1)
    log.truncate_to(6)
    assert log.aborted_transactions(0, 99) == before
    log.roll()
    assert log.aborted_transactions(0, 99) == before


def test_a_lookup_skips_the_segments_without_aborted_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = rolled_log(tmp_path, aborted_in=(3, 4))
    state = log._state.producers
    log.aborted_transactions(0, 99)
    asked: list[int] = []
    known = state.known_aborted

    def noted(view: SegmentView, offset: int) -> Iterable[AbortedTransaction] | None:
        asked.append(view.base_offset)
        return known(view, offset)

    monkeypatch.setattr(state, "known_aborted", noted)
    for start, stop, expected, bases in (
        (0, 99, [3, 4], [6, 8, 12]),
        (7, 99, [3, 4], [6, 8, 12]),
        (9, 99, [4], [8, 12]),
        (10, 99, [], [12]),
        (0, 2, [], [6]),
        (12, 13, [], [12]),
    ):
        asked.clear()
        assert [each.producer_id for each in log._known_aborted(start, stop) or ()] == expected
        assert asked == bases
    log.roll()
    log.append(b"behind")
    asked.clear()
    assert log._known_aborted(9, 99) is not None
    assert asked == [8, 13]


def test_segments_that_left_the_log_are_forgotten(tmp_path: Path) -> None:
    log = rolled_log(tmp_path, aborted_in=(1, 4))
    log.aborted_transactions(0, 99)
    log.aborted_transactions(10, 99)
    log.delete_records(6)
    state = log._state.producers
    assert {view.base_offset for view in state._aborted} == {6, 8, 10}
    assert [each.producer_id for each in log._known_aborted(6, 99) or ()] == [4]
    assert state._searched is not None
    assert state._searched.segments is log.segments
