"""The contents of a log, counted slowly: one pass over plain batches for each figure."""

import struct
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from oracle import codec as codecs
from oracle.plain import ABORT, COMMIT, LOG_APPEND_TIME, PlainBatch, PlainRecord
from oracle.reader import Cursor

HOUR = 3_600_000


def plain_size(frame: bytes, batch: PlainBatch) -> int:
    """Bytes of a batch if it were not compressed: for v0 and v1 of the messages in the wrapper."""
    if batch.codec == codecs.NONE:
        return len(frame)
    if batch.magic == 2:
        return 61 + len(codecs.decompress(batch.codec, frame[61:], 2))
    cursor = Cursor(frame[18 if batch.magic == 0 else 26 :])
    cursor.fixed_bytes()
    return len(codecs.decompress(batch.codec, cursor.fixed_bytes(), batch.magic))


def record_size(record: PlainRecord) -> int:
    return len(record.key or b"") + len(record.value or b"") + header_size(record)


def header_size(record: PlainRecord) -> int:
    return sum(len(name.encode()) + len(value or b"") for name, value in record.headers)


def spread(sizes: Sequence[int]) -> dict[str, object]:
    buckets = Counter(len(bin(size)) - 2 if size else 0 for size in sizes)
    return {
        "total": sum(sizes),
        "least": min(sizes, default=None),
        "most": max(sizes, default=None),
        "buckets": [buckets[bits] for bits in range(max(buckets, default=-1) + 1)],
    }


def kinds(batches: Sequence[tuple[bytes, PlainBatch]], name) -> dict[str, tuple[int, ...]]:
    found = {}
    for kind in {name(batch) for _, batch in batches}:
        some = [(frame, batch) for frame, batch in batches if name(batch) == kind]
        found[kind] = (
            len(some),
            sum(len(batch.records) for _, batch in some),
            sum(len(frame) for frame, _ in some),
            sum(plain_size(frame, batch) for frame, batch in some),
        )
    return found


def of_batches(found: Sequence[tuple[bytes, PlainBatch]]) -> dict[str, object]:
    """Figures by kstore's names for them, of batches with their bytes, in the log's order."""
    batches = [batch for _, batch in found]
    data = [batch for batch in batches if not batch.control]
    records = [record for batch in data for record in batch.records]
    everything = [record for batch in batches for record in batch.records]
    markers = [
        struct.unpack(">hh", record.key[:4])[1]
        for batch in batches
        if batch.control
        for record in batch.records
    ]
    offsets = [record.offset for record in everything]
    times = [record.timestamp for record in records if record.timestamp >= 0]
    jumps = [b - a - 1 for a, b in pairwise(offsets) if b > a + 1]
    hours: dict[int, list[int]] = {}
    for record in records:
        if record.timestamp >= 0:
            row = hours.setdefault(record.timestamp // HOUR, [0, 0])
            row[0] += 1
            row[1] += len(record.key or b"") + len(record.value or b"")
    return {
        "batches": len(batches),
        "empty_batches": sum(not batch.records for batch in batches),
        "control_batches": len(batches) - len(data),
        "transactional_batches": sum(batch.transactional for batch in data),
        "idempotent_batches": sum(batch.producer_id >= 0 for batch in data),
        "log_append_time_batches": sum(b.timestamp_type == LOG_APPEND_TIME for b in batches),
        "records": len(records),
        "control_records": len(markers),
        "commit_markers": markers.count(COMMIT),
        "abort_markers": markers.count(ABORT),
        "transactional_records": sum(len(b.records) for b in data if b.transactional),
        "null_keys": sum(record.key is None for record in records),
        "null_values": sum(record.value is None for record in records),
        "tombstones": sum(r.value is None and r.key is not None for r in records),
        "records_with_headers": sum(bool(record.headers) for record in records),
        "headers": sum(len(record.headers) for record in records),
        "header_bytes": sum(map(header_size, records)),
        "without_timestamp": len(records) - len(times),
        "missing_offsets": sum(jumps),
        "gaps": len(jumps),
        "first_offset": batches[0].base_offset if batches else None,
        "end_offset": batches[-1].last_offset + 1 if batches else None,
        "first_record": min(offsets, default=None),
        "last_record": max(offsets, default=None),
        "min_timestamp": min(times, default=None),
        "max_timestamp": max(times, default=None),
        "formats": kinds(found, lambda batch: str(batch.magic)),
        "codecs": kinds(found, lambda batch: codecs.NAMES[batch.codec]),
        "batch_sizes": spread([len(frame) for frame, _ in found]),
        "batch_records": spread([len(batch.records) for batch in batches]),
        "record_sizes": spread([record_size(record) for record in records]),
        "key_sizes": spread([len(r.key) for r in records if r.key is not None]),
        "value_sizes": spread([len(r.value) for r in records if r.value is not None]),
        "hours": {hour: tuple(row) for hour, row in hours.items()},
        "keys": len({record.key for record in records} - {None}),
    }
