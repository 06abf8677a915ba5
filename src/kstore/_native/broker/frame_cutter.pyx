"""Splits a connection's bytes into frames: an int32 size, then that many bytes."""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromObject
from libc.stdint cimport uint8_t

from kstore._native.format.cursor cimport get_i16, get_i32

cdef enum:
    LONGEST_READ = 1 << 16      # also the longest frame that is a slice of the read buffer
    SIZE_PREFIX = 4
    API_KEY_SIZE = 2

READ_SIZE = LONGEST_READ


class FrameError(Exception):
    """A frame has a size that Kafka would not accept."""


@cython.final
cdef class FrameCutter:
    """Buffers the unprocessed bytes of one connection.

    Small frames are slices of the read buffer. A larger frame has its own buffer, which doubles as
    bytes arrive; a frame's claimed size alone allocates nothing.
    """

    cdef Py_ssize_t max_size
    cdef bytes data
    cdef Py_ssize_t position    # in data, of the next frame; at most its size
    cdef bytearray long_frame   # with its size prefix; None if the next frame is not long
    cdef Py_ssize_t filled      # bytes of it that have arrived
    cdef Py_ssize_t frame_end   # its size

    def __cinit__(self, Py_ssize_t max_size):
        self.max_size = max_size
        self.data = b""

    def allow(self, Py_ssize_t max_size):
        self.max_size = max_size

    @property
    def has_partial_frame(self):
        return self._buffered() > 0

    @property
    def buffered(self):
        return self._buffered()

    @property
    def is_long(self):
        return self.long_frame is not None

    def take(self):
        """Remove and return the buffered bytes, unless `is_long`."""
        cdef bytes data = self._unprocessed()
        self._clear()
        return data

    def put(self, bytes data not None):
        """Buffer these bytes, after `take`."""
        self.data, self.position = data, 0

    def receive(self, connection):
        """Read once; return the byte count, 0 at end of stream."""
        cdef bytes data
        if self.long_frame is not None:
            return self._receive_long(connection, self.long_frame)
        data = connection.recv(READ_SIZE)
        if self.position < len(self.data):
            self.data = self._unprocessed() + data
        else:
            self.data = data
        self.position = 0
        return len(data)

    def next_frame(self):
        """The next complete frame without its size, or None."""
        cdef Py_ssize_t start, left, size
        if self.long_frame is not None:
            return self._long_frame() if self.filled == self.frame_end else None
        left = PyBytes_GET_SIZE(self.data) - self.position - SIZE_PREFIX
        if left < 0:
            return None
        size = self._size()
        if not 0 <= size <= self.max_size:
            raise FrameError(
                f"a request of {size} bytes; socket.request.max.bytes is {self.max_size}")
        if size > left:
            if size > LONGEST_READ - SIZE_PREFIX:
                self._begin_long(SIZE_PREFIX + size)
            return None
        start = self.position + SIZE_PREFIX
        frame = PyMemoryView_FromObject(self.data)[start:start + size]
        if size == left:
            self._clear()
        else:
            self.position = start + size
        return frame

    def next_api_key(self):
        """The API key of the next frame if that is complete, -1 if it has none; None otherwise."""
        cdef Py_ssize_t left, size
        if self.long_frame is not None:     # certainly long enough to have a key
            if self.filled < self.frame_end:
                return None
            return get_i16(<const uint8_t*>PyByteArray_AS_STRING(self.long_frame) + SIZE_PREFIX)
        left = PyBytes_GET_SIZE(self.data) - self.position - SIZE_PREFIX
        if left < 0:
            return None
        size = self._size()
        if not 0 <= size <= self.max_size:
            return -1
        if size > left:
            return None
        return -1 if size < API_KEY_SIZE else get_i16(self._next() + SIZE_PREFIX)

    cdef inline const uint8_t* _next(self) noexcept:
        return <const uint8_t*>PyBytes_AS_STRING(self.data) + self.position

    cdef inline Py_ssize_t _size(self) noexcept:
        """What the next frame claims; the caller has checked that SIZE_PREFIX bytes are left."""
        return get_i32(self._next())

    cdef inline Py_ssize_t _buffered(self) noexcept:
        if self.long_frame is not None:
            return self.filled
        return PyBytes_GET_SIZE(self.data) - self.position

    cdef bytes _unprocessed(self):
        return self.data[self.position:] if self.position else self.data

    cdef inline void _clear(self) noexcept:
        self.data, self.position = b"", 0

    cdef int _begin_long(self, Py_ssize_t frame_end) except -1:
        self.long_frame = bytearray(self._unprocessed())
        self.filled = PyByteArray_GET_SIZE(self.long_frame)
        self.frame_end = frame_end
        self._clear()
        return 0

    cdef Py_ssize_t _receive_long(self, connection, bytearray frame) except -1:
        cdef Py_ssize_t filled = self.filled
        cdef Py_ssize_t count, asked
        if filled == PyByteArray_GET_SIZE(frame):
            PyByteArray_Resize(frame, min(self.frame_end, filled + max(filled, LONGEST_READ)))
        asked = PyByteArray_GET_SIZE(frame) - filled
        count = connection.recv_into(PyMemoryView_FromObject(frame)[filled:])
        if not 0 <= count <= asked:
            raise ValueError(f"a transport returned {count} bytes when asked for {asked}")
        self.filled = filled + count
        return count

    cdef object _long_frame(self):
        frame = PyMemoryView_FromObject(self.long_frame)[SIZE_PREFIX:]
        self.long_frame, self.filled = None, 0
        return frame
