"""Minimal C loops over memory: the ceilings of the benchmarks."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from kstore._native.format.argument cimport (
    HeldBytes, HeldColumn, hold_bytes, hold_int64s, hold_writable_bytes,
)

cdef extern from *:
    const char* COMPILER "__VERSION__"


cdef extern from "bench/read_loops.h" nogil:
    uint64_t limits_read(const uint8_t* data, size_t size) noexcept

cdef extern from "bench/index_loops.h" nogil:
    int64_t limits_branchy(
        const uint8_t* entries, int64_t count, const int64_t* targets, int64_t wanted
    ) noexcept
    int64_t limits_branchless(
        const uint8_t* entries, int64_t count, const int64_t* targets, int64_t wanted, bint ahead
    ) noexcept

cdef extern from "format/frame_walk.h" nogil:
    int64_t frame_size(const uint8_t* data, int64_t position, int64_t end) noexcept


def read_all(buffer):
    cdef HeldBytes held = hold_bytes(buffer)
    cdef uint64_t value
    with nogil:
        value = limits_read(held.data, held.size)
    return value


def load(buffer, Py_ssize_t position, Py_ssize_t size):
    cdef HeldBytes held = hold_bytes(buffer)
    if position < 0 or size < 0 or size > held.size - position:
        raise ValueError(f"{size} bytes at {position} are outside the memory")
    return limits_read(held.data + position, size)


def copy(target, source):
    cdef HeldBytes into = hold_writable_bytes(target)
    cdef HeldBytes held = hold_bytes(source)
    if held.size > into.size:
        raise ValueError(f"{held.size} bytes do not fit into {into.size}")
    with nogil:
        memcpy(into.data, held.data, held.size)
    return held.size


def count_frames(buffer):
    cdef HeldBytes held = hold_bytes(buffer)
    cdef int64_t count = 0, position = 0, size
    with nogil:
        while True:
            size = frame_size(held.data, position, held.size)
            if size == 0:
                break
            position += size
            count += 1
    return count


def search(str how, entries, targets):
    cdef HeldColumn wanted = hold_int64s(targets, "targets")
    cdef HeldBytes held = hold_bytes(entries)
    cdef int64_t count = held.size // 8
    cdef const int64_t* first = <const int64_t*>wanted.data
    if count < 1 or wanted.count < 1:
        raise ValueError("entries or targets are empty")
    if how == "branchy":
        return limits_branchy(held.data, count, first, wanted.count)
    if how == "branchless":
        return limits_branchless(held.data, count, first, wanted.count, False)
    if how == "prefetching":
        return limits_branchless(held.data, count, first, wanted.count, True)
    raise ValueError(f"unknown search {how!r}")


def compiler():
    return COMPILER.decode("ascii", "replace")
