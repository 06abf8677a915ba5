"""Addresses of the kernels' C functions, by symbol, for compiled loops, which cannot import.

A symbol includes a version: machine code in a user's cache calls it by name, so a published
signature never changes; a new signature gets a new name.
"""

from libc.stdint cimport int64_t, uint8_t, uintptr_t

from kstore._native.format.batch_header cimport BatchHeader, crc_matches, read_header
from kstore._native.format.crc cimport crc32c
from kstore._native.format.cursor cimport Cursor
from kstore._native.format.layout cimport (
    CODEC_MASK, OFFSET_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE, V2_HEADER_SIZE,
)
from kstore._native.format.murmur2 cimport murmur2
from kstore._native.format.record_span cimport RecordSpan, parse_record
from kstore._native.format.status cimport OK, TRUNCATED, BAD_CODEC, BAD_MAGIC, Status
from kstore._native.index.index_lookup cimport offset_position, time_offset, used_offset_entries
from kstore._native.index.index_lookup cimport used_time_entries


cdef inline Py_ssize_t within(int64_t count, int64_t size, int64_t entry_size) noexcept nogil:
    cdef int64_t available = size // entry_size
    return <Py_ssize_t>(count if 0 <= count <= available else available)


cdef int64_t index_lookup(
    const uint8_t* entries, int64_t size, int64_t count, int64_t base_offset, int64_t offset
) noexcept nogil:
    return offset_position(
        entries, within(count, size, OFFSET_INDEX_ENTRY_SIZE), base_offset, offset
    )


cdef int64_t time_lookup(
    const uint8_t* entries, int64_t size, int64_t count, int64_t base_offset, int64_t timestamp
) noexcept nogil:
    return time_offset(
        entries, within(count, size, TIME_INDEX_ENTRY_SIZE), base_offset, timestamp
    )


cdef int64_t index_count(const uint8_t* entries, int64_t size) noexcept nogil:
    return used_offset_entries(entries, size // OFFSET_INDEX_ENTRY_SIZE)


cdef int64_t time_index_count(const uint8_t* entries, int64_t size) noexcept nogil:
    return used_time_entries(entries, size // TIME_INDEX_ENTRY_SIZE)


cdef Status header_at(
    const uint8_t* data, int64_t size, int64_t position, BatchHeader* header
) noexcept nogil:
    if position < 0 or position > size:
        return TRUNCATED
    return read_header(data, position, size, header)


cdef int64_t next_frame(
    const uint8_t* data, int64_t size, int64_t position, int64_t* out
) noexcept nogil:
    """Writes nine fields; after an error, the end is the position and the others are -1."""
    cdef BatchHeader header
    cdef Status status = header_at(data, size, position, &header)
    cdef int n
    if status != OK:
        out[0] = position
        for n in range(1, 9):
            out[n] = -1
        return status
    out[0] = position + header.size
    out[1] = header.base_offset
    out[2] = header.last_offset
    out[3] = header.count
    out[4] = header.base_timestamp
    out[5] = header.max_timestamp
    out[6] = header.magic
    out[7] = header.attributes
    out[8] = header.leader_epoch
    return OK


cdef int64_t crc_ok(const uint8_t* data, int64_t size, int64_t position) noexcept nogil:
    cdef BatchHeader header
    return header_at(data, size, position, &header) == OK and crc_matches(data, &header)


cdef int64_t next_record(
    const uint8_t* data, int64_t size, int64_t position, int64_t end, int64_t magic,
    int64_t attributes, int64_t* out,
) noexcept nogil:
    """Writes seven fields of the record at position, in an uncompressed v2 batch up to end."""
    cdef Cursor cursor
    cdef RecordSpan span
    cdef Status status
    cdef int n
    out[0] = position
    for n in range(1, 7):
        out[n] = -1
    if magic != 2:
        return BAD_MAGIC
    if attributes & CODEC_MASK:
        return BAD_CODEC
    if position < V2_HEADER_SIZE or end > size or position >= end:
        return TRUNCATED
    cursor.position = data + position
    cursor.end = data + end
    status = parse_record(&cursor, &span)
    if status != OK:
        return status
    out[0] = cursor.position - data
    out[1] = span.offset_delta
    out[2] = span.timestamp_delta
    out[3] = span.key - data if span.key_size >= 0 else -1
    out[4] = span.key_size
    out[5] = span.value - data if span.value_size >= 0 else -1
    out[6] = span.value_size
    return OK


cdef int64_t key_hash(
    const uint8_t* data, int64_t size, int64_t position, int64_t length
) noexcept nogil:
    if length < 0 or position < 0 or position > size - length:
        return 0
    return murmur2(data + position, length)


cdef int64_t checksum(
    const uint8_t* data, int64_t size, int64_t position, int64_t length
) noexcept nogil:
    """CRC-32C, or -1 for a range outside the data."""
    if length < 0 or position < 0 or position > size - length:
        return -1
    return crc32c(0, data + position, <size_t>length)


def addresses():
    """Symbol -> address in this process."""
    return {
        "kstore_index_lookup_1": <uintptr_t>&index_lookup,
        "kstore_time_lookup_1": <uintptr_t>&time_lookup,
        "kstore_index_count_1": <uintptr_t>&index_count,
        "kstore_time_index_count_1": <uintptr_t>&time_index_count,
        "kstore_next_frame_1": <uintptr_t>&next_frame,
        "kstore_crc_ok_1": <uintptr_t>&crc_ok,
        "kstore_next_record_1": <uintptr_t>&next_record,
        "kstore_key_hash_1": <uintptr_t>&key_hash,
        "kstore_crc32c_1": <uintptr_t>&checksum,
    }
