"""Counts and measures records by time window and key, from columns."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from kstore._native.format.argument cimport HeldColumn, hold_int32s, hold_int64s

cdef extern from "spark/mix_hash.h" nogil:
    uint64_t mix_hash(const uint8_t* data, int64_t size, uint64_t seed, const uint64_t* secret)

cdef extern from "compaction/reserve_memory.h" nogil:
    void* reserve_memory(size_t size, void** start)
    void release_memory(void* start, size_t size)

cdef extern from * nogil:
    """
    #define KSTORE_FETCH_GROUP(p) __builtin_prefetch((p), 1, 2)
    """
    void prefetch "KSTORE_FETCH_GROUP"(const void*) noexcept

cdef enum:
    GROUP_SIZE = 128
    HEAD = 16                   # bytes of a key stored in its group
    ROWS = 64                   # rows to hash before the first lookup, so that prefetches overlap
    MAX_GROUPS = 0x7FFFFFFF
    FIRST_SLOTS = 1 << 10
    FIRST_GROUPS = 1 << 9
    FIRST_KEYS = 1 << 13

cdef enum:
    NULL_KEY = -1

_LAYOUT = (  # of Group
    ("key_lengths", "int32", 16), ("min_value_size", "int32", 20),
    ("max_value_size", "int32", 24), ("window", "int64", 32), ("count", "int64", 40),
    ("value_bytes", "int64", 48), ("null_values", "int64", 56), ("min_timestamp", "int64", 64),
    ("max_timestamp", "int64", 72), ("min_offset", "int64", 80), ("max_offset", "int64", 88),
    ("key_positions", "int64", 96), ("key_bytes", "int64", 104), ("null_keys", "int64", 112),
    ("min_key_size", "int32", 120), ("max_key_size", "int32", 124),
)
_COUNTER_LAYOUT = (
    ("window", "int64", 16), ("count", "int64", 24), ("key_positions", "int64", 32),
    ("key_lengths", "int32", 40),
)
assert sizeof(Group) == GROUP_SIZE and sizeof(Counter) == 48


cdef class KeyBytes:
    """The bytes of a tally's keys, without gaps; read-only."""

    cdef Tally of

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.of.arena, self.of.arena_size, 1, flags)
        self.of.exports += 1

    def __releasebuffer__(self, Py_buffer* view):
        self.of.exports -= 1


