"""The search loops of index lookups: interpolation, then branchless bisection.

``warm_section`` chooses the range first: Kafka's warm section at the end, or all before it.

With batches of similar size, offsets are nearly linear in their slots, so an interpolated slot is
close. If keys are skewed, one failed probe ends the interpolation, and a branchless bisection,
which prefetches both possible next keys, searches the range. No function reads outside the given
slots, even for corrupt keys, and every loop is bounded by their number.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from kstore._native.format.cursor cimport get_i64, get_u32
from kstore._native.format.layout cimport OFFSET_INDEX_ENTRY_SIZE, TIME_INDEX_ENTRY_SIZE


cdef extern from * nogil:
    """
    #define KSTORE_PREFETCH(p) __builtin_prefetch((p), 0, 3)
    /* All ones if a <= b. The compiler would turn a conditional into a branch. */
    #define KSTORE_MASK_LE(a, b) (-(Py_ssize_t)((a) <= (b)))
    """
    void KSTORE_PREFETCH(const void*) noexcept
    Py_ssize_t KSTORE_MASK_LE(uint32_t, uint32_t) noexcept
    Py_ssize_t KSTORE_MASK_LE_TIME "KSTORE_MASK_LE"(int64_t, int64_t) noexcept
    int KSTORE_CLZ "__builtin_clzll"(unsigned long long) noexcept

cdef enum:
    WINDOW = 128                # entries around an interpolated slot; smaller ranges are bisected
    LANES = 16                  # interleaved lookups in lookup_many


# --- one search --------------------------------------------------------------------------

cdef inline uint32_t offset_key(const uint8_t* entries, Py_ssize_t slot) noexcept nogil:
    return get_u32(entries + slot * OFFSET_INDEX_ENTRY_SIZE)


cdef inline int64_t time_key(const uint8_t* entries, Py_ssize_t slot) noexcept nogil:
    return get_i64(entries + slot * TIME_INDEX_ENTRY_SIZE)


cdef inline double max_interpolation_error(Py_ssize_t width) noexcept nogil:
    """Largest error of an interpolated slot before the keys count as skewed: at least twice the
    square root of the width, which is four standard deviations of uniform keys."""
    return <double>(<uint64_t>1 << (((64 - KSTORE_CLZ(<uint64_t>width)) >> 1) + 1))


cdef inline Py_ssize_t bisect_offsets(
    const uint8_t* entries, Py_ssize_t low, Py_ssize_t size, uint32_t key
) noexcept nogil:
    """Largest slot in entries[low:low + size] at or below key; low if none."""
    cdef Py_ssize_t half, next_half
    while size > 1:
        half = size >> 1
        next_half = (size - half) >> 1
        KSTORE_PREFETCH(entries + (low + next_half) * OFFSET_INDEX_ENTRY_SIZE)
        KSTORE_PREFETCH(entries + (low + half + next_half) * OFFSET_INDEX_ENTRY_SIZE)
        low += KSTORE_MASK_LE(offset_key(entries, low + half), key) & half
        size -= half
    return low


cdef inline Py_ssize_t bisect_times(
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
    """Floor slot, given low_key <= key < high_key, the keys of slots low and high.

    Probes the slot interpolated from the full range, and a second one interpolated from the
    first. If the key is in a window around that, bisects the window, else the full range. Both
    cases have a fixed number of steps, so the CPU predicts their branches.
    """
    cdef Py_ssize_t width = high - low, slot, left
    cdef double scale, step
    if width <= WINDOW:
        return bisect_offsets(entries, low, width, key)
    scale = <double>width / <double>(high_key - low_key)
    step = <double>(key - low_key) * scale
    slot = low + <Py_ssize_t>(step if step < <double>width else <double>width)
    step = (<double>key - <double>offset_key(entries, slot)) * scale
    if -max_interpolation_error(width) < step < max_interpolation_error(width):
        left = slot + <Py_ssize_t>step - WINDOW // 2
        if left > high - WINDOW:
            left = high - WINDOW
        if left < low:
            left = low
        if offset_key(entries, left) <= key < offset_key(entries, left + WINDOW):
            return bisect_offsets(entries, left, WINDOW, key)
    return bisect_offsets(entries, low, width, key)


cdef inline Py_ssize_t between_times(
    const uint8_t* entries, Py_ssize_t low, Py_ssize_t high,
    int64_t low_key, int64_t high_key, int64_t key,
) noexcept nogil:
    """As between_offsets. The slot is clamped to its range, whatever the rounding."""
    cdef Py_ssize_t width = high - low, slot, left
    cdef double scale, step
    if width <= WINDOW:
        return bisect_times(entries, low, width, key)
    scale = <double>width / <double>(<uint64_t>high_key - <uint64_t>low_key)
    step = <double>(<uint64_t>key - <uint64_t>low_key) * scale
    slot = low + <Py_ssize_t>(step if step < <double>width else <double>width)
    step = (<double>key - <double>time_key(entries, slot)) * scale
    if -max_interpolation_error(width) < step < max_interpolation_error(width):
        left = slot + <Py_ssize_t>step - WINDOW // 2
        if left > high - WINDOW:
            left = high - WINDOW
        if left < low:
            left = low
        if time_key(entries, left) <= key < time_key(entries, left + WINDOW):
            return bisect_times(entries, left, WINDOW, key)
    return bisect_times(entries, low, width, key)


# --- many searches -------------------------------------------------------------------------

cdef inline void bisect_lanes(
    const uint8_t* keys, Py_ssize_t step, Py_ssize_t size, const uint32_t* wanted,
    Py_ssize_t* low,
) noexcept nogil:
    """bisect_offsets for LANES interleaved lookups, whose cache misses overlap.

    The key of slot n is at keys + n * step; every lane's low + size is within the keys.
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


cdef inline void bisect_sampled(
    const uint32_t* keys, Py_ssize_t size, const uint32_t* wanted, Py_ssize_t* low
) noexcept nogil:
    cdef Py_ssize_t half
    cdef int lane
    while size > 1:
        half = size >> 1
        for lane in range(LANES):
            low[lane] += KSTORE_MASK_LE(keys[low[lane] + half], wanted[lane]) & half
        size -= half
