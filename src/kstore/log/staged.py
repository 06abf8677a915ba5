"""Files prepared beside a log, under names that nobody takes for it, until they are put in place.

Whoever prepares them writes through :class:`StagedFiles` into a directory that is not there,
``<partition>/kstore.rewrite.<token>``: each name in it stands for a plain file of the partition's
own folder, ``kstore.rewrite.<token>.<name>``. So every part of the engine that makes files can make
them out of sight, on the disk where they will be, and putting one in place is a rename. Every
attempt has a token of its own; what an attempt left that nobody knows of is removed by
:func:`remove_staged`.
"""

import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

from kstore.log.files import Files

STAGED = "kstore.rewrite."


class StagedFiles(Files):
    """Another ``Files`` in which one directory that is not there is seen: ``directory``.

    What it lists are the files staged under its token. Any number may be used side by side.
    """

    def __init__(self, files: Files, folder: str | os.PathLike[str], token: str = "") -> None:
        self.inner = files
        self.native = files.native
        self.token = token or uuid.uuid4().hex
        self.folder = os.fspath(folder)
        self.directory = os.path.join(self.folder, STAGED + self.token)

    def listdir(self, path: str | os.PathLike[str]) -> list[str]:
        if os.fspath(path) != self.directory:
            return self.inner.listdir(path)
        prefix = f"{STAGED}{self.token}."
        names = self.inner.listdir(self.folder)
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    def real(self, path: Any) -> Any:
        """The path of the plain file that a path in the directory stands for; others as given.

        Also those in lists and tuples of paths, or of paths with their contents.
        """
        if isinstance(path, list | tuple):
            return [self.real(each) for each in path]
        if not isinstance(path, str | os.PathLike):
            if isinstance(path, Iterator | Set | Mapping):
                raise TypeError(f"a list or tuple of paths, not {type(path).__name__}")
            return path
        text = os.fspath(path)
        if text == self.directory:
            return self.folder
        begin = self.directory + os.sep
        return f"{self.directory}.{text.removeprefix(begin)}" if text.startswith(begin) else path

    def discard(self) -> None:
        """Remove everything that was staged."""
        for name in self.listdir(self.directory):
            self.remove(os.path.join(self.directory, name))


def _mapped(name: str) -> Callable[..., Any]:
    def call(self: StagedFiles, *arguments: Any, **named: Any) -> Any:
        return getattr(self.inner, name)(
            *map(self.real, arguments), **{key: self.real(each) for key, each in named.items()}
        )

    return call


for _name, _value in vars(Files).items():
    if callable(_value) and not _name.startswith("_") and _name != "listdir":
        setattr(StagedFiles, _name, _mapped(_name))


def staged_path(folder: str | os.PathLike[str], token: str, name: str) -> str:
    """Where a file is that was staged under a name."""
    return os.path.join(folder, f"{STAGED}{token}.{name}")


def remove_staged(files: Files, folder: str | os.PathLike[str]) -> list[str]:
    """Remove what any attempt staged in a partition's folder; returns the names of the files.

    Only for who holds the store's lock and has no attempt under way.
    """
    left = [name for name in files.listdir(folder) if name.startswith(STAGED)]
    for name in left:
        files.remove(os.path.join(folder, name))
    return left
