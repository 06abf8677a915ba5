"""A disk that records every change, from which the possible states after a power failure follow.

It records all system calls that change anything below one directory, in order: names created,
renamed and removed, bytes written at a position of an inode, sizes set, files and directories
synced. Composite operations (replacing a small file, copying a file) appear as their steps. It does
not record reads; ``outside`` lists changes outside the directory.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from kstore.files.files import Files

Where = int | str | os.PathLike[str]
Tree = dict[str, bytes | None]  # path below the root to content; None: a directory
ROOT = 0

CHANGES = (
    "open", "write", "pwrite", "truncate", "allocate", "fdatasync", "fsync", "make_directory",
    "remove", "remove_directory", "rename", "sync_directory",
)  # fmt: skip
READS = (
    "size", "pread", "preadv_into", "map", "kind", "modified_ns", "modified_ms", "size_of",
    "listdir", "scan", "list_directories", "list_own_directories", "duplicate", "close",
)  # fmt: skip


class Op(NamedTuple):
    """One change. ``node`` is an inode; for names the directory's.

    ==========  =============================================================
    write       ``data`` at ``position``
    resize      to ``position`` bytes
    sync        data of the node changed before op ``position``
    lost        data of the node so far: a sync of it failed
    make        ``name`` of a new inode ``to``; a directory where ``data`` is set
    remove      ``name``
    rename      ``name``, inode ``position``, to ``to_name`` in directory ``to``
    sync_names  the directory's names, changed before op ``position``
    ==========  =============================================================
    """

    kind: str
    node: int
    name: str = ""
    position: int = 0
    data: bytes = b""
    to: int = 0
    to_name: str = ""


class Trace(NamedTuple):
    """A run: its initial tree, its changes, and its notes in between."""

    base: Tree
    ops: list[Op]
    notes: list[tuple[int, tuple[Any, ...]]]  # number of changes before the note, and the note


def read_tree(root: str | os.PathLike[str]) -> Tree:
    """All files and directories below root."""
    tree: Tree = {}
    for path in sorted(Path(root).rglob("*")):
        tree[str(path.relative_to(root))] = None if path.is_dir() else path.read_bytes()
    return tree


class Recorder(Files):
    """The real disk, with a trace. Thread safe; changes are made and recorded one at a time.

    ``before`` and ``after``, which are called around each change, may raise or kill; the failing
    and the killing disks use them.
    """

    native = False

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.path.abspath(root)
        self.base = read_tree(self.root) if os.path.isdir(self.root) else {}
        self.ops: list[Op] = []
        self.notes: list[tuple[int, tuple[Any, ...]]] = []
        self.outside: list[str] = []
        self._lock = threading.RLock()
        self._nodes = number_nodes(self.base)
        self._next = max(self._nodes.values()) + 1
        self._fds: dict[int, int] = {}

    @property
    def trace(self) -> Trace:
        return Trace(self.base, self.ops, self.notes)

    def note(self, *event: Any) -> None:
        """Add a note, which all simulated crashes from here on include."""
        self.notes.append((len(self.ops), event))

    # --- inodes -----------------------------------------------------------------------------

    def _relative(self, path: Where) -> str | None:
        name = os.path.abspath(os.fspath(path))
        if name == self.root:
            return ""
        if not name.startswith(self.root + os.sep):
            return None
        return name[len(self.root) + 1 :]

    def _place(self, path: Where) -> tuple[int, str] | None:
        """(directory's node, name); None outside."""
        relative = self._relative(path)
        if not relative:
            return None
        parent, _, name = relative.rpartition(os.sep)
        node = self._nodes.get(parent)
        return None if node is None else (node, name)

    def _record(self, op: Op) -> None:
        self.ops.append(op)

    def _make(self, path: Where, *, directory: bool) -> None:
        location = self._place(path)
        if location is None:
            self.outside.append(os.fspath(path))
            return
        node, self._next = self._next, self._next + 1
        self._nodes[str(self._relative(path))] = node
        self._record(Op("make", location[0], location[1], data=b"/" if directory else b"", to=node))

    def _file(self, fd: int) -> int | None:
        return self._fds.get(fd)

    # --- changes ----------------------------------------------------------------------------

    def open(self, path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
        with self._lock:
            relative = self._relative(path)
            missing = bool(flags & os.O_CREAT) and not os.path.lexists(path)
            fd = super().open(path, flags)
            if missing:
                self._make(path, directory=False)
            node = None if relative is None else self._nodes.get(relative)
            if node is not None:
                self._fds[fd] = node
                if flags & os.O_TRUNC and not missing:
                    self._record(Op("resize", node, position=0))
            return fd

    def duplicate(self, fd: int) -> int:
        with self._lock:
            other = super().duplicate(fd)
            if fd in self._fds:
                self._fds[other] = self._fds[fd]
            return other

    def close(self, fd: int) -> None:
        with self._lock:
            self._fds.pop(fd, None)
            super().close(fd)

    def write(self, fd: int, *buffers: Any) -> int:
        with self._lock:
            start = os.fstat(fd).st_size
            try:
                return super().write(fd, *buffers)
            finally:
                self._written(fd, start)

    def _written(self, fd: int, start: int) -> None:
        """Record the bytes that an append wrote, complete or not."""
        node, size = self._file(fd), os.fstat(fd).st_size - start
        if node is not None and size > 0:
            self._record(Op("write", node, position=start, data=_read(fd, size, start)))

    def pwrite(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> int:
        with self._lock:
            size = super().pwrite(fd, data, position)
            node = self._file(fd)
            if node is not None:
                self._record(Op("write", node, position=position, data=bytes(data)))
            return size

    def truncate(self, fd: int, size: int) -> None:
        with self._lock:
            super().truncate(fd, size)
            node = self._file(fd)
            if node is not None:
                self._record(Op("resize", node, position=size))

    def allocate(self, fd: int, size: int) -> None:
        with self._lock:
            super().allocate(fd, size)
            node = self._file(fd)
            if node is not None and os.fstat(fd).st_size == size:
                self._record(Op("resize", node, position=size))

    def copy(
        self, source: str | os.PathLike[str], target: str | os.PathLike[str], size: int
    ) -> None:
        """Like Files.copy, but with a recorded write."""
        source_fd = self.open(source)
        try:
            fd = self.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                self.write(fd, self.pread(source_fd, size, 0))
                self.fsync(fd)
            finally:
                self.close(fd)
        finally:
            self.close(source_fd)

    def fdatasync(self, fd: int) -> None:
        self._sync(fd, super().fdatasync)

    def fsync(self, fd: int) -> None:
        self._sync(fd, super().fsync)

    def _sync(self, fd: int, sync: Callable[[int], None]) -> None:
        begun, node = len(self.ops), self._file(fd)
        sync(fd)  # without the lock: it does not cover concurrent writes
        if node is not None:
            self._record(Op("sync", node, position=begun))

    def sync_directory(self, path: str | os.PathLike[str]) -> None:
        begun, relative = len(self.ops), self._relative(path)
        super().sync_directory(path)
        node = None if relative is None else self._nodes.get(relative)
        if node is not None:
            self._record(Op("sync_names", node, position=begun))

    def make_directory(self, path: str | os.PathLike[str]) -> None:
        with self._lock:
            super().make_directory(path)
            if self._relative(path) != "":
                self._make(path, directory=True)

    def remove(self, path: str | os.PathLike[str]) -> None:
        self._gone(path, super().remove)

    def remove_directory(self, path: str | os.PathLike[str]) -> None:
        self._gone(path, super().remove_directory)

    def _gone(self, path: str | os.PathLike[str], remove: Callable[[Any], None]) -> None:
        with self._lock:
            remove(path)
            location = self._place(path)
            if location is None:
                self.outside.append(os.fspath(path))
                return
            self._nodes.pop(str(self._relative(path)), None)
            self._record(Op("remove", *location))

    def rename(self, source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        with self._lock:
            super().rename(source, target)
            old, new = self._place(source), self._place(target)
            if old is None or new is None:
                self.outside.append(os.fspath(source))
                return
            before, after = str(self._relative(source)), str(self._relative(target))
            node = self._nodes[before]
            for path in [p for p in self._nodes if p == before or p.startswith(before + os.sep)]:
                self._nodes[after + path[len(before) :]] = self._nodes.pop(path)
            self._record(Op("rename", *old, position=node, to=new[0], to_name=new[1]))


def number_nodes(tree: Tree) -> dict[str, int]:
    """Number the inodes of an initial tree: the root is 0, the others are in path order."""
    return {"": ROOT, **{path: number for number, path in enumerate(sorted(tree), start=1)}}


def _read(fd: int, size: int, position: int) -> bytes:
    """Read through a new descriptor, since the given one may be write-only."""
    other = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    try:
        return os.pread(other, size, position)
    finally:
        os.close(other)
