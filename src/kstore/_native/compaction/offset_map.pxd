"""The cleaner's map from the hash of a key to its latest offset, for other kernels.

Open addressing with 24 bytes a slot, as in Kafka's SkimpyOffsetMap: 128 bits of a keyed hash, and
the offset. Compares keys by their hash only.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from "compaction/reserve_memory.h" nogil:
    void* reserve_memory(size_t size, void** start)
    void release_memory(void* start, size_t size)

cdef extern from "compaction/siphash.h" nogil:
    ctypedef struct sip_hash:
        uint64_t low
        uint64_t high
    ctypedef struct sip_key:
        uint64_t k0
        uint64_t k1
    sip_hash sip_hash_of(const sip_key* key, const uint8_t* data, int64_t size)
    int64_t sip_home(uint64_t low, int64_t count)

cdef extern from * nogil:
    """
    #define KSTORE_FETCH_SLOT(p) __builtin_prefetch((p), 1, 1)
    #define KSTORE_MOVING ((uint64_t)1 << 63)
    """
    const uint64_t MOVING "KSTORE_MOVING"
    void prefetch_slot "KSTORE_FETCH_SLOT"(const void*) noexcept

cdef enum:
    SLOT_SIZE = 24
    FIRST_SLOTS = 1 << 12
    PENDING = 64


cdef struct Slot:
    sip_hash hash
    uint64_t tag                # offset + 1; 0: empty; top bit: grow_table has yet to move it


cdef struct Pending:
    sip_hash hash
    int64_t offset


cdef struct KeyTable:
    Slot* slots                 # memory for max_slots, zeros beyond slot_count
    void* reserved
    int64_t slot_count
    int64_t max_slots
    int64_t count
    int64_t fill_limit          # maximum number of keys
    sip_key key
    uint64_t mask               # of the hash; all ones, except in tests of collisions
    int64_t pending_count
    Pending[64] pending         # keys whose slots are being prefetched into cache


cdef inline sip_hash hash_key(
    const KeyTable* table, const uint8_t* key, int64_t size
) noexcept nogil:
    cdef sip_hash found = sip_hash_of(&table.key, key, size)
    found.low &= table.mask
    found.high &= table.mask
    return found


cdef inline Slot* find_slot(const KeyTable* table, sip_hash wanted) noexcept nogil:
    """The slot of a hash, or the free one for it. The table always has a free slot."""
    cdef int64_t at = sip_home(wanted.low, table.slot_count)
    cdef Slot* slot
    while True:
        slot = table.slots + at
        if slot.tag == 0 or (slot.hash.low == wanted.low and slot.hash.high == wanted.high):
            return slot
        at += 1
        if at == table.slot_count:
            at = 0


cdef inline void grow_table(KeyTable* table) noexcept nogil:
    """Double the number of slots, up to max_slots, in place: without a second table.

    Marks all entries, then moves each to the first slot from its new home that has no moved
    entry; a marked entry in that slot is the next to move.
    """
    cdef int64_t old = table.slot_count, count = min(2 * old, table.max_slots), n, at
    cdef Slot moving, other
    table.slot_count = count
    for n in range(old):
        if table.slots[n].tag:
            table.slots[n].tag |= MOVING
    for n in range(old):
        if not table.slots[n].tag & MOVING:
            continue
        moving = table.slots[n]
        table.slots[n].tag = 0
        moving.tag &= ~MOVING
        at = sip_home(moving.hash.low, count)
        while True:
            other = table.slots[at]
            if other.tag == 0 or other.tag & MOVING:
                table.slots[at] = moving
                if other.tag == 0:
                    break
                moving = other
                moving.tag &= ~MOVING
                at = sip_home(moving.hash.low, count)
                continue
            at += 1
            if at == count:
                at = 0


cdef inline void put_hash(KeyTable* table, sip_hash wanted, int64_t offset) noexcept nogil:
    """Set the offset of a hash; the caller has checked that the map is not full."""
    cdef Slot* slot = find_slot(table, wanted)
    if slot.tag == 0:
        # Above three quarters, probe sequences get long; at max_slots the table may be fuller.
        if table.slot_count < table.max_slots and table.count * 4 >= table.slot_count * 3:
            grow_table(table)
            slot = find_slot(table, wanted)
        slot.hash = wanted
        table.count += 1
    slot.tag = <uint64_t>(offset + 1)


cdef inline void flush_pending(KeyTable* table) noexcept nogil:
    cdef int64_t n
    for n in range(table.pending_count):
        put_hash(table, table.pending[n].hash, table.pending[n].offset)
    table.pending_count = 0


cdef inline bint add_key(
    KeyTable* table, const uint8_t* key, int64_t size, int64_t offset
) noexcept nogil:
    """Add a key to pending or to the map; False if the map is full, by Kafka's rule."""
    cdef sip_hash found
    if table.pending_count == PENDING or table.count + table.pending_count >= table.fill_limit:
        flush_pending(table)
        if table.count >= table.fill_limit:
            return False
    found = hash_key(table, key, size)
    prefetch_slot(table.slots + sip_home(found.low, table.slot_count))
    table.pending[table.pending_count].hash = found
    table.pending[table.pending_count].offset = offset
    table.pending_count += 1
    return True


cdef inline int64_t offset_of(const KeyTable* table, sip_hash wanted) noexcept nogil:
    """The offset of a hash; -1 if it is not in the map."""
    return <int64_t>find_slot(table, wanted).tag - 1


cdef class OffsetMap:
    cdef KeyTable table
