"""Disks for tests, which count calls or fail on request.

What a power failure leaves is in ``support.recording_disk`` and ``torture.crash_disk``.
"""

import errno
import os
from collections.abc import Callable
from typing import Any

from kstore.errors import StorageError
from kstore.files.files import Files

CHANGES = (
    "open",
    "write",
    "pwrite",
    "truncate",
    "fdatasync",
    "fsync",
    "rename",
    "remove",
    "sync_directory",
    "write_atomically",
    "copy",
    "make_directory",
    "remove_directory",
    "set_modified_ns",
)


class HastyDisk(Files):
    """A disk that skips syncs, for tests that do not depend on durability."""

    def fdatasync(self, fd: int) -> None:
        self.size(fd)

    def fsync(self, fd: int) -> None:
        self.size(fd)

    def sync_directory(self, path: str | os.PathLike[str]) -> None:
        self.modified_ns(path)


class FaultyDisk(Files):
    """Counts modifying calls and fails at the n-th; a failing write writes half of its bytes.

    With a path, it counts only calls on paths below it and on descriptors of such files.
    """

    native = False

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = None if path is None else os.fspath(path)
        self.calls: list[str] = []
        self.fail_at = -1
        self.sticky = False
        self.error: Callable[[], BaseException] = lambda: StorageError("injected", errno=28)

    def arm(self, at: int, error: Callable[[], BaseException], *, sticky: bool = False) -> None:
        self.calls.clear()
        self.fail_at = at
        self.error = error
        self.sticky = sticky

    def _step(self, name: str) -> bool:
        number = len(self.calls)
        self.calls.append(name)
        return number == self.fail_at or (self.sticky and 0 <= self.fail_at < number)

    def step(self, name: str, where: Any) -> None:
        """Count a call on a path or descriptor; raise if it is the one that fails."""
        if self._concerns(where) and self._step(name):
            raise self.error()

    def _concerns(self, where: Any) -> bool:
        if self.path is None:
            return True
        if isinstance(where, int):
            where = os.readlink(f"/proc/self/fd/{where}")
        return os.fspath(where).startswith(self.path)

    def write(self, fd: int, *buffers: Any) -> int:
        if self._concerns(fd) and self._step("write"):
            data = b"".join(bytes(buffer) for buffer in buffers)
            os.write(fd, data[: len(data) // 2])
            raise self.error()
        return super().write(fd, *buffers)


def _failing(name: str) -> Callable[..., Any]:
    original = getattr(Files, name)

    def call(self: FaultyDisk, *arguments: Any, **named: Any) -> Any:
        self.step(name, arguments[0])
        return original(self, *arguments, **named)

    return call


for _name in CHANGES:
    if _name != "write":
        setattr(FaultyDisk, _name, _failing(_name))


class HalfDisk(Files):
    """Makes an armed ``pwrite`` fail after writing half of its bytes."""

    native = False

    def __init__(self, number: int = errno.EIO) -> None:
        self.number = number
        self.left = -1

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
        self.left -= 1
        if self.left != -1:
            return super().pwrite(fd, data, position)
        self.left = -1
        super().pwrite(fd, bytes(data)[: len(data) // 2], position)
        raise StorageError("injected", errno=self.number)

    def arm(self, writes: int = 0) -> None:
        self.left = writes


class CountingDisk(HastyDisk):
    """Counts calls, bytes read, names listed, and simultaneously open files."""

    native = False

    def __init__(self) -> None:
        self.calls = 0
        self.bytes_read = 0
        self.names_listed = 0
        self.most_open = 0
        self._open: set[int] = set()

    def note(self, name: str, arguments: tuple[Any, ...], answer: Any) -> None:
        self.calls += 1
        if name == "pread":
            self.bytes_read += len(answer)
        elif name == "preadv_into":
            self.bytes_read += answer
        elif name == "map":
            self.bytes_read += arguments[1]
        elif name == "listdir":
            self.names_listed += len(answer)
        elif name in ("open", "duplicate"):
            self._open.add(answer)
            self.most_open = max(self.most_open, len(self._open))
        elif name == "close":
            self._open.discard(arguments[0])


def _counting(name: str) -> Callable[..., Any]:
    original = getattr(HastyDisk, name)

    def call(self: CountingDisk, *arguments: Any, **named: Any) -> Any:
        answer = original(self, *arguments, **named)
        self.note(name, arguments, answer)
        return answer

    return call


for _name, _value in vars(Files).items():
    if callable(_value) and not _name.startswith("_"):
        setattr(CountingDisk, _name, _counting(_name))
