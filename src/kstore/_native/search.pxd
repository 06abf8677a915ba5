"""The search loops under the index files: interpolate, then halve without branches.

Batches of like sizes make offsets nearly linear in their slots, so that an interpolated slot is
close; where keys are skewed, one unhelpful probe ends the interpolation and the rest is halved
without branches, prefetching both possible next keys. Nothing here reads outside the slots it is
given, whatever the keys are, and every loop is bounded by their number.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from kstore._native.cursor cimport get_i64, get_u32
from kstore._native.layout cimport OFFSET_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE


cdef extern from * nogil:
    """
    #define KSTORE_PREFETCH(p) __builtin_prefetch((p), 0, 3)
    #define KSTORE_LIKELY(x) __builtin_expect(!!(x), 1)
    /* All ones when a <= b. A plain conditional would be compiled to a branch. */
    #define KSTORE_MASK_LE(a, b) (-(Py_ssize_t)((a) <= (b)))
    """
    void KSTORE_PREFETCH(const void*) noexcept
    bint KSTORE_LIKELY(bint) noexcept
    Py_ssize_t KSTORE_MASK_LE(uint32_t, uint32_t) noexcept
    Py_ssize_t KSTORE_MASK_LE_TIME "KSTORE_MASK_LE"(int64_t, int64_t) noexcept
    int KSTORE_CLZ "__builtin_clzll"(unsigned long long) noexcept

cdef enum:
    NARROW = 64                 # entries; below this interpolation gains nothing
    INTERPOLATIONS = 4
    LANES = 16                  # lookups that run side by side in lookup_many


# --- one search --------------------------------------------------------------------------

cdef inline uint32_t offset_key(const uint8_t* entries, Py_ssize_t slot) noexcept nogil:
    return get_u32(entries + slot * OFFSET_INDEX_ENTRY_SIZE)


cdef inline int64_t time_key(const uint8_t* entries, Py_ssize_t slot) noexcept nogil:
    return get_i64(entries + slot * TIME_INDEX_ENTRY_SIZE)


cdef inline Py_ssize_t guard_of(Py_ssize_t width) noexcept nogil:
    """How far an interpolated slot may be off: about twice the square root of the width, which
    is four standard deviations where the keys are uniform."""
    return <Py_ssize_t>1 << (((64 - KSTORE_CLZ(<uint64_t>width)) >> 1) + 1)


cdef inline Py_ssize_t halve_offsets(
    const uint8_t* entries, Py_ssize_t low, Py_ssize_t size, uint32_t key
) noexcept nogil:
    """Largest slot in entries[low:low + size] at or below key; low if there is none."""
    cdef Py_ssize_t half, next_half
    while size > 1:
        half = size >> 1
        next_half = (size - half) >> 1
        KSTORE_PREFETCH(entries + (low + next_half) * OFFSET_INDEX_ENTRY_SIZE)
        KSTORE_PREFETCH(entries + (low + half + next_half) * OFFSET_INDEX_ENTRY_SIZE)
        low += KSTORE_MASK_LE(offset_key(entries, low + half), key) & half
        size -= half
    return low


cdef inline Py_ssize_t halve_times(
    const uint8_t* entries, Py_ssize_t low, Py_ssize_t size, int64_t key
) noexcept nogil:
    cdef Py_ssize_t half, next_half
    while size > 1:
        half = size >> 1
        next_half = (size - half) >> 1
        KSTORE_PREFETCH(entries + (low + next_half) * TIME_INDEX_ENTRY_SIZE)
        KSTORE_PREFETCH(entries + (low + half + next_half) * TIME_INDEX_ENTRY_SIZE)
        low += KSTORE_MASK_LE_TIME(time_key(entries, low + half), key) & half
        size -= half
    return low


cdef inline Py_ssize_t between_offsets(
    const uint8_t* entries, Py_ssize_t low, Py_ssize_t high, uint32_t low_key, uint32_t high_key,
    uint32_t key,
) noexcept nogil:
    """Floor slot, knowing low_key <= key < high_key, the keys of slots low and high.

    Each round reads two keys around the interpolated slot; they do not wait for each other.
    A round that leaves more than a quarter of the slots ends the interpolation.
    """
    cdef Py_ssize_t width, middle, guard, left, right
    cdef uint32_t left_key, right_key
    cdef int _round
    for _round in range(INTERPOLATIONS):
        width = high - low
        if width <= NARROW or width > 0x7FFFFFFF:
            break
        middle = low + <Py_ssize_t>(
            <uint64_t>(key - low_key) * <uint64_t>width // <uint64_t>(high_key - low_key)
        )
        guard = guard_of(width)
        left = middle - guard
        right = middle + guard
        if left < low:
            left = low
        if right > high:
            right = high
        left_key = offset_key(entries, left)
        right_key = offset_key(entries, right)
        if KSTORE_LIKELY(left_key <= key):
            if KSTORE_LIKELY(key < right_key):
                low = left
                low_key = left_key
                high = right
                high_key = right_key
            else:
                low = right
                low_key = right_key
        else:
            high = left
            high_key = left_key
        if high - low > width >> 2 or low_key >= high_key:
            break
    return halve_offsets(entries, low, high - low, key)


cdef inline Py_ssize_t between_times(
    const uint8_t* entries, Py_ssize_t low, Py_ssize_t high, int64_t low_key, int64_t high_key,
    int64_t key,
) noexcept nogil:
    """As between_offsets; 64-bit keys are interpolated as doubles, whose rounding cannot leave
    the bracket because the slot is clamped."""
    cdef Py_ssize_t width, middle, guard, left, right
    cdef int64_t left_key, right_key
    cdef int _round
    for _round in range(INTERPOLATIONS):
        width = high - low
        if width <= NARROW or width > 0x7FFFFFFF:
            break
        middle = low + <Py_ssize_t>(
            <double>(<uint64_t>key - <uint64_t>low_key)
            / <double>(<uint64_t>high_key - <uint64_t>low_key) * <double>width
        )
        guard = guard_of(width)
        left = middle - guard
        right = middle + guard
        if left < low:
            left = low
        if right > high:
            right = high
        left_key = time_key(entries, left)
        right_key = time_key(entries, right)
        if KSTORE_LIKELY(left_key <= key):
            if KSTORE_LIKELY(key < right_key):
                low = left
                low_key = left_key
                high = right
                high_key = right_key
            else:
                low = right
                low_key = right_key
        else:
            high = left
            high_key = left_key
        if high - low > width >> 2 or low_key >= high_key:
            break
    return halve_times(entries, low, high - low, key)


# --- many searches -------------------------------------------------------------------------

cdef inline void halve_lanes(
    const uint8_t* keys, Py_ssize_t step, Py_ssize_t size, const uint32_t* wanted,
    Py_ssize_t* low,
) noexcept nogil:
    """halve_offsets for LANES lookups side by side: their cache misses overlap.

    The key of slot n lies at keys + n * step; every lane's low + size is within the keys.
    """
    cdef Py_ssize_t half
    cdef uint32_t key
    cdef int lane
    while size > 1:
        half = size >> 1
        for lane in range(LANES):
            key = get_u32(keys + (low[lane] + half) * step)
            low[lane] += KSTORE_MASK_LE(key, wanted[lane]) & half
        size -= half


cdef inline void halve_sampled(
    const uint32_t* keys, Py_ssize_t size, const uint32_t* wanted, Py_ssize_t* low
) noexcept nogil:
    cdef Py_ssize_t half
    cdef int lane
    while size > 1:
        half = size >> 1
        for lane in range(LANES):
            low[lane] += KSTORE_MASK_LE(keys[low[lane] + half], wanted[lane]) & half
        size -= half
