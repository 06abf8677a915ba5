"""The scan of recovery, for other kernels: complete batches in order, until one is not.

A ``ScanState`` is fed a segment's bytes in chunks of any size. It never holds a chunk: a batch
that runs over a chunk's end is carried on as a running checksum.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from kstore._native.format.batch_header cimport BatchHeader
from kstore._native.format.status cimport Status


cdef struct Growing:
    uint8_t* data
    size_t size
    size_t capacity


cdef struct ScanState:
    int64_t base_offset         # of the segment
    int64_t file_size
    int64_t index_interval      # INT64_MAX: build no indexes
    int64_t index_limit         # bytes that either index may take
    bint check_crc
    int64_t position            # in the file: the next byte wanted
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
    Status status               # why the scan stopped; OK while it has not
    Growing index               # Kafka's offset index entries, big-endian
    Growing time_index
    Growing epochs              # pairs of int64: epoch, start offset
    BatchHeader header          # the batch that runs over the end of the last chunk
    int64_t pending             # bytes of it that are still to come
    uint32_t running            # its checksum so far


cdef void scan_begin(
    ScanState* state, int64_t base_offset, int64_t start, int64_t file_size
) noexcept nogil
cdef void scan_feed(ScanState* state, const uint8_t* chunk, int64_t size) noexcept nogil
cdef void scan_finish(ScanState* state) noexcept nogil
cdef void scan_free(ScanState* state) noexcept nogil
cdef void walk_tail_in(
    ScanState* state, const uint8_t* data, int64_t base_offset, int64_t start, int64_t end,
    bint check_crc
) noexcept nogil
