"""A committer that has the disk begin with what was appended while the sync before runs."""

import os

import pytest

from kstore import Committer, open
from kstore.config import LogConfig
from kstore.errors import OffsetOutOfRangeError, StorageError
from kstore.files.files import DISK, Files
from kstore.log import group_commit
from kstore.log.log import Log

VALUES = [b"x" * 1000] * 100


class Asked(Files):
    """Notes which writes the disk was asked to begin."""

    def __init__(self):
        self.parts = []

    def start_writing(self, fd, position, size):
        assert os.fstat(fd).st_size >= position + size
        self.parts.append((position, size))
        super().start_writing(fd, position, size)


def log_with(tmp_path, monkeypatch, files, **config) -> Log:
    store = open(tmp_path / "data")
    log = store.create_topic("a", config=LogConfig(**config))[0]
    log.append(b"")
    monkeypatch.setattr(log._require_writer().state, "files", files)
    return store, log


def test_every_byte_is_begun_once_and_in_order(tmp_path, monkeypatch):
    files = Asked()
    store, log = log_with(tmp_path, monkeypatch, files)
    with store, Committer(log) as committer:
        for _ in range(40):
            log.extend(VALUES)
            committer.request()
        committer.wait()
        assert committer.durable_offset == log.end_offset
    ends = [position + size for position, size in files.parts]
    assert len(files.parts) >= 2
    assert [position for position, _ in files.parts] == [0, *ends[:-1]]
    assert min(size for _, size in files.parts) >= group_commit.AHEAD
    assert ends[-1] > log.size - group_commit.AHEAD - sum(map(len, VALUES)) * 2


def test_small_appends_ask_for_nothing(tmp_path, monkeypatch):
    files = Asked()
    store, log = log_with(tmp_path, monkeypatch, files)
    with store, Committer(log) as committer:
        for _ in range(20):
            log.append(b"x" * 100)
            committer.wait()
    assert files.parts == []


def test_writeback_of_a_new_segment_begins_at_position_0(tmp_path, monkeypatch):
    files = Asked()
    store, log = log_with(tmp_path, monkeypatch, files, segment_bytes=3 << 20)
    with store, Committer(log) as committer:
        for _ in range(100):
            log.extend(VALUES)
            committer.request()
        committer.wait()
    assert [position for position, _ in files.parts].count(0) >= 3


def test_a_refused_advice_fails_nothing(tmp_path, monkeypatch):
    class Refused(Files):
        def duplicate(self, fd):
            raise StorageError("on purpose", errno=24)

    store, log = log_with(tmp_path, monkeypatch, DISK)
    with store, Committer(log) as committer:
        log.extend(VALUES * 20)
        monkeypatch.setattr(log._require_writer().state, "files", Refused())
        assert committer.request() == log.end_offset  # in the thread that appends
        monkeypatch.setattr(log._require_writer().state, "files", DISK)


def test_a_closed_descriptor_is_no_error(tmp_path):
    DISK.start_writing(-1, 0, 1 << 20)
    path = tmp_path / "a"
    path.write_bytes(bytes(8192))
    fd = os.open(path, os.O_RDONLY)
    DISK.start_writing(fd, 0, 8192)
    os.close(fd)
    assert path.read_bytes() == bytes(8192)


@pytest.mark.parametrize("offset", [2, 10**9])
def test_an_offset_that_does_not_exist_is_not_durable(tmp_path, monkeypatch, offset):
    store, log = log_with(tmp_path, monkeypatch, Asked())
    with store, Committer(log) as committer:
        assert committer.wait(1)
        with pytest.raises(OffsetOutOfRangeError, match=f"offset {offset} is outside the log"):
            committer.wait(offset, timeout=0)
