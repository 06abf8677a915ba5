"""A reentrant lock that native code acquires in ten nanoseconds; Python code uses it as any other.

The methods of `threading.RLock` would cost a tenth of an append of one record. The rules are
RLock's: its owner may acquire it again and must release it as often, and a signal may interrupt a
wait. Owner and count are accessed under the GIL only.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals

from kstore._native.append.reentrant_lock cimport PyThread_type_lock

cdef extern from "pythread.h":
    ctypedef enum PyLockStatus:
        PY_LOCK_FAILURE
        PY_LOCK_ACQUIRED
        PY_LOCK_INTR
    int NOWAIT_LOCK
    PyThread_type_lock PyThread_allocate_lock()
    void PyThread_free_lock(PyThread_type_lock lock)
    int PyThread_acquire_lock(PyThread_type_lock lock, int wait) nogil
    PyLockStatus PyThread_acquire_lock_timed(
        PyThread_type_lock lock, long long microseconds, int interruptible) nogil
    void PyThread_release_lock(PyThread_type_lock lock) nogil
    unsigned long PyThread_get_thread_ident() nogil


@cython.final
cdef class ReentrantLock:
    """As `threading.RLock`; a `threading.Condition` can use it. Thread safe."""

    def __cinit__(self):
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.lock != NULL:
            if self.count:
                PyThread_release_lock(self.lock)
            PyThread_free_lock(self.lock)

    cdef int acquire_native(self, bint blocking) except -1:
        """Returns 1 if this thread now holds the lock, 0 if it is not free and not blocking."""
        cdef unsigned long this_thread = PyThread_get_thread_ident()
        cdef PyLockStatus got
        if self.count and self.owner == this_thread:
            self.count += 1
            return 1
        if not PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
            if not blocking:
                return 0
            while True:
                with nogil:
                    got = PyThread_acquire_lock_timed(self.lock, -1, 1)
                if got == PY_LOCK_ACQUIRED:
                    break
                PyErr_CheckSignals()        # may raise, for example KeyboardInterrupt
        self.owner = this_thread
        self.count = 1
        return 1

    cdef int release_native(self) except -1:
        if not self._is_owned():
            raise RuntimeError("cannot release a lock that this thread does not hold")
        self.count -= 1
        if self.count == 0:
            PyThread_release_lock(self.lock)
            if self.on_release is not None:
                self._released()
        return 0

    cdef int _released(self) except -1:
        callback, self.on_release = self.on_release, None
        callback()
        return 0

    def acquire(self, bint blocking=True):
        """Acquire the lock; False if another thread holds it and blocking is false."""
        return self.acquire_native(blocking) == 1

    def release(self):
        """Release the lock; RuntimeError if this thread does not hold it."""
        self.release_native()

    def locked(self):
        """Whether a thread holds the lock; ``threading.Condition`` of Python 3.14 asks for it."""
        return self.count > 0

    def __enter__(self):
        self.acquire_native(True)
        return True

    def __exit__(self, *_):
        self.release_native()

    def attempt(self):
        """For a with statement: acquires the lock if it is free, and yields whether it did."""
        return Attempt(self)

    # --- called by threading.Condition, and by threading in a forked child ----------------------

    cpdef bint _is_owned(self):
        return self.count > 0 and self.owner == PyThread_get_thread_ident()

    def _release_save(self):
        cdef unsigned long count = self.count
        if not self._is_owned():
            raise RuntimeError("cannot release a lock that this thread does not hold")
        self.count = 0
        PyThread_release_lock(self.lock)
        return count

    def _acquire_restore(self, unsigned long count):
        self.acquire_native(True)
        self.count = count

    def _at_fork_reinit(self):
        """Become an unlocked lock: the owner does not exist in the forked process."""
        cdef PyThread_type_lock fresh = PyThread_allocate_lock()
        if fresh == NULL:
            raise MemoryError
        self.on_release = None
        self.lock = fresh       # do not free the old one: its state is undefined
        self.count = 0


@cython.final
cdef class Attempt:
    """Acquires a lock if no thread holds it, not even this one. Use it once, in one thread.

    With ``acquire(blocking=False)`` before a ``try``, a signal between the two would leave the
    lock held forever; a signal cannot interrupt a with statement before its block.
    """

    cdef ReentrantLock lock
    cdef bint taken

    def __cinit__(self, ReentrantLock lock not None):
        self.lock = lock

    def __enter__(self):
        self.taken = self.lock.count == 0 and self.lock.acquire_native(False) == 1
        return self.taken

    def __exit__(self, *_):
        if self.taken:
            self.lock.release_native()
