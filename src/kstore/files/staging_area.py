"""Files prepared beside a log, under names that are not part of it, until they are renamed.

They are written through :class:`StagingArea` into a directory that does not exist,
``<partition>/kstore.rewrite.<token>``: each name in it stands for a file of the partition's
folder, ``kstore.rewrite.<token>.<name>.staged``. The suffix keeps a broker from reading the
file: Kafka takes the text before the first dot of every ``.index``, ``.snapshot`` or ``.cleaned``
file for an offset, and fails to load a log with another name (LogLoader).

So any module that creates files can stage them on the final disk, and a rename
publishes one. Every attempt has its own token; :func:`remove_staged` removes what failed
attempts left.
"""

import os
import uuid
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from kstore.files.filenames import REWRITE_PREFIX, STAGED_SUFFIX
from kstore.files.files import Files, Lock

if TYPE_CHECKING:
    import mmap

Path = str | os.PathLike[str]


class StagingArea(Files):
    """Another ``Files`` that simulates one directory: ``directory``.

    It contains the files staged under its token. Several can be used at the same time.
    """

    def __init__(self, files: Files, folder: str | os.PathLike[str], token: str = "") -> None:
        self.inner = files
        self.native = files.native
        self.token = token or uuid.uuid4().hex
        self.folder = os.fspath(folder)
        self.directory = os.path.join(self.folder, REWRITE_PREFIX + self.token)

    def listdir(self, path: str | os.PathLike[str]) -> list[str]:
        if os.fspath(path) != self.directory:
            return self.inner.listdir(path)
        prefix = f"{REWRITE_PREFIX}{self.token}."
        names = self.inner.listdir(self.folder)
        return [
            name.removeprefix(prefix).removesuffix(STAGED_SUFFIX)
            for name in names
            if name.startswith(prefix)
        ]

    def real(self, path: Path) -> Path:
        """The file's path for a path in the directory; other paths unchanged."""
        text = os.fspath(path)
        if text == self.directory:
            return self.folder
        begin = self.directory + os.sep
        if not text.startswith(begin):
            return path
        return staged_path(self.folder, self.token, text.removeprefix(begin))

    def discard(self) -> None:
        """Remove everything that was staged."""
        for name in self.listdir(self.directory):
            self.remove(os.path.join(self.directory, name))

    # --- every call, with the paths of the files ------------------------------------------------

    def open(self, path: Path, flags: int = os.O_RDONLY) -> int:
        return self.inner.open(self.real(path), flags)

    def close(self, fd: int) -> None:
        self.inner.close(fd)

    def duplicate(self, fd: int) -> int:
        return self.inner.duplicate(fd)

    def size(self, fd: int) -> int:
        return self.inner.size(fd)

    def stamp(self, fd: int) -> tuple[int, int, int]:
        return self.inner.stamp(fd)

    def modified_ms(self, fd: int) -> int:
        return self.inner.modified_ms(fd)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        return self.inner.pread(fd, size, position)

    def preadv_into(self, fd: int, buffer: bytearray | memoryview, position: int) -> int:
        return self.inner.preadv_into(fd, buffer, position)

    def only_zeros(self, fd: int, start: int, end: int) -> bool:
        return self.inner.only_zeros(fd, start, end)

    def write(self, fd: int, *buffers: bytes | bytearray | memoryview) -> int:
        return self.inner.write(fd, *buffers)

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
        return self.inner.pwrite(fd, data, position)

    def truncate(self, fd: int, size: int) -> None:
        self.inner.truncate(fd, size)

    def allocate(self, fd: int, size: int) -> None:
        self.inner.allocate(fd, size)

    def start_writing(self, fd: int, position: int, size: int) -> None:
        self.inner.start_writing(fd, position, size)

    def fdatasync(self, fd: int) -> None:
        self.inner.fdatasync(fd)

    def fsync(self, fd: int) -> None:
        self.inner.fsync(fd)

    def map(self, fd: int, size: int) -> "mmap.mmap":
        return self.inner.map(fd, size)

    def read_ahead(self, fd: int, position: int, size: int) -> None:
        self.inner.read_ahead(fd, position, size)

    def prefault(self, mapped: "mmap.mmap", position: int, size: int, fd: int) -> None:
        self.inner.prefault(mapped, position, size, fd)

    def raise_errno(self, code: int, path: Path, position: int) -> None:
        self.inner.raise_errno(code, self.real(path), position)

    def exists(self, path: Path) -> bool:
        return self.inner.exists(self.real(path))

    def kind(self, path: Path) -> str | None:
        return self.inner.kind(self.real(path))

    def read(self, path: Path, limit: int = 1 << 28) -> bytes:
        return self.inner.read(self.real(path), limit)

    def about(self, path: Path) -> os.stat_result:
        return self.inner.about(self.real(path))

    def modified_ns(self, path: Path) -> int:
        return self.inner.modified_ns(self.real(path))

    def set_modified_ns(self, path: Path, when: int) -> None:
        self.inner.set_modified_ns(self.real(path), when)

    def identity_of(self, path: Path) -> tuple[int, int] | None:
        return self.inner.identity_of(self.real(path))

    def size_of(self, path: Path) -> int:
        return self.inner.size_of(self.real(path))

    def copy(self, source: Path, target: Path, size: int) -> None:
        self.inner.copy(self.real(source), self.real(target), size)

    def list_directories(self, path: Path) -> list[str]:
        return self.inner.list_directories(self.real(path))

    def list_own_directories(self, path: Path) -> list[str]:
        return self.inner.list_own_directories(self.real(path))

    def scan(self, path: Path) -> tuple[list[str], list[str]]:
        return self.inner.scan(self.real(path))

    def make_directory(self, path: Path) -> None:
        self.inner.make_directory(self.real(path))

    def remove(self, path: Path) -> None:
        self.inner.remove(self.real(path))

    def remove_directory(self, path: Path) -> None:
        self.inner.remove_directory(self.real(path))

    def rename(self, source: Path, target: Path) -> None:
        self.inner.rename(self.real(source), self.real(target))

    def sync_directory(self, path: Path) -> None:
        self.inner.sync_directory(self.real(path))

    def sync_all(
        self, fds: Sequence[int], directories: Collection[str] = (), *, only_data: bool = False
    ) -> None:
        self.inner.sync_all(
            fds, [os.fspath(self.real(each)) for each in directories], only_data=only_data
        )

    def write_atomically(self, path: Path, data: bytes) -> None:
        self.inner.write_atomically(self.real(path), data)

    def write_all_atomically(
        self, contents: Sequence[tuple[Path, bytes]], beside: Sequence[int] = ()
    ) -> None:
        self.inner.write_all_atomically(
            [(self.real(path), data) for path, data in contents], beside
        )

    def lock(self, path: Path, start: int = 0, size: int = 0) -> Lock:
        return self.inner.lock(self.real(path), start, size)

    def probe(self, path: Path) -> bool:
        return self.inner.probe(self.real(path))


def staged_path(folder: str | os.PathLike[str], token: str, name: str) -> str:
    """The path of a file that was staged under a name."""
    return os.path.join(folder, f"{REWRITE_PREFIX}{token}.{name}{STAGED_SUFFIX}")


def remove_staged(files: Files, folder: str | os.PathLike[str]) -> list[str]:
    """Remove what any attempt staged in a partition's folder; returns the names of the files.

    The caller holds the store's lock and has no attempt in progress.
    """
    left = [name for name in files.listdir(folder) if name.startswith(REWRITE_PREFIX)]
    for name in left:
        files.remove(os.path.join(folder, name))
    return left
