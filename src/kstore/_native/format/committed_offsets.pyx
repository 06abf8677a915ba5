"""Sorts the commits of ``__consumer_offsets`` by group, without decoding their keys."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp

from kstore._native.format.argument cimport (
    HeldBytes, HeldColumn, hold_bytes, hold_strided_int32s, hold_strided_int64s, int32_at, int64_at,
)
from kstore._native.format.ascii_text cimport is_ascii
from kstore._native.format.cursor cimport get_i16

cdef enum:
    FIXED = 10  # bytes of a key beside the names: version, two lengths, partition


cdef int32_t _group_length(const uint8_t* key, int32_t size) noexcept nogil:
    """Of a complete key of version 1 with ASCII names; -1 for all others."""
    cdef int32_t group, topic
    if size < FIXED or get_i16(key) != 1:
        return -1
    group = get_i16(key + 2)
    if group < 0 or group > size - FIXED:
        return -1
    topic = get_i16(key + 4 + group)
    if topic != size - FIXED - group:
        return -1
    if not (is_ascii(key + 4, group) and is_ascii(key + 6 + group, topic)):
        return -1
    return group


cdef inline const uint8_t* _row(
    HeldBytes view, HeldColumn starts, Py_ssize_t row, int32_t size
) except NULL:
    cdef int64_t start = int64_at(starts, row)
    if start < 0 or start > view.size or size > view.size - start:
        raise ValueError(f"row {row} is outside the data")
    return view.data + start


def sort_commits(
    data, key_positions, key_lengths, value_positions, value_lengths, dict groups
):
    cdef HeldColumn keys = hold_strided_int64s(key_positions, "key_positions")
    cdef HeldColumn key_sizes = hold_strided_int32s(key_lengths, "key_lengths")
    cdef HeldColumn values = hold_strided_int64s(value_positions, "value_positions")
    cdef HeldColumn value_sizes = hold_strided_int32s(value_lengths, "value_lengths")
    cdef HeldBytes view
    cdef Py_ssize_t n, count = keys.count
    cdef int32_t size, length, last_length = -1
    cdef const uint8_t* key
    cdef const uint8_t* last = NULL  # the group of the row before
    cdef dict commits = None
    cdef list others = []
    cdef str name
    if not (count == key_sizes.count == values.count == value_sizes.count):
        raise ValueError("the arrays differ in length")
    view = hold_bytes(data)
    for n in range(count):
        size = int32_at(key_sizes, n)
        if size < 0:
            continue
        key = _row(view, keys, n, size)
        if size >= 2 and get_i16(key) == 0:
            return None
        length = _group_length(key, size)
        if length < 0:
            others.append(n)
            continue
        if length != last_length or memcmp(key + 4, last, length) != 0:
            name = PyUnicode_DecodeASCII(<const char*>key + 4, length, NULL)
            commits = groups.get(name)
            if commits is None:
                commits = groups[name] = {}
            last, last_length = key + 4, length
        raw = PyBytes_FromStringAndSize(<const char*>key, size)
        size = int32_at(value_sizes, n)
        if size < 0:
            commits[raw] = None
        else:
            commits[raw] = PyBytes_FromStringAndSize(
                <const char*>_row(view, values, n, size), size
            )
    return others
