"""kstore's kernels read the same records as the oracle from every file of another program."""

from kstore._native.index.index_lookup import OffsetIndex, TimeIndex
from kstore._native.read.decode import Scanner
from kstore._native.recovery.segment_scan import SegmentScan
from kstore.record.codec import decompress
from kstore.record.columns import ColumnScan
from oracle import files
from oracle.plain import PlainRecord
from oracle.reader import read_log


def plain_of(record, control=False):
    return PlainRecord(
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        record.headers,
        record.timestamp_type,
        control,
    )


def read_records(data, *, control):
    scanner = Scanner(data, control=control, decompress=decompress, row_target=100)
    found = []
    while (records := scanner.next_records()) is not None:
        found += records
    return found, scanner.position


def read_columns(data):
    """(offset, timestamp, key, value, headers) of every data record, out of columns."""
    found = []
    for columns in ColumnScan(data, row_target=100):
        found += zip(
            columns.offsets.tolist(),
            columns.timestamps.tolist(),
            columns.keys.to_list(),
            columns.values.to_list(),
            columns.headers.to_list(),
            strict=True,
        )
    return found


def read_values(data):
    scanner = Scanner(data, decompress=decompress, values_only=True, row_target=100)
    found = []
    while (values := scanner.next_values()) is not None:
        found += values
    return found


def assert_reads_like_the_oracle(name, data):
    log = read_log(data)
    expected = log.records
    given = [record for record in expected if not record.control]
    found, position = read_records(data, control=True)
    assert [plain_of(record)[:6] for record in found] == [record[:6] for record in expected], name
    assert position == log.tail_position, name
    epochs = [
        batch.leader_epoch if batch.magic == 2 else -1
        for batch in log.batches
        for _ in batch.records
    ]
    assert [record.leader_epoch for record in found] == epochs, name
    found, _ = read_records(data, control=False)
    assert [plain_of(record) for record in found] == given, name
    assert read_columns(data) == [tuple(record[:5]) for record in given], name
    assert read_values(data) == [record.value for record in given], name
    return len(expected)


def test_every_public_file_reads_like_the_oracle(fixtures):
    logs = fixtures.logs
    assert len(logs) >= 99
    assert sum(assert_reads_like_the_oracle(f.name, f.data) for f in logs) > 25_000


def test_every_broker_segment_reads_like_the_oracle(broker_set):
    paths = sorted(broker_set.log_dir.glob("*/*.log"))
    assert len(paths) > 15
    count = 0
    for path in paths:
        count += assert_reads_like_the_oracle(str(path), path.read_bytes())
    assert count >= sum(len(partition.records) for partition in broker_set.partitions)


def test_every_index_reads_like_the_oracle(fixtures, broker_set):
    """Entries as the oracle reads them, from the trimmed file and with a preallocated tail."""
    named = [(f.path, f.base_offset) for f in fixtures.of_kind("offset-index", "time-index")]
    named += [(path, int(path.stem)) for path in sorted(broker_set.log_dir.glob("*/*index"))]
    checked = 0
    for path, base_offset in named:
        data = path.read_bytes()
        if ".timeindex" in path.name:
            kind, entries = TimeIndex, files.read_time_index(data, base_offset)
        elif ".index" in path.name:
            kind, entries = OffsetIndex, files.read_offset_index(data, base_offset)
        else:
            continue  # a transaction index
        size = 12 if kind is TimeIndex else 8
        for index in (kind(data, base_offset), kind(data + bytes(size * 9), base_offset)):
            assert [index[slot] for slot in range(len(index))] == entries, path
        checked += len(entries)
    assert checked > 500


# The broker was restarted while it wrote these: its count of bytes since the last index entry
# began again, so other batches are indexed. Equally right, and not to be had from the log alone.
RESTARTED = {
    "segments/kafka-2.8.0-snappy-headers/__consumer_offsets-16",
    "segments/kafka-3.1.0-clean-shutdown/__consumer_offsets-39",
    "segments/kafka-3.6.0-kraft/__cluster_metadata-0",
    "segments/kafka-3.9.0-kraft-combined/__cluster_metadata-0",
}


def test_recovery_rebuilds_the_index_that_the_broker_wrote(fixtures):
    """From the log alone, byte for byte."""
    checked, differ = 0, set()
    for fixture in fixtures.of_kind("offset-index"):
        if ".swap" in fixture.name:
            continue
        base_offset = fixture.base_offset
        data = fixture.path.with_name(f"{base_offset:020}.log").read_bytes()
        scan = SegmentScan(base_offset, len(data))
        scan.feed(data)
        scan.finish()
        if bytes(scan.index) == fixture.data:
            checked += len(fixture.data) // 8
        else:
            differ.add(fixture.name.rpartition("/")[0])
    assert differ == RESTARTED
    assert checked == 371


def test_recovery_finds_the_end_of_every_log(fixtures, broker_set):
    paths = [f.path for f in fixtures.of_kind("log")] + sorted(broker_set.log_dir.glob("*/*.log"))
    for path in paths:
        data = path.read_bytes()
        log = read_log(data, decode=False)
        base_offset = int(path.name.partition(".")[0])
        scan = SegmentScan(base_offset, len(data))
        scan.feed(data)
        scan.finish()
        assert scan.valid_size == len(data), path
        assert scan.batches == len(log.batches), path
        if log.batches:
            assert scan.next_offset == log.batches[-1].last_offset + 1, path
            assert scan.max_timestamp == max(batch.max_timestamp for batch in log.batches), path