cdef class Tally:
    def __cinit__(
        self, key, int64_t width=0, *, bint by_key=False, bint extents=True, bint sizes=True,
    ):
        cdef Py_buffer view
        if width < 0:
            raise ValueError("the width of a window is at least 1 ms, or 0 for none")
        PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
        try:
            if view.len != sizeof(self.secret):
                raise ValueError("the key of the hash has 16 bytes")
            memcpy(&self.secret[0], view.buf, sizeof(self.secret))
        finally:
            PyBuffer_Release(&view)
        self.width = width
        self.by_key = by_key
        self.extents = extents
        self.only_counts = by_key and not extents and not sizes
        self.group_size = sizeof(Counter) if self.only_counts else sizeof(Group)
        self.slot_count = FIRST_SLOTS
        if not (
            reallocate(&self.slot_area, 0, FIRST_SLOTS * sizeof(uint64_t))
            and reallocate(&self.group_area, 0, FIRST_GROUPS * self.group_size)
            and reallocate(&self.key_area, 0, FIRST_KEYS)
        ):
            raise MemoryError
        self.slots = <uint64_t*>self.slot_area.memory
        self.groups = <Group*>self.group_area.memory
        self.arena = <uint8_t*>self.key_area.memory
        self.counters = <Counter*>self.group_area.memory

    def __dealloc__(self):
        release(&self.slot_area)
        release(&self.group_area)
        release(&self.key_area)

    def __len__(self):
        return self.group_count

    @property
    def memory(self):
        return self.group_area.size + self.slot_area.size + self.key_area.size

    @property
    def layout(self):
        layout = _COUNTER_LAYOUT if self.only_counts else _LAYOUT
        return {name: (dtype, start) for name, dtype, start in layout}

    @property
    def stride(self):
        return self.group_size

    @property
    def key_data(self):
        cdef KeyBytes key_bytes = KeyBytes.__new__(KeyBytes)
        key_bytes.of = self
        return key_bytes

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(
            view, self, self.group_area.memory, self.group_count * self.group_size, 1, flags
        )
        self.exports += 1

    def __releasebuffer__(self, Py_buffer* view):
        self.exports -= 1

    def clear(self):
        self._may_change()
        self.group_count = self.arena_size = 0
        memset(self.slots, 0, self.slot_count * sizeof(uint64_t))

    def add(
        self, data, offsets, timestamps, key_positions, key_lengths, value_lengths,
    ):
        cdef HeldColumn numbers = hold_int64s(offsets, "offsets")
        cdef HeldColumn times = hold_int64s(timestamps, "timestamps")
        cdef HeldColumn keys = hold_int64s(key_positions, "key_positions")
        cdef HeldColumn key_sizes = hold_int32s(key_lengths, "key_lengths")
        cdef HeldColumn value_sizes = hold_int32s(value_lengths, "value_lengths")
        cdef Py_buffer view
        cdef Rows rows
        cdef int64_t count = numbers.count, done
        self._may_change()
        if not (
            count == times.count == keys.count == key_sizes.count == value_sizes.count
        ):
            raise ValueError("the columns differ in length")
        if count == 0:
            return
        rows.offsets = <const int64_t*>numbers.data
        rows.timestamps = <const int64_t*>times.data
        rows.key_positions = <const int64_t*>keys.data
        rows.key_lengths = <const int32_t*>key_sizes.data
        rows.value_lengths = <const int32_t*>value_sizes.data
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            with nogil:
                if self.only_counts:
                    done = count_by_key(self, <const uint8_t*>view.buf, view.len, &rows, count)
                elif self.by_key:
                    done = add_by_key(self, <const uint8_t*>view.buf, view.len, &rows, count)
                else:
                    done = add_runs(self, &rows, count)
        finally:
            PyBuffer_Release(&view)
        if done == -1:
            raise MemoryError
        if done < count:
            raise ValueError(f"the key of row {done} is outside the data")

    cdef int _may_change(self) except -1:
        if self.exports:
            raise BufferError("the tally's buffers are in use")
        return 0


# A window: its number, and its first and last millisecond.
cdef struct Span:
    int64_t window
    int64_t low
    int64_t high


cdef inline void span_of(Span* span, int64_t timestamp, int64_t width) noexcept nogil:
    cdef int64_t within
    if width == 0:
        span.window, span.low, span.high = 0, INT64_MIN, INT64_MAX
        return
    span.window, within = timestamp // width, timestamp % width     # C rounds towards zero
    if within < 0:
        span.window -= 1
        within += width
    span.low = timestamp - within if timestamp >= INT64_MIN + within else INT64_MIN
    within = width - 1 - within
    span.high = timestamp + within if timestamp <= INT64_MAX - within else INT64_MAX


# --- the table ------------------------------------------------------------------------------------


# The key of a lookup.
cdef struct Wanted:
    const uint8_t* key
    uint64_t hashed
    int64_t window
    uint64_t[2] head
    int32_t length


cdef inline int64_t number_of(uint64_t slot) noexcept nogil:
    return <int64_t>(slot & <uint64_t>0xFFFFFFFF) - 1


cdef inline uint64_t slot_of(uint64_t hashed, int64_t number) noexcept nogil:
    return (hashed >> 32 << 32) | <uint64_t>(number + 1)


cdef inline uint64_t hash_group(
    Tally self, int64_t window, const uint8_t* key, int32_t length
) noexcept nogil:
    return mix_hash(
        key, max(length, 0), <uint64_t>window ^ (<uint64_t>(length < 0) << 63), self.secret
    )


cdef inline uint64_t hash_of(Tally self, int64_t number) noexcept nogil:
    cdef const Group* group
    cdef const Counter* counter
    if self.only_counts:
        counter = &self.counters[number]
        return hash_group(
            self, counter.window, self.arena + counter.key_position, counter.key_length
        )
    group = &self.groups[number]
    return hash_group(self, group.window, self.arena + group.key_position, group.key_length)


