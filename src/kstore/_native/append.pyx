"""The one door into a log: batches to the end of the active segment, then publish, then index.

The steady state (no roll, no flush due) is one call that holds the file descriptor, write(2)
included. What needs a decision calls back: `prepare` when the writer is not ready (closed,
parked, forked, failed), `roll` when the next batch does not fit.

Order is everything: bytes first, then the published end by assignment under the GIL, then the
index, which is a cache. An append that raises has not published: its bytes are cut off again.
Rules: Kafka's UnifiedLog.append, LogSegment.append and shouldRoll.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc

from kstore._native.batch cimport LeaderCheck, LeaderRules, validate_leader, validate_records
from kstore._native.clock cimport now_ms
from kstore._native.cursor cimport wrapping_add
from kstore._native.encode cimport BatchBuffer
from kstore._native.header cimport BatchHeader, crc_matches, read_header
from kstore._native.info cimport new_info
from kstore._native.layout cimport (
    CODEC_MASK, LOG_APPEND_TIME_BIT, OFFSET_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE,
    V2_HEADER_SIZE,
)
from kstore._native.locate cimport SegmentView
from kstore._native.lock cimport ReentrantLock
from kstore._native.record cimport Record
from kstore._native.stamp cimport restamp, stamp_prefix
from kstore._native.status cimport (
    BAD_CRC, BAD_OFFSET, MESSAGE_TOO_LARGE, OK, Status, raise_for_status,
)
from kstore._native.write cimport write_all

cdef enum:
    MAX_RELATIVE = 2147483647
    # Index entries go to their files in groups: a system call per entry would cost a tenth of
    # an append. Lookups in this process see an entry at once; others walk a little further.
    ENTRIES_PER_WRITE = 64
    # Checking fewer bytes than this takes less time than giving the GIL up and taking it back.
    GIL_THRESHOLD = 4096


cdef class Appender:
    """Appends to one log. Callers hold the log's lock where it is not said that a method takes it.

    Attributes that a log sets: where to write (`attach`), how (`configure`), and what to call.
    """

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
    cdef public object refuse_own           # (what is wrong, value, limit) -> raises
    cdef object decompress, recompress
    cdef bint key_required
    cdef int target_codec                   # compression.type, -1: the producer's
    cdef object files, path, info, clock, compress, to_ms
    cdef ReentrantLock lock
    cdef BatchBuffer buffer
    cdef int fd, index_fd, time_fd
    cdef bint native
    cdef int16_t codec
    cdef bint log_append_time
    cdef int64_t segment_bytes, roll_ms, index_interval, bytes_since_index
    cdef int64_t max_entries, max_times, max_message_bytes, batch_size, before_max_ms, after_max_ms
    cdef BatchHeader* rows
    cdef Py_ssize_t row_capacity

    def __cinit__(self, ReentrantLock lock not None, files, to_ms, path):
        """path: the log's directory, for errors."""
        self.lock = lock
        self.path = path
        self.info = tuple
        self.files = files
        self.native = files.native
        self.to_ms = to_ms
        self.buffer = BatchBuffer()
        self.fd = self.index_fd = self.time_fd = -1
        self.flush_at = 0x7FFFFFFFFFFFFFFF
        self.rolling_timestamp = -1

    def __dealloc__(self):
        free(self.rows)

    def configure(
        self, *, segment_bytes, roll_ms, index_interval_bytes, segment_index_bytes,
        max_message_bytes, batch_size, before_max_ms, after_max_ms, log_append_time,
        key_required, codec, target_codec, compress, decompress, recompress, clock,
    ):
        """Take over a log's settings. clock: None, or a callable that returns milliseconds."""
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
        self.compress, self.decompress = compress, decompress
        self.recompress = recompress
        self.clock = clock

    def answer_with(self, info):
        """Let appends of batches answer with this NamedTuple of four numbers."""
        if not issubclass(info, tuple):
            raise TypeError("answers are tuples")
        self.info = info

    def attach(self, SegmentView active not None, int fd, int index_fd, int time_fd):
        """Write to this segment from now on; its size and next offset are the log's end."""
        self.active = active
        self.next_offset = active.next_offset
        self.fd, self.index_fd, self.time_fd = fd, index_fd, time_fd
        # Kafka begins at 0; a log that is parked often would never get an entry by that.
        self.bytes_since_index = active.size - <int64_t>active.last_indexed_position(active.size)
        self.ready = True

    def reset(self, SegmentView active not None):
        """Continue at this segment's end, which may lie elsewhere than before; not yet writable."""
        self.detach()
        self.active = active
        self.next_offset = active.next_offset

    def make_ready(self):
        """Call `prepare` unless the appender may write as it is; the caller holds the lock."""
        if not self.ready:
            self.prepare()

    def detach(self):
        """Forget the files; the next append calls `prepare`."""
        self.ready = False
        self.fd = self.index_fd = self.time_fd = -1

    cdef int64_t _now(self) except? -1:
        return now_ms() if self.clock is None else <int64_t>self.clock()

    # --- this process's own records ----------------------------------------------------

    def append(self, value, *, key=None, headers=None, timestamp=None):
        """Append one record as one batch; return its offset. Takes the log's lock."""
        cdef int64_t offset
        cdef bint flush
        self.lock.take(True)
        try:
            if not self.ready:
                self.prepare()
            self.buffer.reset()
            self.buffer.put(value, key, headers, self._timestamp(timestamp))
            offset = self.next_offset
            self._append_buffer()
            offset = self.next_offset - 1
            flush = self.next_offset >= self.flush_at
        finally:
            self.lock.give()
        if flush:
            self.flush_due()
        return offset

    def append_values(self, list values, Py_ssize_t start, timestamp):
        """Append values from start as one batch of at most batch.size; return how many went in.

        The caller holds the lock. Each value is a bytes-like object or None.
        """
        cdef Py_ssize_t taken
        if not self.ready:
            self.prepare()
        self.buffer.reset()
        taken = self.buffer.put_values(values, start, self._timestamp(timestamp), self.batch_size)
        self._append_buffer()
        return taken

    def append_records(self, list records, Py_ssize_t start, timestamp):
        """As append_values, for a list that holds Records, perhaps among values."""
        cdef Py_ssize_t n = start
        cdef Py_ssize_t size
        cdef int64_t largest
        cdef int64_t when
        cdef int64_t fallback = self._timestamp(timestamp)
        if not self.ready:
            self.prepare()
        self.buffer.reset()
        while n < len(records):
            size = self.buffer.size
            largest = self.buffer.max_timestamp
            item = records[n]
            if type(item) is Record:
                when = fallback
                if item.timestamp >= 0:
                    when = item.timestamp
                    self._check_age(when)
                self.buffer.put(item.value, item.key, item.headers, when)
            else:
                self.buffer.put(item, None, None, fallback)
            if self.buffer.size > self.batch_size and n > start:
                self.buffer.size = size         # one too many: it begins the next batch
                self.buffer.max_timestamp = largest
                self.buffer.count -= 1
                break
            n += 1
        self._append_buffer()
        return n - start

    cdef int64_t _timestamp(self, timestamp) except? -1:
        cdef int64_t ms
        if timestamp is None:
            return self._now()
        ms = <int64_t>timestamp if type(timestamp) is int else <int64_t>self.to_ms(timestamp)
        if ms < 0:
            self.refuse_own("timestamp", ms, 0)
        self._check_age(ms)
        return ms

    cdef int _check_age(self, int64_t ms) except -1:
        cdef int64_t now
        if self.before_max_ms == INT64_MAX and self.after_max_ms == INT64_MAX:
            return 0
        now = self._now()
        if not self.log_append_time and (
            now - ms > self.before_max_ms or ms - now > self.after_max_ms
        ):
            self.refuse_own("age", ms, now)
        return 0

    cdef int _append_buffer(self) except -1:
        """Write the batch under construction: roll if due, seal, write, publish, index."""
        cdef BatchBuffer buffer = self.buffer
        cdef int16_t attributes = self.codec
        cdef int64_t last
        if self.codec != 0:
            buffer.replace_records(self.compress(self.codec, 2, buffer.records))
        if self.log_append_time:
            attributes |= LOG_APPEND_TIME_BIT
            buffer.max_timestamp = self._now()
        if buffer.size > self.max_message_bytes:
            self.refuse_own("batch", buffer.size, self.max_message_bytes)
        last = wrapping_add(self.next_offset, buffer.count - 1)
        self._make_room(buffer.size, self.next_offset, last, buffer.max_timestamp)
        buffer.seal(self.next_offset, self.leader_epoch, attributes)
        self._write(buffer.data, buffer.size, NULL, 0)
        self._publish(buffer.size, last, buffer.max_timestamp)
        return 0

    # --- a stranger's batches --------------------------------------------------------

    def append_as_leader(self, batch):
        """Check one whole v2 batch as Kafka's leader does, give it offsets, append it.

        Takes the log's lock once the checks are through. Nothing of the caller's bytes is
        changed: what the log must write into them goes into a header of its own. Returns an
        `info` of (first offset, last offset, largest timestamp, bytes); `refuse` raises.
        """
        cdef Py_buffer view
        cdef LeaderRules rules
        cdef LeaderCheck check
        cdef Status status
        if not self.ready:
            self.usable()
        PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
        try:
            self._rules(&rules)
            if view.len >= GIL_THRESHOLD:
                with nogil:
                    status = validate_leader(<const uint8_t*>view.buf, view.len, &rules, &check)
            else:
                status = validate_leader(<const uint8_t*>view.buf, view.len, &rules, &check)
            if status != OK or check.header.size != view.len or check.header.producer_id >= 0:
                self._refuse(status, &check, view.len)
            if check.header.attributes & CODEC_MASK or self.target_codec >= 0:
                return self._append_compressed(batch, &view, &rules, &check)
            return self._append_checked(<const uint8_t*>view.buf, view.len, &check)
        finally:
            PyBuffer_Release(&view)

    cdef int _rules(self, LeaderRules* rules) except -1:
        rules.now = self._now()
        rules.before_max = self.before_max_ms
        rules.after_max = self.after_max_ms
        rules.max_message_bytes = <int32_t>self.max_message_bytes
        rules.log_append_time = self.log_append_time
        rules.key_required = self.key_required
        rules.from_client = True
        return 0

    cdef int _refuse(self, Status status, LeaderCheck* check, Py_ssize_t size) except -1:
        """Call `refuse`, which raises."""
        self.refuse(
            <int>status, size, check.header.size, check.header.magic, check.bad_position,
            check.bad_record, check.header.producer_id)
        raise RuntimeError("a refused batch was not refused")

    cdef object _append_compressed(
        self, data, Py_buffer* view, LeaderRules* rules, LeaderCheck* check
    ):
        """As append_as_leader, for a batch whose records must be decompressed or compressed."""
        cdef int codec = check.header.attributes & CODEC_MASK
        cdef const uint8_t[::1] raw
        cdef const uint8_t[::1] rebuilt
        cdef Status status = OK
        records = memoryview(data).cast("B")[V2_HEADER_SIZE:]
        if codec:
            records = self.decompress(codec, 2, records)
            raw = records
            with nogil:
                status = validate_records(
                    &raw[0] if raw.shape[0] else NULL, raw.shape[0], rules, check)
            if status != OK:
                self._refuse(status, check, view.len)
        if self.target_codec < 0 or self.target_codec == codec:
            return self._append_checked(<const uint8_t*>view.buf, view.len, check)
        rebuilt = self.recompress(
            memoryview(data).cast("B")[:V2_HEADER_SIZE], records, self.target_codec)
        if rebuilt.shape[0] > self.max_message_bytes:
            self._refuse(MESSAGE_TOO_LARGE, check, rebuilt.shape[0])
        check.restamp = True
        check.header.attributes = (check.header.attributes & ~CODEC_MASK) | self.target_codec
        return self._append_checked(&rebuilt[0], rebuilt.shape[0], check)

    cdef object _append_checked(self, const uint8_t* data, Py_ssize_t size, LeaderCheck* check):
        cdef uint8_t[V2_HEADER_SIZE] head
        cdef Py_ssize_t split
        cdef int64_t first, last
        cdef int64_t delta = check.header.last_offset - check.header.base_offset
        cdef int16_t attributes = check.header.attributes & 0x7F & ~LOG_APPEND_TIME_BIT
        cdef bint flush
        if self.log_append_time:
            attributes |= LOG_APPEND_TIME_BIT
        self.lock.take(True)
        try:
            if not self.ready:
                self.prepare()
            last = wrapping_add(self.next_offset, delta)
            self._make_room(size, self.next_offset, last, check.max_timestamp)
            first = self.next_offset
            last = first + delta
            if check.restamp:
                split = V2_HEADER_SIZE
                restamp(
                    head, data, size, first, self.leader_epoch, attributes, check.max_timestamp)
            else:
                split = stamp_prefix(head, data, first, self.leader_epoch)
            self._write(head, split, data + split, size - split)
            self._publish(size, last, check.max_timestamp)
            flush = self.next_offset >= self.flush_at
        finally:
            self.lock.give()
        if flush:
            self.flush_due()
        return new_info(self.info, first, last, check.max_timestamp, size)

    def append_as_follower(self, batches):
        """Append whole batches as they are, offsets and epochs kept (a leader checked them).

        Takes the log's lock. Checked here: structure, CRC, that offsets increase from the
        log's end on. A cut batch at the end is left out, as Kafka does. Returns an `info` of
        (first offset, last offset, largest timestamp, bytes): -1 where there was no batch.
        """
        cdef bint flush
        if not self.ready:
            self.usable()
        self.lock.take(True)
        try:
            info = self._append_trusted(batches)
            flush = self.next_offset >= self.flush_at
        finally:
            self.lock.give()
        if flush:
            self.flush_due()
        return info

    cdef object _append_trusted(self, data):
        cdef Py_buffer view
        cdef Py_ssize_t n, count = 0, stop = 0
        cdef int64_t size = 0, largest = -1
        cdef Status status = OK
        if not self.ready:
            self.prepare()
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            count = self._scan(<const uint8_t*>view.buf, view.len, &status, &size)
            if status != OK:
                raise_for_status(status, self.path, size, self.rows[count].base_offset)
            if count == 0:
                return new_info(self.info, -1, -1, -1, 0)
            while stop < count:
                stop = self._append_run(<const uint8_t*>view.buf, stop, count)
        finally:
            PyBuffer_Release(&view)
        for n in range(count):
            largest = max(largest, self.rows[n].max_timestamp)
        return new_info(
            self.info, self.rows[0].base_offset, self.rows[count - 1].last_offset, largest, size)

    cdef Py_ssize_t _append_run(
        self, const uint8_t* data, Py_ssize_t start, Py_ssize_t count
    ) except -1:
        """Append the rows from start whose offsets fit one segment; returns the one after them."""
        cdef BatchHeader* row = &self.rows[start]
        cdef int64_t first = row.base_offset
        cdef int64_t position, size = 0, largest = -1
        cdef Py_ssize_t stop = start
        while stop < count and self.rows[stop].last_offset - first <= MAX_RELATIVE:
            size += self.rows[stop].size
            largest = max(largest, self.rows[stop].max_timestamp)
            stop += 1
        if row.magic < 2:               # a wrapper tells only its last offset
            first = self.rows[stop - 1].last_offset - MAX_RELATIVE
        self._make_room(size, first, self.rows[stop - 1].last_offset, largest)
        try:
            for row in self.rows[start:stop]:
                if row.leader_epoch > self.leader_epoch:
                    self.epoch_begins(row.leader_epoch, row.base_offset)
            self._write(data + self.rows[start].position, size, NULL, 0)
        except BaseException:
            self.ready, self.epochs_ahead = False, True
            raise
        # All that was written counts before anything can be interrupted; then it is indexed.
        position = self.active.size
        self._move_end(size, self.rows[stop - 1].last_offset)
        for row in self.rows[start:stop]:
            self._index(position, row.size, row.last_offset, row.max_timestamp)
            position += row.size
        return stop

    cdef Py_ssize_t _scan(
        self, const uint8_t* data, int64_t size, Status* status, int64_t* whole
    ) except -1:
        """Fill `rows`; returns how many whole batches there are and their bytes."""
        cdef Py_ssize_t count = 0
        cdef int64_t position = 0
        cdef int64_t expected = self.next_offset
        cdef BatchHeader* grown
        cdef BatchHeader* row
        cdef bint whole_batch
        while True:
            if count >= self.row_capacity:
                grown = <BatchHeader*>realloc(
                    self.rows, max(64, 2 * self.row_capacity) * sizeof(BatchHeader))
                if grown == NULL:
                    raise MemoryError
                self.rows = grown
                self.row_capacity = max(64, 2 * self.row_capacity)
            if position >= size:
                break
            status[0] = read_header(data, position, size, &self.rows[count])
            if status[0] != OK:
                if self.rows[count].size == 0 or position + self.rows[count].size > size:
                    status[0] = OK          # a cut batch at the end
                break
            row = &self.rows[count]
            if row.size >= GIL_THRESHOLD:
                with nogil:
                    whole_batch = crc_matches(data, row)
            else:
                whole_batch = crc_matches(data, row)
            if not whole_batch:
                status[0] = BAD_CRC
                break
            if (
                row.last_offset < expected
                or (row.magic == 2 and row.base_offset < expected)
                or row.last_offset < row.base_offset
                or row.last_offset == INT64_MAX     # no offset comes after it
                or row.base_offset < 0
            ):
                status[0] = BAD_OFFSET
                break
            expected = row.last_offset + 1
            position += row.size
            count += 1
        whole[0] = position
        return count

    # --- the steps all of them share ---------------------------------------------------

    cdef int _make_room(
        self, int64_t size, int64_t first, int64_t last, int64_t max_timestamp
    ) except -1:
        """Roll first if the batch does not fit (Kafka's LogSegment.shouldRoll)."""
        cdef int64_t held = self.active.size
        cdef int64_t waited
        cdef bint due
        if size > self.segment_bytes:
            self.refuse_own("segment", size, self.segment_bytes)
        if self.next_offset > INT64_MAX - <int64_t>MAX_RELATIVE:    # a batch may end beyond 2^63
            self.refuse_own("offset", self.next_offset, INT64_MAX - <int64_t>MAX_RELATIVE)
        due = (
            held > self.segment_bytes - size
            or self.active.entry_count >= self.max_entries
            or self.active.time_count >= self.max_times
            or last - self.active.base_offset > MAX_RELATIVE
        )
        if not due and held > 0 and self.roll_ms != 0x7FFFFFFFFFFFFFFF:
            if self.rolling_timestamp >= 0:
                waited = max_timestamp - self.rolling_timestamp
            else:
                waited = self._now() - self.created_ms
            due = waited > self.roll_ms
        if due:
            self.roll(first)
        if self.active.size == 0:
            self.rolling_timestamp = max_timestamp
        return 0

    cdef int _write(
        self, const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size
    ) except -1:
        """Put bytes at the end of the active file, or raise with the file as it was."""
        cdef int failure
        if not self.native:
            return self._write_by_files(a, a_size, b, b_size)
        with nogil:
            failure = write_all(self.fd, a, a_size, b, b_size)
        if failure:
            self._cut_back(failure)
        return 0

    cdef int _write_by_files(
        self, const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size
    ) except -1:
        try:
            parts = (<bytes>a[:a_size], <bytes>b[:b_size]) if b_size else (<bytes>a[:a_size],)
            self.files.write(self.fd, *parts)
        except BaseException:
            self._cut_back(0)
            raise
        return 0

    cdef int _cut_back(self, int failure) except -1:
        """Take the unpublished tail off again; if even that fails, nothing more is written."""
        try:
            self.files.truncate(self.fd, self.active.size)
        except BaseException:
            self.ready = False
            self.broken = True
            raise
        if failure:
            self.files.raise_errno(failure, self.active.path, self.active.size)
        return 0

    cdef int _publish(self, int64_t size, int64_t last, int64_t max_timestamp) except -1:
        """Make one written batch visible, then index it."""
        self._move_end(size, last)
        return self._index(self.active.size - size, size, last, max_timestamp)

    cdef inline void _move_end(self, int64_t size, int64_t last) noexcept:
        self.active.next_offset = self.next_offset = last + 1
        self.active.size += size

    cdef int _index(self, int64_t position, int64_t size, int64_t last, int64_t newest) except -1:
        """Note the largest timestamp, and an index entry where one is due; tell who waits."""
        cdef SegmentView active = self.active
        if newest > active.max_timestamp:
            active.max_timestamp = newest
            active.offset_of_max_timestamp = last
        if self.bytes_since_index > self.index_interval:
            active.add_entry(<int32_t>(last - active.base_offset), <int32_t>position)
            active.add_time(
                active.max_timestamp,
                <int32_t>(active.offset_of_max_timestamp - active.base_offset))
            self.bytes_since_index = 0
            if active.entry_count - active.entries_written >= ENTRIES_PER_WRITE:
                self.write_index()
        self.bytes_since_index += size
        if self.waiters > 0:
            self.wake()
        return 0

    def write_index(self):
        """Write index entries that are only in memory to their files. Returns whether all are.

        A failure is not the append's: the index is a cache, its entries stay in memory and are
        tried again; a log that could not write them does not close as clean.
        """
        cdef SegmentView active = self.active
        first, entries = active.pending_entries()
        first_time, times = active.pending_times()
        try:
            if entries:
                self.files.pwrite(self.index_fd, entries, first * OFFSET_INDEX_ENTRY_SIZE)
            if times:
                self.files.pwrite(self.time_fd, times, first_time * TIME_INDEX_ENTRY_SIZE)
        except OSError:
            return False
        active.entries_are_written(active.entry_count, active.time_count)
        return True
