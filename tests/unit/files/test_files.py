"""The disk layer: complete reads and writes, typed errors, atomic replacement, locks."""

import errno
import fcntl
import os
import socket
import struct
import subprocess
import sys

import pytest

from kstore.errors import StorageError, StoreLockedError
from kstore.files.failure_detector import is_failure
from kstore.files.files import DISK, Files


def create(path, flags=0):
    return DISK.open(path, os.O_RDWR | os.O_CREAT | flags)


def test_writes_and_reads_back(tmp_path):
    fd = create(tmp_path / "f", os.O_APPEND)
    assert DISK.write(fd, b"abc") == 3
    assert DISK.write(fd, b"de", bytearray(b"f"), memoryview(b"gh")) == 5
    assert DISK.write(fd) == 0
    assert DISK.write(fd, b"") == 0
    assert DISK.size(fd) == 8
    assert DISK.pread(fd, 100, 2) == b"cdefgh"
    assert DISK.pread(fd, 100, 50) == b""
    buffer = bytearray(10)
    assert DISK.preadv_into(fd, buffer, 1) == 7
    assert bytes(buffer) == b"bcdefgh\0\0\0"
    DISK.fdatasync(fd)
    DISK.fsync(fd)
    with memoryview(DISK.map(fd, 8)) as mapped:
        assert mapped == b"abcdefgh"
        with pytest.raises(TypeError):
            mapped[0] = 1
    DISK.truncate(fd, 3)
    assert DISK.size(fd) == 3
    DISK.allocate(fd, 5000)
    assert DISK.size(fd) == 5000
    assert os.stat(fd).st_blocks * 512 >= 5000
    assert abs(DISK.modified_ms(fd) - os.stat(fd).st_mtime * 1000) < 2
    DISK.close(fd)


def test_more_buffers_than_one_system_call_takes(tmp_path):
    fd = create(tmp_path / "f", os.O_APPEND)
    assert DISK.write(fd, *[b"%04d" % n for n in range(3000)]) == 12000
    assert DISK.pread(fd, 12000, 0) == b"".join(b"%04d" % n for n in range(3000))
    DISK.close(fd)


def test_short_writes_and_reads_are_resumed(tmp_path, monkeypatch):
    fd = create(tmp_path / "f", os.O_APPEND)
    write, pread, preadv, pwrite = os.write, os.pread, os.preadv, os.pwrite
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:3]))
    monkeypatch.setattr(os, "writev", lambda fd, parts: write(fd, b"".join(map(bytes, parts))[:4]))
    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 3), at))
    monkeypatch.setattr(os, "preadv", lambda fd, parts, at: preadv(fd, [parts[0][:2]], at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, bytes(data)[:1], at))
    assert DISK.write(fd, b"0123456789") == 10
    assert DISK.write(fd, b"ab", b"cdef", b"", b"ghijk") == 11
    assert DISK.pread(fd, 21, 0) == b"0123456789abcdefghijk"
    buffer = bytearray(21)
    assert DISK.preadv_into(fd, buffer, 0) == 21
    assert bytes(buffer) == b"0123456789abcdefghijk"
    DISK.close(fd)
    fd = create(tmp_path / "g")
    assert DISK.pwrite(fd, b"xyz", 2) == 3
    assert DISK.pread(fd, 9, 0) == b"\0\0xyz"
    DISK.close(fd)


def test_a_full_disk_is_a_typed_error_with_the_path(monkeypatch, tmp_path):
    fd = create(tmp_path / "f")

    def full(*_):
        raise OSError(errno.ENOSPC, "x")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageError) as caught:
        DISK.write(fd, b"x")
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.path == str(tmp_path / "f")
    assert "free some space" in str(caught.value)
    assert isinstance(caught.value, OSError)
    os.close(fd)


