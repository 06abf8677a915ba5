"""The cleaner's map from keys to their latest offsets: bounded, without Python objects."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from kstore._native.format.argument cimport HeldBytes, hold_bytes

cdef enum:
    KEY_SIZE = 16
    MOST_MEMORY = 0x7FFFFFFF        # Kafka's limit for one cleaner


cdef class OffsetMap:
    def __cinit__(self, int64_t memory, double load_factor, key, *, int hash_bits=128):
        cdef HeldBytes view
        if not 0 < load_factor <= 1:
            raise ValueError("the load factor is above 0 and at most 1")
        if not 2 <= hash_bits <= 128 or hash_bits % 2:
            raise ValueError("a hash has from 2 to 128 bits, an even number")
        view = hold_bytes(key)
        if view.size != KEY_SIZE:
            raise ValueError("the key of the hash has 16 bytes")
        memcpy(&self.table.key, view.data, KEY_SIZE)
        self.table.max_slots = min(memory, <int64_t>MOST_MEMORY) // SLOT_SIZE
        # One slot is always free, so that every search ends.
        self.table.fill_limit = min(
            <int64_t>(self.table.max_slots * load_factor), self.table.max_slots - 1
        )
        if self.table.fill_limit < 1:
            raise ValueError("the memory is too small for a single key")
        self.table.mask = ~<uint64_t>0
        if hash_bits < 128:         # the upper bits of each half, which determine the slot
            self.table.mask <<= 64 - hash_bits // 2
        self.table.slot_count = min(self.table.max_slots, <int64_t>FIRST_SLOTS)
        self.table.slots = <Slot*>reserve_memory(
            self.table.max_slots * SLOT_SIZE, &self.table.reserved
        )
        if self.table.slots == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.table.slots != NULL:
            release_memory(self.table.reserved, self.table.max_slots * SLOT_SIZE)

    def __len__(self):
        return self.table.count

    @property
    def limit(self):
        return self.table.fill_limit

    @property
    def slots(self):
        return self.table.max_slots

    @property
    def memory(self):
        return self.table.slot_count * SLOT_SIZE

    def clear(self):
        self.table.count = self.table.pending_count = 0
        memset(self.table.slots, 0, self.table.slot_count * SLOT_SIZE)

    def put(self, key, int64_t offset):
        cdef HeldBytes held = hold_bytes(key)
        cdef bint found
        if offset < 0:
            raise ValueError("an offset is 0 or more")
        found = add_key(&self.table, held.data, held.size, offset)
        if found:
            flush_pending(&self.table)
        return found

    def get(self, key):
        cdef HeldBytes held = hold_bytes(key)
        return offset_of(&self.table, hash_key(&self.table, held.data, held.size))

    def hash_of(self, key):
        cdef HeldBytes held = hold_bytes(key)
        cdef sip_hash found = hash_key(&self.table, held.data, held.size)
        return (<uint8_t*>&found)[:16]
