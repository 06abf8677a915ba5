"""Blocks of decoded rows and the scanner that fills them, for other kernels."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from kstore._native.format.batch_header cimport BatchHeader
from kstore._native.format.record cimport Record
from kstore._native.format.record_rows cimport Rows
from kstore._native.format.status cimport Status
from kstore._native.read.aborted_transactions cimport AbortedRange, AbortedRanges


cdef enum Event:
    AT_END          # the end of the bytes, or of the wanted offsets
    FULL            # the next batch belongs in another block
    COMPRESSED      # the batch must be decompressed first
    TAIL            # the bytes end inside a batch
    NEEDS_ABORTED   # the list of aborted transactions must be loaded first
    DAMAGED


cdef struct Scan:
    const uint8_t* data
    int64_t position        # of the next batch
    int64_t end
    int64_t start_offset    # records below are dropped
    int64_t stop_offset     # records at or above are dropped
    Status status           # of the last event
    bint check_crc
    bint control            # return control batches as well
    bint in_arena           # the rows so far point into decompressed bytes
    bint done               # stop_offset was reached
    int64_t next_offset     # batches are in order and end below it; INT64_MIN: not checked
    int64_t last_offset     # of the previous batch; INT64_MIN before the first
    int64_t skipped_position    # of the previous batch if it was below start_offset, else -1
    bint read_committed     # skip batches of aborted transactions
    bint has_aborted        # aborted and aborted_count are loaded
    const AbortedRange* aborted
    Py_ssize_t aborted_count
    BatchHeader batch       # the last one read


cdef class Block:
    cdef Rows rows
    cdef readonly object data


cdef class Scanner:
    cdef Scan scan
    cdef Py_buffer view
    cdef object source
    cdef int64_t row_target     # a block or list is complete once it has that many rows
    cdef bint values_only
    cdef bint skip_damage
    cdef bint tail_is_damage
    cdef readonly list skipped
    cdef readonly int64_t position_base
    cdef object path
    cdef object decompress
    cdef object find_aborted
    cdef AbortedRanges aborted  # keeps scan.aborted alive

    cpdef close(self)
    cdef object _decompress(self)
    cdef int _load_aborted(self) except -1
    cdef int _handle_damage(self, Status status, object error) except -1
    cdef int _fill_decompressed(self, object decompressed, int64_t shift, Block block) except -1
    cdef Event _next_event(self, Block block, int64_t target, bint unlock) except? DAMAGED


cdef class RecordScan:
    cdef Scanner scanner
    cdef Block block            # rows of one batch
    cdef int64_t row            # of the next record
    cdef uint8_t* memory        # copy of the bytes that the rows point into
    cdef const uint8_t* end
    cdef int64_t shift          # position of memory[0], as the rows count
    cdef int64_t room
    cdef object timestamp       # of the previous record, as a Python int
    cdef object no_headers
    cdef int64_t last           # and as a C int
    cdef int32_t leader_epoch
    cdef int8_t kind            # of timestamp
    cdef bint filling

    cdef bint fill(self) except -1
    cdef int keep_decompressed(self, object decompressed) except -1
    cdef int keep(self, const uint8_t* data, int64_t size, int64_t position) except -1
    cdef Record make(self)
