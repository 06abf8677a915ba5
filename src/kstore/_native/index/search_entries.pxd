"""The search loops under the index files: interpolate, then halve without branches.

Batches of like sizes make offsets nearly linear in their slots, so that an interpolated slot is
close; where keys are skewed, one unhelpful probe ends the interpolation and the range is halved
without branches, prefetching both possible next keys. Nothing here reads outside the slots it is
given, whatever the keys are, and every loop is bounded by their number.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from kstore._native.format.cursor cimport get_i64, get_u32
from kstore._native.format.layout cimport OFFSET_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE


cdef extern from * nogil:
    """
    #define KSTORE_PREFETCH(p) __builtin_prefetch((p), 0, 3)
    /* All ones when a <= b. A plain conditional would be compiled to a branch. */
    #define KSTORE_MASK_LE(a, b) (-(Py_ssize_t)((a) <= (b)))
    """
    void KSTORE_PREFETCH(const void*) noexcept
    Py_ssize_t KSTORE_MASK_LE(uint32_t, uint32_t) noexcept
    Py_ssize_t KSTORE_MASK_LE_TIME "KSTORE_MASK_LE"(int64_t, int64_t) noexcept
    int KSTORE_CLZ "__builtin_clzll"(unsigned long long) noexcept

cdef enum:
    WINDOW = 128                # entries around an interpolated slot; fewer are only halved
    LANES = 16                  # lookups that run side by side in lookup_many


# --- one search --------------------------------------------------------------------------

cdef inline uint32_t offset_key(const uint8_t* entries, Py_ssize_t slot) noexcept nogil:
    return get_u32(entries + slot * OFFSET_INDEX_ENTRY_SIZE)


cdef inline int64_t time_key(const uint8_t* entries, Py_ssize_t slot) noexcept nogil:
    return get_i64(entries + slot * TIME_INDEX_ENTRY_SIZE)


cdef inline double likely_error(Py_ssize_t width) noexcept nogil:
    """How far an interpolated slot may be off before the keys count as skewed: at least twice
    the square root of the width, which is four standard deviations where they are uniform."""
    return <double>(<uint64_t>1 << (((64 - KSTORE_CLZ(<uint64_t>width)) >> 1) + 1))


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
    const uint8_t* entries, Py_ssize_t low, Py_ssize_t high,
    uint32_t low_key, uint32_t high_key, uint32_t key,
) noexcept nogil:
    """Floor slot, knowing low_key <= key < high_key, the keys of slots low and high.

    One probe where the full range points, a second where the first points; if the key is within
    a window around that, the window is halved, else the full range. Both ways take the same
    steps each time, so that their branches are foreseen.
    """
    cdef Py_ssize_t width = high - low, slot, left
    cdef double scale, step
    if width <= WINDOW:
        return halve_offsets(entries, low, width, key)
    scale = <double>width / <double>(high_key - low_key)
    step = <double>(key - low_key) * scale
    slot = low + <Py_ssize_t>(step if step < <double>width else <double>width)
    step = (<double>key - <double>offset_key(entries, slot)) * scale
    if -likely_error(width) < step < likely_error(width):
        left = slot + <Py_ssize_t>step - WINDOW // 2
        if left > high - WINDOW:
            left = high - WINDOW
        if left < low:
            left = low
        if offset_key(entries, left) <= key < offset_key(entries, left + WINDOW):
            return halve_offsets(entries, left, WINDOW, key)
    return halve_offsets(entries, low, width, key)


cdef inline Py_ssize_t between_times(
    const uint8_t* entries, Py_ssize_t low, Py_ssize_t high,
    int64_t low_key, int64_t high_key, int64_t key,
) noexcept nogil:
    """As between_offsets. Rounding moves a slot within its range only: it is clamped."""
    cdef Py_ssize_t width = high - low, slot, left
    cdef double scale, step
    if width <= WINDOW:
        return halve_times(entries, low, width, key)
    scale = <double>width / <double>(<uint64_t>high_key - <uint64_t>low_key)
    step = <double>(<uint64_t>key - <uint64_t>low_key) * scale
    slot = low + <Py_ssize_t>(step if step < <double>width else <double>width)
    step = (<double>key - <double>time_key(entries, slot)) * scale
    if -likely_error(width) < step < likely_error(width):
        left = slot + <Py_ssize_t>step - WINDOW // 2
        if left > high - WINDOW:
            left = high - WINDOW
        if left < low:
            left = low
        if time_key(entries, left) <= key < time_key(entries, left + WINDOW):
            return halve_times(entries, left, WINDOW, key)
    return halve_times(entries, low, width, key)


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
