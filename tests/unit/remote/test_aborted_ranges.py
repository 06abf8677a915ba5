"""What a read_committed consumer of a cluster leaves out of an answer."""

from functools import partial
from pathlib import Path

import pytest

from kstore.protocol.messages.fetch import FetchResponse
from kstore.record.scan import scan_records
from kstore.remote.consumer import aborted_ranges, end_of_batches
from oracle.transactions import read_committed
from support.logs import open_log
from support.transactions import TransactionWriter

Aborted = FetchResponse.Responses.Partitions.AbortedTransactions


@pytest.mark.parametrize("max_bytes", [1, 300, 1 << 20])
def test_every_answer_shows_what_the_oracle_shows(tmp_path: Path, max_bytes: int) -> None:
    log = open_log(tmp_path)
    writer = TransactionWriter(log)
    writer.data(1, 2)
    writer.data(2)
    writer.data(-1)
    writer.end(1, commit=False)
    writer.data(1)
    writer.end(2, commit=True)
    writer.data(2, 3)
    writer.end(1, commit=True)
    writer.data(1)
    writer.end(2, commit=False)
    writer.end(1, commit=False)
    shown = read_committed(writer.batches, log.end_offset)
    assert 0 < len(shown.offsets) < log.end_offset
    for start in range(log.end_offset):
        position, found = start, []
        while position < log.end_offset:
            data = bytes(log.read(position, max_bytes))
            stop = end_of_batches(data)
            assert stop is not None
            assert stop > position
            aborted = [
                Aborted(producer_id=each.producer_id, first_offset=each.first_offset)
                for each in log.aborted_transactions(position, stop)
            ]
            records = scan_records(
                data, start_offset=position, find_aborted=partial(aborted_ranges, data, aborted)
            )
            found += [record.offset for record in records]
            position = stop
        assert found == [offset for offset in shown.offsets if offset >= start]
    log.close()


def test_an_incomplete_batch_at_the_end_does_not_count(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(b"a")
    first = len(log.read(0))
    log.append(b"b")
    data = bytes(log.read(0))
    assert end_of_batches(data) == 2
    assert end_of_batches(data[:-1]) == 1
    assert end_of_batches(data[: first + 11]) == 1
    assert end_of_batches(data[: first - 1]) is None
    log.close()
