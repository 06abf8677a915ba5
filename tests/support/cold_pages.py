"""Files whose pages are not in memory, as after a start of the machine."""

import os

import pytest


def drop_pages(path: str | os.PathLike[str]) -> None:
    """Drop a file's pages from memory: those on disk that no mapping has touched."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def require_dropped(are_resident: bool) -> None:
    """Skip the test where the file system has no other copy of its pages."""
    if are_resident:
        pytest.skip("this file system keeps pages in memory (tmpfs)")
