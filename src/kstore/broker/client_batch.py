"""The records of one partition in a Produce request: one batch, or a set of old messages."""

from kstore._native.format import batch_fields
from kstore.protocol.error_codes import ErrorCode

_V2_SINCE, _ZSTD_SINCE = 3, 7  # versions of Produce
_ZSTD = 4


def find_batch(records: memoryview | None, version: int) -> tuple[ErrorCode, int, int]:
    """The error of a partition's records by the request's version, or NONE; the bytes of its one
    batch and the batch's attributes.

    From version 3 on there is exactly one batch v2, as Kafka's ProduceRequest.validateRecords
    checks; an incomplete one behind it is ignored. Earlier versions carry a set of messages,
    which the log checks: all bytes, attributes 0.
    """
    if version < _V2_SINCE:
        return ErrorCode.NONE, 0 if records is None else len(records), 0
    if records is None:
        return ErrorCode.INVALID_RECORD, 0, 0
    size, error = complete_size(records, 0)
    if error or size == 0:
        return error or ErrorCode.INVALID_RECORD, 0, 0
    if batch_fields.magic(records) != 2:
        return ErrorCode.INVALID_RECORD, 0, 0
    if size < batch_fields.V2_HEADER_SIZE:
        return ErrorCode.CORRUPT_MESSAGE, 0, 0
    attributes = batch_fields.attributes(records)
    if attributes & batch_fields.CODEC_MASK == _ZSTD and version < _ZSTD_SINCE:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 0, 0
    if size < len(records):
        second, error = complete_size(records, size)
        if error or second:
            return error or ErrorCode.INVALID_RECORD, 0, 0
    return ErrorCode.NONE, size, attributes


def complete_size(records: memoryview, position: int) -> tuple[int, ErrorCode]:
    """Bytes of the batch at a position, 0 if it is incomplete; CORRUPT_MESSAGE for what cannot be
    the beginning of a batch. Kafka's ByteBufferLogInputStream."""
    left = len(records) - position
    if left < batch_fields.LOG_OVERHEAD:
        return 0, ErrorCode.NONE
    size = batch_fields.frame_size(records, position)
    if size < batch_fields.LOG_OVERHEAD + batch_fields.V0_OVERHEAD:
        return 0, ErrorCode.CORRUPT_MESSAGE
    if left < batch_fields.HEADER_UP_TO_MAGIC:
        return 0, ErrorCode.NONE
    if batch_fields.magic(records, position) > 2:
        return 0, ErrorCode.CORRUPT_MESSAGE
    return (size if size <= left else 0), ErrorCode.NONE
