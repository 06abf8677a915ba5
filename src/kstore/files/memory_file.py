"""A file in memory, for libraries that read a secret only from a path."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kstore.files.files import DISK


@contextmanager
def memory_file(data: bytes) -> Iterator[str]:
    """The path of a file with these bytes, which no other user can open. It is on no disk, and
    exists until the end of the ``with`` block."""
    fd = os.memfd_create("kstore", os.MFD_CLOEXEC)
    try:
        DISK.write(fd, data)
        yield f"/proc/self/fd/{fd}"
    finally:
        DISK.close(fd)
