"""Writes buffers to the end of a file, or to a position, until all bytes are written."""

from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t writev(int fd, const iovec* buffers, int count)
    ssize_t pwritev(int fd, const iovec* buffers, int count, int64_t position)

cdef extern from "<unistd.h>" nogil:
    ssize_t write(int fd, const void* data, size_t size)
    ssize_t pwrite(int fd, const void* data, size_t size, int64_t position)

cdef enum:
    # Up to this size, a copy into one buffer is faster than writev.
    SMALL_WRITE = 2048


cdef inline int write_buffers(int fd, iovec* buffers, int count, int64_t position) noexcept nogil:
    """Write the buffers in order; changes their array. Returns as write_all."""
    cdef ssize_t done
    while count:
        if count == 1 and position < 0:
            done = write(fd, buffers.iov_base, buffers.iov_len)
        elif count == 1:
            done = pwrite(fd, buffers.iov_base, buffers.iov_len, position)
        elif position < 0:
            done = writev(fd, buffers, count)
        else:
            done = pwritev(fd, buffers, count, position)
        if done < 0:
            if errno == EINTR:
                continue
            return errno
        if position >= 0:
            position += done
        while count and <size_t>done >= buffers.iov_len:
            done -= buffers.iov_len
            buffers += 1
            count -= 1
        if count:
            buffers.iov_base = <uint8_t*>buffers.iov_base + done
            buffers.iov_len -= done
    return 0


cdef inline int write_all(
    int fd, iovec* buffers, int count, size_t size, int64_t position
) noexcept nogil:
    """Write all bytes of the buffers, `size` in sum, in order; changes their array.

    position: -1 for the end of a file that was opened with O_APPEND. Returns 0, or the errno;
    after an error, some bytes may be written.
    """
    cdef uint8_t[SMALL_WRITE] joined
    cdef size_t filled = 0
    cdef int n
    if count > 1 and size <= SMALL_WRITE:
        for n in range(count):
            memcpy(&joined[filled], buffers[n].iov_base, buffers[n].iov_len)
            filled += buffers[n].iov_len
        buffers[0].iov_base = &joined[0]
        buffers[0].iov_len = size
        count = 1
    return write_buffers(fd, buffers, count, position)
