"""What the machine can do at best: the ceilings that the benchmarks divide by."""

from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from kstore._native.format.argument cimport HeldColumn, hold_int64s

cdef extern from *:
    const char* COMPILER "__VERSION__"


cdef extern from "bench/read_loops.h" nogil:
    uint64_t limits_read(const uint8_t* data, size_t size) noexcept

cdef extern from "bench/index_loops.h" nogil:
    int64_t limits_branchy(
        const uint8_t* entries, int64_t count, const int64_t* targets, int64_t wanted
    ) noexcept
    int64_t limits_branchless(
        const uint8_t* entries, int64_t count, const int64_t* targets, int64_t wanted
    ) noexcept
    int64_t limits_prefetching(
        const uint8_t* entries, int64_t count, const int64_t* targets, int64_t wanted
    ) noexcept

cdef extern from "format/frame_walk.h" nogil:
    int64_t frame_size(const uint8_t* data, int64_t position, int64_t end) noexcept


def read_all(buffer):
    cdef Py_buffer view
    cdef uint64_t value
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    with nogil:
        value = limits_read(<const uint8_t*>view.buf, view.len)
    PyBuffer_Release(&view)
    return value


def load(buffer, Py_ssize_t position, Py_ssize_t size):
    cdef Py_buffer view
    cdef uint64_t value
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    if position < 0 or size < 0 or size > view.len - position:
        PyBuffer_Release(&view)
        raise ValueError(f"{size} bytes at {position} are not within the memory")
    value = limits_read(<const uint8_t*>view.buf + position, size)
    PyBuffer_Release(&view)
    return value


def copy(target, source):
    cdef Py_buffer into
    cdef Py_buffer view
    PyObject_GetBuffer(target, &into, PyBUF_WRITABLE)
    try:
        PyObject_GetBuffer(source, &view, PyBUF_SIMPLE)
        try:
            if view.len > into.len:
                raise ValueError(f"{view.len} bytes do not fit into {into.len}")
            with nogil:
                memcpy(into.buf, view.buf, view.len)
            return view.len
        finally:
            PyBuffer_Release(&view)
    finally:
        PyBuffer_Release(&into)


def count_frames(buffer):
    cdef Py_buffer view
    cdef int64_t count = 0, position = 0, size
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    with nogil:
        while True:
            size = frame_size(<const uint8_t*>view.buf, position, view.len)
            if size == 0:
                break
            position += size
            count += 1
    PyBuffer_Release(&view)
    return count


def search(str how, entries, targets):
    cdef HeldColumn wanted = hold_int64s(targets, "targets")
    cdef const int64_t* first = <const int64_t*>wanted.data
    cdef Py_buffer view
    cdef int64_t total = 0, count
    cdef const uint8_t* data
    PyObject_GetBuffer(entries, &view, PyBUF_SIMPLE)
    try:
        data = <const uint8_t*>view.buf
        count = view.len // 8
        if count < 1 or wanted.count < 1:
            raise ValueError("nothing to look up, or nothing to look it up in")
        if how == "branchy":
            total = limits_branchy(data, count, first, wanted.count)
        elif how == "branchless":
            total = limits_branchless(data, count, first, wanted.count)
        elif how == "prefetching":
            total = limits_prefetching(data, count, first, wanted.count)
        else:
            raise ValueError(f"no search {how}")
    finally:
        PyBuffer_Release(&view)
    return total


def compiler():
    return COMPILER.decode("ascii", "replace")
