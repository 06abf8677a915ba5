"""Bounded reads and writes: a cursor never passes its end, even for corrupt bytes.

No other code advances a pointer by a value from a file.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from kstore._native.format.status cimport Status, OK, TRUNCATED, MALFORMED_VARINT


cdef extern from * nogil:
    """
    #define KSTORE_BE16(x) __builtin_bswap16(x)
    #define KSTORE_BE32(x) __builtin_bswap32(x)
    #define KSTORE_BE64(x) __builtin_bswap64(x)
    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "kstore is built for little-endian machines only"
    #endif
    """
    uint16_t KSTORE_BE16(uint16_t) noexcept
    uint32_t KSTORE_BE32(uint32_t) noexcept
    uint64_t KSTORE_BE64(uint64_t) noexcept


cdef struct Cursor:
    const uint8_t* position
    const uint8_t* end


cdef inline int64_t wrapping_add(int64_t a, int64_t b) noexcept nogil:
    """a + b, which may overflow for a corrupt or very large offset; the caller checks it."""
    return <int64_t>(<uint64_t>a + <uint64_t>b)


# --- fixed-size integers at a pointer that the caller has checked --------------------------

cdef inline int16_t get_i16(const uint8_t* at) noexcept nogil:
    cdef uint16_t raw
    memcpy(&raw, at, 2)
    return <int16_t>KSTORE_BE16(raw)


cdef inline uint32_t get_u32(const uint8_t* at) noexcept nogil:
    cdef uint32_t raw
    memcpy(&raw, at, 4)
    return KSTORE_BE32(raw)


cdef inline int32_t get_i32(const uint8_t* at) noexcept nogil:
    return <int32_t>get_u32(at)


cdef inline int64_t get_i64(const uint8_t* at) noexcept nogil:
    cdef uint64_t raw
    memcpy(&raw, at, 8)
    return <int64_t>KSTORE_BE64(raw)


cdef inline void put_i16(uint8_t* at, int16_t value) noexcept nogil:
    cdef uint16_t raw = KSTORE_BE16(<uint16_t>value)
    memcpy(at, &raw, 2)


cdef inline void put_u32(uint8_t* at, uint32_t value) noexcept nogil:
    cdef uint32_t raw = KSTORE_BE32(value)
    memcpy(at, &raw, 4)


cdef inline void put_i32(uint8_t* at, int32_t value) noexcept nogil:
    put_u32(at, <uint32_t>value)


cdef inline void put_i64(uint8_t* at, int64_t value) noexcept nogil:
    cdef uint64_t raw = KSTORE_BE64(<uint64_t>value)
    memcpy(at, &raw, 8)


# --- varints, through a cursor -----------------------------------------------------------

cdef inline Status take_varlong_slow(Cursor* cursor, int64_t* out) noexcept nogil:
    """Zig-zag varint of at most ten bytes; more is malformed."""
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while cursor.position < cursor.end:
        byte = cursor.position[0]
        cursor.position += 1
        if shift == 63 and byte > 1:
            return MALFORMED_VARINT
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = <int64_t>((value >> 1) ^ (0 - (value & 1)))
            return OK
        shift += 7
        if shift > 63:
            return MALFORMED_VARINT
    return TRUNCATED


cdef inline Status take_varlong(Cursor* cursor, int64_t* out) noexcept nogil:
    # The slow path uses copies: a cursor whose address is passed on cannot stay in registers.
    cdef Cursor copy
    cdef int64_t value = 0
    cdef uint64_t byte, next_byte
    cdef Status status
    if cursor.end - cursor.position >= 2:  # nearly always one or two bytes
        byte = cursor.position[0]
        if byte < 0x80:
            cursor.position += 1
            out[0] = <int64_t>((byte >> 1) ^ (0 - (byte & 1)))
            return OK
        next_byte = cursor.position[1]
        if next_byte < 0x80:
            cursor.position += 2
            byte = (byte & 0x7F) | (next_byte << 7)
            out[0] = <int64_t>((byte >> 1) ^ (0 - (byte & 1)))
            return OK
    copy = cursor[0]
    status = take_varlong_slow(&copy, &value)
    cursor[0] = copy
    out[0] = value
    return status


cdef inline Status take_varint_slow(Cursor* cursor, int32_t* out) noexcept nogil:
    """Zig-zag varint of at most five bytes and 32 bits."""
    cdef uint32_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while cursor.position < cursor.end:
        byte = cursor.position[0]
        cursor.position += 1
        if shift == 28 and byte > 0x0F:
            return MALFORMED_VARINT
        value |= <uint32_t>(byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = <int32_t>((value >> 1) ^ (0 - (value & 1)))
            return OK
        shift += 7
        if shift > 28:
            return MALFORMED_VARINT
    return TRUNCATED


cdef inline Status take_varint(Cursor* cursor, int32_t* out) noexcept nogil:
    cdef Cursor copy
    cdef int32_t value = 0
    cdef uint32_t byte, next_byte
    cdef Status status
    if cursor.end - cursor.position >= 2:
        byte = cursor.position[0]
        if byte < 0x80:
            cursor.position += 1
            out[0] = <int32_t>((byte >> 1) ^ (0 - (byte & 1)))
            return OK
        next_byte = cursor.position[1]
        if next_byte < 0x80:
            cursor.position += 2
            byte = (byte & 0x7F) | (next_byte << 7)
            out[0] = <int32_t>((byte >> 1) ^ (0 - (byte & 1)))
            return OK
    copy = cursor[0]
    status = take_varint_slow(&copy, &value)
    cursor[0] = copy
    out[0] = value
    return status


cdef inline uint8_t* put_varint(uint8_t* at, int64_t value) noexcept nogil:
    """Write a zig-zag varint, up to ten bytes; returns the next position."""
    cdef uint64_t zigzag = (<uint64_t>value << 1) ^ (0 - (<uint64_t>value >> 63))
    while zigzag >= 0x80:
        at[0] = <uint8_t>(zigzag | 0x80)
        at += 1
        zigzag >>= 7
    at[0] = <uint8_t>zigzag
    return at + 1
