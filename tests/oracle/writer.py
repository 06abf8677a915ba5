"""Write messages of v0 and v1, wrappers, and batches of v2, byte by byte."""

import struct
from collections.abc import Sequence

from oracle import codec as codecs
from oracle.crc import crc32, crc32c
from oracle.plain import CREATE_TIME, LOG_APPEND_TIME, PlainRecord


def variable(number: int, bits: int = 32) -> bytes:
    raw = (number << 1 ^ number >> (bits - 1)) & ((1 << bits) - 1)
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def variable_bytes(data: bytes | None) -> bytes:
    return variable(-1) if data is None else variable(len(data)) + data


def fixed_bytes(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def message(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    magic: int,
    timestamp: int = -1,
    timestamp_type: str = CREATE_TIME,
    codec: int = 0,
) -> bytes:
    """One v0 or v1 message. With a codec the value must be compressed already: see wrapper."""
    attributes = codec | (0x08 if magic == 1 and timestamp_type == LOG_APPEND_TIME else 0)
    body = bytes([magic, attributes])
    if magic == 1:
        body += struct.pack(">q", timestamp)
    body += fixed_bytes(key) + fixed_bytes(value)
    return struct.pack(">qiI", offset, 4 + len(body), crc32(body)) + body


def wrapper(
    records: Sequence[PlainRecord],
    *,
    magic: int,
    codec: int,
    timestamp: int | None = None,
    timestamp_type: str = CREATE_TIME,
    first_relative: int = 0,
) -> bytes:
    """The records compressed into one message: absolute offsets inside v0, relative inside v1."""
    base = records[0].offset - first_relative if magic == 1 else 0
    inner = b"".join(
        message(
            record.offset - base,
            record.key,
            record.value,
            magic=magic,
            timestamp=record.timestamp,
            timestamp_type=timestamp_type,
        )
        for record in records
    )
    if timestamp is None:
        timestamp = max(record.timestamp for record in records)
    return message(
        records[-1].offset,
        None,
        codecs.compress(codec, inner, magic),
        magic=magic,
        timestamp=timestamp,
        timestamp_type=timestamp_type,
        codec=codec,
    )


def record_v2(record: PlainRecord, base_offset: int, base_timestamp: int) -> bytes:
    body = b"\x00" + variable(record.timestamp - base_timestamp, 64)
    body += variable(record.offset - base_offset)
    body += variable_bytes(record.key) + variable_bytes(record.value)
    body += variable(len(record.headers))
    for name, value in record.headers:
        body += variable_bytes(name.encode()) + variable_bytes(value)
    return variable(len(body)) + body


def batch(
    records: Sequence[PlainRecord],
    *,
    codec: int = 0,
    base_offset: int | None = None,
    last_offset: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    timestamp_type: str = CREATE_TIME,
    leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    delete_horizon: bool = False,
) -> bytes:
    """One v2 batch. Offsets and timestamps come from the records where they are not given."""
    if base_offset is None:
        base_offset = records[0].offset
    if last_offset is None:
        last_offset = records[-1].offset
    if base_timestamp is None:
        base_timestamp = records[0].timestamp if records else -1
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=-1)
    attributes = codec | 0x08 * (timestamp_type == LOG_APPEND_TIME)
    attributes |= 0x10 * transactional | 0x20 * control | 0x40 * delete_horizon
    body = b"".join(record_v2(record, base_offset, base_timestamp) for record in records)
    checked = struct.pack(
        ">hiqqqhii",
        attributes,
        last_offset - base_offset,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    ) + codecs.compress(codec, body, 2)
    return (
        struct.pack(">qiibI", base_offset, 9 + len(checked), leader_epoch, 2, crc32c(checked))
        + checked
    )


def marker(
    offset: int,
    kind: int,
    *,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int = 0,
    leader_epoch: int = 0,
) -> bytes:
    """The control batch that ends a transaction: kind is plain.ABORT or plain.COMMIT."""
    record = PlainRecord(
        offset, timestamp, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, coordinator_epoch)
    )
    return batch(
        [record],
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def emptied(offset: int, *, timestamp: int, producer_id: int, producer_epoch: int) -> bytes:
    """What Kafka's cleaner leaves of a marker: MemoryRecords.writeEmptyHeader, with a horizon."""
    return batch(
        [],
        base_offset=offset,
        last_offset=offset,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        delete_horizon=True,
    )


def offset_index(entries: Sequence[tuple[int, int]], base_offset: int) -> bytes:
    return b"".join(struct.pack(">ii", offset - base_offset, at) for offset, at in entries)


def time_index(entries: Sequence[tuple[int, int]], base_offset: int) -> bytes:
    return b"".join(struct.pack(">qi", time, offset - base_offset) for time, offset in entries)
