# Slice: what a read returns; its sendfile. Part of segment_view.pyx, whose segments make slices:
# types of two modules that return each other cannot be imported by either first.

@cython.final
@cython.freelist(64)
cdef class Slice:
    """A range of a segment's file: complete batches from ``position``, the last may be incomplete.

    The first batch contains the requested offset, so earlier records may precede it.
    ``memoryview(slice)`` has the bytes without a copy; it keeps the mapping alive.
    """

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, <void*>self.data, self.size, True, flags)

    def __len__(self):
        return self.size

    def __bytes__(self):
        return self.data[:self.size]

    cdef Py_ssize_t _count_from(self, Py_ssize_t start, count) except -1:
        """The number of bytes of an argument; None: up to the end. Raises ValueError."""
        cdef Py_ssize_t left = self.size - start if count is None else count
        if not 0 <= start <= self.size or not 0 <= left <= self.size - start:
            raise ValueError(f"no {left} bytes from {start} on in a slice of {self.size} bytes")
        return left

    def memory(self):
        """The bytes as a read-only memoryview, not copied."""
        return memoryview(self)

    def send_to(self, int fd, Py_ssize_t start=0, count=None):
        """Send count bytes from start on (None: all) to a socket; returns how many were sent.

        By sendfile(2) from the segment's file, or by send(2) where the slice has bytes in memory
        or the file has lost its name; without the GIL. fd may also be that of a pipe or a file.
        Thread safe.

        Raises BlockingIOError if a non-blocking socket takes nothing, another OSError if it
        fails; StorageError if the disk cannot read; CorruptRecordError if the file ends early;
        ValueError.
        """
        cdef Py_ssize_t left = self._count_from(start, count)
        if left == 0:
            return 0
        if type(self.owner) is FileMap:
            return (<FileMap>self.owner).send(
                fd, self.position + start, left, self.segment.path)
        return send_memory(
            fd, self.data + start, left, self.position + start, self.segment.path)

    def is_resident(self, Py_ssize_t start=0, count=None):
        """Whether these bytes are in memory, so that sending or reading them waits for no disk."""
        cdef Py_ssize_t left = self._count_from(start, count)
        return type(self.owner) is not FileMap or (<FileMap>self.owner).is_resident(
            self.position + start, self.position + start + left)

    def load(self, Py_ssize_t start=0, count=None):
        """Read these bytes into memory; waits for the disk, without the GIL. Thread safe.

        Raises StorageError if the disk cannot read.
        """
        cdef Py_ssize_t left = self._count_from(start, count)
        if type(self.owner) is FileMap:
            (<FileMap>self.owner).load(
                self.position + start, self.position + start + left, self.segment.path)

    def batch_end_after(self, Py_ssize_t start, Py_ssize_t size):
        """End of the first batch that ends at least size bytes after start, a batch's position.

        Returns the end of the slice at corruption; its reader raises the error.
        """
        cdef Py_ssize_t at = start
        cdef int32_t length
        with nogil:
            while at - start < size and self.size - at >= HEADER_UP_TO_MAGIC:
                length = get_i32(self.data + at + 8)
                if length < V0_OVERHEAD or length > self.size - at - LOG_OVERHEAD:
                    at = self.size          # a corrupt or incomplete batch
                    break
                at += length + LOG_OVERHEAD
        return at if self.size - at >= HEADER_UP_TO_MAGIC else self.size

    @property
    def first_batch_size(self):
        """Bytes of the first batch, also where the slice has fewer; 0 if the slice is empty."""
        if self.size_of_first == 0 and self.size >= LOG_OVERHEAD:
            return get_i32(self.data + 8) + LOG_OVERHEAD
        return self.size_of_first

    cpdef Slice limit(self, int64_t max_bytes, int64_t up_to, bint min_one_batch):
        """The beginning of a slice whose first batch is complete, as a read limits it.

        It has complete batches below up_to, None if none is; unless min_one_batch, it has at most
        max_bytes, perhaps less than a batch.
        """
        cdef Slice out
        cdef int64_t size = self.size
        if up_to < self.next_offset:
            size = self._size_below(up_to)
            if size == 0:
                return None
        if not min_one_batch:
            size = min(size, max(max_bytes, 0))
        out = new_slice(self.segment, self.owner, self.data, self.position, size)
        out.size_of_first = get_i32(self.data + 8) + LOG_OVERHEAD
        out.next_offset = min(self.next_offset, up_to)
        return out

    cdef int64_t _size_below(self, int64_t up_to) noexcept:
        """Bytes of the complete batches at the beginning whose offsets are all below up_to."""
        cdef int64_t indexed = self.segment._floor(up_to, 0) - self.position
        cdef int64_t size = -1
        if self.size - indexed < HEADER_UP_TO_MAGIC:    # the entry is of a later batch
            indexed = 0
        if indexed > 0:
            size = self._walk_below(indexed, up_to)
        if size < 0:                                    # no entry, or it is wrong
            size = max(self._walk_below(0, up_to), 0)
        return size

    cdef int64_t _walk_below(self, int64_t start, int64_t up_to) noexcept:
        """end_below; without the GIL where pages may not be in memory, or where SHORT_WALK bytes
        do not hold the answer."""
        global _free_walks
        cdef bint is_held
        cdef int64_t near = min(<int64_t>self.size, start + SHORT_WALK)
        cdef int64_t found
        if start < near and self.holds_resident(start, near):
            found = end_below(self.data, start, near, up_to)
            if near == self.size or (
                0 <= found <= near - HEADER_UP_TO_MAGIC     # a complete batch ends it, not bytes
                and get_i32(self.data + found + 8) <= near - found - LOG_OVERHEAD
            ):
                return found
        with nogil:                             # the caller keeps the mapping
            is_held = PyGILState_Check()
            found = end_below(self.data, start, self.size, up_to)
        _free_walks += not is_held
        return found

    cdef bint holds_resident(self, int64_t start, int64_t end) noexcept:
        """Whether these bytes are in memory, or were lately; at most SHORT_WALK, at least one."""
        return type(self.owner) is not FileMap or were_resident(
            <FileMap>self.owner, self.position + start, self.position + end, self.segment.size)

    @property
    def path(self):
        """The ``.log`` file that contains the bytes."""
        return self.segment.path

    def __repr__(self):
        return f"Slice(path={self.segment.path!r}, position={self.position}, size={self.size})"


cdef Slice new_slice(
    SegmentView segment, object owner, const uint8_t* data, int64_t position, Py_ssize_t size
):
    cdef Slice out = Slice.__new__(Slice)
    out.segment = segment
    out.owner = owner
    out.data = data
    out.position = position
    out.size = size
    out.next_offset = segment.next_offset
    return out


def slice_of_bytes(SegmentView segment not None, bytes data not None, int64_t position):
    """A Slice of bytes that the caller has read from the segment's file at position."""
    return new_slice(segment, data, <const uint8_t*><char*>data, position, len(data))
