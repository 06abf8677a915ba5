"""The end of a log, where every append of any kind ends: what one needs to write and to publish.

Attributes that a log sets: where to write (`attach`), how (`configure`), and what to call.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from kstore._native.append.producer_table cimport ProducerTable
from kstore._native.append.reentrant_lock cimport ReentrantLock
from kstore._native.read.segment_view cimport SegmentView


cdef enum:
    MAX_RELATIVE = 2147483647

# The end of the year 9999: kstore.record.timestamp says why.
cdef extern from *:
    """
    #define KSTORE_LAST_RECORD_TIMESTAMP 253402300799999LL
    """
    const int64_t LAST_RECORD_TIMESTAMP "KSTORE_LAST_RECORD_TIMESTAMP"

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) noexcept


cdef inline int64_t int64_of(number) noexcept:
    """An int's value; -1 where it takes more than 64 bits."""
    cdef int overflow
    return PyLong_AsLongLongAndOverflow(number, &overflow)


cdef class LogEnd:
    cdef readonly SegmentView active
    cdef readonly int64_t next_offset
    cdef public int32_t leader_epoch
    cdef public bint ready                  # False: `prepare` must run before anything is written
    cdef readonly bint broken               # bytes beyond the published end could not be cut off
    cdef public bint epochs_ahead           # epochs were begun for an append that then failed
    cdef public int64_t flush_at            # `flush_due` is called once next_offset reaches this
    cdef public int64_t rolling_timestamp   # largest timestamp of the segment's first append, or -1
    cdef public int64_t created_ms          # when this process opened the segment
    cdef public int waiters                 # followers asleep; `wake` is called if there are any
    cdef public object usable               # raises if nothing may be written
    cdef public object prepare, roll, flush_due, wake, epoch_begins
    # (status, size, declared size, magic, bad position, bad record, producer id) -> raises
    cdef public object refuse
    # (verdict, producer id, epoch, sequence, known epoch, known sequence) -> raises
    cdef public object refuse_producer
    cdef public object aborted              # called when a transaction was aborted: write its entry
    cdef public object on_index_write       # before index entries go to their files; must not raise
    cdef public object refuse_own           # (what is wrong, value, limit) -> raises
    cdef object decompress, recompress
    cdef bint key_required
    cdef int target_codec                   # compression.type, -1: the producer's
    cdef int message_magic                  # message.format.version: 0, 1 or 2
    cdef bint as_is                         # what a client sends as v2 keeps format and codec
    cdef object files, path, info, clock, compress, to_ms
    cdef ReentrantLock lock
    cdef public ProducerTable producers
    cdef public object prewrite             # (from, to): put zeros into this part of the file
    cdef int fd, index_fd, time_fd
    # Up to where the file reaches that is written at positions, over zeros; -1: it just grows.
    cdef readonly int64_t file_size
    cdef bint native
    cdef bint busy                          # Python runs in an append: no other one begins in it
    cdef int16_t codec
    cdef bint log_append_time
    cdef public int64_t batch_size          # bytes of a batch of this process, uncompressed
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
    cdef int _write_by_files(
        self, const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size
    ) except -1
    cdef int _enter(self) except -1
    cdef int _reach(self, int64_t end, int64_t size) except -1
    cdef int _cut_back(self, int failure) except -1
    cdef int _publish(self, int64_t size, int64_t last, int64_t max_timestamp) except -1
    cdef void _move_end(self, int64_t size, int64_t last) noexcept
    cdef int _index(self, int64_t position, int64_t size, int64_t last, int64_t newest) except -1
