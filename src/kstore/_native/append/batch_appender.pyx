"""Appends client batches: a leader validates them and assigns offsets, a follower keeps the
leader's offsets.

The log stores the client's bytes, except for offset and leader epoch (and, where Kafka does it,
too, timestamp type and largest timestamp). A batch in another format than
message.format.version, or with another codec than compression.type, is rebuilt.
Rules: Kafka's LogValidator and UnifiedLog.append.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT16_MAX, INT32_MAX, INT64_MAX, int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from kstore._native.append.append_info cimport new_info
from kstore._native.append.log_end cimport MAX_RELATIVE, LogEnd
from kstore._native.append.producer_table cimport (
    ACCEPTED, BATCHES_KEPT, DUPLICATE, FENCED, KeptBatch, Producer, Verdict,
)
from kstore._native.append.stamp_batch cimport restamp, stamp_prefix
from kstore._native.append.validate_batch cimport (
    LeaderCheck, LeaderRules, validate_leader, validate_records,
)
from kstore._native.append.validate_messages cimport (
    MessageCheck, check_messages, check_wrapped, stamp_messages,
)
from kstore._native.format.argument cimport HeldBytes, hold_bytes
from kstore._native.format.batch_header cimport BatchHeader, crc_matches, read_header, write_header
from kstore._native.format.cursor cimport wrapping_add
from kstore._native.format.end_marker cimport END_MARKER_SIZE, Marker, write_end_marker
from kstore._native.format.integer cimport integer_of
from kstore._native.format.layout cimport (
    CODEC_MASK, CONTROL_BIT, DELETE_HORIZON_BIT, LOG_APPEND_TIME_BIT, MAGIC_POSITION,
    TRANSACTIONAL_BIT, V2_HEADER_SIZE,
)
from kstore._native.format.status cimport (
    BAD_CRC, BAD_OFFSET, CONTROL_BATCH, MESSAGE_TOO_LARGE, OK, UNSUPPORTED_BY_FORMAT, Status,
    raise_for_status,
)

from kstore._native.format.converter import Converter

cdef enum:
    # To verify fewer bytes takes less time than to release and reacquire the GIL.
    GIL_THRESHOLD = 4096


cdef tuple refused_batch(data, bint claims_append_time, const LeaderRules* rules):
    """The fields of kstore.log.record_errors.RefusedBatch."""
    return (
        data, claims_append_time, rules.now, rules.before_max, rules.after_max,
        bool(rules.log_append_time), bool(rules.key_required))


cdef class BatchAppender(LogEnd):
    """Appends client batches to a log."""

    def __dealloc__(self):
        free(self.rows)

    cdef object append_validated(self, batch, bint client, bint may_flush):
        """Validate one complete v2 batch, or v0 or v1 messages, as Kafka's leader does, assign
        offsets, and append.

        Acquires the log's lock after validation. Does not change the caller's bytes: it writes
        a header of its own, and rebuilds a batch that needs another format or codec. Returns an
        `info` of (first offset, last offset, largest timestamp, bytes); `refuse` and
        `refuse_producer` raise. For a producer's duplicate batch, returns the offsets of the
        original, and 0 bytes.

        Without `client`, the batch is from this process's own coordinator: only the producer's
        epoch is checked, not the sequence (transactional offset commits have none). Without
        `may_flush`, the caller sees to the sync that `flush.messages` asks for.
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
            rules.from_client, rules.may_flush = client, may_flush
            if view.len > MAGIC_POSITION and (<const uint8_t*>view.buf)[MAGIC_POSITION] < 2:
                return self._append_messages(batch, &view, &rules)
            if view.len >= GIL_THRESHOLD:
                with nogil:
                    status = validate_leader(<const uint8_t*>view.buf, view.len, &rules, &check)
            else:
                status = validate_leader(<const uint8_t*>view.buf, view.len, &rules, &check)
            if status == OK and check.header.attributes & CONTROL_BIT:
                status = CONTROL_BATCH
            if not self.keeps_client_batches:
                return self._append_changed(batch, &view, &rules, &check, status)
            if status != OK or check.header.size != view.len:
                self._refuse(status, &check, view.len, batch, &rules)
            if check.header.attributes & CODEC_MASK:
                return self._append_compressed(batch, &view, &rules, &check)
            return self._append_checked(<const uint8_t*>view.buf, view.len, &check, &rules)
        finally:
            PyBuffer_Release(&view)

    cdef int _rules(self, LeaderRules* rules) except -1:
        rules.now = self._now()
        rules.before_max = self.before_max_ms
        rules.after_max = self.after_max_ms
        rules.max_message_bytes = <int32_t>self.max_message_bytes
        rules.log_append_time = self.log_append_time
        rules.key_required = self.key_required
        rules.from_client = rules.may_flush = True
        return 0

    cdef int _refuse(
        self, Status status, LeaderCheck* check, Py_ssize_t size, data, LeaderRules* rules
    ) except -1:
        """Call `refuse`, which must raise."""
        cdef bint claims_append_time = check.header.attributes & LOG_APPEND_TIME_BIT
        self.refuse(
            <int>status, size, check.header.size, check.header.magic, check.bad_position,
            check.bad_record, refused_batch(data, claims_append_time, rules))
        raise RuntimeError("the callback did not raise")

    cdef object _append_changed(
        self, batch, Py_buffer* view, LeaderRules* rules, LeaderCheck* check, Status status
    ):
        """As append_validated, for a topic with a compression.type or an old message format."""
        cdef int codec = check.header.attributes & CODEC_MASK
        if self.message_magic < 2 and check.header.crc_state == 1 and (
            check.header.producer_id >= 0 or check.header.attributes & TRANSACTIONAL_BIT
        ) and (status == OK or check.bad_record >= 0):
            status = UNSUPPORTED_BY_FORMAT  # Kafka checks this before the records
            check.bad_position = check.bad_record = -1
        if status != OK or check.header.size != view.len:
            self._refuse(status, check, view.len, batch, rules)
        if self.message_magic == 2:
            return self._append_compressed(batch, view, rules, check)
        if codec:
            self._decompress(batch, view.len, rules, check)
        return self._append_rewritten(
            batch, self.target_codec if self.target_codec >= 0 else codec, rules, NULL)

    cdef object _append_compressed(
        self, data, Py_buffer* view, LeaderRules* rules, LeaderCheck* check
    ):
        """As append_validated, for a batch whose records must be decompressed or compressed."""
        cdef int codec = check.header.attributes & CODEC_MASK
        cdef HeldBytes rebuilt
        if codec:
            records = self._decompress(data, view.len, rules, check)
        else:
            records = memoryview(data).cast("B")[V2_HEADER_SIZE:]
        if self.target_codec < 0 or self.target_codec == codec:
            return self._append_checked(<const uint8_t*>view.buf, view.len, check, rules)
        if check.header.attributes & (LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT):
            # Header and records differ in timestamps: rebuild the records.
            rebuilt = hold_bytes(
                self._converter(data, self.target_codec).rebuild(0, -1, None))
        else:
            rebuilt = hold_bytes(self.recompress(
                memoryview(data).cast("B")[:V2_HEADER_SIZE], records, self.target_codec))
        if rebuilt.size > self.max_message_bytes:
            self._refuse(MESSAGE_TOO_LARGE, check, rebuilt.size, data, rules)
        check.restamp = True
        check.header.attributes = (
            check.header.attributes & TRANSACTIONAL_BIT) | self.target_codec
        return self._append_checked(rebuilt.data, rebuilt.size, check, rules)

    cdef object _decompress(
        self, data, Py_ssize_t size, LeaderRules* rules, LeaderCheck* check
    ):
        """Decompress and validate the records of a v2 batch."""
        cdef HeldBytes raw
        cdef Status status
        records = self.decompress(
            check.header.attributes & CODEC_MASK, 2, memoryview(data).cast("B")[V2_HEADER_SIZE:])
        raw = hold_bytes(records)
        with nogil:
            status = validate_records(raw.data, raw.size, rules, check)
        if status != OK:
            self._refuse(status, check, size, data, rules)
        return records

    cdef object _append_messages(self, messages, Py_buffer* view, LeaderRules* rules):
        """As append_validated, for v0 and v1 messages; skips an incomplete one at the end."""
        cdef MessageCheck check
        cdef Status status
        cdef int codec
        cdef bint stamp_only
        with nogil:
            status = check_messages(<const uint8_t*>view.buf, view.len, rules, &check)
        if status != OK:
            self._refuse_messages(status, &check, view.len, messages, rules)
        if check.codec:
            self._check_wrapper(messages, rules, &check)
        if check.count == 0:
            return new_info(self.info, -1, -1, -1, 0)
        codec = self.target_codec if self.target_codec >= 0 else check.codec
        stamp_only = check.first.magic == self.message_magic and codec == check.codec and (
            codec == 0 or (check.in_order and check.first.magic == 1))
        return self._append_rewritten(
            memoryview(messages).cast("B")[:check.size], codec, rules,
            &check if stamp_only else NULL)

    cdef int _check_wrapper(self, data, LeaderRules* rules, MessageCheck* check) except -1:
        """Validate the messages inside a wrapper."""
        cdef HeldBytes raw
        cdef Status status
        raw = hold_bytes(self.decompress(
            check.codec, check.first.magic,
            memoryview(data).cast("B")[
                check.compressed_position:check.compressed_position + check.compressed_size]))
        with nogil:
            status = check_wrapped(raw.data, raw.size, rules, check)
        if status != OK:
            self._refuse_messages(status, check, check.size, data, rules)
        return 0

    cdef int _refuse_messages(
        self, Status status, MessageCheck* check, Py_ssize_t size, data, LeaderRules* rules
    ) except -1:
        """Call `refuse`, which must raise."""
        cdef HeldBytes held = hold_bytes(data)
        cdef BatchHeader message = check.first
        cdef int64_t position = 0
        if check.bad_record >= 0 and not check.codec:   # each message is a batch
            position = check.bad_position
            read_header(held.data, position, held.size, &message)
        self.refuse(
            <int>status, size, check.size, check.first.magic, check.bad_position,
            check.bad_record, refused_batch(
                memoryview(data).cast("B")[position:],
                message.attributes & LOG_APPEND_TIME_BIT != 0, rules))
        raise RuntimeError("the callback did not raise")

    cdef object _rebuild_and_append(self, batches, int codec, int64_t now):
        """Append validated batches, rebuilt in the topic's format; the caller holds the lock."""
        rebuilt = self._converter(batches, codec).rebuild(
            self.next_offset, self.leader_epoch, now if self.log_append_time else None)
        return self._append_trusted(rebuilt, True)

    cdef object _converter(self, batches, int codec):
        return Converter(
            batches, self.message_magic, codec=codec, decompress=self.decompress,
            compress=self.compress)

    cdef object _append_rewritten(
        self, batches, int codec, LeaderRules* rules, MessageCheck* stamp_only
    ):
        """Append validated batches, rebuilt with this codec; or, with stamp_only, messages with
        new offsets and timestamps only. Acquires the log's lock."""
        cdef bytes data
        cdef bint flush
        self.lock.acquire_native(True)
        try:
            if self.busy or not self.ready:
                self._begin_append()
            if stamp_only == NULL:
                info = self._rebuild_and_append(batches, codec, rules.now)
            else:
                data = bytes(batches)
                stamp_messages(<uint8_t*>data, stamp_only, self.next_offset, rules)
                info = self._append_trusted(data, True)
            flush = rules.may_flush and self.next_offset >= self.flush_at
        finally:
            self.lock.release_native()
        if flush:
            self.flush_due()
        return info

    cdef object _append_checked(
        self, const uint8_t* data, Py_ssize_t size, LeaderCheck* check, const LeaderRules* rules
    ):
        cdef bint flush
        answer = None
        self.lock.acquire_native(True)
        try:
            if self.busy or not self.ready:
                self._begin_append()
            if check.header.producer_id >= 0:
                answer = self._check_producer(check, rules.from_client)
            if answer is None:
                answer = self._append_stamped(data, size, check)
            # A duplicate, too: its first copy may be waiting for the sync.
            flush = rules.may_flush and self.next_offset >= self.flush_at
        finally:
            self.lock.release_native()
        if flush:
            self.flush_due()
        return answer

    cdef object _append_stamped(self, const uint8_t* data, Py_ssize_t size, LeaderCheck* check):
        """Append a validated batch at the log end; the caller holds the lock."""
        cdef uint8_t[V2_HEADER_SIZE] head
        cdef Py_ssize_t split
        cdef int64_t first, last
        cdef int64_t delta = check.header.last_offset - check.header.base_offset
        cdef int16_t attributes = check.header.attributes & 0x7F & ~LOG_APPEND_TIME_BIT
        if self.log_append_time:
            attributes |= LOG_APPEND_TIME_BIT
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
        # Publish and update the producer before anything can raise; then add index entries.
        self._advance_end(size, last)
        if check.header.producer_id >= 0:
            self.producers.add_batch(&check.header, first, last, check.max_timestamp)
        self._index(self.active.size - size, size, last, check.max_timestamp)
        return new_info(self.info, first, last, check.max_timestamp, size)

    cdef object _check_producer(self, LeaderCheck* check, bint client):
        """None if the producer may append this batch; the result for a duplicate; else raise."""
        cdef const KeptBatch* kept = NULL
        cdef Verdict verdict = self.producers.check_batch(&check.header, client, &kept)
        if verdict == DUPLICATE:
            return new_info(
                self.info, kept.last_offset - kept.offset_delta, kept.last_offset,
                kept.timestamp, 0)
        if verdict != ACCEPTED:
            self._refuse_producer(
                verdict, check.header.producer_id, check.header.producer_epoch,
                check.header.base_sequence)
        self.producers.reserve(1)
        return None

    cdef int _refuse_producer(
        self, Verdict verdict, int64_t producer_id, int epoch, int sequence
    ) except -1:
        """Call `refuse_producer`, which must raise."""
        cdef Producer* known = self.producers.find(producer_id)
        cdef int last = -1
        if known.kept > 0:
            last = known.batches[(known.oldest + known.kept - 1) % BATCHES_KEPT].last_sequence
        if verdict == FENCED:
            last = known.coordinator_epoch
        self.refuse_producer(<int>verdict, producer_id, epoch, sequence, known.epoch, last)
        raise RuntimeError("the callback did not raise")

    cdef object append_marker(
        self, producer_id, producer_epoch, bint commit, coordinator_epoch, transaction_version,
        timestamp,
    ):
        """Append the control batch that ends a transaction, for a coordinator.

        `timestamp` in ms; now if it is -1 or the topic has LogAppendTime.

        Acquires the log's lock. Returns an `info` as append_validated; `refuse_producer` raises.
        """
        cdef uint8_t[END_MARKER_SIZE] batch
        cdef BatchHeader header
        cdef Marker marker
        cdef Verdict verdict
        cdef bint flush
        cdef int64_t when = -1 if timestamp == -1 else self._to_record_timestamp(timestamp)
        cdef int version = <int>integer_of(
            "transaction_version", transaction_version, 0, INT16_MAX)
        marker.producer_id = integer_of("producer_id", producer_id, 0, INT64_MAX)
        marker.epoch = <int16_t>integer_of("producer_epoch", producer_epoch, 0, INT16_MAX)
        marker.coordinator_epoch = <int32_t>integer_of(
            "coordinator_epoch", coordinator_epoch, 0, INT32_MAX)
        marker.commit = commit
        if self.message_magic < 2:
            self.refuse(
                <int>UNSUPPORTED_BY_FORMAT, END_MARKER_SIZE, END_MARKER_SIZE, 2, -1, -1, None)
        self.lock.acquire_native(True)
        try:
            if self.busy or not self.ready:
                self._begin_append()
            verdict = self.producers.check_marker(&marker, version)
            if verdict != ACCEPTED:
                self._refuse_producer(
                    verdict, marker.producer_id, marker.epoch, marker.coordinator_epoch)
            self.producers.reserve(1)
            marker.timestamp = when
            if when < 0 or self.log_append_time:
                marker.timestamp = self._now()
            self._make_room(
                END_MARKER_SIZE, self.next_offset, self.next_offset, marker.timestamp)
            self._end_marker(batch, &header, &marker)
            self._write(batch, END_MARKER_SIZE, NULL, 0)
            self._advance_end(END_MARKER_SIZE, marker.offset)
            aborts = self.producers.add_marker(&marker)
            self._index(
                self.active.size - END_MARKER_SIZE, END_MARKER_SIZE, marker.offset,
                marker.timestamp)
            if aborts:
                self.aborted()
            flush = self.next_offset >= self.flush_at
        finally:
            self.lock.release_native()
        if flush:
            self.flush_due()
        return new_info(
            self.info, marker.offset, marker.offset, marker.timestamp, END_MARKER_SIZE)

    cdef void _end_marker(self, uint8_t* batch, BatchHeader* header, Marker* marker) noexcept:
        """Build the batch of one end marker at the log end (EndTransactionMarker, KIP-98)."""
        memset(batch, 0, END_MARKER_SIZE)
        marker.offset = self.next_offset
        header.base_offset = header.last_offset = marker.offset
        header.size = END_MARKER_SIZE
        header.leader_epoch = self.leader_epoch
        header.attributes = TRANSACTIONAL_BIT | CONTROL_BIT
        if self.log_append_time:
            header.attributes |= LOG_APPEND_TIME_BIT
        header.base_timestamp = header.max_timestamp = marker.timestamp
        header.producer_id, header.producer_epoch = marker.producer_id, marker.epoch
        header.base_sequence, header.count = -1, 1
        write_end_marker(batch + V2_HEADER_SIZE, marker)
        write_header(batch, header)

    cdef object append_unchanged(self, batches):
        """Append complete batches unchanged, with their offsets and epochs (from a leader).

        Acquires the log's lock. Checks structure, CRC, and that offsets increase from the log
        end. Skips an incomplete batch at the end, as Kafka does. Returns an `info` of (first
        offset, last offset, largest timestamp, bytes), with -1 if there was no batch.
        """
        cdef bint flush
        if not self.ready:
            self.usable()
        self.lock.acquire_native(True)
        try:
            info = self._append_trusted(batches, False)
            flush = self.next_offset >= self.flush_at
        finally:
            self.lock.release_native()
        if flush:
            self.flush_due()
        return info

    cdef object _append_trusted(self, data, bint is_own):
        """Append complete batches that have their offsets; is_own: this log assigned them."""
        cdef Py_buffer view
        cdef Py_ssize_t n, count = 0, stop = 0
        cdef int64_t size = 0, largest = -1, first
        cdef Status status = OK
        if self.busy or not self.ready:
            self._begin_append()
        first = self.next_offset
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            count = self._scan(<const uint8_t*>view.buf, view.len, &status, &size)
            if status != OK:
                raise_for_status(status, self.path, size, self.rows[count].base_offset)
            if count == 0:
                return new_info(self.info, -1, -1, -1, 0)
            for n in range(count):
                if is_own and self.rows[n].size > self.max_message_bytes:
                    self.refuse_own("batch", self.rows[n].size, self.max_message_bytes)
            while stop < count:
                stop = self._append_run(<const uint8_t*>view.buf, stop, count)
        finally:
            PyBuffer_Release(&view)
        for n in range(count):
            largest = max(largest, self.rows[n].max_timestamp)
        return new_info(
            self.info, first if is_own else self.rows[0].base_offset,
            self.rows[count - 1].last_offset, largest, size)

    cdef Py_ssize_t _append_run(
        self, const uint8_t* data, Py_ssize_t start, Py_ssize_t count
    ) except -1:
        """Append the rows from start that fit in one segment; returns the index after them."""
        cdef BatchHeader* row = &self.rows[start]
        cdef int64_t first = row.base_offset
        cdef int64_t position, size = 0, largest = -1
        cdef Py_ssize_t stop = start
        cdef bint aborts = False
        while stop < count and self.rows[stop].last_offset - first <= MAX_RELATIVE:
            size += self.rows[stop].size
            largest = max(largest, self.rows[stop].max_timestamp)
            stop += 1
        if row.magic < 2:               # a wrapper has only its last offset
            first = self.rows[stop - 1].last_offset - MAX_RELATIVE
        self._make_room(size, first, self.rows[stop - 1].last_offset, largest)
        self.producers.reserve(stop - start)
        try:
            for row in self.rows[start:stop]:
                if row.leader_epoch != self.leader_epoch and row.magic == 2 and (
                    row.leader_epoch >= 0
                ):
                    self.epoch_begins(row.leader_epoch, row.base_offset)
            self._write(data + self.rows[start].position, size, NULL, 0)
        except BaseException:
            self.ready, self.epochs_ahead = False, True
            raise
        # Publish and update producers before anything can raise; then add index entries.
        position = self.active.size
        self._advance_end(size, self.rows[stop - 1].last_offset)
        for row in self.rows[start:stop]:
            aborts |= self.producers.add_replicated(data, row)
        for row in self.rows[start:stop]:
            self._index(position, row.size, row.last_offset, row.max_timestamp)
            position += row.size
        if aborts:
            self.aborted()
        return stop

    cdef Py_ssize_t _scan(
        self, const uint8_t* data, int64_t size, Status* status, int64_t* complete_size
    ) except -1:
        """Fill `rows` with the headers of complete batches; returns their number."""
        cdef Py_ssize_t count = 0
        cdef int64_t position = 0
        cdef int64_t expected = self.next_offset
        cdef BatchHeader* grown
        cdef BatchHeader* row
        cdef bint is_intact
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
                    status[0] = OK          # an incomplete batch at the end
                break
            row = &self.rows[count]
            if row.size >= GIL_THRESHOLD:
                with nogil:
                    is_intact = crc_matches(data, row)
            else:
                is_intact = crc_matches(data, row)
            if not is_intact:
                status[0] = BAD_CRC
                break
            if (
                row.last_offset < expected
                or (row.magic == 2 and row.base_offset < expected)
                or row.last_offset < row.base_offset
                or row.last_offset == INT64_MAX     # the next offset would overflow
                or row.base_offset < 0
            ):
                status[0] = BAD_OFFSET
                break
            expected = row.last_offset + 1
            position += row.size
            count += 1
        complete_size[0] = position
        return count
