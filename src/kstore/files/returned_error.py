"""The error of a system call as a value, where several calls fail each for itself."""

from collections.abc import Callable

from kstore.errors import StorageError


def returned_error(call: Callable[[int], object], fd: int) -> StorageError | None:
    """Call with a descriptor; the StorageError that it raises, or None."""
    try:
        call(fd)
    except StorageError as error:
        return error
    return None
