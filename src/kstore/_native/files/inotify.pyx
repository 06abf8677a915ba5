"""Events of directories, by inotify(7), which Python lacks.

An event says only that something has happened, not what: its reader reads the files anyway, and
events of a queue that has overflowed are lost.
"""

from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint32_t

cdef extern from "<sys/inotify.h>" nogil:
    int inotify_init1(int flags)
    int inotify_add_watch(int fd, const char* path, uint32_t mask)
    int inotify_rm_watch(int fd, int watch)
    int IN_NONBLOCK, IN_CLOEXEC
    uint32_t IN_MODIFY, IN_CREATE, IN_DELETE, IN_MOVED_FROM, IN_MOVED_TO
    uint32_t IN_MOVE_SELF, IN_DELETE_SELF, IN_ONLYDIR

cdef extern from "<sys/vfs.h>" nogil:
    struct file_system "statfs":
        long f_type
    int statfs(const char* path, file_system* found)

cdef extern from "<unistd.h>" nogil:
    ssize_t read(int fd, void* data, size_t size)

cdef enum:
    EVENTS_SIZE = 4096


cdef object _failed(bytes path):
    """The OSError of errno."""
    cdef int number = errno
    from os import fsdecode, strerror
    return OSError(number, strerror(number), None if path is None else fsdecode(path))


def open_inotify():
    """A new descriptor for watches, which does not block; OSError."""
    cdef int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)
    if fd < 0:
        raise _failed(None)
    return fd


def watch_directory(int fd, bytes path):
    """Watch a directory, and return the watch's number, which is the same for one that is watched.

    Its events: a file in it is written or truncated by a system call, created, deleted, or renamed;
    the directory itself is renamed or deleted. Writes to a mapping of a file are none.
    """
    cdef const char* name = path
    cdef uint32_t mask = (
        IN_MODIFY | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO
        | IN_MOVE_SELF | IN_DELETE_SELF | IN_ONLYDIR
    )
    cdef int watch
    with nogil:
        watch = inotify_add_watch(fd, name, mask)
    if watch < 0:
        raise _failed(path)
    return watch


def end_watch(int fd, int watch):
    """Watch a directory no more, which is an event itself; nothing if it is not watched."""
    inotify_rm_watch(fd, watch)


def drain(int fd):
    """Take all events that have happened; whether there were any."""
    cdef char[EVENTS_SIZE] events
    cdef bint found = False
    cdef ssize_t size
    while True:
        size = read(fd, events, EVENTS_SIZE)
        if size > 0:
            found = True
        elif size == 0 or errno == EAGAIN:
            return found
        elif errno != EINTR:
            raise _failed(None)


def file_system_type(bytes path):
    """The type of the file system of a path, as statfs(2) numbers it; OSError."""
    cdef file_system found
    cdef const char* name = path
    cdef int failed
    with nogil:
        failed = statfs(name, &found)
    if failed:
        raise _failed(path)
    return <unsigned int>found.f_type
