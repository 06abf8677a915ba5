"""DumpLogSegments over files that kstore wrote: what it reads is what was put in."""

import pytest

from interop.dump import DumpedRecord, dump_log
from interop.samples import SAMPLES, T0, batch_bytes, sample_records
from kstore._native.append.encode import BatchBuffer
from kstore.config import CODECS


def assert_dumped(file, batches):
    """Batches is a list of lists of records, as they were written."""
    assert all(batch.valid for batch in file.batches)
    assert [batch.count for batch in file.batches] == [len(records) for records in batches]
    expected = [
        DumpedRecord(
            offset=record.offset,
            timestamp=record.timestamp,
            key_size=-1 if record.key is None else len(record.key),
            value_size=-1 if record.value is None else len(record.value),
            headers=tuple(name for name, _ in record.headers),
            key=text(record.key),
            value=text(record.value),
        )
        for records in batches
        for record in records
    ]
    assert file.records == expected


def text(data):
    return None if data is None else data.decode()


@pytest.mark.parametrize("codec", CODECS)
def test_batches_of_the_encoder(kafka, tmp_path, codec):
    """Nulls, empties, headers, odd sizes, many batches: offsets, fields and checksums."""
    batches = [sample_records(start, count) for start, count in SAMPLES]
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(batch_bytes(records, codec=codec) for records in batches))
    dump = dump_log(kafka, [path], "--deep-iteration", "--print-data-log")
    file = dump.files[str(path)]
    assert_dumped(file, batches)
    assert {batch.codec for batch in file.batches} == {codec}
    assert dump.complaints == ""


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_batch_of_values(kafka, tmp_path, size):
    buffer = BatchBuffer()
    values = [b"x" * size] * 3
    assert buffer.put_values(values, 0, T0, 1 << 30) == 3
    path = tmp_path / f"{700:020}.log"
    path.write_bytes(buffer.to_bytes(base_offset=700, leader_epoch=9))
    file = dump_log(kafka, [path], "--deep-iteration").files[str(path)]
    (batch,) = file.batches
    assert (batch.valid, batch.base_offset, batch.last_offset) == (True, 700, 702)
    assert (batch.epoch, batch.max_timestamp) == (9, T0)
    assert [record.value_size for record in file.records] == [size] * 3
