"""Waits for changes of files that another process writes: by inotify, or by polling without it.

inotify reports all changes by system calls on this machine: kstore and Kafka's brokers append with
write(2). It reports no writes to a mapping, and on most network file systems nothing that another
machine does: those that are known to be such are polled. Elsewhere a wait ends after some seconds
even without an event, because a file system that is not known may report none either.
"""

import errno
import logging
import math
import os
import select
import time
from collections.abc import Iterable

from kstore._native.files.inotify import (
    drain,
    end_watch,
    file_system_type,
    open_inotify,
    watch_directory,
)
from kstore._native.files.owned_descriptor import OwnedDescriptor

_LOGGER = logging.getLogger("kstore")
_POLL_FIRST, _POLL_MOST = 0.001, 0.05  # seconds between two reads without inotify
_WATCH_MOST = 5.0  # seconds between two reads with inotify
_TEMPORARY = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}  # errors that a later wait may not have
_LIMITS = {
    errno.EMFILE: "`ulimit -n` or fs.inotify.max_user_instances",
    errno.ENOSPC: "fs.inotify.max_user_watches",
}

# File systems (statfs(2)) that may report no events of what others change: another machine, the
# host of a virtual machine, or the program behind a FUSE mount.
_REMOTE = {
    0x6969: "NFS",
    0x517B: "SMB",
    0xFF534D42: "CIFS",
    0xFE534D42: "SMB2",
    0x65735546: "FUSE",
    0x01021997: "9P",
    0x00C36400: "Ceph",
    0x5346414F: "AFS",
    0x6B414653: "kAFS",
    0x0BD00BD0: "Lustre",
    0x47504653: "GPFS",
    0x7461636F: "OCFS2",
    0x01161970: "GFS2",
    0x19830326: "BeeGFS",
    0x20030528: "OrangeFS",
    0xAAD7AAEA: "PanFS",
    0x73757245: "Coda",
    0xBEEFDEAD: "SNFS",
    0x786F4256: "VBoxSF",
    0xBACBACBC: "VMHGFS",
    0x7C7C6673: "Parallels",
}
_reported: set[str] = set()  # reasons for polling, each of which is logged once


class DirectoryWatch:
    """The events of some directories. One thread waits; any may call :meth:`wake`.

    Raises OSError where there can be no more inotify instances (``fs.inotify.max_user_instances``).
    """

    def __init__(self) -> None:
        self._owned = OwnedDescriptor()  # which closes it with this object
        self._owned.fd = self._fd = open_inotify()
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._watches: set[int] = set()
        self.pid = os.getpid()  # a forked child shares the events, and would take them away

    def fileno(self) -> int:
        """The descriptor, which is readable if there are events."""
        return self._fd

    def watch(self, paths: Iterable[str]) -> bool:
        """Watch these directories and no others; whether one was not watched before.

        Raises OSError for one that cannot be watched, FileNotFoundError if it does not exist.
        """
        wanted: dict[int, bytes] = {}
        for path in paths:
            encoded = os.fsencode(path)
            wanted[watch_directory(self._fd, encoded)] = encoded
        new = wanted.keys() - self._watches
        for watch in self._watches - wanted.keys():
            end_watch(self._fd, watch)
        self._watches = set(wanted)
        for watch in new:
            kind = _REMOTE.get(file_system_type(wanted[watch]))
            if kind is not None:
                raise OSError(errno.EOPNOTSUPP, f"{kind} reports no changes by other machines")
        return bool(new)

    def drain(self) -> None:
        """Forget the events so far: the caller reads the files now."""
        drain(self._fd)

    def wait(self, seconds: float) -> None:
        """Wait for an event, at most this long."""
        self._poll.poll(math.ceil(seconds * 1000))

    def wake(self) -> None:
        """End the wait, or the next one: the end of a watch is an event."""
        watches, self._watches = self._watches, set()
        for watch in watches:
            end_watch(self._fd, watch)