cdef void release(Area* area) noexcept nogil:
    if area.reserved != NULL:
        release_memory(area.reserved, area.size)
    area.reserved = NULL


cdef bint reallocate(Area* area, size_t used, size_t size) noexcept nogil:
    """Move to a new area of size bytes, with the first ``used`` bytes of the old one."""
    cdef Area larger
    larger.size = size
    larger.reserved = NULL
    larger.memory = reserve_memory(size, &larger.reserved)
    if larger.memory == NULL:
        return False
    if used:
        memcpy(larger.memory, area.memory, used)
    release(area)
    area[0] = larger
    return True


cdef bint grow_slots(Tally self) noexcept nogil:
    cdef int64_t n, at, count = self.slot_count * 2
    cdef uint64_t hashed
    if not reallocate(&self.slot_area, 0, count * sizeof(uint64_t)):
        return False
    self.slots = <uint64_t*>self.slot_area.memory
    self.slot_count = count
    for n in range(self.group_count):
        hashed = hash_of(self, n)
        at = <int64_t>(hashed & <uint64_t>(count - 1))
        while self.slots[at]:
            at = (at + 1) & (count - 1)
        self.slots[at] = slot_of(hashed, n)
    return True


cdef bint reserve_group(Tally self, int64_t key_size) noexcept nogil:
    """Reserve memory for one more group and its key; False without memory."""
    cdef size_t used = self.group_count * self.group_size
    if self.group_count >= MAX_GROUPS:
        return False
    if used == self.group_area.size:
        if not reallocate(&self.group_area, used, 2 * used):
            return False
        self.groups = <Group*>self.group_area.memory
        self.counters = <Counter*>self.group_area.memory
    used = self.arena_size
    if self.key_area.size - used < <size_t>key_size:
        if not reallocate(&self.key_area, used, max(2 * self.key_area.size, used + key_size)):
            return False
        self.arena = <uint8_t*>self.key_area.memory
    return self.group_count * 3 < self.slot_count * 2 or grow_slots(self)


cdef inline bint is_group(
    Tally self, const Group* group, int64_t window, const uint8_t* key, int32_t length
) noexcept nogil:
    if group.window != window or group.key_length != length:
        return False
    if length <= 0:
        return True
    if length <= HEAD:
        return memcmp(group.head, key, length) == 0
    return memcmp(self.arena + group.key_position, key, length) == 0


cdef bint add_group(
    Tally self, uint64_t hashed, const uint8_t* key, int32_t length, int64_t* number,
    int64_t* position,
) noexcept nogil:
    """Add a group; sets its index and the position of its key. False without memory."""
    cdef int64_t at
    if not reserve_group(self, max(length, 0)):
        return False
    at = <int64_t>(hashed & <uint64_t>(self.slot_count - 1))    # slot_count may have changed
    while self.slots[at]:
        at = (at + 1) & (self.slot_count - 1)
    number[0] = self.group_count
    position[0] = self.arena_size
    self.slots[at] = slot_of(hashed, self.group_count)
    self.group_count += 1
    if length > 0:
        memcpy(self.arena + self.arena_size, key, length)
        self.arena_size += length
    return True


cdef Group* find_group(
    Tally self, uint64_t hashed, int64_t window, const uint8_t* key, int32_t length
) noexcept nogil:
    """The group, added if it is new; NULL without memory."""
    cdef int64_t at = <int64_t>(hashed & <uint64_t>(self.slot_count - 1))
    cdef int64_t number, position
    cdef uint64_t slot
    cdef Group* group
    while True:
        slot = self.slots[at]
        if slot == 0:
            break
        if slot >> 32 == hashed >> 32:
            group = &self.groups[number_of(slot)]
            if is_group(self, group, window, key, length):
                return group
        at = (at + 1) & (self.slot_count - 1)
    if not add_group(self, hashed, key, length, &number, &position):
        return NULL
    group = self.groups + number
    memset(group, 0, sizeof(Group))
    group.window = window
    group.key_length = length
    group.key_position = position
    if length > 0:
        memcpy(group.head, key, min(length, <int32_t>HEAD))
    group.min_value_size = group.min_key_size = INT32_MAX
    group.max_value_size = group.max_key_size = -1
    group.min_timestamp = group.min_offset = INT64_MAX
    group.max_timestamp = group.max_offset = INT64_MIN
    return group


