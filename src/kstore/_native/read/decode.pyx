"""Batches of any magic in, rows out: columns, lists of values, or Record objects.

One kernel (record_rows.pxd) finds the positions of each record's fields; every output format is
built from those. It checks every length: see cursor.pxd, batch_header.pxd, record_span.pxd.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from libc.stdint cimport INT64_MIN, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from kstore._native.format.argument cimport HeldBytes, hold_bytes
from kstore._native.format.batch_header cimport BatchHeader, crc_matches, read_header
from kstore._native.format.layout cimport *
from kstore._native.format.record cimport Record, parse_headers
from kstore._native.format.legacy_message cimport parse_legacy
from kstore._native.format.record_rows cimport (
    ROW_SIZE, SPAN_ROW_SIZE, Rows, fill_legacy, fill_v2, fill_wrapped, keep_window, lay_out_rows,
)
from kstore._native.format.record_span cimport RecordSpan
from kstore._native.format.status cimport (
    Status, OK, BAD_CODEC, BAD_CRC, BAD_LENGTH, BAD_OFFSET, BAD_SIZE, TRUNCATED, raise_for_status,
)
from kstore._native.read.batch_order cimport is_in_order
from kstore._native.format.status import reason
from kstore._native.read.aborted_transactions cimport AbortedRanges, is_aborted

cdef int64_t INT64_MAX = 0x7FFFFFFFFFFFFFFF
cdef enum:
    BLOCK_ROWS = 16384          # rows of a block: all columns together fit in a core's L2 cache
    POOL_SIZE = 8               # blocks kept for the next scan: their pages are already mapped
    OBJECT_ROWS = 512           # objects created at a time: the caller reads them while in cache
    ARENA_TARGET = 8 << 20      # decompressed bytes after which a block is complete

ctypedef uint8_t* Memory
cdef Memory[POOL_SIZE] _pool
cdef int _pooled = 0


cdef uint8_t* _acquire_memory() noexcept:
    global _pooled
    if _pooled:
        _pooled -= 1
        return _pool[_pooled]
    return <uint8_t*>malloc(BLOCK_ROWS * ROW_SIZE)


cdef void _release_memory(uint8_t* memory) noexcept:
    global _pooled
    if _pooled < POOL_SIZE:
        _pool[_pooled] = memory
        _pooled += 1
    else:
        free(memory)


@cython.final
cdef class Block:
    """Rows of consecutive records, whose positions are in one buffer.

    Exports its memory as one read-only buffer; ``layout`` has the position of each column.
    """

    def __cinit__(self, *, bint values_only=False):
        cdef uint8_t* memory = _acquire_memory()
        if memory == NULL:
            raise MemoryError
        self.rows.values_only = values_only
        self.rows.count = 0
        self.rows.timestamp_type = -1
        lay_out_rows(&self.rows, memory, BLOCK_ROWS)

    def __dealloc__(self):
        # The pool keeps blocks of the default capacity only.
        if self.rows.memory == NULL:
            return
        if self.rows.capacity == BLOCK_ROWS:
            _release_memory(self.rows.memory)
        else:
            free(self.rows.memory)

    def __len__(self):
        return self.rows.count

    @property
    def values_only(self):
        return self.rows.values_only

    @property
    def timestamp_type(self):
        return self.rows.timestamp_type

    @property
    def layout(self):
        cdef Rows* rows = &self.rows
        cdef uint8_t* memory = rows.memory
        names = {
            "value_positions": ("int64", <uint8_t*>rows.value_positions - memory),
            "value_lengths": ("int32", <uint8_t*>rows.value_lengths - memory),
        }
        if not rows.values_only:
            names["offsets"] = ("int64", <uint8_t*>rows.offsets - memory)
            names["timestamps"] = ("int64", <uint8_t*>rows.timestamps - memory)
            names["key_positions"] = ("int64", <uint8_t*>rows.key_positions - memory)
            names["key_lengths"] = ("int32", <uint8_t*>rows.key_lengths - memory)
            names["header_positions"] = ("int64", <uint8_t*>rows.header_positions - memory)
            names["header_counts"] = ("int32", <uint8_t*>rows.header_counts - memory)
        return names

    def __getbuffer__(self, Py_buffer* view, int flags):
        cdef int64_t size = SPAN_ROW_SIZE if self.rows.values_only else ROW_SIZE
        PyBuffer_FillInfo(view, self, self.rows.memory, self.rows.capacity * size, 1, flags)


cdef inline int timestamp_type_of(const BatchHeader* batch) noexcept nogil:
    return -1 if batch.magic == 0 else (batch.attributes & LOG_APPEND_TIME_BIT) != 0


cdef Event advance(Scan* scan, Rows* rows, int64_t target) noexcept nogil:
    """Fill rows from the batches at scan.position, until an event needs the caller.

    On every event but AT_END, scan.position is the position of the batch that caused it,
    scan.batch the fields read of its header, and the rows of earlier batches are complete.
    """
    cdef BatchHeader* batch = &scan.batch
    cdef int64_t first
    cdef int timestamp_type
    while scan.position < scan.end and not scan.done:
        if rows.count >= target:
            return FULL         # before the next header: scan.batch is the last one in rows
        batch.base_offset = -1
        scan.status = read_header(scan.data, scan.position, scan.end, batch)
        if scan.status != OK:
            return TAIL if scan.status == TRUNCATED else DAMAGED
        if batch.last_offset < batch.base_offset:
            scan.status = BAD_OFFSET
            return DAMAGED
        if scan.next_offset != INT64_MIN and not is_in_order(scan):
            return DAMAGED
        if batch.last_offset < scan.start_offset:
            scan.last_offset = batch.last_offset
            scan.skipped_position = scan.position
            scan.position += batch.size
            continue
        if batch.magic == 2 and batch.base_offset >= scan.stop_offset:
            break
        if rows.count and batch.count > rows.capacity - rows.count:
            return FULL
        if scan.in_arena and not batch.attributes & CODEC_MASK:
            return FULL
        timestamp_type = timestamp_type_of(batch)
        if rows.count and timestamp_type != rows.timestamp_type:
            return FULL
        rows.timestamp_type = timestamp_type
        if scan.check_crc and not crc_matches(scan.data, batch):
            scan.status = BAD_CRC
            return DAMAGED
        if batch.magic == 2 and batch.attributes & CONTROL_BIT and not scan.control:
            scan.last_offset = batch.last_offset
            scan.position += batch.size
            continue
        if scan.read_committed and batch.magic == 2 and batch.attributes & TRANSACTIONAL_BIT:
            if not scan.has_aborted:
                return NEEDS_ABORTED
            if is_aborted(
                scan.aborted, scan.aborted_count, batch.producer_id, batch.base_offset
            ):
                scan.last_offset = batch.last_offset
                scan.position += batch.size
                continue
        if batch.attributes & CODEC_MASK:
            return COMPRESSED
        first = rows.count
        if batch.magic == 2:
            scan.status = fill_v2(
                scan.data + scan.position + V2_HEADER_SIZE, batch.size - V2_HEADER_SIZE,
                scan.position + V2_HEADER_SIZE, batch, rows,
            )
        else:
            scan.status = fill_legacy(scan.data + scan.position, scan.position, batch, rows)
        if scan.status != OK:
            return DAMAGED
        finish_batch(scan, rows, first)
    scan.done = True
    return AT_END


cdef inline void finish_batch(Scan* scan, Rows* rows, int64_t first) noexcept nogil:
    """Advance past a batch whose rows were filled; drop rows outside the offset window."""
    cdef BatchHeader* batch = &scan.batch
    # A legacy wrapper's header has only its last offset.
    if (
        batch.base_offset < scan.start_offset or batch.last_offset >= scan.stop_offset
        or (batch.magic < 2 and batch.count < 0)
    ) and not rows.values_only:
        keep_window(rows, first, scan.start_offset, scan.stop_offset)
    scan.last_offset = batch.last_offset
    scan.position += batch.size
    if batch.last_offset >= scan.stop_offset - 1:
        scan.done = True


@cython.final
cdef class Scanner:
    def __cinit__(
        self, buffer, Py_ssize_t start=0, Py_ssize_t end=-1, *, int64_t start_offset=INT64_MIN,
        int64_t stop_offset=INT64_MAX, bint check_crc=True, bint control=False,
        bint values_only=False, decompress=None, int64_t next_offset=INT64_MIN,
        str on_damage="raise",
        str on_tail="stop", path=None, int64_t position_base=0,
        int64_t row_target=BLOCK_ROWS, find_aborted=None, int64_t seen_offset=INT64_MIN,
    ):
        if on_damage not in ("raise", "skip"):
            raise ValueError(f"on_damage is 'raise' or 'skip', not {on_damage!r}")
        if on_tail not in ("stop", "damage"):
            raise ValueError(f"on_tail is 'stop' or 'damage', not {on_tail!r}")
        PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
        self.source = buffer        # from here on, close releases the view
        if end < 0:
            end = self.view.len
        if start < 0 or start > end or end > self.view.len:
            raise ValueError(f"range {start}:{end} is not within {self.view.len} bytes")
        self.scan.data = <const uint8_t*>self.view.buf
        self.scan.position = start
        self.scan.end = end
        self.scan.start_offset = start_offset
        self.scan.stop_offset = stop_offset
        self.row_target = max(row_target, 1)
        self.scan.check_crc = check_crc
        self.scan.control = control
        self.scan.next_offset = next_offset
        self.scan.last_offset = seen_offset
        self.scan.skipped_position = -1
        # An offset window needs the offset column.
        self.values_only = (
            values_only and start_offset == INT64_MIN and stop_offset == INT64_MAX
        )
        self.decompress = decompress
        self.find_aborted = find_aborted
        self.scan.read_committed = find_aborted is not None
        self.skip_damage = on_damage == "skip"
        self.tail_is_damage = on_tail == "damage"
        self.path = path
        self.position_base = position_base
        self.skipped = []

    def __dealloc__(self):
        self.close()

    @property
    def position(self):
        return self.scan.position

    @property
    def seen_offset(self):
        return self.scan.last_offset

    @property
    def at_end(self):
        return self.scan.position >= self.scan.end

    cpdef close(self):
        if self.source is not None:
            self.source = None
            self.scan.done = True
            PyBuffer_Release(&self.view)

    def __iter__(self):
        return self

    def __next__(self):
        block = self.next_block()
        if block is None:
            raise StopIteration
        return block

    def next_block(self):
        """The next rows, or None at the end."""
        cdef Block block = Block(values_only=self.values_only)
        cdef list arena_chunks = []
        cdef int64_t arena = 0
        cdef Event event
        # All rows of a block point into one buffer: the source, or an arena of decompressed
        # bytes. A block ends where the log changes from one to the other.
        while True:
            self.scan.in_arena = len(arena_chunks) > 0
            event = self._next_event(block, self.row_target, True)
            if event == FULL and block.rows.count == 0:
                arena_chunks.clear()      # no row of the arena was in the window
                arena = 0
                continue
            if event == AT_END or event == FULL:
                break
            if block.rows.count and not arena_chunks or arena >= ARENA_TARGET:
                break
            decompressed = self._decompress()
            if decompressed is None:
                continue
            if self._fill_decompressed(decompressed, arena, block):
                arena_chunks.append(decompressed)
                arena += len(decompressed)
        if block.rows.count == 0:
            return None
        if not arena_chunks:
            block.data = self.source
        else:
            block.data = arena_chunks[0] if len(arena_chunks) == 1 else b"".join(arena_chunks)
        return block

    cdef Event _next_event(self, Block block, int64_t target, bint unlock) except? DAMAGED:
        """Advance to the next event that the caller handles; handle corruption here."""
        cdef Event event
        while True:
            if self.scan.done:
                return AT_END
            if unlock:
                with nogil:
                    event = advance(&self.scan, &block.rows, target)
            else:
                event = advance(&self.scan, &block.rows, target)
            if event == TAIL:
                if not self.tail_is_damage:
                    self.scan.done = True
                    return AT_END
                self._handle_damage(TRUNCATED, None)
            elif event == DAMAGED:
                self._handle_damage(self.scan.status, None)
            elif event == NEEDS_ABORTED:
                self._load_aborted()
            else:
                return event

    cdef int _load_aborted(self) except -1:
        """Load the aborted transactions, once, at the first transactional batch."""
        cdef AbortedRanges aborted = self.find_aborted()
        self.aborted = aborted
        self.scan.aborted = aborted.ranges
        self.scan.aborted_count = aborted.count
        self.scan.has_aborted = True
        return 0

    cdef int _handle_damage(self, Status status, object error) except -1:
        """Raise, or record the batch as skipped and advance past it."""
        cdef int64_t position = self.scan.position, size = self.scan.batch.size
        cdef int64_t left = self.scan.end - position, offset = self.scan.batch.base_offset
        if offset < 0:              # unreadable: report the offset that should follow
            offset = self.scan.last_offset + 1
            if self.scan.last_offset < 0:
                offset = self.scan.start_offset
        offset = max(offset, -1)    # unknown
        if not self.skip_damage:
            if error is not None:
                if hasattr(error, "at"):
                    error.at(
                        path=self.path, position=self.position_base + position,
                        offset=offset,
                    )
                raise error
            raise_for_status(status, self.path, self.position_base + position, offset)
        if size < LOG_OVERHEAD + V0_OVERHEAD or size > left or status == BAD_SIZE:
            size = left         # no size to trust: skip to the end
        self.skipped.append((
            self.position_base + position, size, offset,
            reason(status) if error is None else getattr(error, "reason", str(error)),
        ))
        self.scan.position += size
        return 0

    cdef object _decompress(self):
        """Decompress the records of the batch at the position; None if it was skipped."""
        cdef BatchHeader* batch = &self.scan.batch
        cdef int codec = batch.attributes & CODEC_MASK
        cdef int64_t at = self.scan.position + V2_HEADER_SIZE
        cdef int64_t size = batch.size - V2_HEADER_SIZE
        cdef RecordSpan span
        cdef Status status
        if codec > 4 or (codec == 4 and batch.magic < 2):
            self._handle_damage(BAD_CODEC, None)
            return None
        if batch.magic < 2:
            status = parse_legacy(self.scan.data + self.scan.position, batch, &span)
            if status != OK or span.value_size < 0:
                self._handle_damage(BAD_LENGTH if status == OK else status, None)
                return None
            at = span.value - self.scan.data
            size = span.value_size
        if self.decompress is None:
            raise ValueError("the batch is compressed; pass decompress")
        try:
            return self.decompress(
                codec, batch.magic,
                memoryview(self.source).cast("B")[at:at + size],
            )
        except ValueError as error:
            self._handle_damage(OK, error)
            return None

    cdef int _fill_decompressed(self, object decompressed, int64_t shift, Block block) except -1:
        """Add decompressed records to the block; returns 0 if the batch was skipped, else 1."""
        cdef HeldBytes view
        cdef int64_t first = block.rows.count
        cdef Status status
        view = hold_bytes(decompressed)
        with nogil:
            if self.scan.batch.magic == 2:
                status = fill_v2(
                    view.data, view.size, shift, &self.scan.batch, &block.rows
                )
            else:
                status = fill_wrapped(
                    view.data, view.size, shift, &self.scan.batch,
                    self.scan.check_crc, &block.rows,
                )
            if status == OK:
                finish_batch(&self.scan, &block.rows, first)
        if status == OK:
            return 1
        self._handle_damage(status, None)
        return 0

    # --- output as objects ----------------------------------------------------------------

    def next_values(self):
        cdef Block block = Block(values_only=self.values_only)
        cdef Event event
        cdef HeldBytes view
        cdef Py_ssize_t target = min(self.row_target, OBJECT_ROWS)
        self.scan.in_arena = False
        while True:
            event = self._next_event(block, target, False)
            if event != COMPRESSED or block.rows.count:
                break           # a compressed batch starts the next list
            decompressed = self._decompress()
            if decompressed is None or not self._fill_decompressed(decompressed, 0, block):
                continue
            if block.rows.count == 0:
                continue
            view = hold_bytes(decompressed)
            return make_values(&block.rows, view.data)
        return make_values(&block.rows, self.scan.data) if block.rows.count else None

    def records(self):
        return RecordScan(self)

    def next_records(self):
        cdef RecordScan records = RecordScan(self)
        cdef list out = []
        cdef Py_ssize_t target = min(self.row_target, OBJECT_ROWS)
        while len(out) < target and records.fill():
            while records.row < records.block.rows.count:
                out.append(records.make())
        return out or None


cdef list make_values(Rows* rows, const uint8_t* data):
    """The values of all rows; their positions are relative to data."""
    cdef list out = PyList_New(rows.count)
    cdef object value
    cdef int64_t n
    for n in range(rows.count):
        value = None
        if rows.value_lengths[n] >= 0:
            value = PyBytes_FromStringAndSize(
                <const char*>data + rows.value_positions[n], rows.value_lengths[n]
            )
        Py_INCREF(value)
        PyList_SET_ITEM(out, n, value)
    return out


@cython.final
cdef class RecordScan:
    """Creates the records of a scanner's batches one at a time, while their bytes are in cache.

    Between two records the caller may close the scanner, and another process may change the
    file. So the current batch is a copy, taken right after its checksum was verified.
    """

    def __cinit__(self, Scanner scanner not None):
        self.no_headers = parse_headers(NULL, NULL, 0)
        self.scanner = scanner
        self.block = Block()
        self.timestamp = 0

    def __dealloc__(self):
        free(self.memory)

    def __iter__(self):
        return self

    def __next__(self):
        if self.row == self.block.rows.count and not self.fill():
            raise StopIteration
        return self.make()

    cdef bint fill(self) except -1:
        """Decode the next batch that has records; False at the end."""
        cdef Scanner scanner = self.scanner
        cdef BatchHeader* batch = &scanner.scan.batch
        cdef Event event
        cdef bint found = False
        if self.filling:
            raise ValueError("another thread is already reading these records")
        self.filling = True
        try:
            scanner.scan.in_arena = False
            while True:
                self.row = 0
                self.block.rows.count = 0
                event = scanner._next_event(self.block, 1, False)
                if event == COMPRESSED:
                    decompressed = scanner._decompress()
                    if decompressed is None or not scanner._fill_decompressed(
                        decompressed, 0, self.block
                    ):
                        continue
                    if self.block.rows.count:
                        self.keep_decompressed(decompressed)
                        break
                elif self.block.rows.count:
                    self.keep(scanner.scan.data + batch.position, batch.size, batch.position)
                    break
                elif event == AT_END:
                    return False
            found = True
        finally:
            self.filling = False
            if not found:
                self.block.rows.count = 0       # the copy does not match these rows
        return True

    cdef int keep_decompressed(self, object decompressed) except -1:
        cdef HeldBytes view = hold_bytes(decompressed)
        self.keep(view.data, view.size, 0)
        return 0

    cdef int keep(self, const uint8_t* data, int64_t size, int64_t position) except -1:
        """Copy the bytes that the rows point into; position is that of data[0]."""
        cdef uint8_t* memory
        if size > self.room:
            memory = <uint8_t*>malloc(size)
            if memory == NULL:
                raise MemoryError
            free(self.memory)
            self.memory = memory
            self.room = size
        memcpy(self.memory, data, size)
        self.end = self.memory + size
        self.shift = position
        self.leader_epoch = self.scanner.scan.batch.leader_epoch
        self.kind = timestamp_type_of(&self.scanner.scan.batch)
        return 0

    cdef Record make(self):
        """Create the record of the next row, which must exist."""
        cdef Rows* rows = &self.block.rows
        cdef const char* data = <const char*>self.memory - self.shift
        cdef int64_t n = self.row
        cdef Record record = Record.__new__(Record)
        self.row = n + 1
        record.is_initialized = True
        if rows.value_lengths[n] >= 0:
            record.value = PyBytes_FromStringAndSize(
                data + rows.value_positions[n], rows.value_lengths[n]
            )
        if rows.key_lengths[n] >= 0:
            record.key = PyBytes_FromStringAndSize(
                data + rows.key_positions[n], rows.key_lengths[n]
            )
        record.offset = rows.offsets[n]
        if rows.timestamps[n] != self.last:     # records of a batch often share one timestamp
            self.last = rows.timestamps[n]
            self.timestamp = self.last
        record.timestamp = self.timestamp
        record.leader_epoch = self.leader_epoch
        record.timestamp_kind = self.kind
        if rows.header_counts[n]:
            record.headers = parse_headers(
                <const uint8_t*>data + rows.header_positions[n], self.end, rows.header_counts[n]
            )
        else:
            record.headers = self.no_headers
        return record
