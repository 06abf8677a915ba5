"""The lock of a log: reentrant, and taken from native code without a Python call."""


cdef extern from "pythread.h":
    ctypedef void* PyThread_type_lock


cdef class ReentrantLock:
    cdef PyThread_type_lock lock
    cdef unsigned long owner        # the thread that holds it; means nothing while count is 0
    cdef unsigned long count        # how often that thread has taken it

    cdef int take(self, bint blocking) except -1
    cdef int give(self) except -1
    cpdef bint _is_owned(self)
