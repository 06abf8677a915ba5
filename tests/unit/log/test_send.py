"""``Slice.send_to`` sends the bytes of a slice, whatever happens to its segment meanwhile."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kstore._native.files.file_map import FileMap
from kstore._native.read.segment_view import SegmentView, Slice
from kstore.errors import CorruptRecordError
from kstore.log.log import Log
from kstore.log.writable_log import WritableLog
from support.logs import open_log, read_log

LARGE = 3 << 20  # more than a socket buffers
Sockets = tuple[socket.socket, socket.socket]


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    near, far = socket.socketpair()
    with near, far:
        near.settimeout(None)
        far.settimeout(20)
        yield near, far


def fill(directory: Path, size: int = LARGE, **settings: int) -> WritableLog:
    log = open_log(directory, **settings)
    log.extend(os.urandom(1000) for _ in range(size // 1000))
    return log


def send_all(data: Slice, sockets: Sockets) -> bytes:
    """Send by as many calls as it takes, while this thread receives."""
    near, far = sockets
    errors: list[BaseException] = []

    def send() -> None:
        try:
            done = 0
            while done < data.size:
                done += data.send_to(near.fileno(), done)
        except BaseException as error:
            errors.append(error)
            near.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    received = bytearray()
    while len(received) < data.size and (chunk := far.recv(1 << 20)):
        received += chunk
    sender.join()
    if errors:
        raise errors[0]
    return bytes(received)


def read(log: Log) -> Slice:
    data = log.read(0, LARGE * 2)
    assert data is not None
    return data


def open_descriptors(directory: Path) -> int:
    """Descriptors of log files below a directory."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue
        count += target.startswith(str(directory)) and ".log" in target
    return count


