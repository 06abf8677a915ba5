"""Formats batches and records as Kafka's DumpLogSegments prints them, many lines at a time.

Uses the same parser as decode (record_rows.pxd). The format is that of Kafka 4.3
(org.apache.kafka.tools.DumpLogSegments); docs/guide/command-line.md shows it.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, strlen

from kstore._native.format.ascii_text cimport is_ascii
from kstore._native.format.cursor cimport Cursor
from kstore._native.read.decode cimport Block
from kstore._native.read.decode import Scanner
from kstore._native.format.batch_header cimport BatchHeader, crc_matches, read_header
from kstore._native.format.layout cimport *
from kstore._native.format.record_rows cimport fill_legacy, fill_v2
from kstore._native.format.record_span cimport parse_header
from kstore._native.format.status cimport Status, OK, TRUNCATED
from kstore._native.format.status import reason

cdef enum:
    LINES_TARGET = 1 << 20      # bytes after which next_lines returns
    BATCH_LINE = 640            # more than the longest batch line
    RECORD_LINE = 256           # more than a record's numbers and field names
    NUMBER = 20                 # characters of the longest int64

cdef int32_t INT32_MAX = 0x7FFFFFFF

cdef inline const char* codec_name(int codec) noexcept nogil:
    if codec == 0:
        return "none"
    if codec == 1:
        return "gzip"
    if codec == 2:
        return "snappy"
    if codec == 3:
        return "lz4"
    return "zstd" if codec == 4 else "?"


cdef inline uint8_t* put_number(uint8_t* at, int64_t value) noexcept nogil:
    cdef uint8_t[NUMBER] digits
    cdef int used = NUMBER
    cdef uint64_t rest = <uint64_t>value
    if value < 0:
        at[0] = c"-"
        at += 1
        rest = 0 - rest
    while True:
        used -= 1
        digits[used] = <uint8_t>(c"0" + rest % 10)
        rest //= 10
        if rest == 0:
            break
    memcpy(at, &digits[used], NUMBER - used)
    return at + NUMBER - used


cdef inline uint8_t* put_text(uint8_t* at, const char* text) noexcept nogil:
    cdef size_t size = strlen(text)
    memcpy(at, text, size)
    return at + size


cdef inline uint8_t* put_field(uint8_t* at, const char* name, int64_t value) noexcept nogil:
    return put_number(put_text(at, name), value)


cdef inline uint8_t* put_flag(uint8_t* at, const char* name, bint value) noexcept nogil:
    return put_text(put_text(at, name), "true" if value else "false")


cdef inline const char* time_name(const BatchHeader* batch) noexcept nogil:
    if batch.magic == 0:
        return "NoTimestampType: "
    return "LogAppendTime: " if batch.attributes & LOG_APPEND_TIME_BIT else "CreateTime: "


cdef inline int64_t sequence_at(int32_t base, int64_t delta) noexcept nogil:
    """Sequence numbers wrap from 2^31 - 1 to 0 (DefaultRecordBatch.incrementSequence)."""
    cdef int64_t sum = base + delta
    if base < 0:
        return -1
    return sum if sum <= INT32_MAX else sum - INT32_MAX - 1


cdef uint8_t* put_batch(
    uint8_t* at, const BatchHeader* batch, int64_t base, bint valid
) noexcept nogil:
    """Write a batch's line; at most BATCH_LINE bytes."""
    cdef int64_t delta = batch.last_offset - batch.base_offset
    if batch.magic == 2:
        at = put_field(at, "baseOffset: ", batch.base_offset)
        at = put_field(at, " lastOffset: ", batch.last_offset)
        at = put_field(at, " count: ", batch.count)
        at = put_field(at, " baseSequence: ", batch.base_sequence)
        at = put_field(at, " lastSequence: ", sequence_at(batch.base_sequence, delta))
        at = put_field(at, " producerId: ", batch.producer_id)
        at = put_field(at, " producerEpoch: ", batch.producer_epoch)
        at = put_field(at, " partitionLeaderEpoch: ", batch.leader_epoch)
        at = put_flag(at, " isTransactional: ", batch.attributes & TRANSACTIONAL_BIT != 0)
        at = put_flag(at, " isControl: ", batch.attributes & CONTROL_BIT != 0)
        if batch.attributes & DELETE_HORIZON_BIT:
            at = put_field(at, " deleteHorizonMs: OptionalLong[", batch.base_timestamp)
            at = put_text(at, "]")
        else:
            at = put_text(at, " deleteHorizonMs: OptionalLong.empty")
    else:
        at = put_field(at, "offset: ", batch.last_offset)
    at = put_field(at, " position: ", base + batch.position)
    at = put_text(at, " ")
    at = put_field(at, time_name(batch), batch.max_timestamp)
    at = put_field(at, " size: ", batch.size)
    at = put_field(at, " magic: ", batch.magic)
    at = put_text(at, " compresscodec: ")
    at = put_text(at, codec_name(batch.attributes & CODEC_MASK))
    at = put_field(at, " crc: ", batch.crc)
    at = put_flag(at, " isvalid: ", valid)
    return put_text(at, "\n")


