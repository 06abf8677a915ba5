"""Every system call of kstore that accesses a disk, except the append kernel's ``write(2)``.

No other module opens, renames or syncs a file, so a test can replace the disk: it passes a
``Files`` that records, fails or loses power instead of :data:`DISK`, with ``native`` False.
System errors are raised as :class:`kstore.errors.StorageError` with ``errno`` and ``path``.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

from kstore._native.files.file_map import FileMap
from kstore._native.files.inode_and_size import inode_and_size
from kstore._native.files.sync_together import fdatasync_each
from kstore.errors import StorageError
from kstore.files.descriptor_limit import lacks_descriptors, too_many_open_files
from kstore.files.file_lock import Lock, find_lock
from kstore.files.filenames import TEMPORARY_SUFFIX
from kstore.files.open_file import OpenFile
from kstore.files.returned_error import returned_error

if TYPE_CHECKING:
    from concurrent.futures import Future


_IOV_MAX = 1024
_SYNCS = 8  # in parallel
_OPEN_AT_ONCE = 64  # files that are replaced together
_ZEROS = bytes(1 << 20)  # compared with a file's bytes
_MADV_POPULATE_READ = 22  # not named by Python's mmap before 3.13

_ADVICE = {
    errno.ENOSPC: "free some space and try again; what was stored before is intact",
    errno.EDQUOT: "the disk quota is used up; raise it or free some space, then try again",
    errno.EFBIG: "the file may not grow that far (file size limit of the process or file system)",
    errno.EROFS: "the file system is read-only; open the store with mode='r'",
    errno.EACCES: "no permission; check the owner and the mode of the directory",
    errno.ELOOP: "a symbolic link has the name of a file of the log",
}

# O_NONBLOCK: a pipe with the name of a file must not block the open.
_OPEN_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Files:
    """The real disk. Stateless, so one instance serves all threads.

    ``native`` allows the append kernel to call ``write(2)`` on a descriptor itself;
    a test double sets it to False and receives every byte in :meth:`write`.
    """

    native: bool = True

    # --- descriptors ----------------------------------------------------------------------

    def open(self, path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
        """Open a regular file and return its descriptor; links, devices and pipes are refused.

        New files get mode 0o644 less the umask. Descriptors are closed on exec.
        """
        try:
            fd = os.open(path, flags | _OPEN_FLAGS, 0o644)
        except OSError as error:
            if error.errno == errno.ENXIO and self.kind(path) == "other":
                raise _not_regular(path) from error  # a socket, or a pipe without a reader
            raise _storage_error("cannot open", path, error) from error
        try:
            regular = stat.S_ISREG(os.fstat(fd).st_mode)
        except OSError as error:
            os.close(fd)
            raise _storage_error("cannot stat", path, error) from error
        if not regular:
            os.close(fd)
            raise _not_regular(path)
        return fd

    def close(self, fd: int) -> None:
        try:
            os.close(fd)
        except OSError as error:
            raise _storage_error("cannot close", fd, error) from error

    def duplicate(self, fd: int) -> int:
        """Another descriptor of the same open file, valid after fd is closed."""
        try:
            return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 0)
        except OSError as error:
            raise _storage_error("cannot duplicate", fd, error) from error

    def size(self, fd: int) -> int:
        return _status(fd).st_size

    def stamp(self, fd: int) -> tuple[int, int, int]:
        """Inode, change time in nanoseconds and size, which differ after any change."""
        about = _status(fd)
        return about.st_ino, about.st_ctime_ns, about.st_size

    def modified_ms(self, fd: int) -> int:
        """Time of the last modification, in milliseconds since 1970."""
        return _status(fd).st_mtime_ns // 1_000_000

    def pread(self, fd: int, size: int, position: int) -> bytes:
        """Read up to size bytes; fewer only where the file ends."""
        try:
            data = os.pread(fd, size, position)
            if len(data) == size or not data:
                return data
            parts = [data]
            done = len(data)
            while done < size:
                data = os.pread(fd, size - done, position + done)
                if not data:
                    break
                parts.append(data)
                done += len(data)
            return b"".join(parts)
        except OSError as error:
            raise _storage_error("cannot read", fd, error) from error

    def preadv_into(self, fd: int, buffer: bytearray | memoryview, position: int) -> int:
        """Fill the buffer from the file; returns the bytes read, fewer only where the file ends."""
        try:
            with memoryview(buffer).cast("B") as view:
                done = 0
                while done < len(view) and (count := os.preadv(fd, [view[done:]], position + done)):
                    done += count
                return done
        except OSError as error:
            raise _storage_error("cannot read", fd, error) from error

    def only_zeros(self, fd: int, start: int, end: int) -> bool:
        """Whether these bytes of the file are zeros; bytes beyond its end do not count."""
        for position in range(start, end, len(_ZEROS)):
            data = self.pread(fd, min(len(_ZEROS), end - position), position)
            if data != _ZEROS[: len(data)]:
                return False
        return True

    def write(self, fd: int, *buffers: bytes | bytearray | memoryview) -> int:
        """Write all buffers completely at the file's end (it is opened with O_APPEND).

        Resumes short writes. Returns the number of bytes. After an error some bytes may have
        been written: the caller truncates the file to its known end.
        """
        try:
            if len(buffers) == 1:
                return _write_rest(fd, buffers[0], 0)
            total = 0
            for start in range(0, len(buffers), _IOV_MAX):
                total += _write_vector(fd, buffers[start : start + _IOV_MAX])
            return total
        except OSError as error:
            raise _storage_error("cannot write", fd, error) from error

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
        """Write data completely at a position (not for files opened with O_APPEND)."""
        try:
            with memoryview(data).cast("B") as view:
                done = 0
                while done < len(view):
                    done += os.pwrite(fd, view[done:], position + done)
                return done
        except OSError as error:
            raise _storage_error("cannot write", fd, error) from error

    def truncate(self, fd: int, size: int) -> None:
        """Truncate the file, or extend it by a hole of zeros."""
        try:
            os.ftruncate(fd, size)
        except OSError as error:
            raise _storage_error("cannot set the size of", fd, error) from error

    def allocate(self, fd: int, size: int) -> None:
        """Allocate the file's blocks up to size, so that later writes there need no space."""
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError as error:
            raise _storage_error("cannot allocate", fd, error) from error

    def start_writing(self, fd: int, position: int, size: int) -> None:
        """Start writing a range of the file to disk, where possible; makes nothing durable."""
        from kstore._native.files.page_cache import start_writing

        start_writing(fd, position, size)

    def fdatasync(self, fd: int) -> None:
        try:
            os.fdatasync(fd)
        except OSError as error:
            raise _storage_error("cannot sync", fd, error) from error

    def fdatasync_each(self, fds: Sequence[int]) -> "list[StorageError | None]":
        """Sync the data of many files at the same time, and return the error of each.

        For different logs; the journal commits once. A double of ``fdatasync`` gets every call.
        """
        if type(self).fdatasync is not Files.fdatasync:
            return [returned_error(self.fdatasync, fd) for fd in fds]
        return [
            _storage_error("cannot sync", fd, OSError(code, os.strerror(code))) if code else None
            for fd, code in zip(fds, fdatasync_each(list(fds)), strict=True)
        ]

    def fsync(self, fd: int) -> None:
        try:
            os.fsync(fd)
        except OSError as error:
            raise _storage_error("cannot sync", fd, error) from error

    def map(self, fd: int, size: int) -> FileMap:
        """Map the first size bytes (more than 0) read-only, as long as a reference is left.

        The map needs no descriptor. Only files that no process truncates may be mapped: access to
        a page beyond a file's end kills the process.
        """
        try:
            return FileMap(fd, size)
        except OSError as error:
            raise _storage_error("cannot map", fd, error) from error

    def read_ahead(self, fd: int, position: int, size: int) -> None:
        """Announce that these bytes will be read soon; does not wait for them."""
        try:
            os.posix_fadvise(fd, position, size, os.POSIX_FADV_WILLNEED)
        except OSError as error:
            raise _storage_error("cannot read", fd, error) from error

    def prefault(self, mapped: memoryview, position: int, size: int, fd: int) -> None:
        """Load a range of a map into memory (position a multiple of the page size).

        Raises StorageError if the disk cannot read it; later that would kill the process.
        The descriptor only names the file in the error.
        """
        from kstore._native.files.page_cache import populate

        failed = populate(mapped, position, size, _MADV_POPULATE_READ)
        if failed in (0, errno.EINVAL):  # before Linux 5.14: pages are loaded on access
            return
        code = errno.EIO if failed == errno.EFAULT else failed
        raise _storage_error("cannot read", fd, OSError(code, os.strerror(code)))

    def raise_errno(self, code: int, path: str | os.PathLike[str], position: int) -> None:
        """Raise the StorageError for a system call that a kernel made itself."""
        error = _storage_error("cannot write", path, OSError(code, os.strerror(code)))
        error.at(position=position)
        raise error

    # --- names ----------------------------------------------------------------------------

    def exists(self, path: str | os.PathLike[str]) -> bool:
        return self.kind(path) is not None

    def kind(self, path: str | os.PathLike[str]) -> str | None:
        """``"file"``, ``"directory"``, ``"other"``, or None where nothing exists."""
        try:
            mode = os.stat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _storage_error("cannot stat", path, error) from error
        if stat.S_ISDIR(mode):
            return "directory"
        return "file" if stat.S_ISREG(mode) else "other"

    def read(self, path: str | os.PathLike[str], limit: int = 1 << 28) -> bytes:
        """All bytes of a small file; more than limit bytes are refused before they are read."""
        with OpenFile(self, path) as fd:
            size = self.size(fd)
            if size > limit:
                raise StorageError(
                    f"{size} bytes in a file that may have at most {limit}",
                    errno=errno.EFBIG,
                    path=path,
                )
            return self.pread(fd, size, 0)

    def about(self, path: str | os.PathLike[str]) -> os.stat_result:
        """The status of the file of this name (stat): owner, device, number of names."""
        return _status(path)

    def modified_ns(self, path: str | os.PathLike[str]) -> int:
        """Time of the last modification, in nanoseconds since 1970."""
        return self.about(path).st_mtime_ns

    def set_modified_ns(self, path: str | os.PathLike[str], when: int) -> None:
        """Set the time of the last modification; a copy of a segment keeps the segment's."""
        try:
            os.utime(path, ns=(when, when))
        except OSError as error:
            raise _storage_error("cannot set the time of", path, error) from error

    def identity_of(self, path: str | os.PathLike[str]) -> tuple[int, int] | None:
        """Inode and size of the file of this name; None where nothing exists."""
        try:
            return inode_and_size(os.fsencode(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _storage_error("cannot stat", path, error) from error

    def size_of(self, path: str | os.PathLike[str]) -> int:
        return self.about(path).st_size

    def disk_space(self, path: str | os.PathLike[str]) -> tuple[int, int]:
        """Bytes of the disk that a directory is on: in all, and free for this user."""
        try:
            disk = os.statvfs(path)
        except OSError as error:
            raise _storage_error("cannot ask for the space of", path, error) from error
        return disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize

    def copy(
        self, source: str | os.PathLike[str], target: str | os.PathLike[str], size: int
    ) -> None:
        """Make target a synced copy of source's first size bytes, sharing blocks if possible."""
        with (
            OpenFile(self, source) as source_fd,
            OpenFile(self, target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd,
        ):
            done = 0
            while done < size:
                try:
                    count = os.copy_file_range(source_fd, fd, size - done, done, done)
                except OSError as error:
                    raise _storage_error("cannot copy", target, error) from error
                if count == 0:
                    break
                done += count
            self.fsync(fd)

    def listdir(self, path: str | os.PathLike[str]) -> list[str]:
        """All names in a directory, sorted."""
        try:
            return sorted(os.listdir(path))
        except OSError as error:
            raise _storage_error("cannot list", path, error) from error

    def list_directories(self, path: str | os.PathLike[str]) -> list[str]:
        """Names of the directories in a directory (also of links to directories), sorted."""
        try:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except OSError as error:
            raise _storage_error("cannot list", path, error) from error

    def list_own_directories(self, path: str | os.PathLike[str]) -> list[str]:
        """As list_directories, without links."""
        try:
            with os.scandir(path) as entries:
                return sorted(
                    entry.name for entry in entries if entry.is_dir(follow_symlinks=False)
                )
        except OSError as error:
            raise _storage_error("cannot list", path, error) from error

    def scan(self, path: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
        """Names in a directory, unordered: those of directories, and all others."""
        directories: list[str] = []
        others: list[str] = []
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    (directories if entry.is_dir() else others).append(entry.name)
        except OSError as error:
            raise _storage_error("cannot list", path, error) from error
        return directories, others

    def make_directory(self, path: str | os.PathLike[str]) -> None:
        """Create one directory; it must not exist. The caller syncs the parent."""
        try:
            os.mkdir(path, 0o755)
        except OSError as error:
            raise _storage_error("cannot make the directory", path, error) from error

    def remove(self, path: str | os.PathLike[str]) -> None:
        try:
            os.unlink(path)
        except OSError as error:
            raise _storage_error("cannot remove", path, error) from error

    def remove_directory(self, path: str | os.PathLike[str]) -> None:
        """Remove an empty directory."""
        try:
            os.rmdir(path)
        except OSError as error:
            raise _storage_error("cannot remove the directory", path, error) from error

    def rename(self, source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        """Rename atomically, replacing an existing target."""
        try:
            os.rename(source, target)
        except OSError as error:
            raise _storage_error("cannot rename", source, error) from error

    def sync_directory(self, path: str | os.PathLike[str]) -> None:
        """Make created, renamed and removed names of a directory survive a power cut."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise _storage_error("cannot sync the directory", path, error) from error

    def sync_all(
        self, fds: Sequence[int], directories: Collection[str] = (), *, only_data: bool = False
    ) -> None:
        """Sync files and directories in parallel.

        For what one change has written. A file system's journal commits once for all syncs that
        wait at the same time. Raises the first error when all are done.
        """
        sync = self.fdatasync if only_data else self.fsync
        if len(fds) == 1 and not directories:  # a commit: needs no thread
            sync(fds[0])
            return
        work = [partial(sync, fd) for fd in fds]
        work += [partial(self.sync_directory, path) for path in dict.fromkeys(directories)]
        done: list[Future[None]] = []
        # The interpreter is ending and starts no threads, or no descriptor is free for the import.
        with suppress(RuntimeError, ImportError, OSError):
            if len(work) > 1:
                from concurrent.futures import ThreadPoolExecutor  # slow to import

                with ThreadPoolExecutor(min(len(work), _SYNCS)) as pool:
                    done = [pool.submit(each) for each in work]
                    work = []
        for future in done:
            future.result()
        for each in work:
            each()

    def write_atomically(self, path: str | os.PathLike[str], data: bytes) -> None:
        """Replace a small file so that a reader sees either the old or the new content.

        As Kafka: writes and syncs ``<name>.tmp``, renames it over the target, syncs the directory.
        """
        self.write_all_atomically([(path, data)])

    def write_private(self, path: str | os.PathLike[str], data: bytes) -> None:
        """As :meth:`write_atomically`, for secrets: only the owner may read the file."""
        temporary = os.fspath(path) + TEMPORARY_SUFFIX
        with OpenFile(self, temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
            try:
                os.fchmod(fd, 0o600)  # before the first byte is in it
            except OSError as error:
                raise _storage_error("cannot change the mode of", temporary, error) from error
            self.write(fd, data)
            self.fsync(fd)
        self.rename(temporary, path)
        self.sync_directory(os.path.dirname(os.fspath(path)) or ".")

    def write_all_atomically(
        self,
        contents: Sequence[tuple[str | os.PathLike[str], bytes]],
        beside: Sequence[int] = (),
    ) -> None:
        """Replace several small files, each as :meth:`write_atomically` does, in this order.

        They are synced together, up to the limit of open files. A crash may come between two
        of the renames, or show a later one without an earlier one: they must not depend on each
        other. The descriptors ``beside`` are synced with the first ones.
        """
        for first in range(0, len(contents), _OPEN_AT_ONCE):
            batch = contents[first : first + _OPEN_AT_ONCE]
            self._write_and_rename(batch, () if first else beside)
        self.sync_all([], [os.path.dirname(os.fspath(path)) or "." for path, _ in contents])

    def _write_and_rename(
        self, contents: Sequence[tuple[str | os.PathLike[str], bytes]], beside: Sequence[int]
    ) -> None:
        targets = [os.fspath(path) for path, _ in contents]
        fds: list[int] = []
        left = [target + TEMPORARY_SUFFIX for target in targets]
        try:
            with ExitStack() as opened:
                for target, (_, data) in zip(targets, contents, strict=True):
                    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
                    file = OpenFile(self, target + TEMPORARY_SUFFIX, flags)
                    fds.append(opened.enter_context(file))
                    self.write(fds[-1], data)
                self.sync_all([*fds, *beside])
            for target in targets:
                self.rename(target + TEMPORARY_SUFFIX, target)
                left.pop(0)
        except StorageError:
            for temporary in left[: len(fds)]:  # the first error is the one to report
                with suppress(StorageError):
                    self.remove(temporary)
            raise

    # --- locks ----------------------------------------------------------------------------

    def lock(self, path: str | os.PathLike[str], start: int = 0, size: int = 0) -> Lock:
        """Lock a file exclusively, creating it where missing; never waits.

        With a size, locks only that many bytes from start on (they need not exist): a file can
        have many locks.

        Raises StoreLockedError where another process (such as Kafka's broker) or another lock of
        this process holds it.
        """
        lock = Lock(os.fspath(path), self.open(path, os.O_RDWR | os.O_CREAT))
        try:
            lock.add(start, size)
        except BaseException:
            lock.release()
            raise
        return lock

    def probe(self, path: str | os.PathLike[str], start: int = 0, size: int = 0) -> bool:
        """Whether a process holds that lock, without taking it; False for a missing file."""
        return self.locked_range(path, start, size) is not None

    def locked_range(
        self, path: str | os.PathLike[str], start: int = 0, size: int = 0
    ) -> tuple[int, int] | None:
        """Start and size of a lock on some of these bytes (size 0: up to any position), or None."""
        if not self.exists(path):
            return None
        with OpenFile(self, path) as fd:
            return find_lock(fd, path, start, size)


DISK = Files()


def outside_stamp(path: str | os.PathLike[str]) -> tuple[int, int, int, int] | None:
    """Device, inode, change time and size of a file of the user's, such as a certificate, which
    may be a link; None if it does not exist. Raises StorageError."""
    try:
        about = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _storage_error("cannot stat", path, error) from error
    return about.st_dev, about.st_ino, about.st_ctime_ns, about.st_size


def read_outside(path: str | os.PathLike[str], limit: int) -> bytes:
    """All bytes of a file of the user's, which may be a link. Raises StorageError, also for more
    than ``limit`` bytes."""
    return DISK.read(os.path.realpath(path), limit)


def _write_rest(fd: int, buffer: bytes | bytearray | memoryview, done: int) -> int:
    with memoryview(buffer).cast("B") as view:
        size = len(view)
        while done < size:
            done += os.write(fd, view[done:] if done else view)
        return size


def _write_vector(fd: int, buffers: Sequence[bytes | bytearray | memoryview]) -> int:
    written = os.writev(fd, buffers)
    total = 0
    for buffer in buffers:
        with memoryview(buffer) as view:
            size = view.nbytes
        if written < total + size:
            _write_rest(fd, buffer, max(0, written - total))
        total += size
    return total


def _status(where: int | str | os.PathLike[str]) -> os.stat_result:
    try:
        return os.stat(where)
    except OSError as error:
        raise _storage_error("cannot stat", where, error) from error


def _not_regular(path: str | os.PathLike[str]) -> StorageError:
    return StorageError("cannot open: not a regular file", errno=errno.EINVAL, path=path)


def _storage_error(doing: str, where: int | str | os.PathLike[str], error: OSError) -> StorageError:
    if lacks_descriptors(error):
        return too_many_open_files(doing, error, _path_of(where))
    code = error.errno or errno.EIO
    sentence = f"{doing}: {os.strerror(code)}"
    if code in _ADVICE:
        sentence = f"{sentence}; {_ADVICE[code]}"
    return StorageError(sentence, errno=code, path=_path_of(where))


def _path_of(where: int | str | os.PathLike[str]) -> str | None:
    """A descriptor's path, which is read only for an error message."""
    if not isinstance(where, int):
        return os.fspath(where)
    try:
        return os.readlink(f"/proc/self/fd/{where}")
    except OSError:
        return None
