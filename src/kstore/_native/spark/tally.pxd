"""Groups of records that are counted and measured, for other kernels that count."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t


# What a group has of its records; names and places are those of `layout`. One line of a CPU's cache
# for what is always counted, one for the rest.
cdef struct Group:
    uint8_t[16] head            # of the key, zeros behind its end
    int32_t key_length          # -1: null, or keys are not distinguished
    int32_t min_value_size      # INT32_MAX without a value
    int32_t max_value_size      # -1 without a value
    int32_t spare
    int64_t window              # its number: it starts at so many times the width
    int64_t count
    int64_t value_bytes
    int64_t null_values
    int64_t min_timestamp
    int64_t max_timestamp
    int64_t min_offset
    int64_t max_offset
    int64_t key_position        # in the bytes of all keys
    int64_t key_bytes           # the rest only where keys are not distinguished
    int64_t null_keys
    int32_t min_key_size
    int32_t max_key_size


# A group where groups are only counted.
cdef struct Counter:
    uint64_t[2] head            # of the key, zeros behind its end
    int64_t window
    int64_t count
    int64_t key_position
    int32_t key_length
    int32_t spare


# Memory that is zero at first, in large pages where it is large, and moves as it grows.
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
    cdef Area group_area        # of either kind
    cdef Area slot_area
    cdef Area key_area
    cdef Group* groups
    cdef Counter* counters
    cdef int64_t group_count
    cdef uint64_t* slots        # the hash's upper half, and the group's number from 1 on
    cdef int64_t slot_count
    cdef uint8_t* arena
    cdef int64_t arena_size
    cdef uint64_t[2] secret
    cdef int64_t width
    cdef bint by_key
    cdef bint extents
    cdef bint only_counts       # the groups are counters
    cdef size_t group_size
    cdef int exports            # buffers that are out: nothing may move while there are any

    cdef int _may_change(self) except -1


# Count rows by window, keys not distinguished: all of them, or -1 without memory. The tally's
# buffers must not be in use.
cdef int64_t add_runs(Tally self, const Rows* rows, int64_t count) noexcept nogil
