"""Lists a directory that its owner may rename, empty and replace meanwhile."""

import os

from kstore.errors import StorageError
from kstore.files.files import Files

_LISTINGS = 10  # at most, of a directory that changes all the time


def list_stable(files: Files, directory: str | os.PathLike[str]) -> list[str]:
    """All names in a directory; StorageError where another directory took its name meanwhile.

    A partition's old directory is emptied after a move, so a listing of it would lack names. After
    two moves the directory can have the old inode: it was changed since, and is listed again.
    """
    for _ in range(_LISTINGS):
        before = files.about(directory)
        names = files.listdir(directory)
        now = files.about(directory)
        if now.st_ino != before.st_ino:
            raise StorageError("moved while it was listed", path=directory)
        if now.st_ctime_ns == before.st_ctime_ns:
            break
    return names
