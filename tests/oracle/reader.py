"""Read the bytes of a log: message v0 and v1, record batch v2, every codec."""

import struct

from oracle import codec as codecs
from oracle.crc import crc32, crc32c
from oracle.plain import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    PlainBatch,
    PlainLog,
    PlainRecord,
)


class CorruptError(ValueError):
    """The bytes break a rule of the format."""


class Cursor:
    """A position in some bytes that never moves past their end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.position

    def take(self, size: int) -> bytes:
        if size < 0 or size > self.left:
            raise CorruptError(f"{size} bytes wanted at {self.position}, {self.left} left")
        self.position += size
        return self.data[self.position - size : self.position]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def variable(self, bits: int = 32) -> int:
        """Zig-zag, base 128, low group first: at most 5 bytes (32 bits) or 10 (64 bits)."""
        raw = 0
        for shift in range(0, 7 * (5 if bits == 32 else 10), 7):
            byte = self.take(1)[0]
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                raw &= (1 << bits) - 1
                return raw >> 1 ^ -(raw & 1)
        raise CorruptError("a varint that does not end")

    def fixed_bytes(self) -> bytes | None:
        """A 4-byte length, then that many bytes; any negative length is null."""
        size = self.number(4)
        return None if size < 0 else self.take(size)

    def variable_bytes(self) -> bytes | None:
        size = self.variable()
        return None if size < 0 else self.take(size)


def read_log(data: bytes, *, decode: bool = True) -> PlainLog:
    """Every complete batch of a file's bytes, and the tail that is none.

    A batch that runs past the end is a tail, not an error. A size below 14, a format above 2
    or records that break a rule raise CorruptError; a wrong checksum is reported in the batch
    and leaves it without records, because its bytes mean nothing. `decode=False` leaves all
    batches without records.
    """
    batches: list[PlainBatch] = []
    position = 0
    while position < len(data):
        if position >= len(data) - 17:
            return PlainLog(tuple(batches), position, "shorter than a frame")
        size, magic = struct.unpack_from(">i", data, position + 8)[0], data[position + 16]
        if size < 14:
            raise CorruptError(f"size {size} at {position}")
        if position + 12 + size > len(data):
            return PlainLog(tuple(batches), position, "truncated frame")
        frame = data[position : position + 12 + size]
        if magic > 2:
            raise CorruptError(f"magic {magic} at {position}")
        read = read_batch if magic == 2 else read_message
        batches.append(read(frame, position, decode))
        position += len(frame)
    return PlainLog(tuple(batches), position, None)


def read_batch(frame: bytes, position: int = 0, decode: bool = True) -> PlainBatch:
    """One v2 batch; frame is exactly its bytes."""
    if len(frame) < 61:
        raise CorruptError(f"a v2 batch of {len(frame)} bytes at {position}")
    (base_offset, _size, epoch, _magic, crc, attributes, last_delta, base_timestamp) = (
        struct.unpack_from(">qiibIhiq", frame)
    )
    (max_timestamp, producer_id, producer_epoch, base_sequence, count) = struct.unpack_from(
        ">qqhii", frame, 35
    )
    crc_ok = crc32c(frame[21:]) == crc
    kind = LOG_APPEND_TIME if attributes & 0x08 else CREATE_TIME
    batch = PlainBatch(
        position=position,
        size=len(frame),
        magic=2,
        codec=attributes & 0x07,
        crc_ok=crc_ok,
        base_offset=base_offset,
        last_offset=base_offset + last_delta,
        timestamp_type=kind,
        max_timestamp=max_timestamp,
        records=(),
        attributes=attributes,
        base_timestamp=base_timestamp,
        leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    if not crc_ok or not decode:
        return batch
    if count < 0:
        raise CorruptError(f"record count {count} at {position}")
    cursor = Cursor(codecs.decompress(batch.codec, frame[61:], 2))
    records = tuple(_read_record(cursor, batch) for _ in range(count))
    if cursor.left:
        raise CorruptError(f"{cursor.left} bytes after the last record of the batch at {position}")
    return batch._replace(records=records)


def _read_record(cursor: Cursor, batch: PlainBatch) -> PlainRecord:
    cursor = Cursor(cursor.take(cursor.variable()))
    cursor.take(1)  # attributes, unused
    timestamp = batch.base_timestamp + cursor.variable(64)
    offset = batch.base_offset + cursor.variable()
    key, value = cursor.variable_bytes(), cursor.variable_bytes()
    count = cursor.variable()
    if count < 0 or count > cursor.left:
        raise CorruptError(f"{count} headers")
    headers = []
    for _ in range(count):
        name = cursor.take(cursor.variable()).decode()
        headers.append((name, cursor.variable_bytes()))
    if cursor.left:
        raise CorruptError(f"{cursor.left} bytes after the headers of a record")
    if batch.timestamp_type == LOG_APPEND_TIME:
        timestamp = batch.max_timestamp
    return PlainRecord(
        offset, timestamp, key, value, tuple(headers), batch.timestamp_type, batch.control
    )


def read_message(frame: bytes, position: int = 0, decode: bool = True) -> PlainBatch:
    """One top-level v0 or v1 message; a wrapper comes with the messages inside it."""
    cursor = Cursor(frame)
    offset, _size, crc = cursor.number(8), cursor.number(4), cursor.number(4) & 0xFFFFFFFF
    magic, attributes = cursor.number(1), cursor.number(1)
    crc_ok = crc32(frame[16:]) == crc
    timestamp = cursor.number(8) if magic == 1 else -1
    kind = NO_TIMESTAMP
    if magic == 1:
        kind = LOG_APPEND_TIME if attributes & 0x08 else CREATE_TIME
    batch = PlainBatch(
        position=position,
        size=len(frame),
        magic=magic,
        codec=attributes & 0x07,
        crc_ok=crc_ok,
        base_offset=offset,
        last_offset=offset,
        timestamp_type=kind,
        max_timestamp=timestamp,
        records=(),
        attributes=attributes,
    )
    if not crc_ok or not decode:
        return batch
    key, value = cursor.fixed_bytes(), cursor.fixed_bytes()
    if cursor.left:
        raise CorruptError(f"{cursor.left} bytes after the value of the message at {position}")
    if batch.codec == codecs.NONE:
        return batch._replace(records=(PlainRecord(offset, timestamp, key, value, (), kind),))
    if value is None:
        raise CorruptError(f"the wrapper at {position} is empty")
    records = _read_wrapped(batch, codecs.decompress(batch.codec, value, magic))
    return batch._replace(records=records, base_offset=records[0].offset)


def _read_wrapped(wrapper: PlainBatch, data: bytes) -> tuple[PlainRecord, ...]:
    inner = read_log(data)
    if not inner.batches or inner.tail_reason:
        raise CorruptError(f"the wrapper at {wrapper.position} holds {inner.tail_reason or '0'}")
    for message in inner.batches:
        if message.codec != codecs.NONE or message.magic == 2 or not message.crc_ok:
            raise CorruptError(f"a bad message inside the wrapper at {wrapper.position}")
    records = inner.records
    base = 0
    if wrapper.magic == 1:
        # Inner offsets are relative and only the last one is anchored: the wrapper carries it.
        last = records[-1].offset
        if wrapper.last_offset != 0 and wrapper.last_offset < last:
            raise CorruptError(f"inner offset {last} in the wrapper at {wrapper.position}")
        base = 0 if wrapper.last_offset == 0 else wrapper.last_offset - last
        records = tuple(
            record._replace(timestamp_type=wrapper.timestamp_type) for record in records
        )
        if wrapper.timestamp_type == LOG_APPEND_TIME:
            records = tuple(
                record._replace(timestamp=wrapper.max_timestamp) if message.magic == 1 else record
                for message, record in zip(inner.batches, records, strict=True)
            )
    return tuple(record._replace(offset=base + record.offset) for record in records)
