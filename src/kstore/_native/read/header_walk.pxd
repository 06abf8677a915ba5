"""The short walk over headers from a known batch to the one that contains an offset."""

from libc.stdint cimport INT32_MAX, INT64_MIN, int32_t, int64_t, uint8_t

from kstore._native.format.batch_header cimport BatchHeader, crc_matches, read_header
from kstore._native.format.cursor cimport get_i32, get_i64
from kstore._native.format.layout cimport (
    HEADER_UP_TO_MAGIC, LOG_OVERHEAD, MAGIC_POSITION, V0_OVERHEAD, V2_LAST_OFFSET_DELTA_POSITION,
    V2_MINIMUM_SIZE_FIELD,
)
from kstore._native.format.status cimport (
    BAD_CRC, BAD_MAGIC, BAD_OFFSET, BAD_SIZE, OK, TRUNCATED, Status,
)

cdef extern from "Python.h" nogil:
    int PyGILState_Check()

cdef enum:
    # Bytes: a walk over more, or over pages that may not be in memory, releases the GIL. That costs
    # 0.1 us, and milliseconds more where other threads want it: so other walks hold it.
    SHORT_WALK = 65536

cdef inline bint next_batch_overlaps(
    const uint8_t* data, int64_t next_batch, int64_t end, int64_t last
) noexcept nogil:
    """Whether the batch at next_batch starts at or below last, its predecessor's last offset."""
    return (
        end - next_batch >= HEADER_UP_TO_MAGIC
        and <uint8_t>data[next_batch + MAGIC_POSITION] <= 2
        and get_i64(data + next_batch) <= last
    )


cdef inline Status check_batch(const uint8_t* data, int64_t position, int64_t end) noexcept nogil:
    cdef BatchHeader header
    cdef Status status = read_header(data, position, end, &header)
    if status == OK and not crc_matches(data, &header):
        return BAD_CRC
    return status


cdef inline Status header_at(
    const uint8_t* batch, int64_t left, int32_t* length, int64_t* base, int64_t* last
) noexcept nogil:
    """Read size field and offsets from a header, of which 17 bytes are present."""
    length[0] = get_i32(batch + 8)
    if length[0] < V0_OVERHEAD or length[0] > INT32_MAX - LOG_OVERHEAD:
        return BAD_SIZE
    if length[0] + LOG_OVERHEAD > left:
        return TRUNCATED
    last[0] = base[0] = get_i64(batch)
    if batch[MAGIC_POSITION] == 2:
        if length[0] < V2_MINIMUM_SIZE_FIELD:
            return BAD_SIZE
        if get_i32(batch + V2_LAST_OFFSET_DELTA_POSITION) < 0:  # else the walk would skip it
            return BAD_OFFSET
        last[0] = <int64_t>(
            <unsigned long long>base[0]
            + <unsigned long long><int64_t>get_i32(batch + V2_LAST_OFFSET_DELTA_POSITION)
        )
    elif batch[MAGIC_POSITION] > 2:
        return BAD_MAGIC
    return OK


cdef inline Status walk_to_offset(
    const uint8_t* data, int64_t* position, int64_t end, int64_t offset, int64_t before_last,
    int64_t next_offset, bint is_retry, int32_t* size
) noexcept nogil:
    """Move position to the first batch whose last offset is at least offset.

    before_last is the last offset before position, INT64_MIN if unknown; all batches end below
    next_offset. Sets size to the size of the batch. Returns TRUNCATED if no batch before end
    reaches offset.

    A checksum does not cover the base offset, and the walk does not verify the batches it skips.
    So if offset is in a gap, the walk verifies the batch before the gap; it returns BAD_OFFSET for
    a batch whose offsets contradict its neighbours. It also returns BAD_OFFSET, unless is_retry,
    for a gap right after the first batch if before_last is unknown: the caller then retries from
    an earlier batch.
    """
    cdef int64_t at = position[0], base, last
    cdef int64_t skipped = -1               # the previous batch
    cdef int64_t first = at if before_last == INT64_MIN else -1
    cdef bint is_contradicted = False       # the previous batch's offsets overlap its neighbours'
    cdef bint is_above
    cdef int32_t length
    cdef Status status = TRUNCATED
    cdef const uint8_t* batch
    while end - at >= HEADER_UP_TO_MAGIC:
        status = header_at(data + at, end - at, &length, &base, &last)
        if status == TRUNCATED:
            break
        if status != OK:
            position[0] = at
            return status
        batch = data + at
        is_above = base > before_last
        if is_above and last >= offset:
            if last >= next_offset or (
                (before_last == INT64_MIN or base != before_last + 1)
                and next_batch_overlaps(data, at + length + LOG_OVERHEAD, end, last)
            ):
                position[0] = at
                return BAD_OFFSET
            if base > offset and skipped >= 0 and batch[MAGIC_POSITION] == 2:
                if is_contradicted or (first == skipped and not is_retry):
                    status = BAD_OFFSET
                else:
                    status = check_batch(data, skipped, at)
                if status != OK:
                    position[0] = skipped
                    return status
            position[0] = at
            size[0] = length + LOG_OVERHEAD
            return OK
        is_contradicted = not is_above or last >= next_offset
        if is_above and last < next_offset:
            before_last = last
        skipped = at
        at += length + LOG_OVERHEAD
    if at == end and skipped >= 0:          # a gap at the end of the segment
        if is_contradicted or (first == skipped and not is_retry):
            status = BAD_OFFSET
        else:
            status = check_batch(data, skipped, at)
        if status != OK:
            position[0] = skipped
            return status
    position[0] = at
    return TRUNCATED


cdef inline int64_t end_below(
    const uint8_t* data, int64_t start, int64_t end, int64_t up_to
) noexcept nogil:
    """End of the complete batches from start on whose offsets are all below up_to.

    It stops at corruption, and at a batch that does not follow the one before it. Returns -1 if
    no batch begins at start, or one that is above up_to.
    """
    cdef int64_t at = start, base, last, before_last = INT64_MIN
    cdef int32_t length
    cdef Status status
    if end - at >= HEADER_UP_TO_MAGIC and get_i64(data + at) > up_to:
        return -1
    while end - at >= HEADER_UP_TO_MAGIC:
        status = header_at(data + at, end - at, &length, &base, &last)
        if status != OK:
            return -1 if at == start and status != TRUNCATED else at
        if last >= up_to or base <= before_last:
            break
        before_last = last
        at += length + LOG_OVERHEAD
    return at
