"""A file's identity is read without its times, which a later write would have to journal."""

import errno
import os
from pathlib import Path

import pytest

import kstore
from kstore._native.files.inode_and_size import inode_and_size
from kstore.errors import StorageError
from kstore.files.files import DISK


def test_the_identity_is_that_of_stat(tmp_path: Path) -> None:
    path = tmp_path / "00.log"
    path.write_bytes(b"x" * 1234)
    about = os.stat(path)
    assert DISK.identity_of(path) == (about.st_ino, 1234)
    (tmp_path / "link").symlink_to(path)
    assert DISK.identity_of(tmp_path / "link") == (about.st_ino, 1234)
    assert DISK.identity_of(tmp_path / "nothing") is DISK.identity_of(path / "below") is None


def test_another_failure_raises_the_system_s_error(tmp_path: Path) -> None:
    with pytest.raises(OSError) as caught:
        inode_and_size(os.fsencode(tmp_path / ("x" * 300)))
    assert caught.value.errno == errno.ENAMETOOLONG
    assert caught.value.filename == str(tmp_path / ("x" * 300))
    with pytest.raises(StorageError, match="cannot stat"):
        DISK.identity_of(tmp_path / ("x" * 300))


def test_a_durable_append_does_not_stat_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    with kstore.open(tmp_path, config=kstore.StoreConfig(background=False)) as store:
        log = store.create_topic("t", config={"preallocate": True})[0]
        log.append(b"first")
        log.flush()
        stat, fstat = os.stat, os.fstat
        monkeypatch.setattr(os, "stat", lambda path, **k: asked.append(path) or stat(path, **k))
        monkeypatch.setattr(os, "fstat", lambda fd: asked.append(fd) or fstat(fd))
        for _ in range(10):
            log.append(b"value")
            log.flush()
        assert asked == []
