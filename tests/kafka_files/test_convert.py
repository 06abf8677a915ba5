"""What Kafka wrote, converted to every message format, still says what that format can say."""

from kstore._native.read.decode import Scanner
from kstore.record.codec import decompress
from kstore.record.format_conversion import convert
from oracle.plain import NO_TIMESTAMP
from oracle.reader import read_log


def read(data):
    scanner = Scanner(data, decompress=decompress, on_tail="damage")
    found = []
    while (records := scanner.next_records()) is not None:
        found += [
            (r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers) for r in records
        ]
    return found


def expected(log, magic):
    """Data records as the format can hold them."""
    for record in log.records:
        if record.control:
            continue
        offset, timestamp, key, value, headers, kind, _ = record
        if magic == 0:
            timestamp, kind = -1, NO_TIMESTAMP
        elif kind == NO_TIMESTAMP:
            kind = "CreateTime"
        yield offset, timestamp, kind, key, value, headers if magic == 2 else ()


def assert_converts(name, data):
    log = read_log(data)
    data = data[: log.tail_position]
    zstd = any(batch.codec == 4 for batch in log.batches)
    for magic in range(3):
        converted = convert(data, magic, compression="lz4" if zstd and magic < 2 else None)
        assert read(converted) == list(expected(log, magic)), (name, magic)
        position = 0
        while position < len(converted):
            assert converted[position + 16] == magic
            position += 12 + int.from_bytes(converted[position + 8 : position + 12], "big")
    return len(log.records)


def test_every_public_file_converts_to_each_format(fixtures):
    assert sum(assert_converts(f.name, f.data) for f in fixtures.logs) > 25_000


def test_every_broker_segment_converts_to_each_format(broker_set):
    found = 0
    for path in sorted(broker_set.log_dir.glob("*/*.log")):
        found += assert_converts(str(path), path.read_bytes())
    assert found > 100
