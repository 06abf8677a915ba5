"""Batches of one message format turned into another: v0, v1 and v2, up and down.

The kernel is :mod:`kstore._native.format.converter`.

Rules: Kafka's ``RecordsUtil.downConvert`` (for old fetchers), ``MemoryRecords.filterTo`` of
Kafka 4 (old messages become batches), ``LogValidator`` (one new batch on append). All
functions may be called from any thread.
"""

import struct
from functools import partial

from kstore._native.format import batch_fields
from kstore._native.format.converter import Converter
from kstore._native.format.crc import crc32c
from kstore.errors import InvalidTimestampError
from kstore.record.codec import codec_id, compress, decompress

Data = bytes | bytearray | memoryview


def convert(
    batches: Data, magic: int, *, compression: str | None = None, level: int | None = None
) -> bytes:
    """Convert batches of any magic to batches of one magic, offsets and timestamps kept.

    Batch by batch: a message becomes a batch v2 of one record and a wrapper one of many, and
    the records of a compressed v2 batch become one wrapper, those of an uncompressed one
    become plain messages. A batch of that magic and codec stays as it is. Gaps between
    offsets stay; a record from v0 has timestamp -1. What v0 and v1 cannot say is dropped:
    headers, producer ids, sequences, the marks of transactions, control batches, empty
    batches.

    Parameters
    ----------
    batches
        Complete batches; every checksum is checked.
    magic
        0, 1 or 2.
    compression
        Kafka's name of a codec for every batch but control batches; None keeps each batch's.
    level
        The codec's own, None for Kafka's default.

    Raises
    ------
    CorruptRecordError
        Damage, or a cut batch at the end, with its position in ``batches``.
    InvalidTimestampError, InvalidRecordError
        A timestamp below -1, as Kafka's writer has it; an offset below 0 in a wrapper to be;
        offsets of one v0 wrapper too far apart for a batch.
    UnsupportedCompressionTypeError
        zstd below v2, unless another ``compression`` is asked for.
    MessageTooLargeError
        A batch beyond 2 GiB.
    """
    target = -1 if compression is None else codec_id(compression)
    return _converter(batches, magic, codec=target, level=level).convert()


def recompress(
    batches: Data, magic: int, compression: str, *, level: int | None = None
) -> tuple[bytes, int]:
    """As :func:`convert` with a codec whose aim is size: what it would make larger stays.

    A batch of that magic stays as it is, one of another becomes an uncompressed batch. Returns
    the batches, and how many of that magic would have grown.
    """
    converter = _converter(
        batches, magic, codec=codec_id(compression), level=level, keep_smaller=True
    )
    return converter.convert(), converter.kept_count


def with_codec(header: Data, records: Data, codec: int) -> bytes:
    """A batch v2 of this header, its uncompressed records in another codec, with a new checksum."""
    body = compress(codec, 2, records) if codec else bytes(records)
    out = bytearray(header)
    size = len(header) + len(body) - batch_fields.LOG_OVERHEAD
    struct.pack_into(">i", out, batch_fields.SIZE_POSITION, size)
    attributes = batch_fields.attributes(out) & ~batch_fields.CODEC_MASK | codec
    struct.pack_into(">h", out, batch_fields.V2_ATTRIBUTES_POSITION, attributes)
    out += body
    crc = crc32c(memoryview(out)[batch_fields.V2_CRC_START :])
    struct.pack_into(">I", out, batch_fields.V2_CRC_POSITION, crc)
    return bytes(out)


def merge(
    batches: Data,
    most: int,
    *,
    compression: str,
    level: int | None = None,
    keep_smaller: bool = True,
    final: bool = True,
) -> tuple[bytes, int, int]:
    """Put small neighbours together as one batch v2, records and offsets kept.

    Merged are only batches v2 that follow each other without a gap and have none within, without
    producer id, transaction, control records or time of deletion, of one leader epoch and
    timestamp type, and with LogAppendTime of one time. The others stay as they are.

    Parameters
    ----------
    batches
        Complete batches of any magic; every checksum is checked.
    most
        Bytes that a merged batch takes at most before it is compressed, its header with it.
    compression, level
        Of merged batches.
    keep_smaller
        Whether batches stay that would take more bytes when merged.
    final
        Whether nothing follows; otherwise the last run may continue.

    Returns the batches, where in ``batches`` the run that may continue begins, and how many
    batches were merged into the one before them. Raises what :func:`convert` raises.
    """
    codec = codec_id(compression)
    converter = _converter(batches, 2, codec=codec, level=level, keep_smaller=keep_smaller)
    merged, used = converter.merge(most, final)
    return merged, used, converter.merged_count


def down_convert(batches: Data, magic: int, *, first_offset: int = 0) -> bytes:
    """Batches for a fetcher that knows formats up to ``magic``, as Kafka (until 3.9) sends them.

    As :func:`convert`, but batches below ``magic`` stay what they are, and records below
    ``first_offset`` are omitted from uncompressed batches that are converted: a consumer of
    v0 and v1 would take them for others. (Compressed ones stay complete: it skips inside them.)
    """
    return _converter(batches, magic, keep_lower=True, first_offset=first_offset).convert()


def rebuild(
    batches: Data,
    magic: int,
    *,
    base_offset: int,
    compression: str = "none",
    level: int | None = None,
    log_append_time: int | None = None,
    leader_epoch: int = -1,
) -> bytes:
    """All records as one new batch (v2), one wrapper, or one run of messages, as a leader does.

    Offsets count from ``base_offset``; producer id, epoch, sequence and the mark of a
    transaction are the batch's own, which then has to be the only one. ``log_append_time``
    (milliseconds) makes the timestamp type LogAppendTime, None CreateTime. Without records
    the result is empty.

    Raises what :func:`convert` raises, ``UnsupportedForMessageFormatError`` for headers,
    producer ids and transactions below v2, and ``InvalidRecordError`` for control batches.
    """
    if log_append_time is not None and log_append_time < 0:
        raise InvalidTimestampError(f"{log_append_time} is not a time of appending")
    converter = _converter(batches, magic, codec=codec_id(compression), level=level)
    return converter.rebuild(base_offset, leader_epoch, log_append_time)


def _converter(
    batches: Data,
    magic: int,
    *,
    codec: int = -1,
    keep_lower: bool = False,
    keep_smaller: bool = False,
    first_offset: int = -(1 << 63),
    level: int | None = None,
) -> Converter:
    return Converter(
        batches,
        magic,
        codec=codec,
        keep_lower=keep_lower,
        keep_smaller=keep_smaller,
        first_offset=first_offset,
        decompress=decompress,
        compress=partial(compress, level=level),
    )
