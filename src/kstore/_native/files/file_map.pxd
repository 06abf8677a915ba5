"""A file's mapping, which can send its bytes."""

from libc.stdint cimport int64_t, uint8_t


cdef class FileMap:
    cdef const uint8_t* data
    cdef readonly Py_ssize_t size
    cdef object reopen                      # opens the file again for sends; None: do not
    cdef int fd                             # for sends, -1 if not open
    cdef int slot                           # of fd in the table of open descriptors
    cdef int senders                        # threads that use fd

    cdef bint is_resident(self, int64_t position, int64_t end) noexcept
    cdef int load(self, int64_t position, int64_t end, path) except -1
    cdef int _open(self) except -1
    cdef Py_ssize_t send(self, int fd, int64_t position, Py_ssize_t count, path) except -1


cdef Py_ssize_t send_memory(
    int fd, const uint8_t* data, Py_ssize_t count, int64_t position, path
) except -1
