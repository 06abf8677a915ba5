"""The end of a log. Every kind of append rolls if due, writes, publishes and adds index entries.

The order matters: first the bytes, then the published end (by assignment under the GIL), then the
index, which is a cache. An append that raises has not published, and truncates its bytes. The
file of a prewritten log extends beyond the log end with zeros.
Rules: Kafka's UnifiedLog.append, LogSegment.append and shouldRoll.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint64_t

from kstore._native.append.clock cimport now_ms
from kstore._native.append.offset_and_time_index cimport (
    append_index_entry, is_entry_due, write_index_entries,
)
from kstore._native.append.producer_table cimport ProducerTable
from kstore._native.append.reentrant_lock cimport ReentrantLock
from kstore._native.append.roll_due cimport is_roll_due
from kstore._native.files.write_all cimport iovec, write_all
from kstore._native.format.layout cimport OFFSET_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE
from kstore._native.read.segment_view cimport SegmentView

cdef enum:
    # Before an append below LARGE_WRITE, zeros are written up to the next multiple of this. For
    # larger appends they would cost more than they save.
    ZEROS_STEP = 1 << 20
    LARGE_WRITE = 1 << 17


cdef class LogEnd:
    """The end of a log. The caller holds the log's lock, unless a method says it acquires it."""

    def __cinit__(self, ReentrantLock lock not None, files, to_ms, path):
        """path: the log's directory, for error messages."""
        self.lock = lock
        self.path = path
        self.info = tuple
        self.files = files
        self.producers = ProducerTable()
        self.native = files.native
        self.to_ms = to_ms
        self.fd = self.index_fd = self.time_fd = -1
        self.file_size = -1
        self.flush_at = 0x7FFFFFFFFFFFFFFF
        self.rolling_timestamp = -1

    def configure(
        self, *, segment_bytes, roll_ms, index_interval_bytes, segment_index_bytes,
        max_message_bytes, batch_size, before_max_ms, after_max_ms, log_append_time,
        key_required, codec, target_codec, message_magic, compress, decompress, recompress, clock,
    ):
        """Set the log's configuration. clock: None, or a callable that returns milliseconds."""
        self.segment_bytes = segment_bytes
        self.roll_ms = roll_ms
        self.index_interval = index_interval_bytes
        self.max_entries = segment_index_bytes // OFFSET_INDEX_ENTRY_SIZE
        self.max_times = segment_index_bytes // TIME_INDEX_ENTRY_SIZE - 1
        self.max_message_bytes = max_message_bytes
        self.batch_size = min(batch_size, max_message_bytes, segment_bytes)
        self.before_max_ms, self.after_max_ms = before_max_ms, after_max_ms
        self.log_append_time = log_append_time
        self.key_required = key_required
        self.codec, self.target_codec = codec, target_codec
        if self.message_magic != message_magic:
            self.message_magic = message_magic
            self.ready = False      # the first v2 batch may start a leader epoch
        self.keeps_client_batches = target_codec < 0 and message_magic == 2
        self.compress, self.decompress = compress, decompress
        self.recompress = recompress
        self.clock = clock

    def set_append_info_type(self, info):
        """Set the NamedTuple of four numbers that appends of batches return."""
        if not issubclass(info, tuple):
            raise TypeError("the type of append results is a tuple")
        self.info = info

    def attach(
        self, SegmentView active not None, int fd, int index_fd, int time_fd, int64_t file_size=-1
    ):
        """Write to this segment from now on; its size and next offset are the log end.

        With a file_size (the segment's size or more, zeros in between), appends write at
        positions and call `prewrite` for more zeros; else fd was opened with O_APPEND.
        """
        cdef SegmentView _released = self.active     # see FileMap
        self.active = active
        self.next_offset = active.next_offset
        self.fd, self.index_fd, self.time_fd = fd, index_fd, time_fd
        self.file_size = file_size
        # Kafka starts at 0; a log whose files are closed often would never get an entry.
        self.bytes_since_index = active.size - <int64_t>active.last_indexed(active.size)[1]
        self.ready = True

    def reset(self, SegmentView active not None):
        """Continue at the end of this segment; the next append calls `prepare`."""
        cdef SegmentView _released = self.active     # see FileMap
        self.detach()
        self.active = active
        self.next_offset = active.next_offset

    def relocate(self, files, path):
        """Use other files, in another directory, after the next `attach`."""
        self.detach()
        self.files, self.path, self.native = files, path, files.native

    def make_ready(self):
        """Call `prepare` unless the appender is ready; the caller holds the lock."""
        if not self.ready:
            self.prepare()

    def detach(self):
        """Drop the file descriptors; the next append calls `prepare`."""
        self.ready = False
        self.fd = self.index_fd = self.time_fd = -1
        self.file_size = -1

    cdef int64_t _to_record_timestamp(self, timestamp) except? -1:
        """A caller's timestamp in ms; `refuse_own` and `to_ms` raise."""
        cdef int64_t ms = int64_of(timestamp) if type(timestamp) is int else self.to_ms(timestamp)
        if <uint64_t>ms > <uint64_t>LAST_RECORD_TIMESTAMP:      # also if negative
            self.refuse_own("timestamp", timestamp, 0)
        return ms

    cdef int64_t _now(self) except? -1:
        return now_ms() if self.clock is None else <int64_t>self.clock()

    # --- steps of every append ---------------------------------------------------------

    cdef int _begin_append(self) except -1:
        """Start an append under the lock, which a signal handler may have acquired again."""
        if self.busy:
            self.refuse_own("within", self.next_offset, 0)
        if not self.ready:
            self.prepare()
        return 0

    cdef int _make_room(
        self, int64_t size, int64_t first, int64_t last, int64_t max_timestamp
    ) except -1:
        """Roll first if due."""
        cdef int64_t held = self.active.size
        if size > self.segment_bytes:
            self.refuse_own("segment", size, self.segment_bytes)
        if self.next_offset > INT64_MAX - <int64_t>MAX_RELATIVE:    # a batch may end beyond 2^63
            self.refuse_own("offset", self.next_offset, INT64_MAX - <int64_t>MAX_RELATIVE)
        if is_roll_due(self, size, last, max_timestamp, held, 0, self.rolling_timestamp):
            self.busy = True
            try:
                self.roll(first)
            finally:
                self.busy = False
        if self.active.size == 0:
            self.rolling_timestamp = max_timestamp
        return 0

    cdef int _write(
        self, const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size
    ) except -1:
        """Write a, then b, as _write_buffers does."""
        cdef iovec[2] buffers
        buffers[0].iov_base, buffers[0].iov_len = <void*>a, a_size
        buffers[1].iov_base, buffers[1].iov_len = <void*>b, b_size
        return self._write_buffers(buffers, 2 if b_size else 1, a_size + b_size)

    @cython.final
    cdef int _write_buffers(self, iovec* buffers, int count, size_t size) except -1:
        """Write bytes to the end of the active file; if that fails, truncate them and raise."""
        cdef int failure
        cdef int64_t position = -1
        cdef SegmentView active = self.active
        if self.file_size >= 0:
            position = self.active.size
            if position + <int64_t>size > self.file_size:
                self._extend_file(position + <int64_t>size, <int64_t>size)
                if self.active is not active or active.size != position:
                    self.refuse_own("within", self.next_offset, 0)
        if not self.native:
            return self._write_by_files(buffers, count)
        with nogil:
            failure = write_all(self.fd, buffers, count, size, position)
        if failure:
            self._truncate_unpublished(failure)
        return 0

    cdef int _extend_file(self, int64_t end, int64_t size) except -1:
        """Extend file_size to the end of an append; before a small one, prewrite zeros.

        Writes no zeros if `prewrite` is None, or returns False for lack of disk space.
        """
        cdef int64_t target = end
        cdef int64_t start = self.file_size
        if size < LARGE_WRITE and self.prewrite is not None:
            target = min((end // ZEROS_STEP + 1) * ZEROS_STEP, max(end, self.segment_bytes))
            self.busy = True
            try:
                if not self.prewrite(start, target):
                    target = end
            except BaseException:
                self._truncate_unpublished(0)
                raise
            finally:
                self.busy = False
        self.file_size = target
        return 0

    cdef int _write_by_files(self, const iovec* buffers, int count) except -1:
        cdef int n
        try:
            parts = [
                PyBytes_FromStringAndSize(<char*>buffers[n].iov_base, buffers[n].iov_len)
                for n in range(count)
            ]
            if self.file_size < 0:
                self.files.write(self.fd, *parts)
            else:
                self.files.pwrite(self.fd, b"".join(parts), self.active.size)
        except BaseException:
            self._truncate_unpublished(0)
            raise
        return 0

    cdef int _truncate_unpublished(self, int failure) except -1:
        """Truncate the unpublished tail; if that fails, the log accepts no more appends.

        Truncates prewritten zeros, too: after the log end, the file may have only zeros.
        """
        try:
            self.files.truncate(self.fd, self.active.size)
            if self.file_size >= 0:
                self.file_size = self.active.size
        except BaseException:
            self.ready = False
            self.broken = True
            raise
        if failure:
            self.files.raise_errno(failure, self.active.path, self.active.size)
        return 0

    cdef int _publish(self, int64_t size, int64_t last, int64_t max_timestamp) except -1:
        """Publish a written batch, then add its index entries."""
        self._advance_end(size, last)
        return self._index(self.active.size - size, size, last, max_timestamp)

    cdef void _advance_end(self, int64_t size, int64_t last) noexcept:
        self.active.next_offset = self.next_offset = last + 1
        self.active.size += size

    cdef int _index(self, int64_t position, int64_t size, int64_t last, int64_t newest) except -1:
        """Update the largest timestamp, add an index entry if due, and notify waiters."""
        cdef SegmentView active = self.active
        cdef bint group_is_due
        if newest > active.max_timestamp:
            active.max_timestamp = newest
            active.offset_of_max_timestamp = last
        if is_entry_due(self.bytes_since_index, self.index_interval):
            group_is_due = append_index_entry(active, position, last)
            self.bytes_since_index = 0
            if group_is_due:
                self.write_index()
        self.bytes_since_index += size
        if self.waiters > 0:
            self.wake()
        return 0

    def write_index(self):
        """Write pending index entries to their files. Returns whether all are written.

        A failure does not fail the append: the index is a cache. The entries stay in memory for
        the next attempt; a log with unwritten entries does not close as clean.
        """
        if self.on_index_write is not None:
            self.on_index_write()
            if self.index_fd < 0:       # it found that the log's files no longer exist
                return False
        return write_index_entries(self.active, self.files, self.index_fd, self.time_fd)
