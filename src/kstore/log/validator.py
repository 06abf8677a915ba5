"""What a leader refuses, as an exception with Kafka's error code.

The checks themselves are native (:mod:`kstore._native.batch`); this module gives a refusal its
words. Rules: Kafka's LogValidator and UnifiedLog.analyzeAndValidateRecords.
"""

import struct
from typing import Any

from kstore._native import status as native_status
from kstore._native.checksum import crc32c
from kstore.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    KStoreError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    RecordListTooLargeError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
)
from kstore.record import codec

_ATTRIBUTES = struct.Struct(">h")
_CRC_START = 21


def refuse(
    status: int,
    size: int,
    declared_size: int,
    magic: int,
    bad_position: int,
    bad_record: int,
    producer_id: int,
) -> None:
    """Raise the error for a batch that a leader does not take. The arguments are the kernel's."""
    name = native_status.name(status)
    if name == "OK":
        if declared_size != size:
            raise InvalidRecordError(
                f"exactly one batch is taken at a time: it has {declared_size} bytes, "
                f"the buffer {size}"
            )
        raise InvalidRecordError(
            f"the batch is from an idempotent or transactional producer (id {producer_id}), and "
            "this log keeps no producer state; use a plain producer, or append_as_follower for "
            "batches that a leader has already taken"
        )
    kind: type[KStoreError] = InvalidRecordError
    sentence = native_status.reason(status)
    if name == "MESSAGE_TOO_LARGE":
        kind = MessageTooLargeError
    elif name == "BAD_TIMESTAMP":
        kind = InvalidTimestampError
    elif name == "BAD_CODEC":
        kind = UnsupportedCompressionTypeError
    elif name == "BAD_MAGIC" and magic in (0, 1):
        kind = UnsupportedForMessageFormatError
        sentence = f"a leader takes record batch v2, not message v{magic}"
    elif name in ("BAD_SIZE", "BAD_MAGIC", "BAD_CRC", "TRUNCATED"):
        kind = CorruptRecordError
    if bad_record >= 0:
        sentence = f"record {bad_record} of the batch: {sentence}"
    raise kind(sentence, position=bad_position if bad_position >= 0 else None)


def refuse_own(what: str, value: int, limit: int) -> None:
    """Raise the error for a record of this process that the log does not take."""
    if what == "batch":
        raise MessageTooLargeError(
            f"a batch of {value} bytes is more than max.message.bytes ({limit}): "
            "raise that setting, or append smaller records"
        )
    if what == "segment":
        raise RecordListTooLargeError(
            f"an append of {value} bytes is more than segment.bytes ({limit})"
        )
    if what == "offset":
        raise OffsetOutOfRangeError(
            f"the log has come to its last offsets: it takes no append beyond {limit}", offset=value
        )
    if what == "age":
        raise InvalidTimestampError(
            f"timestamp {value} is further from now ({limit}) than "
            "message.timestamp.before.max.ms and message.timestamp.after.max.ms allow"
        )
    raise InvalidTimestampError(f"a record's timestamp cannot lie before 1970: {value}")


def recompress(header: Any, records: Any, codec_id: int) -> bytes:
    """The same batch with its (plain) records in another codec; the checksum made anew."""
    body = codec.compress(codec_id, 2, records) if codec_id else bytes(records)
    out = bytearray(header)
    struct.pack_into(">i", out, 8, len(header) + len(body) - 12)
    (attributes,) = _ATTRIBUTES.unpack_from(out, _CRC_START)
    _ATTRIBUTES.pack_into(out, _CRC_START, attributes & ~0x07 | codec_id)
    out += body
    struct.pack_into(">I", out, 17, crc32c(memoryview(out)[_CRC_START:]))
    return bytes(out)
