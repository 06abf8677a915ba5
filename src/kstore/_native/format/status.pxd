"""Status codes that kernels return; raise_for_status converts one to an exception."""


cdef enum Status:
    OK = 0
    TRUNCATED = 1             # the bytes end before the structure does
    MALFORMED_VARINT = 2
    BAD_SIZE = 3              # a size field below its minimum, or negative
    BAD_MAGIC = 4
    BAD_CRC = 5
    BAD_COUNT = 6             # record count negative, or different from the records
    BAD_RECORD_SIZE = 7       # a record does not fill its declared size exactly
    BAD_LENGTH = 8            # a key, value or header length exceeds the bytes that are left
    BAD_OFFSET = 9            # offset deltas out of order or beyond the batch
    BAD_CODEC = 10
    BAD_TIMESTAMP = 11
    BAD_ATTRIBUTES = 12
    TRAILING_BYTES = 13
    NO_MEMORY = 14
    # Well-formed bytes that a leader rejects.
    MESSAGE_TOO_LARGE = 15    # the batch exceeds max.message.bytes
    BAD_BASE_OFFSET = 16      # a client's batch must have base offset 0
    CONTROL_BATCH = 17        # a client may not write control batches
    BAD_SEQUENCE = 18         # a producer id without a sequence
    MISSING_KEY = 19          # a compacted topic requires a key in every record
    SEVERAL_BATCHES = 20      # a compressed message with others in one request
    OTHER_MAGIC = 21          # a message with another magic than the first, or its wrapper
    UNSUPPORTED_BY_FORMAT = 22  # a producer id or transaction in a log of v0 or v1 messages


cdef object raise_for_status(
    Status status, object path, long long position, long long offset
)
cdef int raise_named(str error, str reason) except -1
cdef int raise_unreadable(int error, str reason, object path, long long position) except -1
