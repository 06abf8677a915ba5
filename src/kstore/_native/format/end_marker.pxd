"""End markers of transactions, the control records COMMIT and ABORT: read and written here alone.

Layout: Kafka's ControlRecordType (the key: version, type) and EndTransactionMarker (the value:
version, coordinator epoch), KIP-98. As in Kafka, a version below 0 is invalid, and a field may be
longer than this version's.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t

from kstore._native.format.batch_header cimport BatchHeader
from kstore._native.format.cursor cimport (
    Cursor, get_i16, get_i32, put_i32, take_varint, take_varlong,
)
from kstore._native.format.layout cimport CODEC_MASK, LOG_APPEND_TIME_BIT, V2_HEADER_SIZE
from kstore._native.format.status cimport OK

cdef enum:
    ABORT = 0                           # types of control records
    COMMIT = 1
    OTHER = -1                          # of a newer Kafka, or invalid
    MARKER_KEY_SIZE = 4
    MARKER_VALUE_SIZE = 6
    END_MARKER_SIZE = 78                # of the batch


cdef struct Marker:
    int64_t producer_id
    int64_t timestamp
    int64_t offset
    int32_t coordinator_epoch
    int16_t epoch
    bint commit


cdef inline int control_type(const uint8_t* key, int64_t size) noexcept nogil:
    """ABORT, COMMIT or OTHER, by the key of a control record."""
    cdef int16_t kind
    if size < MARKER_KEY_SIZE or get_i16(key) < 0:
        return OTHER
    kind = get_i16(key + 2)
    return kind if kind == ABORT or kind == COMMIT else OTHER


cdef inline int read_end_marker(
    const uint8_t* data, const BatchHeader* batch, Marker* marker
) noexcept nogil:
    """ABORT or COMMIT, and the marker, for a control batch with one; OTHER for any other batch.

    A batch that the cleaner has emptied has none.
    """
    cdef Cursor at
    cdef int64_t timestamp_delta
    cdef int32_t size
    cdef int kind
    if batch.count < 1 or batch.attributes & CODEC_MASK:
        return OTHER
    at.position = data + batch.position + V2_HEADER_SIZE
    at.end = data + batch.position + batch.size
    if take_varint(&at, &size) != OK or size < 1 or size > at.end - at.position:
        return OTHER
    at.end = at.position + size
    at.position += 1                    # attributes: unused
    if take_varlong(&at, &timestamp_delta) != OK or take_varint(&at, &size) != OK:
        return OTHER
    if take_varint(&at, &size) != OK or size < 0 or size > at.end - at.position:
        return OTHER
    kind = control_type(at.position, size)
    if kind == OTHER:
        return OTHER
    at.position += size
    if take_varint(&at, &size) != OK or size < MARKER_VALUE_SIZE or size > at.end - at.position:
        return OTHER
    if get_i16(at.position) < 0:
        return OTHER
    marker.producer_id = batch.producer_id
    marker.epoch = batch.producer_epoch
    marker.offset = batch.base_offset
    marker.commit = kind == COMMIT
    marker.coordinator_epoch = get_i32(at.position + 2)
    marker.timestamp = batch.max_timestamp
    if not batch.attributes & LOG_APPEND_TIME_BIT:
        marker.timestamp = <int64_t>(<uint64_t>batch.base_timestamp + <uint64_t>timestamp_delta)
    return kind


cdef inline void write_end_marker(uint8_t* record, const Marker* marker) noexcept nogil:
    """Write the record of a marker's batch into zeros: END_MARKER_SIZE without the header."""
    record[0] = (END_MARKER_SIZE - V2_HEADER_SIZE - 1) * 2      # lengths are zigzag varints
    record[4] = MARKER_KEY_SIZE * 2     # version 0, type
    record[8] = COMMIT if marker.commit else ABORT
    record[9] = MARKER_VALUE_SIZE * 2   # version 0, coordinator epoch
    put_i32(record + 12, marker.coordinator_epoch)