# --- without keys: consecutive rows in one window ------------------------------------------------


cdef inline void add_sizes(
    const int32_t* lengths, int64_t count, int64_t* total, int64_t* nulls, int32_t* least,
    int32_t* most,
) noexcept nogil:
    cdef int64_t n, all_bytes = 0, missing = 0
    cdef int32_t length, low = least[0], high = most[0]
    for n in range(count):
        length = lengths[n]
        missing += length < 0
        all_bytes += max(length, 0)
        high = max(high, length)
        low = min(low, length if length >= 0 else <int32_t>INT32_MAX)
    total[0] += all_bytes
    nulls[0] += missing
    least[0] = low
    most[0] = max(most[0], high)


cdef int64_t add_runs(Tally self, const Rows* rows, int64_t count) noexcept nogil:
    """Returns the number of rows added: all, or -1 without memory."""
    cdef int64_t first = 0, n, low, high
    cdef Span span
    cdef Group* group
    while first < count:
        low = high = rows.timestamps[first]
        span_of(&span, low, self.width)
        n = first + 1
        while n < count and span.low <= rows.timestamps[n] <= span.high:
            low = min(low, rows.timestamps[n])
            high = max(high, rows.timestamps[n])
            n += 1
        group = find_group(
            self, hash_group(self, span.window, NULL, NULL_KEY), span.window, NULL, NULL_KEY
        )
        if group == NULL:
            return -1
        group.count += n - first
        group.min_timestamp = min(group.min_timestamp, low)
        group.max_timestamp = max(group.max_timestamp, high)
        group.min_offset = min(group.min_offset, rows.offsets[first])   # in order
        group.max_offset = max(group.max_offset, rows.offsets[n - 1])
        add_sizes(
            rows.key_lengths + first, n - first, &group.key_bytes, &group.null_keys,
            &group.min_key_size, &group.max_key_size,
        )
        add_sizes(
            rows.value_lengths + first, n - first, &group.value_bytes, &group.null_values,
            &group.min_value_size, &group.max_value_size,
        )
        first = n
    return count


# --- by key ---------------------------------------------------------------------------------------


cdef inline void add_row(
    Group* group, const Rows* rows, int64_t row, bint extents
) noexcept nogil:
    cdef int32_t length = rows.value_lengths[row]
    group.count += 1
    if extents:
        group.min_timestamp = min(group.min_timestamp, rows.timestamps[row])
        group.max_timestamp = max(group.max_timestamp, rows.timestamps[row])
        group.min_offset = min(group.min_offset, rows.offsets[row])
        group.max_offset = max(group.max_offset, rows.offsets[row])
    if length < 0:
        group.null_values += 1
    else:
        group.value_bytes += length
        group.min_value_size = min(group.min_value_size, length)
        group.max_value_size = max(group.max_value_size, length)


cdef int64_t add_by_key(
    Tally self, const uint8_t* data, int64_t size, const Rows* rows, int64_t count
) noexcept nogil:
    """Returns the number of rows added: up to a key outside the data; -1 without memory."""
    cdef int64_t first = 0, n, row, block
    cdef Span span
    cdef int32_t length
    cdef uint64_t slot
    cdef uint64_t[64] hashes
    cdef int64_t[64] windows
    cdef Group* group
    span_of(&span, rows.timestamps[0], self.width)
    while first < count:
        block = min(<int64_t>ROWS, count - first)
        for n in range(block):
            row = first + n
            if not span.low <= rows.timestamps[row] <= span.high:
                span_of(&span, rows.timestamps[row], self.width)
            windows[n] = span.window
            length = rows.key_lengths[row]
            if length > 0 and (
                length > size or rows.key_positions[row] < 0
                or rows.key_positions[row] > size - length
            ):
                return row
            hashes[n] = hash_group(
                self, span.window, data + rows.key_positions[row] if length > 0 else NULL, length
            )
            prefetch(self.slots + (hashes[n] & <uint64_t>(self.slot_count - 1)))
        for n in range(block):   # the slots are in cache now; most point to the right group
            slot = self.slots[hashes[n] & <uint64_t>(self.slot_count - 1)]
            if slot:
                group = &self.groups[number_of(slot)]
                prefetch(group)
                if self.extents:
                    prefetch(&group.min_timestamp)
        for n in range(block):
            row = first + n
            length = rows.key_lengths[row]
            group = find_group(
                self, hashes[n], windows[n],
                data + rows.key_positions[row] if length > 0 else NULL, max(length, NULL_KEY),
            )
            if group == NULL:
                return -1
            add_row(group, rows, row, self.extents)
        first += block
    return count


