def open_inotify() -> int:
    """A new descriptor for watches, which does not block; OSError."""

def watch_directory(fd: int, path: bytes) -> int:
    """Watch a directory, and return the watch's number, which is the same for one that is watched.

    Its events: a file in it is written or truncated by a system call, created, deleted, or renamed;
    the directory itself is renamed or deleted. Writes to a mapping of a file are none.
    """

def end_watch(fd: int, watch: int) -> None:
    """Watch a directory no more, which is an event itself; nothing if it is not watched."""

def drain(fd: int) -> bool:
    """Take all events that have happened; whether there were any."""

def file_system_type(path: bytes) -> int:
    """The type of the file system of a path, as statfs(2) numbers it; OSError."""
