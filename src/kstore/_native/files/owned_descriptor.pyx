"""A file descriptor that is closed, at the latest, when nothing refers to it any more.

A Python finalizer is no place for that: in a cycle of garbage it runs while other finalizers may
still write through the descriptor, whose number another file may have by then. This is closed
when its memory is freed, after all of them. close(2) takes no lock and does not wait for a disk.
"""

cimport cython

cdef extern from "<unistd.h>" nogil:
    int c_close "close"(int fd)


@cython.final
cdef class OwnedDescriptor:
    """Holds one descriptor, or -1. Not thread safe: its owner has a lock."""

    cdef public int fd

    def __cinit__(self, int fd=-1):
        self.fd = fd

    def __dealloc__(self):
        if self.fd >= 0:
            c_close(self.fd)

    def take(self):
        """The descriptor, which the caller has to close; -1 from here on."""
        cdef int fd = self.fd
        self.fd = -1
        return fd
