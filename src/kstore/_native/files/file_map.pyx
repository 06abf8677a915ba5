"""A file's mapping, and how its bytes are sent: by sendfile(2), from a descriptor of the file.

A mapping needs no descriptor, so a process may have many mappings. The first large send opens the
file again by its name, and compares the inode. If another file has the name, or none, then send(2)
takes the bytes from the mapping: a deleted or replaced file exists as long as it is mapped.

A thread that touches a page which is not in memory waits until the disk has read it. A caller that
must not wait asks ``is_resident`` first, and lets another thread ``load`` the pages. A caller that
would only wait without the GIL asks ``were_resident``, which remembers for a second or two what it
was answered, so that reads of hot files make no system calls.

munmap(2) of a large mapping takes milliseconds where other threads map, or the kernel writes pages
of the file. Other threads run meanwhile, which they cannot while Python's ``mmap`` is closed.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EFAULT, EINTR, EIO, errno
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from posix.mman cimport MAP_FAILED, MAP_SHARED, PROT_READ, mmap, munmap

from kstore._native.files.resident_pages cimport coarse_seconds, pages_are_resident
from kstore._native.format.status cimport raise_unreadable

cdef extern from *:
    """
    #include <errno.h>
    #include <sys/mman.h>
    #include <sys/sendfile.h>
    #include <sys/socket.h>
    #include <unistd.h>
    #ifndef MADV_POPULATE_READ
    #define MADV_POPULATE_READ 22
    #endif
    /* Waits until the disk has read a range; 0, or the errno. */
    static int load_pages(const uint8_t* data, int64_t position, int64_t end) {
        static long page;
        if (!page) page = sysconf(_SC_PAGESIZE);
        position -= position % page;
        madvise((void*)(data + position), end - position, MADV_WILLNEED);  /* in one go */
        if (!madvise((void*)(data + position), end - position, MADV_POPULATE_READ)) return 0;
        if (errno != EINVAL) return errno;
        for (; position < end; position += page)  /* before Linux 5.14 */
            (void)*(const volatile uint8_t*)(data + position);
        return 0;
    }
    static ssize_t send_file_bytes(int fd, int file, int64_t position, size_t count) {
        off_t from = position;
        return sendfile(fd, file, &from, count);
    }
    static ssize_t send_memory_bytes(int fd, const uint8_t* data, size_t count) {
        ssize_t sent = send(fd, data, count, MSG_NOSIGNAL);
        return sent < 0 && errno == ENOTSOCK ? write(fd, data, count) : sent;
    }
    static int lacks_sendfile(int error) { return error == EINVAL || error == ENOSYS; }
    """
    ssize_t send_file_bytes(int fd, int file, int64_t position, size_t count) nogil
    ssize_t send_memory_bytes(int fd, const uint8_t* data, size_t count) nogil
    int lacks_sendfile(int error) nogil
    int load_pages(const uint8_t* data, int64_t position, int64_t end) nogil

cdef extern from "<errno.h>" nogil:
    int EHWPOISON

cdef extern from "<unistd.h>" nogil:
    int c_close "close"(int fd)

cdef enum:
    SEND_DESCRIPTORS = 256                  # open at once, in the process
    # Below this size sendfile(2) saves nothing, and send(2) needs no descriptor.
    SMALL_SEND = 8192
    # Below this size munmap(2) takes less time than to let other threads run.
    SMALL_MAP = 65536

cdef void* _open_maps[SEND_DESCRIPTORS]     # FileMaps with a descriptor; they remove themselves
cdef int _next_slot = 0
cdef int64_t _loads = 0                     # of pages, all without the GIL
cdef int64_t _questions = 0                 # that were_resident could not answer from memory


def load_count():
    """How many times this process has loaded pages of mappings, for tests."""
    return _loads


def question_count():
    """How many times were_resident had to ask the system in this process, for tests."""
    return _questions


cdef class FileMap:
    """A read-only shared mapping of a file, which may extend beyond the end of the file.

    The owner must read only bytes that are in the file. The mapping exists until its last
    reference is gone; it has no close. Its buffer, of all its bytes, is such a reference: it is for
    owners that map no more than the file has. Thread safe.

    Its end lets other threads run. An assignment to an attribute of a cdef class releases the old
    value before it stores the new one: so where that may be the last reference to a mapping, and
    other threads read the attribute, the old value is kept in a local variable meanwhile.

    reopen: a callable that returns another descriptor of the file, which this object closes, or
    -1 if the file has lost its name.
    """

    def __cinit__(self, int fd, Py_ssize_t size, reopen=None):
        cdef void* address
        self.fd = -1
        if size <= 0:
            raise ValueError("a mapping needs at least one byte")
        address = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0)
        if address == MAP_FAILED:
            raise OSError(errno, "cannot map the file")
        self.data = <const uint8_t*>address
        self.size = size
        self.reopen = reopen
        self.asked = <int32_t*>calloc(((size - 1) >> BLOCK_BITS) + 1, sizeof(int32_t))
        if self.asked == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.asked)
        if self.fd >= 0:
            _open_maps[self.slot] = NULL
            c_close(self.fd)
        if self.data == NULL:
            return
        if self.size < SMALL_MAP:
            munmap(<void*>self.data, self.size)
            return
        with nogil:
            munmap(<void*>self.data, self.size)

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, <void*>self.data, self.size, True, flags)

    @property
    def has_descriptor(self):
        """Whether a descriptor is open, for sends."""
        return self.fd >= 0

    cdef bint is_resident(self, int64_t position, int64_t end) noexcept:
        """Whether these bytes, which are in the file, are in memory: reading them does not wait."""
        return pages_are_resident(self.data + position, end - position)

    cdef bint _ask(self, int64_t position, int64_t end, int64_t published) noexcept:
        """The slow half of `were_resident`: ask the system, and note its answer by block.

        A block of which some pages are not in memory is noted, too: then only the wanted bytes
        are asked for, each time.
        """
        global _questions
        cdef int64_t block = position >> BLOCK_BITS
        cdef int64_t start
        cdef int32_t now = coarse_seconds()
        published = min(published, self.size)
        _questions += 1
        while block << BLOCK_BITS < end:
            start = block << BLOCK_BITS
            if not is_recent(now, self.asked[block]):
                if not is_recent(now, -self.asked[block]) and pages_are_resident(
                    self.data + start, min(published - start, 1 << BLOCK_BITS)
                ):
                    self.asked[block] = now
                else:
                    if not is_recent(now, -self.asked[block]):
                        self.asked[block] = -now
                    if not self.is_resident(
                        max(position, start), min(end, start + (1 << BLOCK_BITS))
                    ):
                        return False
            block += 1
        return True

    cdef int load(self, int64_t position, int64_t end, path) except -1:
        """Read these bytes, which are in the file, into memory; waits, without the GIL.

        Raises StorageError if the disk cannot read them.
        """
        global _loads
        cdef int error = 0
        if position < end:
            _loads += 1
            with nogil:
                error = load_pages(self.data, position, end)
        if error in (EIO, EFAULT, EHWPOISON):
            raise_send_error(EIO, path, position)
        return 0                                # another error: there is no memory for it now

    cdef int _open(self) except -1:
        """Open the descriptor for sends, if that is possible; the oldest unused one is closed."""
        global _next_slot
        cdef int n, slot = -1, opened
        cdef FileMap other
        if self.fd >= 0 or self.reopen is None:
            return 0
        opened = self.reopen()
        if opened < 0:
            self.reopen = None
            return 0
        for n in range(SEND_DESCRIPTORS if self.fd < 0 else 0):   # else another thread was faster
            slot = (_next_slot + n) % SEND_DESCRIPTORS
            if _open_maps[slot] == NULL:
                break
            other = <FileMap>_open_maps[slot]
            if other.senders == 0:
                c_close(other.fd)
                other.fd = -1
                break
            slot = -1
        if slot < 0:
            c_close(opened)
            return 0
        _open_maps[slot] = <void*>self
        _next_slot = (slot + 1) % SEND_DESCRIPTORS
        self.fd, self.slot = opened, slot
        return 0

    cdef Py_ssize_t send(self, int fd, int64_t position, Py_ssize_t count, path) except -1:
        """Send bytes of the file to fd, without the GIL; returns how many were sent."""
        cdef Py_ssize_t sent = -1
        cdef int error = EINTR
        if count >= SMALL_SEND:
            self._open()
        if self.fd < 0:
            return send_memory(fd, self.data + position, count, position, path)
        self.senders += 1
        try:
            while sent < 0 and error == EINTR:
                PyErr_CheckSignals()
                with nogil:
                    sent = send_file_bytes(fd, self.fd, position, count)
                    error = errno
        finally:
            self.senders -= 1
        if sent < 0 and lacks_sendfile(error):
            return send_memory(fd, self.data + position, count, position, path)
        if sent < 0:
            raise_send_error(error, path, position)
        if sent == 0:
            raise_unreadable(0, "the file was truncated", path, position)
        return sent


cdef Py_ssize_t send_memory(
    int fd, const uint8_t* data, Py_ssize_t count, int64_t position, path
) except -1:
    """Send bytes in memory to fd, without the GIL; returns how many were sent."""
    cdef Py_ssize_t sent = -1
    cdef int error = EINTR
    while sent < 0 and error == EINTR:
        PyErr_CheckSignals()
        with nogil:
            sent = send_memory_bytes(fd, data, count)
            error = errno
    if sent < 0:
        raise_send_error(error, path, position)
    return sent


cdef int raise_send_error(int error, path, int64_t position) except -1:
    """Raise StorageError for an error of the file's disk, else OSError for one of the socket."""
    from os import strerror
    if error in (EIO, EFAULT):                  # EFAULT: a page of the mapping cannot be read
        raise_unreadable(EIO, "cannot read: " + strerror(EIO), path, position)
    raise OSError(error, strerror(error))
