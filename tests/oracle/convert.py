"""Change the format of complete batches: read everything, write everything, nothing clever."""

from collections.abc import Iterator

from oracle import codec as codecs
from oracle import writer
from oracle.plain import CREATE_TIME, LOG_APPEND_TIME, PlainBatch, PlainRecord
from oracle.reader import read_log


def convert(data: bytes, magic: int, *, keep_lower: bool = False, first_offset: int = 0) -> bytes:
    """As Kafka: down by RecordsUtil.downConvert, up by the cleaner of Kafka 4."""
    out = b""
    for batch in read_log(data).batches:
        if magic < 2 and batch.control:
            continue
        if batch.magic == magic or (keep_lower and batch.magic < magic):
            out += data[batch.position : batch.position + batch.size]
            continue
        records = batch.records
        if not batch.codec:
            records = tuple(record for record in records if record.offset >= first_offset)
        if records:
            out += _write(records, batch, magic)
    return out


def _write(records: tuple[PlainRecord, ...], batch: PlainBatch, magic: int) -> bytes:
    stamped = batch.timestamp_type == LOG_APPEND_TIME
    kind = LOG_APPEND_TIME if stamped else CREATE_TIME
    if magic == 2:
        return writer.batch(
            records,
            codec=batch.codec,
            leader_epoch=-1,
            timestamp_type=kind,
            max_timestamp=batch.max_timestamp if stamped else None,
        )
    if batch.codec:
        return writer.wrapper(
            records,
            magic=magic,
            codec=batch.codec,
            timestamp=batch.max_timestamp if stamped else None,
            timestamp_type=kind,
        )
    return b"".join(
        writer.message(
            record.offset,
            record.key,
            record.value,
            magic=magic,
            timestamp=record.timestamp,
            timestamp_type=kind,
        )
        for record in records
    )


def unpacked(data: bytes) -> Iterator[tuple[PlainBatch, bytes]]:
    """Each batch without what depends on the compressor, and its bytes before compression."""
    for batch in read_log(data).batches:
        frame = data[batch.position : batch.position + batch.size]
        if batch.codec and batch.magic == 2:
            frame = codecs.decompress(batch.codec, frame[61:], 2)
        elif batch.codec:
            overhead = 26 + 8 * batch.magic
            # A key in a wrapper means nothing.
            overhead += max(
                0, int.from_bytes(frame[overhead - 8 : overhead - 4], "big", signed=True)
            )
            frame = codecs.decompress(batch.codec, frame[overhead:], batch.magic)
        yield batch._replace(position=0, size=0), frame
