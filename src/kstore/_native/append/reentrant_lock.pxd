"""The lock of a log: reentrant, and acquired from native code without a Python call."""


cdef extern from "pythread.h":
    ctypedef void* PyThread_type_lock


cdef class ReentrantLock:
    cdef PyThread_type_lock lock
    cdef unsigned long owner        # the thread that holds it; undefined while count is 0
    cdef unsigned long count        # how often that thread has acquired it

    cdef public object on_release   # called once, after the lock's next release; None

    cdef int acquire_native(self, bint blocking) except -1
    cdef int release_native(self) except -1
    cdef int _released(self) except -1
    cpdef bint _is_owned(self)
