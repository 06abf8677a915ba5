"""A file's mapping, which can send its bytes."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from kstore._native.files.resident_pages cimport coarse_seconds

cdef enum:
    BLOCK_BITS = 18                         # 256 KiB: asked for at once, and remembered


cdef class FileMap:
    cdef const uint8_t* data
    cdef readonly Py_ssize_t size
    cdef object reopen                      # opens the file again for sends; None: do not
    cdef int fd                             # for sends, -1 if not open
    cdef int slot                           # of fd in the table of open descriptors
    cdef int senders                        # threads that use fd
    # By block: when all of its pages were in memory; negative: when some were not.
    cdef int32_t* asked

    cdef bint is_resident(self, int64_t position, int64_t end) noexcept
    cdef bint _ask(self, int64_t position, int64_t end, int64_t published) noexcept
    cdef int load(self, int64_t position, int64_t end, path) except -1
    cdef int _open(self) except -1
    cdef Py_ssize_t send(self, int fd, int64_t position, Py_ssize_t count, path) except -1


cdef inline bint is_recent(int32_t now, int32_t then) noexcept nogil:
    """Whether an answer of then, in seconds, still counts: pages stay in memory for a while.

    None of the future does: the clock may be set.
    """
    return <uint32_t>now - <uint32_t>then <= 1


cdef inline bint were_resident(
    FileMap file_map, int64_t position, int64_t end, int64_t published
) noexcept:
    """Whether these bytes were in memory a second or two ago, or are: reading them does not wait.

    They are at least one, and fewer than a block; all bytes of the file below published are
    final. Bytes appended since the answer was noted are in memory: the answer counts for them.
    Call it with the GIL.
    """
    cdef int32_t now = coarse_seconds()
    return (
        is_recent(now, file_map.asked[position >> BLOCK_BITS])
        and is_recent(now, file_map.asked[(end - 1) >> BLOCK_BITS])
    ) or file_map._ask(position, end, published)


cdef Py_ssize_t send_memory(
    int fd, const uint8_t* data, Py_ssize_t count, int64_t position, path
) except -1
