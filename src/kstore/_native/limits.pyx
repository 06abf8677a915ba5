"""What the machine can do at best: the ceilings that the benchmarks divide by."""

from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

cdef extern from "limits_read.h" nogil:
    uint64_t limits_read(const uint8_t* data, size_t size) noexcept

cdef extern from "frame_walk.h" nogil:
    int64_t frame_size(const uint8_t* data, int64_t position, int64_t end) noexcept


def read_all(buffer):
    cdef Py_buffer view
    cdef uint64_t value
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    with nogil:
        value = limits_read(<const uint8_t*>view.buf, view.len)
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
