"""The end of a log: what every kind of append needs to write and to publish.

A log sets where to write (`attach`), how (`configure`), and the callbacks.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kstore._native.append.producer_table cimport ProducerTable
from kstore._native.append.reentrant_lock cimport ReentrantLock
from kstore._native.files.write_all cimport iovec
from kstore._native.read.segment_view cimport SegmentView


cdef enum:
    MAX_RELATIVE = 2147483647

# The end of the year 9999; see kstore.record.timestamp.
cdef extern from *:
    """
    #define KSTORE_LAST_RECORD_TIMESTAMP 253402300799999LL
    """
    const int64_t LAST_RECORD_TIMESTAMP "KSTORE_LAST_RECORD_TIMESTAMP"

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) noexcept


cdef inline int64_t int64_of(number) noexcept:
    """An int's value; -1 if it exceeds 64 bits."""
    cdef int overflow
    return PyLong_AsLongLongAndOverflow(number, &overflow)


cdef class LogEnd:
    cdef readonly SegmentView active
    cdef readonly int64_t next_offset
    cdef public int32_t leader_epoch
    cdef public bint ready                  # False: call `prepare` before the next write
    cdef readonly bint broken               # truncation to the published end failed
    cdef public bint epochs_ahead           # a failed append has added leader epochs
    cdef public int64_t flush_at            # call `flush_due` once next_offset reaches this
    cdef public int64_t rolling_timestamp   # largest timestamp of the segment's first append, or -1
    cdef public int64_t created_ms          # when this process opened the segment
    cdef public int waiters                 # waiting readers; call `wake` if above 0
    cdef public object usable               # raises if the log may not be written to
    cdef public object prepare, roll, flush_due, wake, epoch_begins
    # (status, size, declared size, magic, bad position, bad record, refused batch) -> raises
    cdef public object refuse
    # (verdict, producer id, epoch, sequence, known epoch, known sequence) -> raises
    cdef public object refuse_producer
    cdef public object aborted              # called after an abort marker: write its entry
    cdef public object on_index_write       # before index entries go to their files; must not raise
    cdef public object refuse_own           # (what is wrong, value, limit) -> raises
    cdef object decompress, recompress
    cdef bint key_required
    cdef int target_codec                   # compression.type; -1: producer
    cdef int message_magic                  # message.format.version: 0, 1 or 2
    cdef bint keeps_client_batches          # v2 client batches keep their format and codec
    cdef object files, path, info, clock, compress, to_ms
    cdef ReentrantLock lock
    cdef public ProducerTable producers
    cdef public object prewrite             # (from, to): write zeros to this range of the file
    cdef int fd, index_fd, time_fd
    # Size of a prewritten file, where appends overwrite zeros; -1: appends extend the file.
    cdef readonly int64_t file_size
    cdef bint native
    cdef bint busy                          # an append is in a callback: it may not append
    cdef int16_t codec
    cdef bint log_append_time
    cdef public int64_t batch_size          # batch.size: of this process's batches, uncompressed
    cdef int64_t segment_bytes, roll_ms, index_interval, bytes_since_index
    cdef int64_t max_entries, max_times, max_message_bytes, before_max_ms, after_max_ms

    cdef int64_t _now(self) except? -1
    cdef int64_t _to_record_timestamp(self, timestamp) except? -1
    cdef int _make_room(
        self, int64_t size, int64_t first, int64_t last, int64_t max_timestamp
    ) except -1
    cdef int _write(
        self, const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size
    ) except -1
    cdef int _write_buffers(self, iovec* buffers, int count, size_t size) except -1
    cdef int _write_by_files(self, const iovec* buffers, int count) except -1
    cdef int _begin_append(self) except -1
    cdef int _extend_file(self, int64_t end, int64_t size) except -1
    cdef int _truncate_unpublished(self, int failure) except -1
    cdef int _publish(self, int64_t size, int64_t last, int64_t max_timestamp) except -1
    cdef void _advance_end(self, int64_t size, int64_t last) noexcept
    cdef int _index(self, int64_t position, int64_t size, int64_t last, int64_t newest) except -1
