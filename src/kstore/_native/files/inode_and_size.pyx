"""The inode and size of a file, without a look at its times.

Since Linux 6.13 a stat(2) marks a file's times as read, and the next write then changes them with
a journal entry: a durable append after a stat takes half as long again. statx(2) without the times
in its mask does not.
"""

from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <errno.h>
    #include <fcntl.h>
    #include <sys/stat.h>
    static int inode_and_size_of(const char* path, uint64_t* inode, uint64_t* size) {
        struct statx found;
        if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_SIZE, &found) != 0)
            return errno;
        *inode = found.stx_ino;
        *size = found.stx_size;
        return 0;
    }
    """
    int inode_and_size_of(const char* path, uint64_t* inode, uint64_t* size) nogil


def inode_and_size(bytes path):
    """(inode, size) of the file of this name; an OSError with its errno where that fails."""
    cdef uint64_t inode = 0, size = 0
    cdef const char* name = path
    cdef int failed
    with nogil:
        failed = inode_and_size_of(name, &inode, &size)
    if failed:
        from os import fsdecode, strerror
        raise OSError(failed, strerror(failed), fsdecode(path))
    return inode, size