@pytest.mark.parametrize("who", ["writer", "own reader", "foreign reader"])
def test_all_bytes_arrive(tmp_path: Path, sockets: Sockets, who: str) -> None:
    log: Log = fill(tmp_path / "t-0", segment_bytes=LARGE // 2)
    if who != "writer":
        log = read_log(tmp_path / "t-0", own=who == "own reader")
    data = read(log)
    assert send_all(data, sockets) == Path(data.path).read_bytes()


def test_a_range_is_sent(tmp_path: Path, sockets: Sockets) -> None:
    near, far = sockets
    data = read(fill(tmp_path / "t-0", 100_000))
    stored = bytes(data)
    for start, count in ((0, 10), (5, 0), (7, 20_000), (data.size - 3, 3), (data.size, 0)):
        assert data.send_to(near.fileno(), start, count) == count
        assert far.recv(count, socket.MSG_WAITALL) == stored[start : start + count]
    assert data.send_to(near.fileno(), data.size - 9_000) == 9_000
    assert far.recv(9_000, socket.MSG_WAITALL) == stored[-9_000:]
    for start, count in ((-1, 2), (0, -1), (0, data.size + 1), (data.size, 1), (data.size + 1, 0)):
        with pytest.raises(ValueError, match="in a slice of"):
            data.send_to(near.fileno(), start, count)


@pytest.mark.parametrize("mapped", [True, False])
def test_a_full_socket_accepts_what_fits(tmp_path: Path, sockets: Sockets, mapped: bool) -> None:
    near, far = sockets
    near.setblocking(False)
    fill(tmp_path / "t-0").close()
    data = read(open_log(tmp_path / "t-0") if mapped else read_log(tmp_path / "t-0", own=False))
    sent = data.send_to(near.fileno())
    assert 0 < sent < data.size
    with suppress(BlockingIOError):  # until nothing more goes in
        for _ in range(1000):
            sent += data.send_to(near.fileno(), sent, 1000)
    with pytest.raises(BlockingIOError):
        data.send_to(near.fileno(), sent)
    received = b""
    while len(received) < sent:
        received += far.recv(1 << 20)
    assert received == bytes(data)[:sent]


def test_a_peer_that_closed_is_an_error_of_the_socket(tmp_path: Path, sockets: Sockets) -> None:
    near, far = sockets
    data = read(fill(tmp_path / "t-0", 100_000))
    far.close()
    for count in (100, 50_000):
        with pytest.raises(BrokenPipeError):
            data.send_to(near.fileno(), 0, count)
    with pytest.raises(OSError, match="Bad file descriptor"):
        data.send_to(-1)


def test_a_pipe_and_a_file_are_sent_to(tmp_path: Path) -> None:
    data = read(fill(tmp_path / "t-0", 100_000))
    target = tmp_path / "copy"
    with target.open("wb", buffering=0) as file:
        assert data.send_to(file.fileno()) == data.size
        assert data.send_to(file.fileno(), 0, 5) == 5
    assert target.read_bytes() == bytes(data) + bytes(data)[:5]
    with target.open("ab", buffering=0) as file:  # where sendfile(2) does not write
        assert data.send_to(file.fileno()) == data.size
    assert target.read_bytes()[-data.size :] == bytes(data)


CHANGES: dict[str, Callable[[WritableLog, Path], object]] = {
    "nothing": lambda log, path: None,
    "the name is gone": lambda log, path: path.unlink(),
    "another file has the name": lambda log, path: (
        path.with_name("other").write_bytes(b"other" * LARGE),
        os.replace(path.with_name("other"), path),
    ),
    "parked": lambda log, path: log.park(),
    "closed": lambda log, path: log.close(),
    "deleted": lambda log, path: (log.roll(), log.delete_records(-1), log.remove_retired()),
    "truncated to its beginning": lambda log, path: log.truncate_to(10),
    "truncated to nothing": lambda log, path: log.truncate_to(0),
    "grown": lambda log, path: log.append(b"more"),
}


@pytest.mark.parametrize("sent_before", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_slice_outlives_its_segment(
    tmp_path: Path, sockets: Sockets, change: str, sent_before: bool
) -> None:
    log = fill(tmp_path / "t-0", file_delete_delay_ms=0)
    data = read(log)
    stored = bytes(data)
    if sent_before:
        assert send_all(data, sockets) == stored
        assert open_descriptors(tmp_path) == 2  # the writer's, and that for sends
    CHANGES[change](log, Path(data.path))
    assert send_all(data, sockets) == stored


def test_a_truncated_log_is_sent(tmp_path: Path, sockets: Sockets) -> None:
    log = fill(tmp_path / "t-0")
    log.truncate_to(2_500)
    log.extend(os.urandom(1000) for _ in range(500))
    data = read(log)
    assert send_all(data, sockets) == Path(data.path).read_bytes()
    log.close()
    assert open_descriptors(tmp_path) == 1  # the copy's, under its new name


def test_a_file_that_ends_early_is_corrupt(tmp_path: Path, sockets: Sockets) -> None:
    log = fill(tmp_path / "t-0")
    data = read(log)
    os.truncate(data.path, 1 << 20)
    with pytest.raises(CorruptRecordError, match="was truncated") as caught:
        send_all(data, sockets)
    assert (caught.value.path, caught.value.position) == (data.path, 1 << 20)


def test_descriptors_are_bounded_and_closed(tmp_path: Path, sockets: Sockets) -> None:
    near, far = sockets
    slices = []
    for n in range(300):
        path = tmp_path / f"{n}.log"
        path.write_bytes(n.to_bytes(2, "big") * 5_000)
        fd = os.open(path, os.O_RDONLY)
        view = SegmentView(0, str(path), size=10_000)
        view.attach_log(FileMap(fd, 10_000, lambda path=path: os.open(path, os.O_RDONLY)))
        os.close(fd)
        slices.append(view.all_published())
    for _ in range(2):
        for n, data in enumerate(slices):
            assert data.send_to(near.fileno()) == 10_000
            assert far.recv(10_000, socket.MSG_WAITALL) == n.to_bytes(2, "big") * 5_000
    assert open_descriptors(tmp_path) == 256
    del slices, data, view
    assert open_descriptors(tmp_path) == 0


@pytest.mark.timeout(60)
def test_segments_are_sent_while_they_are_replaced(tmp_path: Path) -> None:
    """Compaction, truncation and deletion, while two threads read and send."""
    log = open_log(
        tmp_path / "t-0",
        segment_bytes=100_000,
        cleanup_policy="compact,delete",
        file_delete_delay_ms=0,
    )
    stop = threading.Event()
    errors: list[BaseException] = []
    rounds = [0, 0]

    def send(which: int) -> None:
        near, far = socket.socketpair()
        try:
            while not stop.is_set():
                data = log.read(log.start_offset, 20_000)
                if data is None:
                    continue
                stored = bytes(data)
                assert data.send_to(near.fileno()) == data.size
                assert far.recv(data.size, socket.MSG_WAITALL) == stored
                rounds[which] += 1
        except IndexError:  # deleted between start_offset and read
            if not stop.is_set():
                send(which)
        except BaseException as error:
            errors.append(error)
        finally:
            near.close()
            far.close()

    threads = [threading.Thread(target=send, args=(n,)) for n in range(2)]
    log.append(b"first", key=b"k")
    for thread in threads:
        thread.start()
    try:
        for turn in range(12):
            log.extend((b"%d" % (n % 50), os.urandom(1000)) for n in range(300))
            log.roll()
            log.compact()
            log.delete_records(log.start_offset + 20)
            log.truncate_to(log.end_offset - 5)
            assert turn >= 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert errors == []
    assert min(rounds) > 5
