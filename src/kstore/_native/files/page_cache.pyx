"""Reads or writes pages of a file while other threads run."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport errno
from libc.stdint cimport int64_t, uint8_t


cdef extern from "<sys/mman.h>" nogil:
    int madvise(void* address, size_t size, int advice)

cdef extern from *:
    """
    #include <errno.h>
    #include <fcntl.h>
    static int pages_start_writing(int fd, int64_t position, int64_t size) {
    #ifdef SYNC_FILE_RANGE_WRITE
        return sync_file_range(fd, position, size, SYNC_FILE_RANGE_WRITE) ? errno : 0;
    #else
        return ENOSYS;
    #endif
    }
    """
    int pages_start_writing(int fd, int64_t position, int64_t size) nogil


def populate(object mapped, Py_ssize_t start, Py_ssize_t size, int advice):
    """madvise on a range of a mapping, without the GIL (mmap.madvise keeps it); 0, or the errno.

    start is a multiple of the page size.
    """
    cdef Py_buffer view
    cdef int failed = 0
    PyObject_GetBuffer(mapped, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= start + size <= view.len:
            raise ValueError(f"range {start} to {start + size} is not within {view.len} bytes")
        with nogil:
            if madvise(<uint8_t*>view.buf + start, size, advice) != 0:
                failed = errno
    finally:
        PyBuffer_Release(&view)
    return failed


def start_writing(int fd, int64_t position, int64_t size):
    """Start to write a range of a file to disk, without waiting; returns 0, or the errno.

    This makes nothing durable: it shortens a later fdatasync.
    """
    cdef int failed
    with nogil:
        failed = pages_start_writing(fd, position, size)
    return failed
