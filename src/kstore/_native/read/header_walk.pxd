"""The short walk over headers from a known batch to the one that holds an offset."""

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

cdef inline bint is_contradicted(
    const uint8_t* data, int64_t next_batch, int64_t end, int64_t last
) noexcept nogil:
    """Whether the batch behind one that ends with an offset begins at or before that."""
    return (
        end - next_batch >= HEADER_UP_TO_MAGIC
        and <uint8_t>data[next_batch + MAGIC_POSITION] <= 2
        and get_i64(data + next_batch) <= last
    )


cdef inline Status sum_of(const uint8_t* data, int64_t position, int64_t end) noexcept nogil:
    cdef BatchHeader header
    cdef Status status = read_header(data, position, end, &header)
    if status == OK and not crc_matches(data, &header):
        return BAD_CRC
    return status


cdef inline Status header_at(
    const uint8_t* batch, int64_t left, int32_t* length, int64_t* base, int64_t* last
) noexcept nogil:
    """What the walk needs of a header, of which 17 bytes are present: size field and offsets."""
    length[0] = get_i32(batch + 8)
    if length[0] < V0_OVERHEAD or length[0] > INT32_MAX - LOG_OVERHEAD:
        return BAD_SIZE
    if length[0] + LOG_OVERHEAD > left:
        return TRUNCATED
    last[0] = base[0] = get_i64(batch)
    if batch[MAGIC_POSITION] == 2:
        if length[0] < V2_MINIMUM_SIZE_FIELD:
            return BAD_SIZE
        if get_i32(batch + V2_LAST_OFFSET_DELTA_POSITION) < 0:  # or it would be skipped
            return BAD_OFFSET
        last[0] = <int64_t>(
            <unsigned long long>base[0]
            + <unsigned long long><int64_t>get_i32(batch + V2_LAST_OFFSET_DELTA_POSITION)
        )
    elif batch[MAGIC_POSITION] > 2:
        return BAD_MAGIC
    return OK


cdef inline Status walk_to(
    const uint8_t* data, int64_t* position, int64_t end, int64_t offset, int64_t before_last,
    int64_t next_offset, bint again, int32_t* size
) noexcept nogil:
    """Move position to the first batch whose last offset is at least offset.

    before_last is the last offset in front of position, INT64_MIN where that is not known; all
    batches end below next_offset. TRUNCATED: there is none before end. Otherwise size is that
    batch's whole size.

    Base offsets are outside checksums, and to step over a batch its checksum is not checked.
    So where offset lies in a gap the batch in front of it is checked, and one that its
    neighbours contradict is BAD_OFFSET. So is, unless again, a gap behind the very first batch
    with nothing known in front of it: then the walk is to begin a batch earlier.
    """
    cdef int64_t at = position[0], base, last
    cdef int64_t skipped = -1               # the batch in front, stepped over
    cdef int64_t first = at if before_last == INT64_MIN else -1
    cdef bint doubtful = False              # its offsets contradict its neighbours
    cdef bint holds
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
        holds = base > before_last
        if holds and last >= offset:
            if last >= next_offset or (
                (before_last == INT64_MIN or base != before_last + 1)
                and is_contradicted(data, at + length + LOG_OVERHEAD, end, last)
            ):
                position[0] = at
                return BAD_OFFSET
            if base > offset and skipped >= 0 and batch[MAGIC_POSITION] == 2:
                if doubtful or (first == skipped and not again):
                    status = BAD_OFFSET
                else:
                    status = sum_of(data, skipped, at)
                if status != OK:
                    position[0] = skipped
                    return status
            position[0] = at
            size[0] = length + LOG_OVERHEAD
            return OK
        doubtful = not holds or last >= next_offset
        if holds and last < next_offset:
            before_last = last
        skipped = at
        at += length + LOG_OVERHEAD
    if at == end and skipped >= 0:          # a gap at the segment's end
        if doubtful or (first == skipped and not again):
            status = BAD_OFFSET
        else:
            status = sum_of(data, skipped, at)
        if status != OK:
            position[0] = skipped
            return status
    position[0] = at
    return TRUNCATED
