"""Recovery's single pass over a segment: verifies every batch and rebuilds both indexes.

Rules: Kafka's LogSegment.recover. A batch must be complete, its checksum must match and its
offsets must increase within the segment; the scan stops at the first that is not valid. A batch
gets an offset index entry if it is more than ``index.interval.bytes`` after the last indexed one,
and a time index entry if the largest timestamp has grown since; one more is added at the end.

A ``ScanState`` processes a segment in chunks of any size and never keeps a chunk: of a batch that
continues in the next chunk, it keeps the header and the running checksum.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from kstore._native.format.argument cimport HeldBytes, hold_bytes
from kstore._native.format.batch_header cimport BatchHeader, crc_matches, read_header
from kstore._native.format.crc cimport crc32, crc32c
from kstore._native.format.cursor cimport put_i32, put_i64
from kstore._native.format.layout cimport (
    LEGACY_CRC_START, OFFSET_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE, V2_CRC_START, V2_HEADER_SIZE,
)
from kstore._native.format.status cimport BAD_CRC, BAD_OFFSET, NO_MEMORY, OK, TRUNCATED, Status


cdef struct GrowingBuffer:
    uint8_t* data
    size_t size
    size_t capacity


cdef struct ScanState:
    int64_t base_offset         # of the segment
    int64_t file_size
    int64_t index_interval
    int64_t index_limit         # maximum size of either index
    int64_t position            # in the file: of the next byte to process
    int64_t valid_size          # in the file: the end of the last valid batch
    int64_t last_offset         # of the last valid batch; base_offset - 1 before the first
    int64_t offset_before_last  # last_offset as it was before the last valid batch
    int64_t last_batch_base     # base offset of the last valid batch
    int64_t batches
    int64_t first_timestamp     # max timestamp of the first batch; -1 before it
    int64_t max_timestamp       # of all valid batches; -1 before the first
    int64_t max_timestamp_offset    # last offset of the first batch that has it
    int64_t last_indexed        # position of the last index entry, 0 before the first
    int64_t last_indexed_timestamp
    int32_t latest_epoch
    int64_t producer_batches
    Status status               # why the scan stopped; OK while it continues
    GrowingBuffer index               # Kafka's offset index entries, big-endian
    GrowingBuffer time_index
    GrowingBuffer epochs              # pairs of int64: epoch, start offset
    BatchHeader header          # of the batch that continues in the next chunk
    int64_t pending             # bytes of it in later chunks
    uint32_t running            # its checksum so far


cdef uint8_t* _grow(GrowingBuffer* buffer, size_t more) noexcept nogil:
    """Extend the buffer by more bytes; returns their address, NULL without memory."""
    cdef size_t capacity
    cdef uint8_t* data
    if buffer.capacity - buffer.size < more:
        capacity = buffer.capacity * 2 if buffer.capacity > 0 else 4096
        data = <uint8_t*>realloc(buffer.data, capacity)
        if data == NULL:
            return NULL
        buffer.data = data
        buffer.capacity = capacity
    buffer.size += more
    return buffer.data + (buffer.size - more)


cdef Status _add_time_entry(ScanState* state) noexcept nogil:
    """Kafka's TimeIndex.maybeAppend: add an entry only for a timestamp after the last entry's."""
    cdef uint8_t* at
    if state.max_timestamp <= state.last_indexed_timestamp:
        return OK
    at = _grow(&state.time_index, TIME_INDEX_ENTRY_SIZE)
    if at == NULL:
        return NO_MEMORY
    put_i64(at, state.max_timestamp)
    put_i32(at + 8, <int32_t>(state.max_timestamp_offset - state.base_offset))
    state.last_indexed_timestamp = state.max_timestamp
    return OK


cdef Status _add_entries(
    ScanState* state, const BatchHeader* batch, int64_t position
) noexcept nogil:
    cdef uint8_t* at
    if (
        <int64_t>state.index.size > state.index_limit - OFFSET_INDEX_ENTRY_SIZE
        # One slot of the time index is reserved for the closing entry.
        or <int64_t>state.time_index.size > state.index_limit - 2 * TIME_INDEX_ENTRY_SIZE
        or position > INT32_MAX
    ):
        return OK
    at = _grow(&state.index, OFFSET_INDEX_ENTRY_SIZE)
    if at == NULL:
        return NO_MEMORY
    put_i32(at, <int32_t>(batch.last_offset - state.base_offset))
    put_i32(at + 4, <int32_t>position)
    state.last_indexed = position
    return _add_time_entry(state)


cdef Status _add_epoch(ScanState* state, const BatchHeader* batch) noexcept nogil:
    cdef uint8_t* at = _grow(&state.epochs, 16)
    cdef int64_t epoch = batch.leader_epoch
    if at == NULL:
        return NO_MEMORY
    memcpy(at, &epoch, 8)
    memcpy(at + 8, &batch.base_offset, 8)
    state.latest_epoch = batch.leader_epoch
    return OK


cdef inline Status _accept(
    ScanState* state, const BatchHeader* batch, int64_t position
) noexcept nogil:
    """Accept a batch with a valid checksum if its offsets increase; position: in the file.

    last_offset is never below base_offset - 1, so no difference here can overflow.
    """
    cdef Status status
    if (
        batch.base_offset <= state.last_offset
        or batch.last_offset < batch.base_offset
        or batch.last_offset - state.base_offset > INT32_MAX
    ):
        return BAD_OFFSET
    if batch.max_timestamp > state.max_timestamp:
        state.max_timestamp = batch.max_timestamp
        state.max_timestamp_offset = batch.last_offset
    if position - state.last_indexed > state.index_interval:
        status = _add_entries(state, batch, position)
        if status != OK:
            return status
    if batch.leader_epoch > state.latest_epoch:
        status = _add_epoch(state, batch)
        if status != OK:
            return status
    if state.batches == 0:
        state.first_timestamp = batch.max_timestamp
    if batch.producer_id >= 0:
        state.producer_batches += 1
    state.batches += 1
    state.offset_before_last = state.last_offset
    state.last_batch_base = batch.base_offset
    state.last_offset = batch.last_offset
    state.valid_size = position + batch.size
    return OK


cdef void scan_begin(ScanState* state, int64_t base_offset, int64_t file_size) noexcept nogil:
    memset(state, 0, sizeof(ScanState))
    state.base_offset = base_offset
    state.file_size = file_size
    state.last_offset = base_offset - 1
    state.offset_before_last = base_offset - 1
    state.last_batch_base = base_offset
    state.first_timestamp = -1
    state.max_timestamp = -1
    state.max_timestamp_offset = base_offset
    state.last_indexed_timestamp = -1
    state.latest_epoch = -1
    state.status = OK


cdef int64_t _continue_batch(ScanState* state, const uint8_t* chunk, int64_t size) noexcept nogil:
    """Continue the batch from the previous chunk; returns the bytes it has in this one."""
    cdef int64_t taken = min(size, state.pending)
    if state.header.magic == 2:
        state.running = crc32c(state.running, chunk, taken)
    else:
        state.running = crc32(state.running, chunk, taken)
    state.pending -= taken
    state.position += taken
    if state.pending == 0:
        if state.running != state.header.crc:
            state.status = BAD_CRC
        else:
            state.status = _accept(state, &state.header, state.valid_size)
    return taken


cdef void _begin_batch(ScanState* state, const uint8_t* at, int64_t available) noexcept nogil:
    """Begin a batch that continues in the next chunk; its header is in this one."""
    if state.header.magic == 2:
        state.running = crc32c(0, at + V2_CRC_START, available - V2_CRC_START)
    else:
        state.running = crc32(0, at + LEGACY_CRC_START, available - LEGACY_CRC_START)
    state.pending = state.header.size - available
    state.position += available


cdef void scan_feed(ScanState* state, const uint8_t* chunk, int64_t size) noexcept nogil:
    """Scan the bytes at state.position of the file.

    Advances state.position to the next byte to process: up to 60 bytes before the end of the
    chunk if a header is incomplete. The scan has stopped once state.status is not OK.
    """
    cdef BatchHeader* batch = &state.header
    cdef int64_t at = 0
    cdef int64_t left = state.file_size - state.position
    if state.status != OK:
        return
    size = min(size, left)
    if state.pending > 0:
        at = _continue_batch(state, chunk, size)
        left -= at
    while state.status == OK and state.pending == 0 and left > 0:
        # Wait for the complete header, unless the file ends before. read_header reads only the
        # header, so its limit may be the end of the file.
        if size - at < V2_HEADER_SIZE and size - at < left:
            return
        state.status = read_header(chunk, at, at + left, batch)
        if state.status != OK:
            return
        if batch.size > size - at:
            _begin_batch(state, chunk + at, size - at)
            return
        if not crc_matches(chunk, batch):
            state.status = BAD_CRC
            return
        state.status = _accept(state, batch, state.position)
        state.position += batch.size
        at += batch.size
        left -= batch.size


cdef void scan_finish(ScanState* state) noexcept nogil:
    """End the scan at the end of the file: an incomplete batch is a torn tail."""
    if state.status == OK and state.valid_size < state.file_size:
        state.status = TRUNCATED
    if (
        <int64_t>state.time_index.size <= state.index_limit - TIME_INDEX_ENTRY_SIZE
        and _add_time_entry(state) != OK
    ):
        state.status = NO_MEMORY


cdef void scan_free(ScanState* state) noexcept nogil:
    free(state.index.data)
    free(state.time_index.data)
    free(state.epochs.data)
    memset(&state.index, 0, sizeof(GrowingBuffer))
    memset(&state.time_index, 0, sizeof(GrowingBuffer))
    memset(&state.epochs, 0, sizeof(GrowingBuffer))


cdef bytes _copy(const GrowingBuffer* buffer):
    return (<char*>buffer.data)[:buffer.size] if buffer.size > 0 else b""


cdef class SegmentScan:
    """Verifies one segment from position 0 and builds its indexes, in chunks of the file.

    ::

        scan = SegmentScan(base_offset, size)
        while scan.wants_more:
            scan.feed(bytes at scan.position)    # b"" if the file was truncated
        scan.finish()

    Parameters
    ----------
    base_offset
        The segment's, 0 or more.
    file_size
        Bytes of the ``.log`` file.
    index_interval_bytes
        Kafka's ``index.interval.bytes``.
    index_bytes
        Kafka's ``segment.index.bytes``: neither index grows beyond it.
    latest_epoch
        The highest leader epoch already known; ``epochs`` has only higher ones.

    Memory: the indexes (about 20 bytes for every ``index_interval_bytes`` of log), 16 bytes for
    every new leader epoch. Not thread-safe; ``feed`` releases the GIL.
    """

    cdef ScanState _state
    cdef bint _finished

    def __cinit__(
        self, int64_t base_offset, int64_t file_size, *, int64_t index_interval_bytes=4096,
        int64_t index_bytes=10485760, int32_t latest_epoch=-1,
    ):
        if base_offset < 0 or file_size < 0 or index_interval_bytes < 0:
            raise ValueError("offsets and sizes cannot be negative")
        scan_begin(&self._state, base_offset, file_size)
        self._state.index_interval = index_interval_bytes
        self._state.index_limit = index_bytes
        self._state.latest_epoch = latest_epoch

    def __dealloc__(self):
        scan_free(&self._state)

    def feed(self, object chunk):
        """Scan the bytes at ``position`` of the file; returns ``wants_more``."""
        cdef HeldBytes view
        cdef int64_t before = self._state.position
        if self._finished:
            raise ValueError("the scan is finished")
        view = hold_bytes(chunk)
        with nogil:
            scan_feed(&self._state, view.data, view.size)
        if self._state.status == NO_MEMORY:
            raise MemoryError
        if self._state.position == before and self.wants_more:
            self._state.status = TRUNCATED      # no complete header: the file was truncated
        return self.wants_more

    def finish(self):
        """Add the closing time index entry; an incomplete batch is a torn tail."""
        if not self._finished:
            self._finished = True
            scan_finish(&self._state)
            if self._state.status == NO_MEMORY:
                raise MemoryError

    @property
    def wants_more(self):
        return self._state.status == OK and self._state.position < self._state.file_size

    @property
    def position(self):
        """Where in the file the next chunk must begin."""
        return self._state.position

    @property
    def status(self):
        """Why the scan stopped before the end of the file, see status.reason; 0 if it did not."""
        return <int>self._state.status

    @property
    def base_offset(self):
        return self._state.base_offset

    @property
    def file_size(self):
        return self._state.file_size

    @property
    def valid_size(self):
        """Position after the last valid batch; recovery truncates the file to it."""
        return self._state.valid_size

    @property
    def last_gap(self):
        """The gap before the last valid batch: (first, end)."""
        return self._state.offset_before_last + 1, self._state.last_batch_base

    @property
    def batches(self):
        return self._state.batches

    @property
    def next_offset(self):
        """The offset after the last valid batch; the base offset if none."""
        return self._state.last_offset + 1

    @property
    def first_timestamp(self):
        """Largest timestamp of the first batch (ms), where ``segment.ms`` starts; -1 if none."""
        return self._state.first_timestamp

    @property
    def max_timestamp(self):
        """Largest timestamp of all valid batches (ms); -1 if none."""
        return self._state.max_timestamp

    @property
    def max_timestamp_offset(self):
        """Last offset of the first batch with the largest timestamp."""
        return self._state.max_timestamp_offset

    @property
    def index(self):
        """The offset index entries, as on disk."""
        return _copy(&self._state.index)

    @property
    def time_index(self):
        """The time index entries, as on disk; with the closing entry after ``finish``."""
        return _copy(&self._state.time_index)

    @property
    def producer_batches(self):
        """Number of batches of idempotent and transactional producers, including markers."""
        return self._state.producer_batches

    @property
    def epochs(self):
        """New leader epochs: a list of (epoch, first offset)."""
        cdef const int64_t* at = <const int64_t*>self._state.epochs.data
        cdef size_t n
        return [(at[2 * n], at[2 * n + 1]) for n in range(self._state.epochs.size // 16)]
