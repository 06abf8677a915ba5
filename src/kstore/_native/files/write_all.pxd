"""Writes one or two buffers to the end of a file, or to a position, until all bytes are written."""

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
    # Up to this size, a copy into one buffer is faster than writev of two.
    SMALL_WRITE = 2048


cdef inline int write_all(
    int fd, const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size, int64_t position
) noexcept nogil:
    """Write a, then b. Returns 0, or the errno; after an error, some bytes may be written.

    position: -1 for the end of a file that was opened with O_APPEND.
    """
    cdef iovec[2] buffers
    cdef uint8_t[SMALL_WRITE] joined
    cdef size_t left = a_size + b_size
    cdef ssize_t done
    if b_size and left <= SMALL_WRITE:
        memcpy(&joined[0], a, a_size)
        memcpy(&joined[a_size], b, b_size)
        a = &joined[0]
        a_size = left
        b_size = 0
    while b_size:
        buffers[0].iov_base = <void*>a
        buffers[0].iov_len = a_size
        buffers[1].iov_base = <void*>b
        buffers[1].iov_len = b_size
        if position < 0:
            done = writev(fd, &buffers[0], 2)
        else:
            done = pwritev(fd, &buffers[0], 2, position)
        if done < 0:
            if errno == EINTR:
                continue
            return errno
        if position >= 0:
            position += done
        if <size_t>done >= a_size:          # only a range of b is left
            a = b + (done - a_size)
            a_size = b_size - (done - a_size)
            b_size = 0
        else:
            a += done
            a_size -= done
    while a_size:
        if position < 0:
            done = write(fd, a, a_size)
        else:
            done = pwrite(fd, a, a_size, position)
        if done < 0:
            if errno == EINTR:
                continue
            return errno
        if position >= 0:
            position += done
        a += done
        a_size -= done
    return 0