@cython.final
cdef class LineDumper:
    cdef Py_buffer view
    cdef object source              # the current chunk, or None
    cdef int64_t at                 # position of the next batch in the chunk
    cdef int64_t base               # position of the chunk in the file
    cdef Status status
    cdef readonly int64_t wanted
    cdef bint deep, contents, metadata
    cdef object decompress, render, render_control
    cdef int64_t last_offset        # of the last record; -1 before the first
    cdef const uint8_t* data_end    # of the bytes that the current rows point into
    cdef uint8_t* lines
    cdef int64_t size, capacity
    cdef readonly list gaps, damaged

    def __cinit__(
        self, *, bint deep=False, bint contents=False, bint metadata=True,
        decompress=None, render=None, render_control=None,
    ):
        self.deep = deep
        self.contents = contents
        self.metadata = metadata
        self.decompress = decompress
        self.render = render
        self.render_control = render_control
        self.last_offset = -1
        self.gaps = []
        self.damaged = []

    def __dealloc__(self):
        free(self.lines)
        if self.source is not None:
            PyBuffer_Release(&self.view)

    def close(self):
        if self.source is not None:
            self.source = None
            PyBuffer_Release(&self.view)

    def feed(self, chunk, int64_t position):
        self.close()
        PyObject_GetBuffer(chunk, &self.view, PyBUF_SIMPLE)
        self.source = chunk         # from here on, close releases the view
        self.at = 0
        self.base = position
        self.wanted = 0
        self.status = OK

    @property
    def position(self):
        return self.base + self.at

    @property
    def stop(self):
        return None if self.status == OK or self.status == TRUNCATED else reason(self.status)

    def next_lines(self):
        cdef const uint8_t* data = <const uint8_t*>self.view.buf
        cdef BatchHeader batch
        cdef bint valid
        if self.source is None:
            return None
        self.size = 0
        while self.size < LINES_TARGET and self.at < self.view.len:
            self.status = read_header(data, self.at, self.view.len, &batch)
            if self.status != OK:
                self.wanted = batch.size
                break
            valid = crc_matches(data, &batch)
            self.room(BATCH_LINE)
            self.size = put_batch(
                self.lines + self.size, &batch, self.base, valid) - self.lines
            if self.deep:
                self.dump_records(data, &batch)
            self.at += batch.size
        if self.size == 0:
            return None
        return PyBytes_FromStringAndSize(<char*>self.lines, self.size)

    # --- the records of one batch -----------------------------------------------------------

    cdef int dump_records(self, const uint8_t* data, const BatchHeader* batch) except -1:
        cdef Block block = None
        cdef Status status
        cdef const uint8_t* at = data + batch.position
        if batch.attributes & CODEC_MASK:
            try:
                block = Scanner(
                    self.source, batch.position, batch.position + batch.size, check_crc=False,
                    control=True, decompress=self.decompress, on_tail="damage",
                ).next_block()
            except ValueError as error:
                why = getattr(error, "reason", str(error))
                self.damaged.append((self.base + batch.position, batch.base_offset, why))
                return 0
            return 0 if block is None else self.put_rows(block, batch)
        block = Block()
        if batch.magic == 2:
            status = fill_v2(
                at + V2_HEADER_SIZE, batch.size - V2_HEADER_SIZE,
                batch.position + V2_HEADER_SIZE, batch, &block.rows,
            )
        else:
            status = fill_legacy(at, batch.position, batch, &block.rows)
        if status != OK:
            self.damaged.append((self.base + batch.position, batch.base_offset, reason(status)))
            return 0
        block.data = self.source
        return self.put_rows(block, batch)

    cdef int put_rows(self, Block block, const BatchHeader* batch) except -1:
        cdef Py_buffer data
        cdef int64_t row, inner = batch.position
        PyObject_GetBuffer(block.data, &data, PyBUF_SIMPLE)
        self.data_end = <const uint8_t*>data.buf + data.len
        try:
            if batch.attributes & CODEC_MASK:
                inner = 0
            for row in range(block.rows.count):
                self.note_offset(block.rows.offsets[row])
                if batch.magic == 2 and batch.attributes & CONTROL_BIT:
                    self.put_control(<const uint8_t*>data.buf, block, row, batch)
                else:
                    inner = self.put_row(<const uint8_t*>data.buf, block, row, batch, inner)
        finally:
            PyBuffer_Release(&data)
        return 0

    cdef int note_offset(self, int64_t offset) except -1:
        if self.last_offset != -1 and offset != self.last_offset + 1:
            self.gaps.append((self.last_offset, offset))
        self.last_offset = offset
        return 0

    cdef int64_t put_row(
        self, const uint8_t* data, Block block, int64_t row, const BatchHeader* batch,
        int64_t inner,
    ) except -1:
        """Write one record's line. inner is a legacy message's position; returns the next one's."""
        cdef int32_t key_size = block.rows.key_lengths[row]
        cdef int32_t value_size = block.rows.value_lengths[row]
        cdef const uint8_t* key = data + block.rows.key_positions[row]
        cdef const uint8_t* value = data + block.rows.value_positions[row]
        cdef bint is_empty = key_size < 0 and value_size < 0
        self.put("|")
        if self.metadata:
            self.put_numbers(data, block, row, batch)
            if batch.magic < 2:
                inner = self.put_checksum(data, inner)
        if not self.contents:
            self.put("\n")
            return inner
        if self.render is not None:
            text = self.render(
                block.rows.offsets[row],
                None if key_size < 0 else PyBytes_FromStringAndSize(<const char*>key, key_size),
                None if value_size < 0
                else PyBytes_FromStringAndSize(<const char*>value, value_size),
            )
            is_empty = not text
            self.put_bytes(text.encode("utf-8", "replace"))
        else:
            if key_size >= 0:
                self.put(" key: ")
                self.put_string(key, key_size)
            if value_size >= 0:
                self.put(" payload: ")
                self.put_string(value, value_size)
        if is_empty and not self.metadata:
            self.size -= 1      # neither key nor value: Kafka prints an empty line
        self.put("\n")
        return inner

    cdef int put_control(
        self, const uint8_t* data, Block block, int64_t row, const BatchHeader* batch
    ) except -1:
        cdef int32_t key_size = block.rows.key_lengths[row]
        cdef int32_t value_size = block.rows.value_lengths[row]
        if not self.metadata:
            return 0
        self.put("|")
        self.put_numbers(data, block, row, batch)
        if self.render_control is not None:
            text = self.render_control(
                None if key_size < 0 else PyBytes_FromStringAndSize(
                    <const char*>data + block.rows.key_positions[row], key_size),
                None if value_size < 0 else PyBytes_FromStringAndSize(
                    <const char*>data + block.rows.value_positions[row], value_size),
            )
            self.put_bytes(text.encode())
        self.put("\n")
        return 0

    cdef int put_numbers(
        self, const uint8_t* data, Block block, int64_t row, const BatchHeader* batch
    ) except -1:
        cdef int64_t offset = block.rows.offsets[row]
        cdef uint8_t* at
        self.room(RECORD_LINE)
        at = self.lines + self.size
        at = put_field(at, " offset: ", offset)
        at = put_text(at, " ")
        at = put_field(at, time_name(batch), block.rows.timestamps[row])
        at = put_field(at, " keySize: ", block.rows.key_lengths[row])
        at = put_field(at, " valueSize: ", block.rows.value_lengths[row])
        if batch.magic == 2:
            offset = sequence_at(batch.base_sequence, offset - batch.base_offset)
            at = put_field(at, " sequence: ", offset)
            at = put_text(at, " headerKeys: [")
            self.size = at - self.lines
            self.put_header_names(
                data + block.rows.header_positions[row], block.rows.header_counts[row]
            )
            self.put("]")
            return 0
        self.size = at - self.lines
        return 0

    cdef int put_header_names(self, const uint8_t* headers, int32_t count) except -1:
        cdef Cursor cursor
        cdef int32_t number, key_size, value_size
        cdef const uint8_t* key
        cdef const uint8_t* value
        cursor.position = headers
        cursor.end = self.data_end
        for number in range(count):
            if parse_header(&cursor, &key_size, &value_size, &key, &value) != OK:
                break
            if number:
                self.put(",")
            self.put_string(key, key_size)
        return 0

    cdef int64_t put_checksum(self, const uint8_t* data, int64_t inner) except -1:
        """The checksum of a legacy message (Kafka up to 3.9 prints a stray brace after it)."""
        cdef BatchHeader message
        cdef uint8_t* at
        if read_header(data, inner, self.data_end - data, &message) != OK:
            return inner
        self.room(RECORD_LINE)
        at = self.lines + self.size
        at = put_flag(at, " isValid: ", crc_matches(data, &message))
        at = put_field(at, " crc: ", message.crc)
        self.size = at - self.lines
        return inner + message.size

    # --- output buffer ------------------------------------------------------------------------

    cdef int room(self, int64_t wanted) except -1:
        cdef int64_t capacity
        cdef uint8_t* lines
        if self.capacity - self.size >= wanted:
            return 0
        capacity = max(2 * self.capacity, self.size + wanted, LINES_TARGET + (LINES_TARGET >> 2))
        lines = <uint8_t*>realloc(self.lines, capacity)
        if lines == NULL:
            raise MemoryError
        self.lines = lines
        self.capacity = capacity
        return 0

    cdef int put(self, const char* text) except -1:
        self.room(RECORD_LINE)
        self.size = put_text(self.lines + self.size, text) - self.lines
        return 0

    cdef int put_bytes(self, bytes text) except -1:
        cdef int64_t size = len(text)
        self.room(size)
        memcpy(self.lines + self.size, <const char*>text, size)
        self.size += size
        return 0

    cdef int put_string(self, const uint8_t* at, int64_t size) except -1:
        """Write bytes as text; invalid UTF-8 becomes U+FFFD."""
        if is_ascii(at, size):
            self.room(size)
            memcpy(self.lines + self.size, at, size)
            self.size += size
            return 0
        text = PyUnicode_DecodeUTF8(<const char*>at, size, "replace")
        return self.put_bytes(text.encode())
