"""A connection: order of answers, pipelining, cancellation, slow readers, hostile frames."""

import logging
import mmap
import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from kstore.broker import connection
from kstore.broker.request import CloseConnection
from kstore.broker.send_queue import CopyingSendQueue, SendQueue
from kstore.errors import StorageError
from support.server import FETCH, METADATA, PRODUCE, Client, Server, frame, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server) as client:
        yield client


# --- order ----------------------------------------------------------------------------------


def test_a_client_id_that_is_not_utf_8_is_served(client: Client) -> None:
    """Kafka 3.9.2 replaces such bytes."""
    request = frame("echo")
    client_id = b"a\xff\xe2\x82b\xc0\x80"
    size, header, body = request[:4], request[4:12], request[14:]
    size = struct.pack(">i", len(request) - 4 + len(client_id))
    client.socket.sendall(size + header + struct.pack(">h", len(client_id)) + client_id + body)
    assert client.receive() == (1, b"echo")


def test_many_requests_in_one_write_are_answered_in_order(client: Client) -> None:
    names = [f"echo {number}" for number in range(500)]
    client.send(*names)
    answers = [client.receive() for _ in names]
    assert answers == [(number + 1, name.encode()) for number, name in enumerate(names)]


def test_a_client_with_many_long_requests_leaves_others_their_turn(
    server: Server, client: Client
) -> None:
    """Three clients send ten long requests each: they are handled in turn, one of each."""

    def long() -> bytes:
        ends = server.loop.time() + 0.002
        while server.loop.time() < ends:
            pass
        return b"long"

    with Client(server) as second, Client(server) as third:
        clients = (client, second, third)
        names = [[f"{each} {number}" for number in range(10)] for each in range(3)]
        server.answers = {name: long for own in names for name in own}

        def send() -> None:  # on the loop's thread: it reads none before all are sent
            for each, own in zip(clients, names, strict=True):
                each.send(*own)

        for each in clients:
            each.ask("echo connected")
        server.on_loop(send)
        for each in clients:
            assert [each.receive()[1] for _ in range(10)] == [b"long"] * 10
    order = [command[0] for _, command in server.seen if not command.startswith("echo")]
    assert all(sorted(order[at : at + 3]) == ["0", "1", "2"] for at in range(0, 30, 3))


def test_a_frame_that_arrives_byte_by_byte(client: Client) -> None:
    for byte in frame("echo slow"):
        client.socket.sendall(bytes([byte]))
    assert client.receive() == (1, b"echo slow")


def test_a_waiting_request_blocks_what_follows_on_its_connection(
    server: Server, client: Client
) -> None:
    client.send("park a", "echo b")
    with Client(server) as other:
        assert other.ask("echo c") == b"echo c"
    assert [command for _, command in server.seen] == ["park a", "echo c"]
    server.complete("park a")
    assert [client.receive()[1], client.receive()[1]] == [b"done", b"echo b"]


def test_requests_that_arrive_during_a_wait_are_handled_after_it(
    server: Server, client: Client
) -> None:
    client.send("park a")
    server.wait_for(lambda: len(server.parked) == 1)
    client.send("echo b", "echo c")
    client.send("echo d")
    server.complete("park a")
    assert [client.receive()[1] for _ in range(4)] == [b"done", b"echo b", b"echo c", b"echo d"]


def test_produce_is_handled_behind_produce_and_answered_in_order(
    server: Server, client: Client
) -> None:
    client.send("park 1", "echo 2", "park 3", key=PRODUCE)
    server.wait_for(lambda: len(server.seen) == 3)
    server.complete("park 3", b"third")
    server.complete("park 1", b"first")
    assert [client.receive() for _ in range(3)] == [(1, b"first"), (2, b"echo 2"), (3, b"third")]


def test_other_requests_wait_behind_produce(server: Server, client: Client) -> None:
    client.send("park 1", key=PRODUCE)
    client.send("echo 2", key=METADATA)
    client.send("echo 3", key=PRODUCE)
    with Client(server) as other:
        other.ask("echo other")
    assert len(server.seen) == 2  # neither 2 nor 3
    server.complete("park 1")
    assert [client.receive()[1] for _ in range(3)] == [b"done", b"echo 2", b"echo 3"]


