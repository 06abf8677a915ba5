"""Single fields of the header of a batch or message, for Python code.

Positions are those of layout.pxd. Each function checks that the bytes contain the field; the
caller validates its value.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t

from kstore._native.format.cursor cimport get_i16, get_i32, get_i64, get_u32, put_i32, put_i64
from kstore._native.format.layout cimport *
from kstore._native.format.status cimport TRUNCATED, raise_for_status

cdef enum:
    SIZE_FIELD = 8
    UNSIGNED_4 = -4             # the width of a checksum


cdef int64_t _read(object buffer, int64_t position, int field, int width) except? -1:
    """Read a big-endian integer field of the header at a position."""
    cdef Py_buffer view
    cdef const uint8_t* at
    cdef int64_t value = 0
    cdef bint fits
    if position < 0:
        raise ValueError(f"a position is not negative: {position}")
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    fits = view.len - position >= field + abs(width)
    if fits:
        at = <const uint8_t*>view.buf + position + field
        if width == 8:
            value = get_i64(at)
        elif width == 4:
            value = get_i32(at)
        elif width == UNSIGNED_4:
            value = get_u32(at)
        elif width == 2:
            value = get_i16(at)
        else:
            value = at[0]
    PyBuffer_Release(&view)
    if not fits:
        raise_for_status(TRUNCATED, None, position, -1)
    return value


cdef int64_t _left(object buffer, int64_t position) except -1:
    """Number of bytes from a position to the end; 0 after the end."""
    cdef Py_buffer view
    if position < 0:
        raise ValueError(f"a position is not negative: {position}")
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    cdef int64_t left = view.len - position
    PyBuffer_Release(&view)
    return left if left > 0 else 0


# --- every format -------------------------------------------------------------------------------

def base_offset(data, int64_t position=0):
    return _read(data, position, 0, 8)


def frame_size(data, int64_t position=0):
    return _read(data, position, SIZE_FIELD, 4) + LOG_OVERHEAD


def declared_size(data, int64_t position=0):
    if _left(data, position) < LOG_OVERHEAD:
        return 0
    return _read(data, position, SIZE_FIELD, 4) + LOG_OVERHEAD


def next_position(data, int64_t position=0):
    cdef int64_t left = _left(data, position)
    cdef int64_t size = _read(data, position, SIZE_FIELD, 4) + LOG_OVERHEAD
    return position + (size if LOG_OVERHEAD <= size < left else left)


def magic(data, int64_t position=0):
    return _read(data, position, MAGIC_POSITION, 1)


def last_offset(data, int64_t position=0):
    cdef object base = _read(data, position, 0, 8)
    if _read(data, position, MAGIC_POSITION, 1) < 2:
        return base
    return base + _read(data, position, V2_LAST_OFFSET_DELTA_POSITION, 4)


# --- record batches v2 --------------------------------------------------------------------------

def leader_epoch(data, int64_t position=0):
    return _read(data, position, V2_LEADER_EPOCH_POSITION, 4)


def stored_crc(data, int64_t position=0):
    return _read(data, position, V2_CRC_POSITION, UNSIGNED_4)


def attributes(data, int64_t position=0):
    return _read(data, position, V2_ATTRIBUTES_POSITION, 2)


def last_offset_delta(data, int64_t position=0):
    return _read(data, position, V2_LAST_OFFSET_DELTA_POSITION, 4)


def producer_id(data, int64_t position=0):
    return _read(data, position, V2_PRODUCER_ID_POSITION, 8)


def producer_epoch(data, int64_t position=0):
    return _read(data, position, V2_PRODUCER_EPOCH_POSITION, 2)


def record_count(data, int64_t position=0):
    return _read(data, position, V2_COUNT_POSITION, 4)


def stamp(data, int64_t position, int64_t base_offset, int32_t leader_epoch):
    cdef Py_buffer view
    cdef uint8_t* at
    if _left(data, position) < V2_PREFIX_SIZE:
        raise_for_status(TRUNCATED, None, position, -1)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE | PyBUF_WRITABLE)
    at = <uint8_t*>view.buf + position
    put_i64(at, base_offset)
    put_i32(at + V2_LEADER_EPOCH_POSITION, leader_epoch)
    PyBuffer_Release(&view)


# Export the constants of layout.pxd to Python.
globals().update(
    LOG_OVERHEAD=LOG_OVERHEAD,
    HEADER_UP_TO_MAGIC=HEADER_UP_TO_MAGIC,
    V0_OVERHEAD=V0_OVERHEAD,
    V2_PREFIX_SIZE=V2_PREFIX_SIZE,
    V2_LEADER_EPOCH_POSITION=V2_LEADER_EPOCH_POSITION,
    V2_CRC_POSITION=V2_CRC_POSITION,
    V2_CRC_START=V2_CRC_START,
    V2_ATTRIBUTES_POSITION=V2_ATTRIBUTES_POSITION,
    V2_BASE_TIMESTAMP_POSITION=V2_BASE_TIMESTAMP_POSITION,
    V2_PRODUCER_EPOCH_POSITION=V2_PRODUCER_EPOCH_POSITION,
    V2_HEADER_SIZE=V2_HEADER_SIZE,
    SIZE_POSITION=SIZE_FIELD,
    CODEC_MASK=CODEC_MASK,
    TRANSACTIONAL_BIT=TRANSACTIONAL_BIT,
    CONTROL_BIT=CONTROL_BIT,
)
