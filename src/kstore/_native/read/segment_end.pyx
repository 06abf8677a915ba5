"""Walks over the headers of complete batches: where they end, and their largest timestamp."""

from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int8_t, int64_t, uint8_t

from kstore._native.files.resident_pages cimport pages_are_resident
from kstore._native.format.argument cimport HeldBytes, hold_bytes
from kstore._native.format.batch_header cimport BatchHeader, crc_matches, read_header
from kstore._native.format.cursor cimport get_i64
from kstore._native.format.layout cimport (
    MAGIC_POSITION, V1_TIMESTAMP_POSITION, V2_HEADER_SIZE, V2_MAX_TIMESTAMP_POSITION,
)
from kstore._native.format.status cimport OK, TRUNCATED, Status, raise_for_status
from kstore._native.read.header_walk cimport SHORT_WALK, PyGILState_Check
from kstore._native.read.segment_view cimport Slice

cdef int64_t _free_walks = 0                # that did not hold the GIL


def walks_without_gil():
    """How many walks of this module this process has made without the GIL, for tests."""
    return _free_walks


cdef bint _walk_is_short(object data, HeldBytes held, Py_ssize_t start):
    """Whether a walk over bytes from start on holds the GIL: few bytes, and all in memory."""
    if held.size - start > SHORT_WALK:
        return False
    if start < 0 or start >= held.size or type(data) is bytes:
        return True
    if type(data) is Slice:
        return (<Slice>data).holds_resident(start, held.size)
    return pages_are_resident(held.data + start, held.size - start)     # perhaps a mapping's


cdef bint _precedes_lower_batch(const uint8_t* data, const BatchHeader* batch, int64_t next_batch,
                                int64_t end) noexcept nogil:
    """Whether the bytes behind a batch are a valid batch with lower offsets.

    Then the first batch's base offset is wrong, which no checksum covers. The second one's
    checksum is checked: preallocated zeros and an append in progress are no batch.
    """
    cdef BatchHeader following
    return (
        read_header(data, next_batch, end, &following) == OK
        and following.base_offset <= batch.last_offset
        and crc_matches(data, &following)
    )


cdef struct End:
    int64_t position            # after the last batch
    int64_t next_offset
    int64_t largest             # timestamp, -1 without one
    int64_t at                  # last offset of the first batch that has it


cdef void _find_end(
    const uint8_t* data, int64_t size, int64_t base_offset, bint check_crc, End* end
) noexcept nogil:
    cdef BatchHeader header
    while end.position < size:
        if read_header(data, end.position, size, &header) != OK:
            break
        if header.last_offset < end.next_offset or header.last_offset < header.base_offset:
            break
        if header.last_offset - base_offset > INT32_MAX:    # a segment's offsets are nearer
            break
        if check_crc and not crc_matches(data, &header):
            break
        if header.base_offset > end.next_offset and _precedes_lower_batch(
            data, &header, end.position + header.size, size
        ):
            break
        if header.max_timestamp > end.largest:
            end.largest = header.max_timestamp
            end.at = header.last_offset
        end.next_offset = header.last_offset + 1
        end.position += header.size


def find_end(data, Py_ssize_t start, int64_t base_offset, bint check_crc):
    """Walk complete batches from start as far as they go.

    Returns (position after the last one, offset after the last one, largest timestamp, last
    offset of the batch that has it). Without a batch: (start, base_offset, -1, base_offset).
    Offsets that do not increase end the walk too, in front of the batch whose base offset is
    wrong: one beyond the reach of a segment, or one behind a gap that a valid batch with lower
    offsets follows.
    """
    global _free_walks
    cdef HeldBytes held = hold_bytes(data)
    cdef bint is_held
    cdef End end
    end.position, end.next_offset, end.largest, end.at = start, base_offset, -1, base_offset
    if _walk_is_short(data, held, start):
        _find_end(held.data, held.size, base_offset, check_crc, &end)
    else:
        with nogil:
            _find_end(held.data, held.size, base_offset, check_crc, &end)
            is_held = PyGILState_Check()
        _free_walks += not is_held
    return end.position, end.next_offset, end.largest, end.at


cdef int64_t _find_largest_time(
    const uint8_t* data, int64_t size, int64_t until, End* end
) noexcept nogil:
    """Returns the last offset walked."""
    cdef BatchHeader header
    cdef int64_t last = INT64_MIN
    while end.position < size and last < until:
        if read_header(data, end.position, size, &header) != OK:
            break
        if header.last_offset <= last or header.last_offset < header.base_offset:
            break
        if header.max_timestamp > end.largest:
            end.largest = header.max_timestamp
            end.at = header.last_offset
        last = header.last_offset
        end.position += header.size
    return last


def find_largest_time(data, Py_ssize_t start, int64_t until=INT64_MAX):
    """Walk the headers of complete batches from start to the first that reaches offset until.

    Returns (position after the last batch walked, largest timestamp, last offset of the first
    batch that has it, last offset walked). Without a timestamp: -1 twice; without a batch the
    last offset is INT64_MIN. Offsets that do not increase end the walk, as damage does.
    """
    global _free_walks
    cdef HeldBytes held = hold_bytes(data)
    cdef int64_t last
    cdef bint is_held
    cdef End end
    end.position, end.largest, end.at = start, -1, -1
    if _walk_is_short(data, held, start):
        last = _find_largest_time(held.data, held.size, until, &end)
    else:
        with nogil:
            last = _find_largest_time(held.data, held.size, until, &end)
            is_held = PyGILState_Check()
        _free_walks += not is_held
    return end.position, end.largest, end.at, last


def first_batch_timestamp(data):
    """Largest timestamp in the header at the start of data, of which the rest may be missing."""
    cdef HeldBytes held = hold_bytes(data)
    cdef int8_t magic
    if held.size <= MAGIC_POSITION:
        return -1
    magic = <int8_t>held.data[MAGIC_POSITION]
    if magic == 2 and held.size >= V2_HEADER_SIZE:
        return get_i64(held.data + V2_MAX_TIMESTAMP_POSITION)
    if magic == 1 and held.size >= V1_TIMESTAMP_POSITION + 8:
        return get_i64(held.data + V1_TIMESTAMP_POSITION)
    return -1


def find_time(data, Py_ssize_t start, int64_t timestamp):
    """(position, size) of the first batch at or after start whose largest timestamp is timestamp
    or later, or None. A v0 message has no timestamp and never qualifies."""
    cdef HeldBytes held = hold_bytes(data)
    cdef BatchHeader header
    cdef int64_t position = start
    cdef Status status = OK
    header.size = 0
    if start < 0 or start >= held.size:
        return None
    with nogil:                             # the caller's bytes may be a mapping, not in memory
        while position < held.size:
            status = read_header(held.data, position, held.size, &header)
            if status != OK:
                break
            if header.max_timestamp >= timestamp and header.max_timestamp >= 0:
                break
            position += header.size
    if position >= held.size or status == TRUNCATED:
        return None
    raise_for_status(status, None, position, -1)
    return position, header.size
