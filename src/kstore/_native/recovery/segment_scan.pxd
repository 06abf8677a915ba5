"""The scan of recovery, for other kernels: walks complete, valid batches in order.

A ``ScanState`` processes a segment in chunks of any size and never keeps a chunk: of a batch that
continues in the next chunk, it keeps the header and the running checksum.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from kstore._native.format.batch_header cimport BatchHeader
from kstore._native.format.status cimport Status


cdef struct GrowingBuffer:
    uint8_t* data
    size_t size
    size_t capacity


cdef struct ScanState:
    int64_t base_offset         # of the segment
    int64_t file_size
    int64_t index_interval      # INT64_MAX: build no indexes
    int64_t index_limit         # maximum size of either index
    bint check_crc
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


cdef void scan_begin(
    ScanState* state, int64_t base_offset, int64_t start, int64_t file_size
) noexcept nogil
cdef void scan_feed(ScanState* state, const uint8_t* chunk, int64_t size) noexcept nogil
cdef void scan_finish(ScanState* state) noexcept nogil
cdef void scan_free(ScanState* state) noexcept nogil
cdef void scan_range(
    ScanState* state, const uint8_t* data, int64_t base_offset, int64_t start, int64_t end,
    bint check_crc
) noexcept nogil
