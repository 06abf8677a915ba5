"""Finds complete batches in corrupt bytes: runs of valid ones, and the next after corruption.

A batch is valid here if its checksum matches and recovery would accept it. Nothing is decompressed.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from kstore._native.format.batch_header cimport BatchHeader, crc_matches, read_header
from kstore._native.format.crc cimport crc32, crc32c
from kstore._native.format.cursor cimport get_i32, get_i64, get_u32
from kstore._native.format.layout cimport (
    HEADER_UP_TO_MAGIC, LEGACY_CRC_POSITION, LEGACY_CRC_START, LOG_OVERHEAD, MAGIC_POSITION,
    V0_OVERHEAD, V1_OVERHEAD, V2_CRC_POSITION, V2_CRC_START, V2_MINIMUM_SIZE_FIELD,
)
from kstore._native.format.status cimport BAD_CRC, BAD_OFFSET, OK, Status

cdef struct Run:
    int64_t position, end           # bytes
    int64_t first_offset, last_offset
    int64_t batches
    int64_t second, last            # positions of the second batch (or end) and of the last one
    int64_t last_base, before_last  # base offset of the last batch; last offset before it
    int64_t stop_size               # declared size of the invalid batch at `end`
    bint in_order                   # False: at `end` is a valid batch whose offsets do not increase


cdef inline Status check_batch(
    const uint8_t* data, int64_t position, int64_t end, BatchHeader* out
) noexcept nogil:
    cdef Status status = read_header(data, position, end, out)
    if status != OK:
        return status
    if not crc_matches(data, out):
        return BAD_CRC
    if out.base_offset < 0 or out.last_offset < out.base_offset:
        return BAD_OFFSET
    return OK


cdef Status scan_run(
    const uint8_t* data, int64_t start, int64_t end, int64_t stop_offset, Run* run
) noexcept nogil:
    cdef BatchHeader batch
    cdef Status status = OK
    cdef int64_t position = start
    run.position = run.second = run.last = start
    run.batches = 0
    run.first_offset = run.last_offset = run.last_base = run.before_last = -1
    run.stop_size = 0
    run.in_order = True
    while position < end:
        batch.size = 0
        status = check_batch(data, position, end, &batch)
        if status != OK:
            run.stop_size = batch.size
            break
        if run.batches and batch.base_offset <= run.last_offset:
            run.in_order = False
            break
        if batch.last_offset >= stop_offset:
            break
        if run.batches == 0:
            run.first_offset = batch.base_offset
        run.before_last = run.last_offset
        run.last = position
        run.last_base = batch.base_offset
        run.last_offset = batch.last_offset
        position += batch.size
        run.batches += 1
        if run.batches == 1:
            run.second = position
    run.end = position
    return status


cdef class ValidBatches:
    """A run of valid batches with increasing offsets, and why it ended."""

    cdef readonly int64_t end, batch_count, first_offset, last_offset
    cdef readonly int64_t second_position, last_position, offset_before_last
    cdef readonly int stop_status
    cdef readonly int64_t stop_size
    cdef readonly bint is_in_order


def scan_valid_batches(object buffer, int64_t start, int64_t stop_offset=0x7FFFFFFFFFFFFFFF):
    cdef Py_buffer view
    cdef Run run
    cdef Status status
    cdef ValidBatches found
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= view.len:
            raise ValueError(f"position {start} is not within {view.len} bytes")
        with nogil:
            status = scan_run(<const uint8_t*>view.buf, start, view.len, stop_offset, &run)
    finally:
        PyBuffer_Release(&view)
    found = ValidBatches.__new__(ValidBatches)
    found.end = run.end
    found.batch_count = run.batches
    found.first_offset = run.first_offset
    found.last_offset = run.last_offset
    found.second_position = run.second
    found.last_position = run.last
    found.offset_before_last = run.before_last
    found.stop_status = <int>status
    found.stop_size = run.stop_size
    found.is_in_order = run.in_order
    return found


def skip_to(object buffer, int64_t start, int64_t end, int64_t offset):
    """Position of the first batch in buffer[start:end] with base offset >= offset."""
    cdef Py_buffer view
    cdef BatchHeader batch
    cdef int64_t position = start
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= end <= view.len:
            raise ValueError(f"range {start} to {end} is not within {view.len} bytes")
        with nogil:
            while position < end:
                if read_header(<const uint8_t*>view.buf, position, end, &batch) != OK:
                    break
                if batch.base_offset >= offset:
                    break
                position += batch.size
    finally:
        PyBuffer_Release(&view)
    return position


cdef inline bint may_be_header(
    const uint8_t* at, int64_t left, int64_t low, int64_t high
) noexcept nogil:
    """Whether a header may begin here; cheap, because it runs at every byte."""
    cdef int magic = at[MAGIC_POSITION]
    cdef int32_t size
    cdef int64_t offset
    if magic > 2:
        return False
    size = get_i32(at + 8)
    if size < (V0_OVERHEAD if magic == 0 else V1_OVERHEAD if magic == 1 else V2_MINIMUM_SIZE_FIELD):
        return False
    if size > left - LOG_OVERHEAD:
        return False
    offset = get_i64(at)
    return low <= offset <= high


cdef inline bint may_be_corrupt_header(
    const uint8_t* at, int64_t left, int64_t low, int64_t high, int magic
) noexcept nogil:
    """Whether a corrupt batch may begin here: two of three header fields are plausible.

    Zeros (a block that the disk could not read) and a tail of a few bytes qualify, too.
    """
    cdef int64_t offset
    cdef int32_t size
    cdef int n, fits = 0
    if left < HEADER_UP_TO_MAGIC:
        return True
    offset = get_i64(at)
    size = get_i32(at + 8)
    if offset == 0 and size == 0 and at[MAGIC_POSITION] == 0:
        for n in range(12, MAGIC_POSITION):
            if at[n] != 0:
                return False
        return True
    fits += at[MAGIC_POSITION] == magic
    fits += V0_OVERHEAD <= size <= left - LOG_OVERHEAD
    fits += low <= offset <= high and offset - low < (1 << 20)
    return fits >= 2


cdef bint headers_continue(
    const uint8_t* data, int64_t position, int64_t end, int64_t high, int64_t* budget
) noexcept nogil:
    """Whether headers continue from a valid batch to the end, or to a corrupt batch.

    From a batch in the payload of another, the next header is inside that other batch.
    """
    cdef BatchHeader batch
    cdef int64_t at = position, low = 0
    cdef int magic = data[position + MAGIC_POSITION]
    while at < end:
        budget[0] -= 64
        if budget[0] < 0:
            return False
        if read_header(data, at, end, &batch) != OK or batch.base_offset < low:
            return may_be_corrupt_header(data + at, end - at, low, high, magic)
        magic = batch.magic
        low = batch.last_offset + 1
        at += batch.size
    return True


def find_valid_batch(
    object buffer, int64_t start, int64_t low, int64_t high, int64_t next_position=-1,
    int64_t budget=1 << 34,
):
    cdef Py_buffer view
    cdef const uint8_t* data
    cdef BatchHeader batch
    cdef int64_t position = start, at, end, found = -1
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if start < 0:
            raise ValueError(f"a position is not negative: {start}")
        data = <const uint8_t*>view.buf
        end = view.len if next_position < 0 else min(view.len, next_position)
        with nogil:
            while position <= end - HEADER_UP_TO_MAGIC and budget > 0:
                if not may_be_header(data + position, end - position, low, high):
                    position += 1
                    continue
                budget -= get_i32(data + position + 8)
                if check_batch(data, position, end, &batch) != OK:
                    position += 1
                    continue
                if next_position < 0:
                    if headers_continue(data, position, end, high, &budget):
                        found = position
                        break
                    position += 1
                    continue
                # Batches that end exactly at the next known one are not payload.
                at = position
                while at < end:
                    budget -= 64
                    if budget < 0 or read_header(data, at, end, &batch) != OK:
                        break
                    at += batch.size
                if at == end:
                    found = position
                    break
                position += 1
    finally:
        PyBuffer_Release(&view)
    return found


def find_end_by_checksum(object buffer, int64_t start, int64_t stop, int64_t low, int64_t high):
    cdef Py_buffer view
    cdef const uint8_t* data
    cdef int64_t position, summed, first, left, offset, found = -1
    cdef uint32_t stored, crc
    cdef int magic
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if start < 0:
            raise ValueError(f"a position is not negative: {start}")
        data = <const uint8_t*>view.buf
        if view.len - start < HEADER_UP_TO_MAGIC + 4 or data[start + MAGIC_POSITION] > 2:
            return -1
        with nogil:
            magic = data[start + MAGIC_POSITION]
            if magic == 2:
                stored = get_u32(data + start + V2_CRC_POSITION)
                first = start + V2_CRC_START
                position = start + LOG_OVERHEAD + V2_MINIMUM_SIZE_FIELD
            else:
                stored = get_u32(data + start + LEGACY_CRC_POSITION)
                first = start + LEGACY_CRC_START
                position = start + LOG_OVERHEAD + (V0_OVERHEAD if magic == 0 else V1_OVERHEAD)
            if stored == 0 and get_i32(data + start + 8) == 0:
                position = stop + 1  # zeros are not a batch with a corrupt size field
            crc, summed = 0, first
            while position <= view.len and position <= stop:
                left = view.len - position
                if left >= HEADER_UP_TO_MAGIC:
                    offset = get_i64(data + position)
                    if data[position + MAGIC_POSITION] > 2 or offset < low or offset > high:
                        position += 1
                        continue
                elif left:
                    position = view.len
                    continue
                if magic == 2:
                    crc = crc32c(crc, data + summed, position - summed)
                else:
                    crc = crc32(crc, data + summed, position - summed)
                summed = position
                if crc == stored:
                    found = position
                    break
                position += 1
    finally:
        PyBuffer_Release(&view)
    return found


def epoch_runs(object buffer, int64_t start, int64_t end):
    cdef Py_buffer view
    cdef BatchHeader batch
    cdef int64_t position = start
    cdef int32_t epoch = 0
    cdef bint is_new_epoch      # the batch at `position` has another epoch
    cdef list found = []
    cdef int64_t run_start = start, count = 0
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= end <= view.len:
            raise ValueError(f"range {start} to {end} is not within {view.len} bytes")
        while position < end:
            with nogil:
                is_new_epoch = False
                while position < end and not is_new_epoch:
                    if read_header(<const uint8_t*>view.buf, position, end, &batch) != OK:
                        position = end
                        break
                    is_new_epoch = batch.magic == 2 and (count == 0 or batch.leader_epoch != epoch)
                    if not is_new_epoch:
                        count += batch.magic == 2
                        position += batch.size
            if is_new_epoch:
                if count:
                    found.append((run_start, count, epoch))
                run_start, count, epoch = position, 1, batch.leader_epoch
                position += batch.size
        if count:
            found.append((run_start, count, epoch))
    finally:
        PyBuffer_Release(&view)
    return found
