"""Loops around system calls and memory in C: what the benchmarks divide by."""

from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from libc.stdint cimport int64_t, uint8_t, uint64_t

import os

cdef extern from "limits_disk.h" nogil:
    int limits_write(
        int fd, uint8_t* block, size_t size, int pieces, const int64_t* positions, int64_t count,
        int64_t sync_every, int flags, int64_t salt, int64_t* each,
    ) noexcept
    int limits_pread(
        int fd, uint8_t* block, size_t size, int pieces, const int64_t* positions, int64_t count,
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
    int64_t limits_chase(
        const int64_t* next, int64_t length, int64_t at, int64_t count
    ) noexcept
    int64_t limits_resident(uint8_t* address, size_t size, size_t page) noexcept


cdef extern from "limits_ring.h" nogil:
    enum:
        LIMITS_DEPTH
    int limits_ring_write(
        int fd, uint8_t* blocks, size_t size, int depth, const int64_t* positions, int64_t count,
        int64_t salt, int64_t* took,
    ) noexcept


cdef class _Held:
    """A buffer that is held for the length of a call."""

    cdef Py_buffer view
    cdef bint taken

    def __cinit__(self, of, bint writable):
        PyObject_GetBuffer(of, &self.view, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
        self.taken = True

    def __dealloc__(self):
        if self.taken:
            PyBuffer_Release(&self.view)


cdef int _check(const int64_t[::1] positions, int64_t size, int64_t within) except -1:
    """Refuse positions from which a block of so many bytes would reach outside."""
    cdef int64_t n
    for n in range(positions.shape[0]):
        if positions[n] < 0 or positions[n] > within - size:
            raise ValueError(f"position {positions[n]}: {size} bytes do not fit into {within}")
    return 0


cdef int _raise(int number) except -1:
    if number:
        raise OSError(number, os.strerror(number))
    return 0


def write_at(
    int fd, block, const int64_t[::1] positions not None, *, int64_t sync_every=0, int flags=0,
    int pieces=1, int64_t salt=0, int64_t[::1] each=None,
):
    cdef _Held held = _Held(block, True)
    cdef int64_t* noted = NULL
    cdef int number
    if held.view.len < 8 or sync_every < 0:
        raise ValueError("a block has at least 8 bytes, and syncs are counted from 0")
    if positions.shape[0] == 0:
        return
    if each is not None:
        if each.shape[0] < positions.shape[0]:
            raise ValueError("no room for the time of each write")
        noted = &each[0]
    with nogil:
        number = limits_write(
            fd, <uint8_t*>held.view.buf, held.view.len, pieces, &positions[0], positions.shape[0],
            sync_every, flags, salt, noted,
        )
    _raise(number)


def write_ring(
    int fd, blocks, int64_t size, const int64_t[::1] positions not None, *, int depth,
    int64_t salt=0,
):
    cdef _Held held = _Held(blocks, True)
    cdef int number
    cdef int64_t took = 0
    if not 1 <= depth <= LIMITS_DEPTH or depth & (depth - 1):
        raise ValueError(f"depth {depth}: a power of two up to {LIMITS_DEPTH}")
    if size < 8 or size > 1 << 30 or held.view.len < size * depth:
        raise ValueError(f"{depth} blocks of {size} bytes do not fit into {held.view.len}")
    if positions.shape[0] == 0:
        return 0.0
    with nogil:
        number = limits_ring_write(
            fd, <uint8_t*>held.view.buf, size, depth, &positions[0], positions.shape[0], salt,
            &took,
        )
    _raise(number)
    return took / 1e9


def read_at(
    int fd, block, const int64_t[::1] positions not None, *, bint summed=False, int pieces=1
):
    cdef _Held held = _Held(block, True)
    cdef uint64_t value = 0
    cdef int number
    if positions.shape[0] == 0:
        return 0
    with nogil:
        number = limits_pread(
            fd, <uint8_t*>held.view.buf, held.view.len, pieces, &positions[0], positions.shape[0],
            &value if summed else NULL,
        )
    _raise(number)
    return value


def store_at(
    target, block, const int64_t[::1] positions not None, *, bint stamped=False,
    int64_t salt=0,
):
    cdef _Held into = _Held(target, True)
    cdef _Held held = _Held(block, stamped)
    if stamped and held.view.len < 8:
        raise ValueError("a stamped block has at least 8 bytes")
    _check(positions, held.view.len, into.view.len)
    if positions.shape[0] == 0:
        return
    with nogil:
        if stamped:
            limits_store_stamped(
                <uint8_t*>into.view.buf, <uint8_t*>held.view.buf, held.view.len, &positions[0],
                positions.shape[0], salt,
            )
        else:
            limits_store(
                <uint8_t*>into.view.buf, <uint8_t*>held.view.buf, held.view.len, &positions[0],
                positions.shape[0],
            )


def store_all(target, block):
    cdef _Held into = _Held(target, True)
    cdef _Held held = _Held(block, False)
    with nogil:
        limits_store_all(
            <uint8_t*>into.view.buf, into.view.len, <const uint8_t*>held.view.buf, held.view.len
        )
    return into.view.len // held.view.len


def load_at(source, int64_t size, const int64_t[::1] positions not None):
    cdef _Held held = _Held(source, False)
    cdef uint64_t value
    if size < 1:
        raise ValueError("at least one byte is read")
    _check(positions, size, held.view.len)
    if positions.shape[0] == 0:
        return 0
    with nogil:
        value = limits_load(
            <const uint8_t*>held.view.buf, size, &positions[0], positions.shape[0]
        )
    return value


def chase(const int64_t[::1] slots not None, int64_t start, int64_t count):
    cdef int64_t at
    if slots.shape[0] == 0:
        raise ValueError("a chain has at least one slot")
    with nogil:
        at = limits_chase(&slots[0], slots.shape[0], start, count)
    if at < 0:
        raise ValueError("the chain leads outside its slots")
    return at


def resident(mapping, int64_t page):
    cdef _Held held = _Held(mapping, False)
    cdef int64_t found
    with nogil:
        found = limits_resident(<uint8_t*>held.view.buf, held.view.len, page)
    if found < 0:
        raise OSError("the kernel does not tell which pages of this memory are resident")
    return found
