"""Checksums over the header bytes that a batch's own checksum does not cover, 64 batches each.

The first 21 bytes of a v2 batch are its offset, size, leader epoch, magic and checksum. In a v0 or
v1 message they contain offset, size and checksum, all that its own checksum does not cover.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc

from kstore._native.format.argument cimport HeldBytes, hold_bytes
from kstore._native.format.crc cimport crc32c
from kstore._native.format.cursor cimport get_i32, get_i64, get_u32, put_i64, put_u32
from kstore._native.format.layout cimport LOG_OVERHEAD, V0_OVERHEAD, V2_CRC_START

cdef enum:
    GROUP = 64                  # batches under one checksum
    ENTRY = 12                  # bytes of a group: position (8) of its first batch, CRC-32C (4)
    PREFIX = V2_CRC_START       # bytes of each batch

GROUP_BATCHES = GROUP
ENTRY_SIZE = ENTRY


cdef inline int64_t frame_size(const uint8_t* at) noexcept nogil:
    """Size of the batch whose first 12 bytes are present; 0 if its size field is too small."""
    cdef int32_t size = get_i32(at + 8)
    return 0 if size < V0_OVERHEAD else <int64_t>size + LOG_OVERHEAD


@cython.final
cdef class ChecksumWriter:
    """Walks a segment in windows of its file and computes the checksum of each group.

    Not thread-safe. ``feed`` releases the GIL.
    """

    cdef uint8_t* _data
    cdef int64_t _count, _capacity
    cdef int _in_group
    cdef uint32_t _crc
    cdef readonly int64_t file_size, position, batches

    def __cinit__(self, int64_t file_size):
        self.file_size = file_size

    def __dealloc__(self):
        free(self._data)

    def feed(self, object window):
        """Process a window of the file that begins at ``position``, and advance ``position``.

        Returns False at bytes that cannot be a batch: the segment gets no header checksums.
        """
        cdef HeldBytes view
        cdef bint is_valid
        view = hold_bytes(window)
        with nogil:
            is_valid = self._walk(view.data, view.size)
        return is_valid

    cdef bint _walk(self, const uint8_t* data, int64_t size) noexcept nogil:
        cdef int64_t at = 0, frame
        while size - at >= PREFIX:
            frame = frame_size(data + at)
            if frame == 0 or frame > self.file_size - self.position:
                return False
            if self._in_group == 0 and not self._begin():
                return False
            self._crc = crc32c(self._crc, data + at, PREFIX)
            self._in_group += 1
            self.batches += 1
            self.position += frame
            if self._in_group == GROUP:
                self._end()
            if frame > size - at:
                return True     # the next window begins after this batch
            at += frame
        return at > 0 or self.position == self.file_size

    cdef bint _begin(self) noexcept nogil:
        cdef uint8_t* grown
        if self._count == self._capacity:
            grown = <uint8_t*>realloc(self._data, (2 * self._capacity + 64) * ENTRY)
            if grown == NULL:
                return False
            self._data = grown
            self._capacity = 2 * self._capacity + 64
        put_i64(self._data + self._count * ENTRY, self.position)
        self._count += 1
        self._crc = 0
        return True

    cdef void _end(self) noexcept nogil:
        put_u32(self._data + (self._count - 1) * ENTRY + 8, self._crc)
        self._in_group = 0

    def finish(self):
        """The groups, 12 bytes each; call it once ``position`` is the file's size."""
        if self.position != self.file_size:
            raise ValueError(f"only {self.position} of {self.file_size} bytes were processed")
        if self._in_group:
            self._end()
        return PyBytes_FromStringAndSize(<char*>self._data, self._count * ENTRY)


@cython.final
cdef class ChecksumCheck:
    """Compares a segment's complete batches, in file order, with the groups of its checksum file.

    Not thread-safe. ``feed`` releases the GIL.
    """

    cdef Py_buffer _view
    cdef const uint8_t* _groups
    cdef int64_t _group_count, _group, _next
    cdef uint32_t _crc
    cdef bint _is_complete
    cdef int64_t _bad_from, _bad_to
    cdef readonly int64_t file_size

    def __cinit__(self, object groups, int64_t file_size):
        PyObject_GetBuffer(groups, &self._view, PyBUF_SIMPLE)
        self._groups = <const uint8_t*>self._view.buf
        self._group_count = self._view.len // ENTRY
        self._group = -1
        self.file_size = file_size

    def __dealloc__(self):
        PyBuffer_Release(&self._view)

    cdef int64_t _start(self, int64_t group) noexcept nogil:
        if group >= self._group_count:
            return self.file_size
        return get_i64(self._groups + group * ENTRY)

    def feed(self, object batches, int64_t position):
        """Process complete batches from a position in the file; only corrupt ones may be skipped.
        Returns ``(start, end)`` of each group whose checksum does not match."""
        cdef HeldBytes view
        cdef int64_t at = 0
        cdef list found = []
        if position != self._next:
            self._is_complete = False
        view = hold_bytes(batches)
        while at < view.size:
            with nogil:
                at = self._walk(view.data, at, view.size, position)
            self._collect(found)
        self._next = position + at
        return found

    def finish(self):
        """Close the remaining groups at the end of the file; returns the same as ``feed``."""
        cdef list found = []
        while self._group < self._group_count:
            if self._next != self.file_size:
                self._is_complete = False
            self._close()
            self._collect(found)
            self._is_complete = False
        return found

    cdef int _collect(self, list found) except -1:
        if self._bad_to > self._bad_from:
            found.append((self._bad_from, self._bad_to))
            self._bad_from = self._bad_to = 0
        return 0

    cdef void _close(self) noexcept nogil:
        """Compare the checksum of the group that ends here, and start the next."""
        if self._group >= 0 and (
            not self._is_complete or self._crc != get_u32(self._groups + self._group * ENTRY + 8)
        ):
            self._bad_from = self._start(self._group)
            self._bad_to = self._start(self._group + 1)
        self._group += 1
        self._crc = 0
        self._is_complete = False

    cdef int64_t _walk(
        self, const uint8_t* data, int64_t at, int64_t size, int64_t position
    ) noexcept nogil:
        """Walk until a group does not match; returns the position in data."""
        cdef int64_t frame
        while at < size:
            while self._group < self._group_count and self._start(self._group + 1) <= position + at:
                self._close()
                self._is_complete = self._start(self._group) == position + at
                if self._bad_to > self._bad_from:
                    return at
            frame = frame_size(data + at) if size - at >= PREFIX else 0
            if frame == 0 or frame > size - at:
                return size
            self._crc = crc32c(self._crc, data + at, PREFIX)
            at += frame
        return at
