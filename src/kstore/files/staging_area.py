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
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

from kstore.files.filenames import REWRITE_PREFIX, STAGED_SUFFIX
from kstore.files.files import Files
from kstore.kafka_uuid import random_hex

Path = str | os.PathLike[str]
Method = TypeVar("Method", bound=Callable[..., Any])


def _on_descriptor(method: Method) -> Method:
    """The same method of the other ``Files``."""
    name = method.__name__

    @wraps(method)
    def call(self: "StagingArea", *values: Any, **options: Any) -> Any:
        return getattr(self.inner, name)(*values, **options)

    return cast(Method, call)


def _on_path(method: Method) -> Method:
    """The same method of the other ``Files``, with the file's path."""
    name = method.__name__

    @wraps(method)
    def call(self: "StagingArea", path: Path, *values: Any, **options: Any) -> Any:
        return getattr(self.inner, name)(self.real(path), *values, **options)

    return cast(Method, call)


class StagingArea(Files):
    """Another ``Files`` that simulates one directory: ``directory``.

    It contains the files staged under its token. Several can be used at the same time.
    """

    def __init__(self, files: Files, folder: str | os.PathLike[str], token: str = "") -> None:
        self.inner = files
        self.native = files.native
        self.token = token or random_hex()
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

    open = _on_path(Files.open)
    close = _on_descriptor(Files.close)
    duplicate = _on_descriptor(Files.duplicate)
    size = _on_descriptor(Files.size)
    stamp = _on_descriptor(Files.stamp)
    modified_ms = _on_descriptor(Files.modified_ms)
    pread = _on_descriptor(Files.pread)
    preadv_into = _on_descriptor(Files.preadv_into)
    only_zeros = _on_descriptor(Files.only_zeros)
    write = _on_descriptor(Files.write)
    pwrite = _on_descriptor(Files.pwrite)
    truncate = _on_descriptor(Files.truncate)
    allocate = _on_descriptor(Files.allocate)
    start_writing = _on_descriptor(Files.start_writing)
    fdatasync = _on_descriptor(Files.fdatasync)
    fdatasync_each = _on_descriptor(Files.fdatasync_each)
    fsync = _on_descriptor(Files.fsync)
    map = _on_descriptor(Files.map)
    read_ahead = _on_descriptor(Files.read_ahead)
    prefault = _on_descriptor(Files.prefault)
    exists = _on_path(Files.exists)
    kind = _on_path(Files.kind)
    read = _on_path(Files.read)
    about = _on_path(Files.about)
    modified_ns = _on_path(Files.modified_ns)
    set_modified_ns = _on_path(Files.set_modified_ns)
    identity_of = _on_path(Files.identity_of)
    size_of = _on_path(Files.size_of)
    disk_space = _on_path(Files.disk_space)
    list_directories = _on_path(Files.list_directories)
    list_own_directories = _on_path(Files.list_own_directories)
    scan = _on_path(Files.scan)
    make_directory = _on_path(Files.make_directory)
    remove = _on_path(Files.remove)
    remove_directory = _on_path(Files.remove_directory)
    sync_directory = _on_path(Files.sync_directory)
    write_atomically = _on_path(Files.write_atomically)
    write_private = _on_path(Files.write_private)
    lock = _on_path(Files.lock)
    probe = _on_path(Files.probe)
    locked_range = _on_path(Files.locked_range)

    def raise_errno(self, code: int, path: Path, position: int) -> None:
        self.inner.raise_errno(code, self.real(path), position)

    def copy(self, source: Path, target: Path, size: int) -> None:
        self.inner.copy(self.real(source), self.real(target), size)

    def rename(self, source: Path, target: Path) -> None:
        self.inner.rename(self.real(source), self.real(target))

    def sync_all(
        self, fds: Sequence[int], directories: Collection[str] = (), *, only_data: bool = False
    ) -> None:
        self.inner.sync_all(
            fds, [os.fspath(self.real(each)) for each in directories], only_data=only_data
        )

    def write_all_atomically(
        self, contents: Sequence[tuple[Path, bytes]], beside: Sequence[int] = ()
    ) -> None:
        self.inner.write_all_atomically(
            [(self.real(path), data) for path, data in contents], beside
        )


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
