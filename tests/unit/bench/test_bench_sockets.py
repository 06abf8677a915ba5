"""The loops that send a file: every byte arrives by every method."""

import mmap
import os
import socket
from array import array
from threading import Thread

import pytest

from kstore._native.bench import memory_loops, socket_loops
from kstore.bench.data.raw_files import prewrite
from kstore.bench.machine import sockets
from kstore.bench.workload import Setting

MIB = 1 << 20


@pytest.fixture(name="work")
def _work(tmp_path):
    work = sockets.Sending(Setting(tmp_path, MIB, "quick"), 5000)
    yield work
    work.close()


@pytest.mark.parametrize(
    "name",
    [
        "sendfile",
        "read+send",
        "mmap+send",
        "splice",
        "mmap+send, MSG_ZEROCOPY",
        "sendfile, from Python",
    ],
)
def test_every_byte_arrives(work, name):
    send = work.methods()[name]
    timed = work.sent(name, send, drop=False)
    assert work.checked == {name}
    assert timed.result == MIB
    assert timed.seconds > 0
    assert set(timed.also) == {"sender CPU", "receiver CPU"}
    assert work.sent(name, send, drop=True).result == MIB


def test_wrong_bytes_are_detected(work):
    with pytest.raises(AssertionError, match="other bytes arrived"):
        work.sent("wrong", lambda out: work.hot(out), drop=False)


def test_too_few_bytes_are_detected(work):
    with pytest.raises(AssertionError, match="of 1048576 bytes arrived"):
        work.sent("short", lambda out: os.write(out, b"abc"), drop=True)


def test_sockets_have_the_named_congestion_control(monkeypatch):
    monkeypatch.setenv("KSTORE_BENCH_CONGESTION", "reno")
    assert sockets.congestion() == "reno"
    with sockets.connection("reno") as ends:
        for end in ends:
            found = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
            assert found.rstrip(b"\0").decode() == "reno"


def test_a_file_that_ends_early_is_an_error(tmp_path):
    path = prewrite(tmp_path / "file", 4096)
    with sockets.connection(sockets.congestion()) as (near, far), open(path, "rb") as file:
        buffer = bytearray(4096)
        for send in (
            lambda out, fd: socket_loops.send_file(out, fd, 8192, 4096),
            lambda out, fd: socket_loops.read_and_send(out, fd, buffer, 8192, 4096),
        ):
            with pytest.raises(OSError, match="No data"):
                send(near.fileno(), file.fileno())
        near.shutdown(socket.SHUT_WR)
        assert socket_loops.receive(far.fileno(), buffer) == 2 * 4096


def test_sizes_beyond_the_buffer_are_refused():
    with pytest.raises(ValueError, match="exceeds the data"):
        socket_loops.send_memory(-1, bytes(10), 11, 5)
    with pytest.raises(ValueError, match="exceeds the data"):
        socket_loops.send_zerocopy(-1, bytes(10), 11, 5)
    with pytest.raises(ValueError, match="smaller than a chunk"):
        socket_loops.read_and_send(-1, -1, bytearray(4), 10, 5)
    with pytest.raises(ValueError, match="are at least 1"):
        socket_loops.send_file(-1, -1, 10, 0)


def test_a_closed_receiver_is_an_error_and_no_signal():
    near, far = socket.socketpair()
    with near:
        far.close()
        with pytest.raises(BrokenPipeError):
            socket_loops.send_memory(near.fileno(), bytes(10), 10, 5)


def test_finished_zero_copy_sends_are_counted():
    data = mmap.mmap(-1, MIB)
    with sockets.connection(sockets.congestion()) as (near, far):
        receiver = sockets.Receiver(far, None, drop=True, keep=False)
        receiver.start()
        sends, copied = socket_loops.send_zerocopy(near.fileno(), data, MIB, 65536)
        near.shutdown(socket.SHUT_WR)
        receiver.join()
    assert receiver.received == MIB
    assert sends >= 16
    assert 0 <= copied <= sends


def test_a_pinned_thread_is_released():
    before = os.sched_getaffinity(0)
    seen = []

    def look():
        with sockets.pinned(min(before)):
            seen.append(os.sched_getaffinity(0))
        seen.append(os.sched_getaffinity(0))

    thread = Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [{min(before)}, before]


@pytest.mark.parametrize("how", ["branchy", "branchless", "prefetching"])
def test_the_searches_of_the_ceilings_find_the_entry(how):
    keys = [0, 3, 7, 1000]
    entries = b"".join(
        key.to_bytes(4, "big") + at.to_bytes(4, "big") for at, key in enumerate(keys, 1)
    )
    assert memory_loops.search(how, entries, array("q", [0, 2, 3, 999, 5000])) == 1 + 1 + 2 + 3 + 4
    with pytest.raises(ValueError, match="are empty"):
        memory_loops.search(how, b"", array("q", [1]))
    with pytest.raises(ValueError, match="unknown search"):
        memory_loops.search("wild", entries, array("q", [1]))
