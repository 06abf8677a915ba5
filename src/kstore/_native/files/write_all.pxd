"""write(2) of one or two buffers to a file's end, or to a position in it, until all is written."""

from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len
    ssize_t writev(int fd, const iovec* parts, int count)
    ssize_t pwritev(int fd, const iovec* parts, int count, int64_t position)

cdef extern from "<unistd.h>" nogil:
    ssize_t write(int fd, const void* data, size_t size)
    ssize_t pwrite(int fd, const void* data, size_t size, int64_t position)

cdef enum:
    # Copying this much into one piece takes less time than the kernel takes for two pieces.
    SMALL_WRITE = 2048


cdef inline int write_all(
    int fd, const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size, int64_t position
) noexcept nogil:
    """0 when a and then b are written, else the errno; then it is unknown how much is.

    position: where, or -1 for the end of a file that was opened with O_APPEND.
    """
    cdef iovec[2] parts
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
        parts[0].iov_base = <void*>a
        parts[0].iov_len = a_size
        parts[1].iov_base = <void*>b
        parts[1].iov_len = b_size
        if position < 0:
            done = writev(fd, &parts[0], 2)
        else:
            done = pwritev(fd, &parts[0], 2, position)
        if done < 0:
            if errno == EINTR:
                continue
            return errno
        if position >= 0:
            position += done
        if <size_t>done >= a_size:          # what is left is one piece
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