def test_a_wrong_size_behind_produce_closes_after_its_answer(
    server: Server, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.socket.sendall(frame("park 1", PRODUCE) + struct.pack(">i", -9))
    server.complete("park 1")
    assert client.receive() == (1, b"done")
    with caplog.at_level(logging.WARNING, "kstore.broker"):
        assert client.is_closed()
    assert not any(record.exc_info for record in caplog.records)


def test_a_request_without_an_answer_leaves_the_others_in_order(
    server: Server, client: Client
) -> None:
    client.send("park 1", "none", "echo 3", key=PRODUCE)
    server.wait_for(lambda: len(server.seen) == 3)
    server.complete("park 1", None)
    assert client.receive() == (3, b"echo 3")


def test_a_request_completed_by_the_handler_of_another(server: Server, client: Client) -> None:
    """Produce to a waiting Fetch: the answer leaves within the handler of Produce."""
    client.send("park a")
    server.wait_for(lambda: len(server.parked) == 1)

    def wake() -> bytes:
        server.parked[0][1].complete(None)
        return b"woken"

    server.answers["wake"] = wake
    with Client(server) as other:
        assert other.ask("wake", PRODUCE) == b"woken"
    assert client.ask("echo next") == b"echo next"


# --- closing --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_bytes", "words"),
    [
        (frame("close"), "the command says so"),
        (frame("fail"), "ZeroDivisionError"),
        (frame("x", key=999), "the key 999 is not served"),
        (frame("x", key=-1), "the key -1 is not served"),
        (frame("x", version=1), "not served in version 1"),
        (frame("x", version=-1), "not served in version -1"),
        (struct.pack(">ihhih", 10, FETCH, 0, 1, -1), "ends within"),  # no body
        (struct.pack(">ihhih", 10, FETCH, 0, 1, 500), "claims 500 bytes"),  # the client id
        (struct.pack(">i", 0), "without a header"),
        (struct.pack(">i", 7) + bytes(7), "without a header"),
        (struct.pack(">i", -1), "a request of -1 bytes"),
        (struct.pack(">i", 104_857_601), "socket.request.max.bytes is 104857600"),
        (b"GET / HTTP/1.1\r\n\r\n", "socket.request.max.bytes"),
    ],
)
def test_hostile_bytes_close_their_connection_only(
    server: Server,
    client: Client,
    request_bytes: bytes,
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "kstore.broker"), Client(server) as other:
        assert client.ask("echo before") == b"echo before"
        client.socket.sendall(request_bytes)
        assert client.is_closed()
        assert other.ask("echo after") == b"echo after"
    assert words in caplog.text
    assert f"127.0.0.1:{client.socket.getsockname()[1]}" in caplog.text


def test_answers_before_a_wrong_request_are_sent(client: Client) -> None:
    client.send("echo 1", "echo 2", "close")
    assert [client.receive()[1], client.receive()[1]] == [b"echo 1", b"echo 2"]
    assert client.is_closed()


