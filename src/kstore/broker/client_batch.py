"""The records of one partition in a Produce request: one batch, or a set of old messages."""

from kstore._native.format import batch_fields
from kstore.protocol.error_codes import ErrorCode

_V2_SINCE, _ZSTD_SINCE = 3, 7  # versions of Produce
_ZSTD = 4


def find_batch(records: memoryview | None, version: int) -> tuple[ErrorCode, int, int]:
    """Check a partition's records against the request's version: the error or NONE, the size of its
    only batch in bytes, and the batch's attributes.

    Since version 3 a partition has exactly one v2 batch, as Kafka's ProduceRequest.validateRecords
    requires; an incomplete batch after it is ignored. Earlier versions carry a message set, which
    the log validates: for them the size is that of all bytes, and the attributes are 0.
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
    """Size of the batch at a position in bytes, 0 if the batch is incomplete. The error is
    CORRUPT_MESSAGE if no batch can begin with these bytes (Kafka's ByteBufferLogInputStream)."""
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
