"""Appends consecutive client batches of one log with one write.

A run takes only batches that a leader appends as they are, at once: uncompressed, not
transactional, valid, new, in sequence, and in the active segment. `BatchAppender` handles all
others, after the run's batches are written, and raises their errors: `add` has no effect on them.
The rules are those of `BatchAppender.append_validated`.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int16_t, int32_t, int64_t, uint8_t

from kstore._native.append.batch_appender cimport BatchAppender
from kstore._native.append.log_end cimport MAX_RELATIVE
from kstore._native.append.producer_table cimport ACCEPTED, KeptBatch
from kstore._native.append.roll_due cimport is_roll_due
from kstore._native.append.stamp_batch cimport restamp, stamp_prefix
from kstore._native.append.validate_batch cimport validate_leader
from kstore._native.files.write_all cimport iovec
from kstore._native.format.batch_header cimport BatchHeader
from kstore._native.format.layout cimport (
    CODEC_MASK, CONTROL_BIT, LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT, V2_HEADER_SIZE,
)
from kstore._native.format.status cimport OK, Status

cdef enum:
    # To verify fewer bytes takes less time than to release and reacquire the GIL.
    GIL_THRESHOLD = 4096


cdef inline int32_t sequence_after(const BatchHeader* header) noexcept:
    """The base sequence of the batch that follows; sequences wrap from 2^31 - 1 to 0."""
    cdef int64_t after = <int64_t>header.base_sequence + header.count
    return <int32_t>(after & INT32_MAX)


cdef class BatchRun:
    """`begin`, `add` and `write` as often as needed, `end`. The log's lock is held in between."""

    cdef bint begin(self, BatchAppender to) except -1:
        """Lock a log and prepare it; False, without any effect, if it cannot append at once.

        Raises the error of a log that cannot be written.
        """
        if to.busy or not to.native or not to.keeps_client_batches:
            return False
        to._rules(&self.rules)
        if not to.lock.acquire_native(False):
            return False
        try:
            if not to.ready:
                to._begin_append()
        except BaseException:
            to.lock.release_native()
            raise
        if to.flush_at != INT64_MAX:                # an append may have to sync
            to.lock.release_native()
            return False
        self.to = to
        self.count = 0
        self.size = 0
        self.next_offset = to.next_offset
        return True

    cdef RunBatch* add(self, const uint8_t* data, int64_t size) except? NULL:
        """Add a batch; NULL, without any effect, if the run does not take it.

        The bytes must not change until `write`; offsets are assigned now. An empty run may take a
        batch that a longer one refuses.
        """
        cdef RunBatch* batch = &self.batches[self.count % MAX_RUN_BATCHES]
        cdef Status status
        cdef BatchHeader* header = &batch.check.header
        if self.count == MAX_RUN_BATCHES:
            return NULL
        if size >= GIL_THRESHOLD:
            with nogil:
                status = validate_leader(data, size, &self.rules, &batch.check)
        else:
            status = validate_leader(data, size, &self.rules, &batch.check)
        if status != OK or header.size != size or (
            header.attributes & (CODEC_MASK | CONTROL_BIT | TRANSACTIONAL_BIT)
        ):
            return NULL
        if self.next_offset > INT64_MAX - <int64_t>MAX_RELATIVE:
            return NULL
        batch.data = data
        batch.first = self.next_offset
        batch.last = self.next_offset + header.count - 1
        if not self._fits(batch):
            return NULL
        if header.producer_id >= 0 and not self._is_in_sequence(header):
            return NULL
        self.next_offset = batch.last + 1
        self.size += size
        self.count += 1
        return batch

    cdef bint _fits(self, RunBatch* batch) except -1:
        """Whether the active segment takes the batch after those of the run."""
        cdef BatchAppender to = self.to
        cdef int64_t held = to.active.size
        cdef int64_t rolling_timestamp = to.rolling_timestamp
        if held == 0 and self.count:
            rolling_timestamp = self.batches[0].check.max_timestamp
        return not is_roll_due(
            to, batch.check.header.size, batch.last, batch.check.max_timestamp,
            held + self.size, self.count, rolling_timestamp)

    cdef bint _is_in_sequence(self, const BatchHeader* header) noexcept:
        """Whether an idempotent producer's batch is its next one.

        The producer table does not have the run's batches yet, so the run is searched first.
        """
        cdef const BatchHeader* other
        cdef const KeptBatch* kept = NULL
        cdef int n
        for n in range(self.count - 1, -1, -1):
            other = &self.batches[n].check.header
            if other.producer_id == header.producer_id:
                return (
                    other.producer_epoch == header.producer_epoch
                    and header.base_sequence == sequence_after(other)
                )
        return self.to.producers.check_batch(header, True, &kept) == ACCEPTED

    cdef int write(self) except -1:
        """Write and publish the run's batches, and empty the run.

        Unless `is_published` is True afterwards, none of them is in the log: the write failed, or
        the log has become unusable since `begin`.
        """
        cdef BatchAppender to = self.to
        cdef iovec[2 * MAX_RUN_BATCHES] buffers
        cdef RunBatch* batch
        cdef int64_t position = to.active.size
        cdef int64_t size = self.size
        cdef int count = self.count
        cdef int n, split
        cdef int from_producers = 0
        self.count = 0
        self.size = 0
        self.is_published = False
        if to.busy or not to.ready:
            return 0
        for n in range(count):
            batch = &self.batches[n]
            split = self._stamp(batch)
            from_producers += batch.check.header.producer_id >= 0
            buffers[2 * n].iov_base, buffers[2 * n].iov_len = batch.head, split
            buffers[2 * n + 1].iov_base = <void*>(batch.data + split)
            buffers[2 * n + 1].iov_len = batch.check.header.size - split
        to.producers.reserve(from_producers)
        if position == 0:
            to.rolling_timestamp = self.batches[0].check.max_timestamp
        to._write_buffers(buffers, 2 * count, size)
        # Publish and update producers before anything can raise; then add index entries.
        self.is_published = True
        for n in range(count):
            batch = &self.batches[n]
            to._advance_end(batch.check.header.size, batch.last)
            if batch.check.header.producer_id >= 0:
                to.producers.add_batch(
                    &batch.check.header, batch.first, batch.last, batch.check.max_timestamp)
        for n in range(count):
            batch = &self.batches[n]
            to._index(
                position, batch.check.header.size, batch.last, batch.check.max_timestamp)
            position += batch.check.header.size
        return 0

    cdef int _stamp(self, RunBatch* batch) noexcept:
        """Make the first bytes of the batch as the log stores them; returns how many."""
        cdef BatchAppender to = self.to
        cdef int16_t attributes = batch.check.header.attributes & 0x7F & ~LOG_APPEND_TIME_BIT
        if not batch.check.restamp:
            return <int>stamp_prefix(batch.head, batch.data, batch.first, to.leader_epoch)
        if to.log_append_time:
            attributes |= LOG_APPEND_TIME_BIT
        restamp(
            batch.head, batch.data, batch.check.header.size, batch.first, to.leader_epoch,
            attributes, batch.check.max_timestamp)
        return V2_HEADER_SIZE

    cdef int end(self) except -1:
        """Release the log's lock; batches that were not written are dropped."""
        cdef BatchAppender to = self.to
        self.to = None
        self.count = 0
        self.size = 0
        to.lock.release_native()
        return 0
