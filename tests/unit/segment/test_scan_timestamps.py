"""The timestamps that a scan finds, against those that a reader of headers finds."""

import struct
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import kstore
from kstore import Log, Record, StoreConfig
from kstore.files.files import DISK
from kstore.segment.scan import scan_segment

QUIET = StoreConfig(background=False)
TIMES = [5000, 9000, 7000, 9000, 1000, 9000, 8000, 2000]
_MAGIC = 16

FORMATS: dict[str, dict[str, str]] = {
    "v0": {"message.format.version": "0.9.0"},
    "v0 gzip": {"message.format.version": "0.9.0", "compression.type": "gzip"},
    "v1": {"message.format.version": "0.10.2"},
    "v1 gzip": {"message.format.version": "0.10.2", "compression.type": "gzip"},
    "v1 LogAppendTime": {
        "message.format.version": "0.10.2",
        "message.timestamp.type": "LogAppendTime",
    },
    "v2": {},
    "v2 gzip": {"compression.type": "gzip"},
    "v2 LogAppendTime": {"message.timestamp.type": "LogAppendTime"},
    "v2 LogAppendTime zstd": {
        "message.timestamp.type": "LogAppendTime",
        "compression.type": "zstd",
    },
}


class Header(NamedTuple):
    """Of a batch v2, or of a message v0 or v1, which may contain others."""

    last_offset: int
    timestamp: int  # the largest
    magic: int
    size: int


def headers(data: bytes) -> list[Header]:
    """Parsed by the documentation of Kafka's formats, without kstore."""
    found, position = [], 0
    while position < len(data):
        offset, length = struct.unpack_from(">qi", data, position)
        magic = data[position + _MAGIC]
        if magic == 2:
            (delta,) = struct.unpack_from(">i", data, position + 23)
            (timestamp,) = struct.unpack_from(">q", data, position + 35)
            offset += delta
        else:
            timestamp = -1
            if magic == 1:
                (timestamp,) = struct.unpack_from(">q", data, position + 18)
        found.append(Header(offset, timestamp, magic, 12 + length))
        position += 12 + length
    return found


def write(log: Log) -> None:
    """Batches of several records, of one, and with equal largest timestamps."""
    records = [Record(value=b"v" * 40, key=b"%d" % n, timestamp=t) for n, t in enumerate(TIMES)]
    log.extend(records[:3])
    log.extend(records[3:4])
    for record in records[4:]:
        log.append(record.value, key=record.key, timestamp=record.timestamp)


@pytest.mark.parametrize("settings", FORMATS.values(), ids=FORMATS)
def test_a_scan_finds_the_timestamps_of_the_headers(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    config: dict[str, Any] = {**settings, "index.interval.bytes": 1}
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t", config=config)[0]
        write(log)
        (file,) = Path(log.path).glob("*.log")
        written = headers(file.read_bytes()[: log.size])
        assert {each.magic for each in written} == {
            {"0.9.0": 0, "0.10.2": 1}.get(settings.get("message.format.version", ""), 2)
        }
        largest = max(each.timestamp for each in written)
        first = next(each for each in written if each.timestamp == largest)
        for mapped in (True, False):
            scan = scan_segment(DISK, file, 0, log.config, mapped=mapped)
            assert scan.first_timestamp == written[0].timestamp
            assert scan.max_timestamp == largest
            if largest >= 0:
                assert scan.max_timestamp_offset == first.last_offset
        view = log.segments.views[-1]
        kept = view.max_timestamp, view.offset_of_max_timestamp
        timestamps = [record.timestamp for record in log]
        assert [t for columns in log.scan() for t in columns.timestamps.tolist()] == timestamps
        if "LogAppendTime" in settings.values():
            assert min(timestamps) > max(TIMES)  # the clock's
            of_headers = [each.timestamp for each in written]
            assert sorted(set(timestamps)) == sorted(set(of_headers))
        elif written[0].magic == 0:
            assert set(timestamps) == {-1}
        else:
            assert timestamps == TIMES
            assert largest == max(TIMES)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    with kstore.open(tmp_path, config=QUIET) as store:  # which scans the last segment
        view = store["t"][0].segments.views[-1]
        assert (view.max_timestamp, view.offset_of_max_timestamp) == kept