def test_a_failure_of_a_waiting_request_closes(
    server: Server, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client.send("park a")
    server.wait_for(lambda: len(server.parked) == 1)
    with caplog.at_level(logging.WARNING, "kstore.broker"):
        server.on_loop(lambda: server.parked[0][1].fail(CloseConnection("acks=0 failed")))
        assert client.is_closed()
    assert "acks=0 failed" in caplog.text


def test_a_client_that_leaves_cancels_its_request(server: Server, client: Client) -> None:
    client.send("park a")
    server.wait_for(lambda: len(server.parked) == 1)
    client.socket.close()
    server.wait_for(lambda: server.cancelled == ["park a"])
    pending = server.parked[0][1]
    assert pending.is_cancelled
    server.on_loop(lambda: pending.complete(None))  # without effect


def test_a_client_that_leaves_with_requests_behind_a_waiting_one(
    server: Server, client: Client
) -> None:
    """Nothing is read while the answer is due, and the end is still seen."""
    client.send("park a", *["echo"] * 1000)
    server.wait_for(lambda: len(server.parked) == 1)
    client.send(*["echo"] * 1000)
    client.socket.close()
    server.wait_for(lambda: server.cancelled == ["park a"])


def test_what_was_sent_before_the_end_is_handled(server: Server, client: Client) -> None:
    """As a producer with acks=0 that closes behind its last record."""
    client.send(*[f"none {number}" for number in range(2000)], key=PRODUCE)
    client.socket.close()
    server.wait_for(lambda: len(server.seen) == 2000)


def test_a_connection_reset_cancels_its_pending_requests(server: Server, client: Client) -> None:
    client.send("park a")
    server.wait_for(lambda: len(server.parked) == 1)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()
    server.wait_for(lambda: server.cancelled == ["park a"])


# --- slow readers, and chunks ---------------------------------------------------------------


def test_a_slow_reader_costs_one_answer(server: Server) -> None:
    """Nothing more is handled for a client that does not take its answer."""
    with Client(server, receive_buffer=65_536) as client:
        client.send("big 30000000", "big 30000000", "echo")
        with Client(server) as other:
            assert other.ask("echo other") == b"echo other"
        (slow,) = server.on_loop(
            lambda: [each for each in server.listener.connections if each._queue.size]
        )
        assert slow._queue.size < 30_000_100
        assert [command for _, command in server.seen] == ["big 30000000", "echo other"]
        assert len(client.receive()[1]) == 30_000_000
        assert len(client.receive()[1]) == 30_000_000
        assert client.receive()[1] == b"echo"


class FileSlice(mmap.mmap):
    """A slice of a file, as the log's: its memory, len(), and send_to with sendfile.

    The pages behind ``resident`` bytes are loaded before they are sent.
    """

    def __new__(cls, path: Path, size: int, resident: int | None = None) -> "FileSlice":
        with path.open("rb") as file:
            if size > path.stat().st_size:  # mmap() refuses it; the file is cut afterwards
                raise ValueError
            found = super().__new__(cls, file.fileno(), size, prot=mmap.PROT_READ)
        found.path, found.calls, found.loaded_by, found.load_error = path, 0, [], None
        found.resident = size if resident is None else resident
        return found

    path: Path
    calls: int
    resident: int
    loaded_by: list[str]
    load_error: Exception | None

    def is_resident(self, start: int, count: int) -> bool:
        return start + count <= self.resident

    def load(self, start: int, count: int) -> None:
        self.loaded_by.append(threading.current_thread().name)
        if self.load_error is not None:
            raise self.load_error
        self.resident = start + count

    def send_to(self, fd: int, start: int = 0, count: int | None = None) -> int:
        self.calls += 1
        left = len(self) - start if count is None else count
        assert start + left <= self.resident
        with self.path.open("rb") as file:
            return os.sendfile(fd, file.fileno(), start, left)


@pytest.fixture(params=[SendQueue, CopyingSendQueue])
def queue(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[SendQueue]:
    """The kind of a connection's queue: for a client elsewhere, and on this machine."""
    monkeypatch.setattr(connection, "send_queue_for", lambda transport, peer: request.param())
    return request.param


def test_a_slice_is_sent_completely(
    queue: type[SendQueue], server: Server, client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "records"
    path.write_bytes(os.urandom(5_000_000))
    found = FileSlice(path, 5_000_000)
    server.answers["slice"] = lambda: found
    client.send("slice", "echo behind")
    assert client.receive() == (1, path.read_bytes())
    assert client.receive() == (2, b"echo behind")
    assert (found.calls > 1) == (queue is SendQueue)


def test_what_is_not_in_memory_is_read_by_a_disk_worker_before_it_is_sent(
    queue: type[SendQueue], server: Server, client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "records"
    path.write_bytes(os.urandom(5_000_000))
    found = FileSlice(path, 5_000_000, resident=1 << 20)
    server.answers["slice"] = lambda: found
    client.send("slice", "echo behind")
    assert client.receive() == (1, path.read_bytes())
    assert client.receive() == (2, b"echo behind")
    assert len(found.loaded_by) >= 3
    assert all(name.startswith("kstore-broker-disk") for name in found.loaded_by)


def test_an_answer_that_the_disk_cannot_read_closes_the_connection(
    queue: type[SendQueue],
    server: Server,
    client: Client,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "records"
    path.write_bytes(bytes(5_000_000))
    found = FileSlice(path, 5_000_000, resident=1 << 20)
    found.load_error = StorageError("the disk is broken", errno=5)
    server.answers["slice"] = lambda: found
    with caplog.at_level(logging.WARNING, "kstore.broker"):
        client.send("slice", "echo behind")
        while client.socket.recv(1 << 16):
            pass
    assert "an answer cannot be sent: the disk is broken" in caplog.text


def test_a_client_that_leaves_while_its_answer_is_read_from_the_disk(
    queue: type[SendQueue], server: Server, client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "records"
    path.write_bytes(bytes(3_000_000))
    found = FileSlice(path, 3_000_000, resident=1 << 20)
    is_loading, is_closed = threading.Event(), threading.Event()

    def load(start: int, count: int) -> None:
        is_loading.set()
        assert is_closed.wait(30)

    found.load = load
    server.answers["slice"] = lambda: found
    client.send("slice")
    client.socket.setblocking(False)
    while not is_loading.wait(0.01):  # the first MiB may be more than the socket takes
        with suppress(BlockingIOError):
            client.socket.recv(1 << 16)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()
    server.wait_on_loop(lambda: not server.listener.connections)
    is_closed.set()


def test_a_slice_that_ends_short_closes_the_connection(
    queue: type[SendQueue],
    server: Server,
    client: Client,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "records"
    path.write_bytes(bytes(4 * mmap.PAGESIZE))
    found_slice = FileSlice(path, 4 * mmap.PAGESIZE)
    os.truncate(path, 2 * mmap.PAGESIZE)
    server.answers["slice"] = lambda: found_slice
    with caplog.at_level(logging.WARNING, "kstore.broker"):
        client.send("slice")
        found = b""
        while chunk := client.socket.recv(4096):
            found += chunk
    assert len(found) == (12 + 2 * mmap.PAGESIZE if queue is SendQueue else 0)
    assert "is shorter than a slice" in caplog.text


# --- many -----------------------------------------------------------------------------------


def test_200_connections_get_their_own_answers(server: Server) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(server)) for _ in range(200)]
        for number, client in enumerate(clients):
            client.send(f"park {number}")
        server.wait_for(lambda: len(server.parked) == 200)
        for number in reversed(range(200)):
            server.complete(f"park {number}", b"%d" % number)
        assert [int(client.receive()[1]) for client in clients] == list(range(200))
