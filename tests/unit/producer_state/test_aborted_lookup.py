"""Aborted transactions of a range: what a scan of the index gives, found in a few steps."""

import random
from pathlib import Path

import pytest

from kstore.log.writable_log import WritableLog
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
