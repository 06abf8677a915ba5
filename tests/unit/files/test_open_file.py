"""A file of a ``with`` block: which error is raised, and that no descriptor stays open."""

import errno
import os
from pathlib import Path

import pytest

from kstore.errors import StorageError
from kstore.files.files import Files
from kstore.files.open_file import OpenFile


class FailingClose(Files):
    """A disk that reports an error when a file is closed, as a network file system does."""

    def close(self, fd: int) -> None:
        super().close(fd)
        raise StorageError("cannot close", errno=errno.EIO)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    return file


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_the_descriptor_is_closed_at_the_end_of_the_block(path: Path) -> None:
    before = open_files()
    with OpenFile(Files(), path) as fd:
        assert os.read(fd, 3) == b"abc"
        assert open_files() == before + 1
    assert open_files() == before


def test_a_failing_close_raises_its_error(path: Path) -> None:
    before = open_files()
    with (
        pytest.raises(StorageError, match="cannot close") as caught,
        OpenFile(FailingClose(), path),
    ):
        pass
    assert caught.value.errno == errno.EIO
    assert open_files() == before


@pytest.mark.parametrize("error", [ValueError, StorageError, KeyboardInterrupt])
def test_an_error_of_the_block_takes_precedence_over_that_of_the_close(
    path: Path, error: type[BaseException]
) -> None:
    before = open_files()
    for files in (Files(), FailingClose()):
        with pytest.raises(error, match="of the block"), OpenFile(files, path):
            raise error("of the block")
    assert open_files() == before


def test_a_second_file_that_does_not_open_closes_the_first(path: Path) -> None:
    before = open_files()
    for files in (Files(), FailingClose()):
        with (
            pytest.raises(StorageError, match="missing") as caught,
            OpenFile(files, path),
            OpenFile(files, path.with_name("missing")),
        ):
            raise AssertionError("the block runs")
        assert caught.value.errno == errno.ENOENT
    assert open_files() == before


def test_flags_and_errors_are_those_of_open(path: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with OpenFile(Files(), path, flags) as fd:
        os.write(fd, b"new")
    assert path.read_bytes() == b"new"
    with pytest.raises(StorageError) as caught:
        OpenFile(Files(), path / "below")
    assert caught.value.errno == errno.ENOTDIR


def test_small_files_and_copies_keep_the_first_error(path: Path) -> None:
    files, before = FailingClose(), open_files()
    with pytest.raises(StorageError, match="may have at most 2"):
        files.read(path, limit=2)
    with pytest.raises(StorageError, match="cannot close"):
        files.read(path)
    with pytest.raises(StorageError, match="missing"):
        files.copy(path, path.with_name("missing") / "copy", 3)
    assert open_files() == before
