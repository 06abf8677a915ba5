"""Removes a directory of a deleted partition."""

import errno
import os

from kstore.errors import StorageError
from kstore.files.files import Files


def remove_tree(files: Files, path: str) -> None:
    """Remove a directory and its contents; a link is removed, not followed."""
    try:
        files.remove(path)  # a link, also one without a target
        return
    except StorageError as error:
        if error.errno not in (errno.EISDIR, errno.EPERM):
            raise
    for name in files.list_own_directories(path):
        remove_tree(files, os.path.join(path, name))
    for name in files.listdir(path):
        files.remove(os.path.join(path, name))
    files.remove_directory(path)
