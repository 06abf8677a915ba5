"""Counts and sizes of records by group, for other kernels."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t


# Measures of one group; names and positions match `layout`. The first cache line has the fields
# that every mode updates, the second the others.
cdef struct Group:
    uint8_t[16] head            # first bytes of the key, zero-padded
    int32_t key_length          # -1: null, or keys are not distinguished
    int32_t min_value_size      # INT32_MAX without a value
    int32_t max_value_size      # -1 without a value
    int32_t spare
    int64_t window              # number of the window, which starts at number * width
    int64_t count
    int64_t value_bytes
    int64_t null_values
    int64_t min_timestamp
    int64_t max_timestamp
    int64_t min_offset
    int64_t max_offset
    int64_t key_position        # in the bytes of all keys
    int64_t key_bytes           # this and the rest only if keys are not distinguished
    int64_t null_keys
    int32_t min_key_size
    int32_t max_key_size


# A group in the mode that only counts records.
cdef struct Counter:
    uint64_t[2] head            # first bytes of the key, zero-padded
    int64_t window
    int64_t count
    int64_t key_position
    int32_t key_length
    int32_t spare


# Zeroed memory, in large pages if it is large, which moves when it grows.
cdef struct Area:
    void* memory
    void* reserved
    size_t size


cdef struct Rows:
    const int64_t* offsets
    const int64_t* timestamps
    const int64_t* key_positions
    const int32_t* key_lengths
    const int32_t* value_lengths


cdef class Tally:
    cdef Area group_area        # Group or Counter
    cdef Area slot_area
    cdef Area key_area
    cdef Group* groups
    cdef Counter* counters
    cdef int64_t group_count
    cdef uint64_t* slots        # upper half of the hash, and index of the group + 1
    cdef int64_t slot_count
    cdef uint8_t* arena
    cdef int64_t arena_size
    cdef uint64_t[2] secret
    cdef int64_t width
    cdef bint by_key
    cdef bint extents
    cdef bint only_counts       # the groups are counters
    cdef size_t group_size
    cdef int exports            # number of exported buffers; nothing may move while above 0

    cdef int _may_change(self) except -1


# Count rows by window, without distinguishing keys; returns count, or -1 without memory. The
# tally's buffers must not be in use.
cdef int64_t add_runs(Tally self, const Rows* rows, int64_t count) noexcept nogil
