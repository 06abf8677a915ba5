"""Walks complete batches of any magic in a buffer: verifies, decompresses and parses them.

Both passes of the cleaner share this walk. It verifies every checksum: a corrupt batch must
neither hide a key nor be rewritten under a valid checksum.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libc.stdlib cimport free

from kstore._native.format.batch_header cimport crc_matches, read_header
from kstore._native.format.cursor cimport get_i16
from kstore._native.format.delete_horizon cimport delete_horizon_of
from kstore._native.format.layout cimport CODEC_MASK, CONTROL_BIT, TRANSACTIONAL_BIT, V2_HEADER_SIZE
from kstore._native.format.legacy_message cimport parse_legacy
from kstore._native.format.record_rows cimport fill_legacy, fill_v2, fill_wrapped
from kstore._native.format.record_span cimport RecordSpan
from kstore._native.format.status cimport (
    Status, OK, TRUNCATED, BAD_CODEC, BAD_CRC, BAD_LENGTH, BAD_OFFSET, raise_for_status,
)

cdef extern from "Python.h":
    int PyBUF_READ

cdef enum:
    ZSTD = 4


cdef class BatchWalk:
    """Complete batches in a buffer, one after another, of one log."""

    def __dealloc__(self):
        if self.source is not None:
            PyBuffer_Release(&self.view)
        free(self.rows.memory)

    def begin(self, path, int64_t base_offset):
        """Start another segment."""
        self.path = path
        self.last_offset = base_offset - 1

    def attach(self, buffer, int64_t start):
        """Walk this chunk next, which is at start in the file and begins with a batch."""
        if self.source is not None:
            self.source = None
            PyBuffer_Release(&self.view)
        PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
        self.source = buffer
        self.position = 0
        self.end = self.view.len
        self.start = start

    def detach(self):
        """Release the buffer."""
        if self.source is not None:
            self.source = None
            PyBuffer_Release(&self.view)

    @property
    def consumed(self):
        return self.position

    @property
    def wanted(self):
        """Declared size of the incomplete batch at the buffer's end; 0 if none or unknown."""
        return self.batch.size if self.status == TRUNCATED else 0

    # --- the current batch --------------------------------------------------------------

    @property
    def is_control(self):
        return self.batch.attributes & CONTROL_BIT != 0

    @property
    def producer_id(self):
        return self.batch.producer_id

    @property
    def producer_epoch(self):
        return self.batch.producer_epoch

    @property
    def batch_last_offset(self):
        return self.batch.last_offset

    @property
    def delete_horizon(self):
        """Delete horizon of the batch; -1 if none."""
        return delete_horizon_of(&self.batch)

    @property
    def control_type(self):
        """The type of a control batch's record; None if it has no record, -1 if it is unknown."""
        cdef const uint8_t* at
        cdef const uint8_t* key
        if self.batch.count == 0:
            return None
        if self.batch.attributes & CODEC_MASK:
            return -1
        at = self.data() + self.position + V2_HEADER_SIZE
        self.rows.count = 0
        self.status = fill_v2(
            at, self.batch.size - V2_HEADER_SIZE, 0, &self.batch, &self.rows
        )
        if self.status != OK:
            self.fail()
        if self.rows.key_lengths[0] < 4:
            return -1
        key = at + self.rows.key_positions[0]
        return get_i16(key + 2)

    # --- for subclasses -----------------------------------------------------------------

    cdef const uint8_t* data(self) noexcept nogil:
        return <const uint8_t*>self.view.buf

    cdef int fail(self) except -1:
        raise_for_status(
            self.status, self.path, self.start + self.position, self.batch.base_offset
        )

    cdef Event next_batch(self) noexcept nogil:
        """Read and verify the batch at the position."""
        cdef Status status
        self.batch.base_offset = -1
        self.batch.size = 0
        self.status = OK
        if self.position >= self.end:
            return AT_END
        status = read_header(self.data(), self.position, self.end, &self.batch)
        if status == TRUNCATED:
            self.status = status
            return AT_END
        if status == OK and (
            self.batch.last_offset < self.batch.base_offset
            or self.batch.last_offset <= self.last_offset
            or self.batch.last_offset == INT64_MAX
        ):
            status = BAD_OFFSET
        if status == OK and not crc_matches(self.data(), &self.batch):
            status = BAD_CRC
        if status == OK and (
            self.batch.attributes & CODEC_MASK > ZSTD
            or (self.batch.magic < 2 and self.batch.attributes & CODEC_MASK == ZSTD)
        ):
            status = BAD_CODEC
        self.status = status
        if status != OK:
            return DAMAGED
        return DECIDE

    cdef bint is_decided_by_transaction(self) noexcept nogil:
        return self.batch.magic == 2 and (
            self.batch.attributes & (CONTROL_BIT | TRANSACTIONAL_BIT)
        ) != 0

    cdef bint is_compressed(self) noexcept nogil:
        return self.batch.attributes & CODEC_MASK != 0 and (
            self.batch.magic < 2 or self.batch.count > 0
        )

    cdef void step(self) noexcept nogil:
        self.last_offset = self.batch.last_offset
        self.position += self.batch.size

    cdef Status fill_uncompressed(
        self, const uint8_t** start_out, const uint8_t** stop_out
    ) noexcept nogil:
        """Parse the records of the uncompressed batch at the position into rows."""
        cdef const uint8_t* at = self.data() + self.position
        self.rows.count = 0
        stop_out[0] = at + self.batch.size
        if self.batch.magic < 2:
            start_out[0] = at
            return fill_legacy(at, 0, &self.batch, &self.rows)
        start_out[0] = at + V2_HEADER_SIZE
        return fill_v2(
            start_out[0], self.batch.size - V2_HEADER_SIZE, 0, &self.batch, &self.rows
        )

    cdef object decompress_batch(self):
        """Decompress the records of the batch at the position."""
        cdef RecordSpan span
        cdef const uint8_t* at = self.data() + self.position
        cdef int64_t size = self.batch.size - V2_HEADER_SIZE
        cdef int codec = self.batch.attributes & CODEC_MASK
        if self.batch.magic < 2:
            self.status = parse_legacy(at, &self.batch, &span)
            if self.status == OK and span.value_size < 0:
                self.status = BAD_LENGTH
            if self.status != OK:
                self.fail()
            at = span.value
            size = span.value_size
        else:
            at += V2_HEADER_SIZE
        try:
            return self.decompress(
                codec, self.batch.magic, PyMemoryView_FromMemory(<char*>at, size, PyBUF_READ)
            )
        except ValueError as error:
            if hasattr(error, "at"):
                error.at(
                    path=self.path, position=self.start + self.position,
                    offset=self.batch.base_offset,
                )
            raise

    cdef Status fill_decompressed(self, const uint8_t* at, int64_t size) noexcept nogil:
        self.rows.count = 0
        if self.batch.magic == 2:
            return fill_v2(at, size, 0, &self.batch, &self.rows)
        return fill_wrapped(at, size, 0, &self.batch, True, &self.rows)