# --- by key, only counted -------------------------------------------------------------------------


cdef inline void head_of(
    const uint8_t* key, int32_t length, bint is_readable, uint64_t* head
) noexcept nogil:
    """The first 16 bytes of a key, zero-padded; is_readable: 16 bytes at key are readable."""
    head[0] = head[1] = 0
    if not is_readable or length <= 0:
        memcpy(head, key, min(max(length, 0), <int32_t>HEAD))
        return
    memcpy(head, key, HEAD)
    if length < 8:
        head[0] &= (<uint64_t>1 << (8 * length)) - 1
        head[1] = 0
    elif length < HEAD:
        head[1] &= (<uint64_t>1 << (8 * (length - 8))) - 1


cdef inline Counter* find_counter(Tally self, const Wanted* wanted) noexcept nogil:
    """The counter, added if it is new; NULL without memory."""
    cdef int64_t at = <int64_t>(wanted.hashed & <uint64_t>(self.slot_count - 1))
    cdef int64_t number, position
    cdef uint64_t slot
    cdef Counter* counter
    while True:
        slot = self.slots[at]
        if slot == 0:
            break
        if slot >> 32 == wanted.hashed >> 32:
            counter = &self.counters[number_of(slot)]
            if (
                counter.head[0] == wanted.head[0] and counter.head[1] == wanted.head[1]
                and counter.window == wanted.window and counter.key_length == wanted.length
                and (
                    wanted.length <= HEAD
                    or memcmp(self.arena + counter.key_position, wanted.key, wanted.length) == 0
                )
            ):
                return counter
        at = (at + 1) & (self.slot_count - 1)
    if not add_group(self, wanted.hashed, wanted.key, wanted.length, &number, &position):
        return NULL
    counter = self.counters + number
    memset(counter, 0, sizeof(Counter))
    counter.head[0], counter.head[1] = wanted.head[0], wanted.head[1]
    counter.window = wanted.window
    counter.key_length = wanted.length
    counter.key_position = position
    return counter


cdef int64_t count_by_key(
    Tally self, const uint8_t* data, int64_t size, const Rows* rows, int64_t count
) noexcept nogil:
    """Returns the number of rows counted: up to a key outside the data; -1 without memory."""
    cdef int64_t first = 0, n, row, block, position
    cdef Span span
    cdef int32_t length
    cdef uint64_t slot
    cdef Wanted[64] all_wanted
    cdef Wanted* wanted
    cdef Counter* counter
    span_of(&span, rows.timestamps[0], self.width)
    while first < count:
        block = min(<int64_t>ROWS, count - first)
        for n in range(block):
            row = first + n
            if not span.low <= rows.timestamps[row] <= span.high:
                span_of(&span, rows.timestamps[row], self.width)
            length = max(rows.key_lengths[row], NULL_KEY)
            position = rows.key_positions[row] if length > 0 else 0
            if length > 0 and (length > size or position < 0 or position > size - length):
                return row
            wanted = &all_wanted[n]
            wanted.key = data + position
            wanted.length = length
            wanted.window = span.window
            head_of(wanted.key, length, size - position >= HEAD, &wanted.head[0])
            wanted.hashed = hash_group(self, span.window, wanted.key, length)
            prefetch(self.slots + (wanted.hashed & <uint64_t>(self.slot_count - 1)))
        for n in range(block):
            slot = self.slots[all_wanted[n].hashed & <uint64_t>(self.slot_count - 1)]
            if slot:
                prefetch(&self.counters[number_of(slot)])
        for n in range(block):
            counter = find_counter(self, &all_wanted[n])
            if counter == NULL:
                return -1
            counter.count += 1
        first += block
    return count
