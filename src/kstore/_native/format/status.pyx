"""Converts the status of a kernel to an exception."""

_REASONS = {
    TRUNCATED: "the bytes end before the structure does",
    MALFORMED_VARINT: "a variable-length integer is longer than its type allows",
    BAD_SIZE: "the size field is below the smallest possible batch",
    BAD_MAGIC: "unknown message format (magic byte)",
    BAD_CRC: "the checksum does not match",
    BAD_COUNT: "the record count does not match the records",
    BAD_RECORD_SIZE: "a record does not fill its declared size",
    BAD_LENGTH: "a key, value or header length points outside the record",
    BAD_OFFSET: "record offsets are out of order or outside the batch",
    BAD_CODEC: "unknown compression codec",
    BAD_TIMESTAMP: "illegal timestamp",
    BAD_ATTRIBUTES: "the attributes do not fit this kind of batch",
    TRAILING_BYTES: "bytes are left after the last record",
    NO_MEMORY: "out of memory",
    MESSAGE_TOO_LARGE: "the batch is larger than max.message.bytes",
    BAD_BASE_OFFSET: "the base offset of a client's batch is not 0",
    CONTROL_BATCH: "a client may not write a control batch",
    BAD_SEQUENCE: "a producer id needs a base sequence of 0 or more",
    MISSING_KEY: "a compacted topic needs a key in every record",
    SEVERAL_BATCHES: "a compressed message comes alone, not with others",
    OTHER_MAGIC: "a message has another format than the first, or than the wrapper around it",
    UNSUPPORTED_BY_FORMAT: (
        "messages v0 and v1 cannot carry an idempotent producer's id, nor a transaction: "
        "the topic's message.format.version is below 0.11.0"
    ),
}

_NAMES = (
    "OK", "TRUNCATED", "MALFORMED_VARINT", "BAD_SIZE", "BAD_MAGIC", "BAD_CRC", "BAD_COUNT",
    "BAD_RECORD_SIZE", "BAD_LENGTH", "BAD_OFFSET", "BAD_CODEC", "BAD_TIMESTAMP",
    "BAD_ATTRIBUTES", "TRAILING_BYTES", "NO_MEMORY", "MESSAGE_TOO_LARGE", "BAD_BASE_OFFSET",
    "CONTROL_BATCH", "BAD_SEQUENCE", "MISSING_KEY", "SEVERAL_BATCHES", "OTHER_MAGIC",
    "UNSUPPORTED_BY_FORMAT",
)


def name(int status):
    """The name of a status code in status.pxd."""
    return _NAMES[status] if 0 <= status < len(_NAMES) else f"STATUS_{status}"


def reason(int status):
    """A sentence that describes a status code."""
    return _REASONS.get(status, f"status {status}")


cdef object raise_for_status(
    Status status, object path, long long position, long long offset
):
    """Raise CorruptRecordError (or MemoryError) for a status; return None for OK."""
    if status == OK:
        return None
    if status == NO_MEMORY:
        raise MemoryError
    from kstore.errors import CorruptRecordError
    raise CorruptRecordError(
        reason(status),
        path=path,
        position=position if position >= 0 else None,
        offset=offset if offset >= 0 else None,
    )


cdef int raise_named(str error, str reason) except -1:
    """Raise an error of kstore.errors by name, for an invalid argument."""
    import kstore.errors as errors
    raise getattr(errors, error)(reason)


cdef int raise_unreadable(int error, str reason, object path, long long position) except -1:
    """Raise for bytes that a file should have: StorageError, or CorruptRecordError if error is 0
    and the file ends before them."""
    from kstore.errors import CorruptRecordError, StorageError
    if error == 0:
        raise CorruptRecordError(reason, path=path, position=position)
    raise StorageError(reason, errno=error, path=path).at(position=position)
