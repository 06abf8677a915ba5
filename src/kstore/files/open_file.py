"""A file that is open within a ``with`` block."""

import os
from typing import TYPE_CHECKING

from kstore.errors import StorageError

if TYPE_CHECKING:
    from kstore.files.files import Files


class OpenFile:
    """Opens a regular file and closes it at the end of the ``with`` block that gets its
    descriptor.

    Raises what :meth:`Files.open` and :meth:`Files.close` raise; an error of the block goes first,
    because it is the cause. Used by one thread.
    """

    __slots__ = ("_fd", "_files")

    def __init__(
        self, files: "Files", path: str | os.PathLike[str], flags: int = os.O_RDONLY
    ) -> None:
        self._files = files
        self._fd = files.open(path, flags)

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            self._files.close(self._fd)
        except StorageError:
            if error is None:
                raise