@pytest.mark.parametrize("kind", ["missing", "directory", "fifo", "link"])
def test_only_regular_files_are_opened(tmp_path, kind):
    path = tmp_path / "f"
    expected = {
        "missing": errno.ENOENT,
        "directory": errno.EINVAL,
        "fifo": errno.EINVAL,
        "link": errno.ELOOP,
    }[kind]
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        (tmp_path / "target").write_bytes(b"x")
        path.symlink_to(tmp_path / "target")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(StorageError) as caught:
        DISK.open(path)
    assert caught.value.errno == expected
    assert caught.value.path == str(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_pipe_or_socket_in_place_of_a_file_is_no_failure_of_the_disk(tmp_path, monkeypatch):
    """The system says "no such device" of them, as of a disk that was pulled."""
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
    for name, flags in (("pipe", os.O_WRONLY), ("socket", os.O_RDONLY), ("socket", os.O_RDWR)):
        with pytest.raises(StorageError, match="not a regular file") as caught:
            DISK.open(name, flags)
        assert caught.value.errno == errno.EINVAL
        assert not is_failure(caught.value)


def test_every_call_with_a_closed_descriptor_raises(tmp_path):
    fd = create(tmp_path / "f")
    DISK.close(fd)
    for call in (
        lambda: DISK.close(fd),
        lambda: DISK.size(fd),
        lambda: DISK.modified_ms(fd),
        lambda: DISK.pread(fd, 1, 0),
        lambda: DISK.preadv_into(fd, bytearray(1), 0),
        lambda: DISK.pwrite(fd, b"x", 0),
        lambda: DISK.truncate(fd, 0),
        lambda: DISK.allocate(fd, 1),
        lambda: DISK.fdatasync(fd),
        lambda: DISK.fsync(fd),
        lambda: DISK.map(fd, 10),
    ):
        with pytest.raises(StorageError) as caught:
            call()
        assert caught.value.errno == errno.EBADF


def test_directories_list_their_names_sorted(tmp_path):
    DISK.make_directory(tmp_path / "d")
    (tmp_path / "b").write_bytes(b"bb")
    (tmp_path / "a").write_bytes(b"")
    assert DISK.listdir(tmp_path) == ["a", "b", "d"]
    assert DISK.list_directories(tmp_path) == ["d"]
    assert [DISK.kind(tmp_path / n) for n in ("a", "d", "x", "a/y")] == [
        "file",
        "directory",
        None,
        None,
    ]
    assert DISK.exists(tmp_path / "a")
    assert DISK.read(tmp_path / "b") == b"bb"
    with pytest.raises(StorageError):
        DISK.read(tmp_path / "b", limit=1)
    DISK.rename(tmp_path / "b", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"bb"
    DISK.remove(tmp_path / "a")
    DISK.remove_directory(tmp_path / "d")
    DISK.sync_directory(tmp_path)
    assert DISK.listdir(tmp_path) == []
    for call in (
        lambda: DISK.remove(tmp_path / "no"),
        lambda: DISK.rename(tmp_path / "no", tmp_path / "x"),
        lambda: DISK.remove_directory(tmp_path / "no"),
        lambda: DISK.listdir(tmp_path / "no"),
        lambda: DISK.list_directories(tmp_path / "no"),
        lambda: DISK.sync_directory(tmp_path / "no"),
    ):
        with pytest.raises(StorageError) as caught:
            call()
        assert caught.value.errno == errno.ENOENT
        assert caught.value.path == str(tmp_path / "no")
    with pytest.raises(StorageError) as caught:
        DISK.make_directory(tmp_path)
    assert caught.value.errno == errno.EEXIST


class Recording(Files):
    """Notes the order of calls; fails the one that a test chooses."""

    native = False

    def __init__(self, fail=None):
        self.calls = []
        self.fail = fail

    def note(self, name):
        self.calls.append(name)
        if name == self.fail:
            raise StorageError("on purpose", errno=errno.EIO)

    def write(self, fd, *buffers):
        self.note("write")
        return super().write(fd, *buffers)

    def fsync(self, fd):
        self.note("fsync")
        super().fsync(fd)

    def rename(self, source, target):
        self.note("rename")
        super().rename(source, target)

    def sync_directory(self, path):
        self.note("sync_directory")
        super().sync_directory(path)


def test_atomic_replacement_syncs_before_it_renames(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"old")
    (tmp_path / "f.tmp").write_bytes(b"left over from a crash, longer than the new content")
    files = Recording()
    files.write_atomically(path, b"new")
    assert files.calls == ["write", "fsync", "rename", "sync_directory"]
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("fail", ["write", "fsync", "rename"])
def test_a_failed_replacement_keeps_the_old_file(tmp_path, fail):
    path = tmp_path / "f"
    path.write_bytes(b"old")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(StorageError):
        Recording(fail).write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]
    assert len(os.listdir("/proc/self/fd")) == before


class FailingClose(Recording):
    """Closes, and reports an error, as NFS does for a write that failed late."""

    def close(self, fd):
        super().close(fd)
        raise StorageError("cannot close", errno=errno.EIO)


def test_a_failed_close_leaks_no_other_descriptor(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(StorageError, match="cannot close"):
        FailingClose().write_all_atomically([(tmp_path / name, b"new") for name in "abc"])
    assert len(os.listdir("/proc/self/fd")) == before
    assert os.listdir(tmp_path) == []


def test_a_failed_close_does_not_hide_the_error_before_it(tmp_path):
    (tmp_path / "f").write_bytes(b"old")
    for call in (
        lambda files: files.write_atomically(tmp_path / "g", b"new"),
        lambda files: files.copy(tmp_path / "f", tmp_path / "h", 3),
    ):
        with pytest.raises(StorageError, match="on purpose"):
            call(FailingClose("fsync"))


def test_a_second_lock_is_refused_also_in_the_same_process(tmp_path):
    path = tmp_path / ".lock"
    assert not DISK.probe(path)
    assert not path.exists()
    with DISK.lock(path) as lock:
        assert lock.held
        assert DISK.probe(path)
        with pytest.raises(StoreLockedError) as caught:
            DISK.lock(path)
        assert caught.value.path == str(path)
        os.close(os.open(path, os.O_RDWR))  # a POSIX lock would be lost here
        assert DISK.probe(path)
    assert not lock.held
    lock.release()
    assert not DISK.probe(path)
    DISK.lock(path).release()
    assert path.read_bytes() == b""


TRY_POSIX_LOCK = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("refused")
    else:
        print("taken", flush=True)
        sys.stdin.read()
"""


def test_a_posix_lock_such_as_javas_and_ours_exclude_each_other(tmp_path):
    path = tmp_path / ".lock"
    command = [sys.executable, "-c", TRY_POSIX_LOCK, str(path)]
    with DISK.lock(path):
        ran = subprocess.run(command, input="", capture_output=True, text=True, check=True)
        assert ran.stdout == "refused\n"
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "taken\n"
        assert DISK.probe(path)
        with pytest.raises(StoreLockedError):
            DISK.lock(path)
        other.stdin.close()
        other.wait()
    assert not DISK.probe(path)


def test_the_lock_covers_every_byte(tmp_path):
    """Java locks 0 to Long.MAX_VALUE; a lock of one byte would miss a lock of another."""
    path = tmp_path / ".lock"
    with DISK.lock(path):
        fd = os.open(path, os.O_RDWR)
        far = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 2**62, 1, 0)
        with pytest.raises(BlockingIOError):
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, far)
        os.close(fd)


def test_any_number_of_files_is_replaced_with_few_descriptors(tmp_path):
    contents = [(tmp_path / f"f{number}", b"%d" % number) for number in range(300)]
    opened, most = set(), 0

    class Counting(Files):
        def open(self, path, flags=os.O_RDONLY):
            nonlocal most
            opened.add(fd := super().open(path, flags))
            most = max(most, len(opened))
            return fd

        def close(self, fd):
            opened.discard(fd)
            super().close(fd)

    Counting().write_all_atomically(contents)
    assert [path.read_bytes() for path, _ in contents] == [data for _, data in contents]
    assert len(os.listdir(tmp_path)) == 300
    assert not opened
    assert 1 < most <= 64
