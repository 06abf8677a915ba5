"""Pages of a file are read in without the GIL, within its bounds."""

import errno
import mmap
import os

import pytest

from kstore._native.files.page_cache import populate
from kstore.errors import StorageError
from kstore.files.files import DISK


def test_pages_are_brought_in_without_the_gil(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 9000)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert populate(mapped, 4096, 4096, 22) in (0, errno.EINVAL)
        assert populate(mapped, 1, 10, 22) == errno.EINVAL  # not the start of a page
        for start, size in ((-4096, 1), (0, 9001), (4096, -4097), (12288, 1)):
            with pytest.raises(ValueError, match="not within"):
                populate(mapped, start, size, 22)


def test_a_page_that_cannot_be_read_is_an_error_of_the_disk(tmp_path):
    """Behind the end of a file: what a failing disk gives too, and would kill if touched."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 9000)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        os.truncate(path, 0)
        if populate(mapped, 0, 4096, 22) == errno.EINVAL:
            return  # before Linux 5.14
        with pytest.raises(StorageError) as caught, memoryview(mapped) as view:
            DISK.prefault(view, 0, 4096, file.fileno())
        assert caught.value.errno == errno.EIO
        assert caught.value.path == str(path)
