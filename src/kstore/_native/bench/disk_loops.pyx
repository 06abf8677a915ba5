"""Minimal C loops around system calls and memory: the ceilings of the benchmarks."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from kstore._native.format.argument cimport (
    HeldBytes, HeldColumn, hold_bytes, hold_int64s, hold_writable_bytes, hold_writable_int64s,
    int64_at,
)

import os

cdef extern from "bench/disk_loops.h" nogil:
    int limits_write(
        int fd, uint8_t* block, size_t size, int iovecs, const int64_t* positions, int64_t count,
        int64_t sync_every, int flags, int64_t salt, int64_t* each,
    ) noexcept
    int limits_pread(
        int fd, uint8_t* block, size_t size, int iovecs, const int64_t* positions, int64_t count,
        uint64_t* sum,
    ) noexcept
    void limits_store(
        uint8_t* target, const uint8_t* block, size_t size, const int64_t* positions, int64_t count
    ) noexcept
    void limits_store_all(
        uint8_t* target, size_t room, const uint8_t* block, size_t size
    ) noexcept
    void limits_store_stamped(
        uint8_t* target, uint8_t* block, size_t size, const int64_t* positions, int64_t count,
        int64_t salt,
    ) noexcept
    uint64_t limits_load(
        const uint8_t* source, size_t size, const int64_t* positions, int64_t count
    ) noexcept
    int64_t limits_resident(uint8_t* address, size_t size, size_t page) noexcept


cdef extern from "bench/io_uring_loops.h" nogil:
    enum:
        LIMITS_DEPTH
    int limits_ring_write(
        int fd, uint8_t* blocks, size_t size, int depth, const int64_t* positions, int64_t count,
        int64_t salt, int64_t* took,
    ) noexcept


cdef int _check(HeldColumn positions, int64_t size, int64_t within) except -1:
    """Raise ValueError for a position where a block of size bytes would exceed the memory."""
    cdef int64_t n
    for n in range(positions.count):
        if int64_at(positions, n) < 0 or int64_at(positions, n) > within - size:
            raise ValueError(
                f"position {int64_at(positions, n)}: {size} bytes do not fit into {within}")
    return 0


cdef int _raise(int number) except -1:
    if number:
        raise OSError(number, os.strerror(number))
    return 0


def write_at(
    int fd, block, positions, *, int64_t sync_every=0, int flags=0,
    int iovecs=1, int64_t salt=0, each=None,
):
    cdef HeldColumn at = hold_int64s(positions, "positions")
    cdef HeldBytes held = hold_writable_bytes(block)
    cdef HeldColumn times
    cdef int64_t* noted = NULL
    cdef int number
    if held.size < 8 or sync_every < 0:
        raise ValueError("a block has at least 8 bytes, and syncs are counted from 0")
    if at.count == 0:
        return
    if each is not None:
        times = hold_writable_int64s(each, "each")
        if times.count < at.count:
            raise ValueError("each is too short for the time of each write")
        noted = <int64_t*>times.data
    with nogil:
        number = limits_write(
            fd, held.data, held.size, iovecs, <const int64_t*>at.data, at.count,
            sync_every, flags, salt, noted,
        )
    _raise(number)


def write_ring(
    int fd, blocks, int64_t size, positions, *, int depth,
    int64_t salt=0,
):
    cdef HeldColumn at = hold_int64s(positions, "positions")
    cdef HeldBytes held = hold_writable_bytes(blocks)
    cdef int number
    cdef int64_t took = 0
    if not 1 <= depth <= LIMITS_DEPTH or depth & (depth - 1):
        raise ValueError(f"depth {depth}: a power of two up to {LIMITS_DEPTH}")
    if size < 8 or size > 1 << 30 or held.size < size * depth:
        raise ValueError(f"{depth} blocks of {size} bytes do not fit into {held.size}")
    if at.count == 0:
        return 0.0
    with nogil:
        number = limits_ring_write(
            fd, held.data, size, depth, <const int64_t*>at.data, at.count, salt,
            &took,
        )
    _raise(number)
    return took / 1e9


def read_at(
    int fd, block, positions, *, bint summed=False, int iovecs=1
):
    cdef HeldColumn at = hold_int64s(positions, "positions")
    cdef HeldBytes held = hold_writable_bytes(block)
    cdef uint64_t value = 0
    cdef int number
    if at.count == 0:
        return 0
    with nogil:
        number = limits_pread(
            fd, held.data, held.size, iovecs, <const int64_t*>at.data, at.count,
            &value if summed else NULL,
        )
    _raise(number)
    return value


def store_at(
    target, block, positions, *, bint stamped=False,
    int64_t salt=0,
):
    cdef HeldColumn at = hold_int64s(positions, "positions")
    cdef HeldBytes into = hold_writable_bytes(target)
    cdef HeldBytes held = hold_writable_bytes(block) if stamped else hold_bytes(block)
    if stamped and held.size < 8:
        raise ValueError("a stamped block has at least 8 bytes")
    _check(at, held.size, into.size)
    if at.count == 0:
        return
    with nogil:
        if stamped:
            limits_store_stamped(
                into.data, held.data, held.size, <const int64_t*>at.data,
                at.count, salt,
            )
        else:
            limits_store(
                into.data, held.data, held.size, <const int64_t*>at.data,
                at.count,
            )


def store_all(target, block):
    cdef HeldBytes into = hold_writable_bytes(target)
    cdef HeldBytes held = hold_bytes(block)
    with nogil:
        limits_store_all(
            into.data, into.size, held.data, held.size
        )
    return into.size // held.size


def load_at(source, int64_t size, positions):
    cdef HeldColumn at = hold_int64s(positions, "positions")
    cdef HeldBytes held = hold_bytes(source)
    cdef uint64_t value
    if size < 1:
        raise ValueError("at least one byte is read")
    _check(at, size, held.size)
    if at.count == 0:
        return 0
    with nogil:
        value = limits_load(
            held.data, size, <const int64_t*>at.data, at.count
        )
    return value


def resident(mapping, int64_t page):
    cdef HeldBytes held = hold_bytes(mapping)
    cdef int64_t found
    with nogil:
        found = limits_resident(held.data, held.size, page)
    if found < 0:
        raise OSError("mincore failed for this memory")
    return found