class FileWait:
    """A caller waits for changes of files, in turns: clear, read, watch, wait.

    One thread at a time, except :meth:`wake`. ``can_watch``: the paths are names of the real disk.
    """

    def __init__(self, *, can_watch: bool = True) -> None:
        self._can_watch = can_watch
        self._watch: DirectoryWatch | None = None
        self._pause = _POLL_FIRST
        self.must_poll = not can_watch
        self.is_unwatchable = False  # other waits for the same files cannot watch them either
        self.is_waiting = False

    def _own_watch(self) -> DirectoryWatch | None:
        """The watch, unless it is that of a parent process."""
        if self._watch is not None and self._watch.pid != os.getpid():
            self._watch = None
        return self._watch

    def clear(self) -> None:
        """Forget what has happened so far: the caller reads the files now."""
        if (watch := self._own_watch()) is not None:
            watch.drain()

    def watch(self, paths: Iterable[str]) -> bool:
        """Watch these directories and no others; whether the caller must read the files again,
        because they may have changed before."""
        self.must_poll = True
        if not self._can_watch:
            return False
        try:
            watch = self._own_watch()
            if watch is None:
                watch = self._watch = DirectoryWatch()
            is_new = watch.watch(paths)
        except FileNotFoundError:  # it has moved: the next read finds it
            return False
        except OSError as error:
            self.is_unwatchable = error.errno not in _TEMPORARY
            self.poll()
            _report(error)
            return False
        self.must_poll = False
        return is_new

    def poll(self) -> None:
        """Watch no more: poll the files from now on."""
        self._can_watch, self._watch, self.must_poll = False, None, True

    def restart(self) -> None:
        """Poll often again: the files have changed, and may soon do so again."""
        self._pause = _POLL_FIRST

    def fileno(self) -> int:
        """A descriptor that is readable after a change; -1 if the files must be polled."""
        return -1 if self.must_poll or self._watch is None else self._watch.fileno()

    def next_pause(self, seconds: float | None) -> float:
        """How long to wait for a change: at most ``seconds``, and a short time where files are
        polled."""
        if self.must_poll:
            pause, self._pause = self._pause, min(2 * self._pause, _POLL_MOST)
        else:
            pause, self._pause = _WATCH_MOST, _POLL_FIRST
        return pause if seconds is None else min(pause, seconds)

    def wait(self, seconds: float | None) -> None:
        """Wait for a change, at most this long."""
        left = self.next_pause(seconds)
        self.is_waiting = True
        try:
            if self.must_poll or self._watch is None:
                time.sleep(left)
            else:
                self._watch.wait(left)
        finally:
            self.is_waiting = False

    def wake(self) -> None:
        """End the wait of another thread, or its next one."""
        if (watch := self._own_watch()) is not None:
            watch.wake()


class FileWaits:
    """The waits for the files of one reader. Thread safe.

    The last one is kept for the next caller: closing an inotify instance may take milliseconds.
    """

    def __init__(self, *, can_watch: bool) -> None:
        self._can_watch = can_watch
        self._used: list[FileWait] = []
        self._idle: list[FileWait] = []
        self._is_closed = False

    def begin(self) -> FileWait:
        """A wait for one caller, who gives it back to :meth:`end`."""
        try:
            wait = self._idle.pop()
        except IndexError:
            wait = FileWait(can_watch=self._can_watch)
        self._used.append(wait)
        return wait

    def end(self, wait: FileWait) -> None:
        """The caller waits no longer."""
        self._used.remove(wait)
        if wait.is_unwatchable:
            self._can_watch = False
        if not (wait.must_poll or self._idle or self._is_closed):
            self._idle.append(wait)

    def release(self) -> None:
        """Close what is kept for the next caller."""
        self._idle.clear()

    def close(self) -> None:
        """End all waits: the reader is closed, or its topic deleted. Waits for no lock."""
        self._is_closed = True
        self._idle.clear()
        for wait in tuple(self._used):
            wait.wake()


def _report(error: OSError) -> None:
    """Log once why files of another process are polled."""
    reason = error.strerror or str(error)
    if reason not in _reported:
        _reported.add(reason)
        where = f" of {error.filename}" if error.filename else ""
        limit = f"; the limit is {_LIMITS[error.errno]}" if error.errno in _LIMITS else ""
        _LOGGER.warning(
            "changes%s by another process are polled, because they cannot be watched: %s%s",
            where, reason, limit,
        )  # fmt: skip
