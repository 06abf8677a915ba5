"""Converts batches to another magic or codec: batch by batch, merged, or all into one.

record_rows.pxd reads, batch_assembly.pxd writes. One loop converts uncompressed batches without the
GIL; Python callables (de)compress the others.

Rules: Kafka's RecordsUtil.downConvert, MemoryRecords.filterTo (4.0 and later: messages become
batches), LogValidator (rebuilding) and MemoryRecordsBuilder.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from kstore._native.format.argument cimport HeldBytes, hold_bytes
from kstore._native.format.batch_assembly cimport (
    MAX_BATCH_SIZE, RECORD_SLACK, Bytes, Group, Refusal, clear_producer, fill_group_header,
    open_group, put_rows, put_wrapper, reserve, NO_REFUSAL, TOO_LARGE, ILLEGAL_TIMESTAMP,
    ILLEGAL_OFFSET, FAR_OFFSET, HEADERS, TRANSACTION, PRODUCER, CONTROL, SEVERAL, ZSTANDARD,
)
from kstore._native.format.batch_header cimport BatchHeader, crc_matches, read_header, write_header
from kstore._native.format.layout cimport *
from kstore._native.format.legacy_message cimport parse_legacy
from kstore._native.format.record_rows cimport Rows, fill_legacy, fill_v2, fill_wrapped
from kstore._native.format.record_span cimport RecordSpan
from kstore._native.format.status cimport (
    Status, OK, BAD_CODEC, BAD_CRC, BAD_LENGTH, BAD_OFFSET, raise_for_status, raise_named,
)

cdef extern from "Python.h":
    int PyBUF_READ

cdef int64_t INT64_MIN = -0x7FFFFFFFFFFFFFFF - 1
cdef enum:
    ZSTD = 4

_REFUSALS = {
    TOO_LARGE: ("MessageTooLargeError", "a batch is at most 2147483647 bytes"),
    ILLEGAL_TIMESTAMP: ("InvalidTimestampError", "a record's timestamp is below -1 (none)"),
    ILLEGAL_OFFSET: (
        "InvalidRecordError",
        "the offsets of a wrapper's messages, and those that a leader assigns, are 0 or more",
    ),
    FAR_OFFSET: (
        "InvalidRecordError", "the offsets are too far apart for one v2 batch",
    ),
    HEADERS: (
        "UnsupportedForMessageFormatError", "messages v0 and v1 cannot carry record headers",
    ),
    TRANSACTION: (
        "UnsupportedForMessageFormatError", "messages v0 and v1 cannot be part of a transaction",
    ),
    PRODUCER: (
        "UnsupportedForMessageFormatError",
        "messages v0 and v1 cannot carry an idempotent producer's id",
    ),
    CONTROL: ("InvalidRecordError", "a control batch cannot be rebuilt"),
    SEVERAL: ("InvalidRecordError", "a batch with a producer id cannot be merged with others"),
    ZSTANDARD: (
        "UnsupportedCompressionTypeError", "messages v0 and v1 cannot be compressed with zstd",
    ),
}


cdef enum Event:
    AT_END
    COMPRESSED      # the batch must be decompressed, compressed, or both
    DAMAGED
    REFUSED


cdef enum Action:
    KEEP
    DROP
    CONVERT


@cython.final
cdef class Converter:
    """One conversion: call convert(), merge() or rebuild() once."""

    cdef Py_buffer view
    cdef object source
    cdef object decompress
    cdef object compress
    cdef int64_t position, end
    cdef int magic
    cdef int codec              # -1: each batch keeps its own
    cdef bint keep_lower        # do not convert batches of a lower magic
    cdef bint keep_smaller      # keep a batch that the codec would make larger
    cdef int64_t first_offset
    cdef BatchHeader batch      # the one at position
    cdef BatchHeader first      # for rebuild: the first batch, whose producer fields remain
    cdef Status status
    cdef Group group
    cdef Rows rows
    cdef Bytes out
    cdef Bytes inner            # records to compress
    cdef readonly int64_t kept_count    # batches kept because they would grow
    cdef readonly int64_t merged_count  # batches merged into their predecessor

    def __cinit__(
        self, batches, int magic, *, int codec=-1, bint keep_lower=False,
        bint keep_smaller=False, int64_t first_offset=INT64_MIN, decompress=None, compress=None,
    ):
        if not 0 <= magic <= 2:
            raise ValueError(f"magic is 0, 1 or 2, not {magic}")
        if magic < 2 and codec == ZSTD:
            name, sentence = _REFUSALS[ZSTANDARD]
            raise_named(name, sentence)
        PyObject_GetBuffer(batches, &self.view, PyBUF_SIMPLE)
        self.source = batches       # from here on, __dealloc__ releases the view
        self.end = self.view.len
        self.magic = magic
        self.codec = codec
        self.keep_lower = keep_lower
        self.keep_smaller = keep_smaller and codec > 0
        self.first_offset = first_offset
        self.decompress = decompress
        self.compress = compress
        self.group.magic = magic

    def __dealloc__(self):
        if self.source is not None:
            PyBuffer_Release(&self.view)
        free(self.rows.memory)
        free(self.out.data)
        free(self.inner.data)

    # --- shared steps ---------------------------------------------------------------------

    cdef const uint8_t* data(self) noexcept nogil:
        return <const uint8_t*>self.view.buf

    cdef Status read_batch(self) noexcept nogil:
        """Read the header at the position and verify the batch."""
        cdef Status status
        self.batch.base_offset = -1
        status = read_header(self.data(), self.position, self.end, &self.batch)
        if status != OK:
            return status
        if self.batch.last_offset < self.batch.base_offset:
            return BAD_OFFSET
        if not crc_matches(self.data(), &self.batch):
            return BAD_CRC
        if self.batch.attributes & CODEC_MASK > ZSTD or (
            self.batch.magic < 2 and self.batch.attributes & CODEC_MASK == ZSTD
        ):
            return BAD_CODEC
        return OK

    cdef Status fill_uncompressed(self, const uint8_t** start, const uint8_t** stop) noexcept nogil:
        """Parse the uncompressed batch at the position; row positions are relative to start."""
        cdef const uint8_t* at = self.data() + self.position
        self.rows.count = 0
        stop[0] = at + self.batch.size
        if self.batch.magic < 2:
            start[0] = at
            return fill_legacy(at, 0, &self.batch, &self.rows)
        start[0] = at + V2_HEADER_SIZE
        return fill_v2(
            start[0], self.batch.size - V2_HEADER_SIZE, 0, &self.batch, &self.rows
        )

    cdef int fail(self, Event event, object error) except -1:
        """Raise the error, with the position of the batch."""
        cdef int64_t offset = self.batch.base_offset
        if event == DAMAGED:
            raise_for_status(self.status, None, self.position, offset)
        if error is None:
            name, sentence = _REFUSALS[self.group.refusal]
            try:
                raise_named(name, sentence)
            except ValueError as caught:
                error = caught
        if hasattr(error, "at"):
            error.at(position=self.position, offset=offset if offset >= 0 else None)
        raise error

    cdef object compressed_records(self):
        """The records section of the batch at the position, or a wrapper's value, as stored."""
        cdef RecordSpan span
        cdef int64_t at = self.position + V2_HEADER_SIZE
        cdef int64_t size = self.batch.size - V2_HEADER_SIZE
        if self.batch.magic < 2:
            self.status = parse_legacy(self.data() + self.position, &self.batch, &span)
            if self.status == OK and span.value_size < 0:
                self.status = BAD_LENGTH
            if self.status != OK:
                self.fail(DAMAGED, None)
            at = span.value - self.data()
            size = span.value_size
        return memoryview(self.source).cast("B")[at:at + size]

    cdef object read_records(self):
        """The decompressed records of the batch; None for an uncompressed message."""
        cdef int codec = self.batch.attributes & CODEC_MASK
        if codec == 0 and self.batch.magic < 2:
            return None
        compressed = self.compressed_records()
        if codec == 0:
            return compressed
        try:
            return self.decompress(codec, self.batch.magic, compressed)
        except ValueError as error:
            failure = error
        self.fail(REFUSED, failure)

    cdef int fill_from_records(self, object records) except -1:
        """Parse the decompressed records of the batch at the position into rows."""
        cdef HeldBytes view = hold_bytes(records)
        self.rows.count = 0
        with nogil:
            if self.batch.magic == 2:
                self.status = fill_v2(view.data, view.size, 0, &self.batch, &self.rows)
            else:
                self.status = fill_wrapped(
                    view.data, view.size, 0, &self.batch, True, &self.rows,
                    self.group.renumber,
                )
        if self.status != OK:
            self.fail(DAMAGED, None)
        return 0

    cdef int append_rows(self, object records, Bytes* to, bint keep_headers) except -1:
        """Append the rows from fill_from_records to the group."""
        cdef HeldBytes view = hold_bytes(records)
        with nogil:
            self.status = put_rows(
                &self.group, to, &self.rows, view.data, view.data + view.size, keep_headers,
            )
        if self.status != OK:
            self.fail(DAMAGED, None)
        if self.group.refusal != NO_REFUSAL:
            self.fail(REFUSED, None)
        return 0

    cdef int append_v2(self, BatchHeader* header, object records) except -1:
        """Append a v2 batch with this header, whose size is set here, and these records."""
        cdef HeldBytes view = hold_bytes(records)
        if V2_HEADER_SIZE + view.size > MAX_BATCH_SIZE:
            self.group.refusal = TOO_LARGE
            self.fail(REFUSED, None)
        if reserve(&self.out, V2_HEADER_SIZE + view.size) != OK:
            raise MemoryError
        memcpy(self.out.data + self.out.size + V2_HEADER_SIZE, view.data, view.size)
        header.size = <int32_t>(V2_HEADER_SIZE + view.size)
        write_header(self.out.data + self.out.size, header)
        self.out.size += header.size
        return 0

    cdef int append_wrapper(self, object compressed) except -1:
        """Append the wrapper, whose value is the group's compressed messages."""
        cdef HeldBytes view
        cdef int64_t timestamp = self.group.max_timestamp
        cdef uint8_t attributes = <uint8_t>self.group.codec
        if self.group.log_append_time:
            timestamp = self.group.append_time
            if self.magic == 1:
                attributes |= LOG_APPEND_TIME_BIT
        view = hold_bytes(compressed)
        if view.size > MAX_BATCH_SIZE - RECORD_SLACK - LOG_OVERHEAD - V1_OVERHEAD:
            self.group.refusal = TOO_LARGE
            self.fail(REFUSED, None)
        if put_wrapper(
            &self.out, view.data, <int32_t>view.size, self.magic, attributes,
            self.group.last_offset, timestamp,
        ) != OK:
            raise MemoryError
        return 0

    cdef Bytes* record_output(self) noexcept nogil:
        return &self.inner if self.group.codec else &self.out

    cdef void finish_uncompressed(self, BatchHeader* header) noexcept nogil:
        """End a group without a codec: write the header of a v2 batch, or remove an empty one."""
        cdef int64_t size = self.out.size - self.group.start
        if self.magic < 2:
            return
        if self.group.count == 0:
            self.out.size = self.group.start
            return
        fill_group_header(&self.group, header, size)
        write_header(self.out.data + self.group.start, header)

    cdef int finish_group(self, BatchHeader* header) except -1:
        """End the group; header has the fields that do not depend on the records."""
        if self.group.codec == 0:
            self.finish_uncompressed(header)
            return 0
        if self.group.count == 0:
            self.inner.size = 0
            return 0
        records = PyMemoryView_FromMemory(<char*>self.inner.data, self.inner.size, PyBUF_READ)
        compressed = self.compress_records(records)
        if self.keep_smaller and self.magic == 2 and len(compressed) >= self.inner.size:
            self.group.codec = 0
            compressed = records
        if self.magic < 2:
            self.append_wrapper(compressed)
        else:
            fill_group_header(&self.group, header, 0)
            self.append_v2(header, compressed)
        self.inner.size = 0
        return 0

    cdef object compress_records(self, object records):
        return self.compress(self.group.codec, self.magic, records)

    cdef bytes output_bytes(self):
        return PyBytes_FromStringAndSize(<char*>self.out.data, self.out.size)

    # --- batch by batch -------------------------------------------------------------------

    cdef Action decide(self) noexcept nogil:
        """What to do with the batch at the position; sets the group's codec or a refusal."""
        cdef BatchHeader* batch = &self.batch
        cdef int codec = batch.attributes & CODEC_MASK
        cdef bint control = batch.magic == 2 and batch.attributes & CONTROL_BIT
        self.group.codec = codec if self.codec < 0 else self.codec
        if control and self.magic < 2:
            return DROP
        if self.magic < 2 and self.group.codec == ZSTD:
            self.group.refusal = ZSTANDARD
            return CONVERT
        if batch.magic < self.magic and self.keep_lower:
            return KEEP
        if batch.magic == self.magic and (self.group.codec == codec or control):
            return KEEP
        if self.magic == 2 and batch.magic == 2 and batch.count == 0 and codec == 0:
            return KEEP         # emptied by compaction: nothing to compress
        # As in Kafka, only an uncompressed batch drops records below first_offset.
        self.group.first_offset = INT64_MIN if codec else self.first_offset
        self.group.log_append_time = batch.magic > 0 and batch.attributes & LOG_APPEND_TIME_BIT
        self.group.append_time = batch.max_timestamp
        return CONVERT

    cdef Event run(self) noexcept nogil:
        """Convert batches up to the end, or to one that needs the GIL."""
        cdef Action action
        cdef BatchHeader header
        cdef const uint8_t* start = NULL
        cdef const uint8_t* stop = NULL
        while self.position < self.end:
            self.status = self.read_batch()
            if self.status != OK:
                return DAMAGED
            action = self.decide()
            if self.group.refusal != NO_REFUSAL:
                return REFUSED
            if action == KEEP:
                self.status = self.keep(self.position, self.batch.size)
                if self.status != OK:
                    return DAMAGED
            elif action == CONVERT:
                if self.group.codec or self.batch.attributes & CODEC_MASK:
                    return COMPRESSED
                self.status = self.fill_uncompressed(&start, &stop)
                if self.status == OK:
                    self.status = open_group(&self.group, &self.out)
                if self.status == OK:
                    self.status = put_rows(
                        &self.group, &self.out, &self.rows, start, stop, False
                    )
                if self.status != OK:
                    return DAMAGED
                if self.group.refusal != NO_REFUSAL:
                    return REFUSED
                clear_producer(&header)
                self.finish_uncompressed(&header)
            self.position += self.batch.size
        return AT_END

    cdef int convert_compressed(self) except -1:
        """Convert the batch at the position, whose input or output is compressed."""
        cdef BatchHeader header
        cdef int64_t before
        records = self.read_records()
        if self.batch.magic == self.magic == 2:
            # Only the codec differs: keep the records, byte for byte.
            self.fill_from_records(records)
            header = self.batch
            header.attributes = <int16_t>(
                (header.attributes & ~CODEC_MASK) | self.group.codec
            )
            if self.group.codec:
                records = self.compress_records(records)
            if self.keep_smaller and V2_HEADER_SIZE + <int64_t>len(records) > self.batch.size:
                self.kept_count += 1
                self.keep_or_fail(self.position, self.batch.size)
                return 0
            self.append_v2(&header, records)
            return 0
        clear_producer(&header)
        before = self.out.size
        self.start_group(records, False)
        self.finish_group(&header)
        if (
            self.keep_smaller and self.batch.magic == self.magic
            and self.out.size - before > self.batch.size
        ):
            self.out.size = before
            self.kept_count += 1
            self.keep_or_fail(self.position, self.batch.size)
        return 0

    cdef Status keep(self, int64_t position, int64_t size) noexcept nogil:
        """Append complete batches unchanged."""
        cdef Status status = reserve(&self.out, size)
        if status == OK:
            memcpy(self.out.data + self.out.size, self.data() + position, size)
            self.out.size += size
        return status

    cdef int keep_or_fail(self, int64_t position, int64_t size) except -1:
        if self.keep(position, size) != OK:
            raise MemoryError

    cdef int start_group(self, object records, bint keep_headers) except -1:
        """Start a group with the records of the batch at the position."""
        if open_group(&self.group, self.record_output()) != OK:
            raise MemoryError
        self.append_batch(records, keep_headers)
        return 0

    cdef int append_batch(self, object records, bint keep_headers) except -1:
        """Append the batch at the position to the group; records: decompressed, or None."""
        cdef const uint8_t* start = NULL
        cdef const uint8_t* stop = NULL
        if self.batch.attributes & CODEC_MASK:
            self.fill_from_records(records)
            self.append_rows(records, self.record_output(), keep_headers)
            return 0
        self.status = self.fill_uncompressed(&start, &stop)
        if self.status == OK:
            self.status = put_rows(
                &self.group, self.record_output(), &self.rows, start, stop, keep_headers
            )
        if self.status != OK:
            self.fail(DAMAGED, None)
        if self.group.refusal != NO_REFUSAL:
            self.fail(REFUSED, None)
        return 0

    def convert(self):
        cdef Event event
        while True:
            with nogil:
                event = self.run()
            if event == AT_END:
                return self.output_bytes()
            if event != COMPRESSED:
                self.fail(event, None)
            self.convert_compressed()
            self.position += self.batch.size

    # --- merge ----------------------------------------------------------------------------

    cdef bint can_merge(self, int64_t max_size) noexcept nogil:
        """Whether the batch at the position may be merged with others."""
        cdef BatchHeader* batch = &self.batch
        return (
            batch.size <= max_size and batch.magic == 2
            and batch.producer_id < 0 and batch.count > 0
            and not batch.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT)
            and batch.count == batch.last_offset - batch.base_offset + 1
        )

    cdef bint continues_group(self) noexcept nogil:
        """Whether the batch at the position directly follows the group and has its attributes."""
        cdef BatchHeader* batch = &self.batch
        return (
            batch.base_offset == self.group.last_offset + 1
            and batch.leader_epoch == self.first.leader_epoch
            and not (batch.attributes ^ self.first.attributes) & LOG_APPEND_TIME_BIT
            and not (self.group.log_append_time and batch.max_timestamp != self.first.max_timestamp)
        )

    cdef int begin_merge(self, object records) except -1:
        """Start a merge with the batch at the position."""
        self.first = self.batch
        self.group.codec = self.codec
        self.group.first_offset = INT64_MIN
        self.group.log_append_time = self.batch.attributes & LOG_APPEND_TIME_BIT
        self.group.append_time = self.batch.max_timestamp
        return self.start_group(records, True)

    cdef int end_merge(self, int64_t start, int64_t joined) except -1:
        """Append the group from position start; its batches unchanged, if they are smaller."""
        cdef int64_t before = self.out.size if self.group.codec else self.group.start
        if joined:
            self.finish_group(&self.first)
            if not self.keep_smaller or self.out.size - before <= self.position - start:
                self.merged_count += joined
                return 0
        self.out.size = before
        self.inner.size = 0
        return self.keep_or_fail(start, self.position - start)

    def merge(self, int64_t max_size, bint final):
        cdef int64_t start = -1, joined = 0, size
        cdef Bytes* to
        cdef Group group
        while self.position < self.end:
            self.status = self.read_batch()
            if self.status != OK:
                self.fail(DAMAGED, None)
            records = self.read_records() if self.can_merge(max_size) else None
            if start >= 0 and records is not None and self.continues_group():
                group = self.group
                to = self.record_output()
                size = to.size
                self.append_batch(records, True)
                if to.size - group.start + (V2_HEADER_SIZE if group.codec else 0) <= max_size:
                    joined += 1
                    self.position += self.batch.size
                    continue
                self.group = group
                to.size = size
            if start >= 0:
                self.end_merge(start, joined)
            joined, start = 0, -1
            if records is None:
                self.keep_or_fail(self.position, self.batch.size)
            else:
                start = self.position
                self.begin_merge(records)
            self.position += self.batch.size
        if start >= 0 and not final:
            self.out.size = self.out.size if self.group.codec else self.group.start
            return self.output_bytes(), start
        if start >= 0:
            self.end_merge(start, joined)
        return self.output_bytes(), self.end

    # --- rebuild --------------------------------------------------------------------------

    cdef Refusal find_refusal(self) noexcept nogil:
        """Why the batch at the position cannot be in the group, or NO_REFUSAL."""
        cdef BatchHeader* batch = &self.batch
        if batch.magic < 2:
            return SEVERAL if self.first.producer_id >= 0 else NO_REFUSAL
        if batch.attributes & CONTROL_BIT:
            return CONTROL
        if self.magic < 2 and batch.attributes & TRANSACTIONAL_BIT:
            return TRANSACTION
        if self.magic < 2 and batch.producer_id >= 0:
            return PRODUCER
        if self.position and (batch.producer_id >= 0 or self.first.producer_id >= 0):
            return SEVERAL
        return NO_REFUSAL

    def rebuild(self, int64_t base_offset, int32_t leader_epoch, append_time):
        if base_offset < 0:
            raise_named("InvalidRecordError", f"offset {base_offset} is below 0")
        self.group.codec = max(self.codec, 0)
        self.group.renumber = True
        self.group.next_offset = base_offset
        self.group.first_offset = INT64_MIN
        self.group.log_append_time = append_time is not None
        self.group.append_time = -1 if append_time is None else append_time
        if open_group(&self.group, self.record_output()) != OK:
            raise MemoryError
        clear_producer(&self.first)
        while self.position < self.end:
            self.status = self.read_batch()
            if self.status != OK:
                self.fail(DAMAGED, None)
            self.group.refusal = self.find_refusal()
            if self.group.refusal != NO_REFUSAL:
                self.fail(REFUSED, None)
            if self.position == 0:
                self.first = self.batch
                if self.batch.magic < 2:        # unknown bits of a message are flags in v2
                    self.first.attributes = 0
            self.append_batch(self.read_records(), True)
            self.position += self.batch.size
        self.first.leader_epoch = leader_epoch
        self.finish_group(&self.first)
        return self.output_bytes()
