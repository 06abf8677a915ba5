"""A file descriptor that is closed, at the latest, with its last reference.

A Python finalizer must not close it: in a garbage cycle, it runs while other finalizers may still
write to the descriptor, and its number may already belong to another file. This class closes it
when its memory is freed, after all finalizers. close(2) neither locks nor waits for a disk.
"""

cimport cython

cdef extern from "<unistd.h>" nogil:
    int c_close "close"(int fd)


@cython.final
cdef class OwnedDescriptor:
    """Owns one descriptor, or -1. Not thread safe: the owner locks."""

    cdef public int fd

    def __cinit__(self, int fd=-1):
        self.fd = fd

    def __dealloc__(self):
        if self.fd >= 0:
            c_close(self.fd)

    def take(self):
        """Hand over the descriptor, which the caller must close; fd is -1 afterwards."""
        cdef int fd = self.fd
        self.fd = -1
        return fd
