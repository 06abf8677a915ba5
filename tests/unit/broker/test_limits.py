"""What a client may cost: connections, idle time, bytes, frames."""

import logging
import socket
import struct
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import pytest

from kstore.broker import listener, request_memory
from kstore.broker.connection_limits import limits_by_address
from kstore.broker.request_memory import RequestMemory
from kstore.errors import InvalidConfigError
from support.server import PRODUCE, Client, Server, frame, serving


def test_a_request_has_a_largest_size() -> None:
    request = frame("echo")
    with serving(socket_request_max_bytes=len(request) - 4) as server, Client(server) as client:
        assert client.ask("echo") == b"echo"
        client.send("echo!")
        assert client.is_closed()


def test_array_elements_of_a_request_are_limited() -> None:
    with serving(kstore_max_request_partitions=7) as server, Client(server) as client:
        assert client.ask("echo") == b"echo"
        assert server.items_left == [7]


def test_a_flood_of_bad_frames_is_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kstore.broker"), serving() as server:
        for _ in range(25):
            with Client(server) as client:
                client.socket.sendall(struct.pack(">i", -1))
                assert client.is_closed()
        assert len(caplog.records) == 10
        server.on_loop(server.listener.reports.end_window)  # as its timer does after 10 s
        assert len(caplog.records) == 11
        assert "15 more connections were closed" in caplog.messages[-1]
        assert "a request of -1 bytes" in caplog.messages[-1]
        assert not server.on_loop(lambda: any(each[2]._function for each in server.loop._timers))
        with Client(server) as client:
            client.socket.sendall(struct.pack(">i", -1))
            assert client.is_closed()
        assert len(caplog.records) == 12


# --- send buffers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "is_local", "expected"),
    [(None, True, 524_288), (None, False, 102_400), (65_536, True, 65_536), (-1, True, None)],
)
def test_clients_on_the_same_machine_have_larger_send_buffers(
    size: int | None, is_local: bool, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "is_local", lambda *_: is_local)
    sizes: list[int] = []

    def setsockopt(_: object, level: int, option: int, value: int) -> None:
        if (level, option) == (socket.SOL_SOCKET, socket.SO_SNDBUF):
            sizes.append(value)

    settings = {} if size is None else {"socket_send_buffer_bytes": size}
    with serving(**settings) as server, Client(server) as client:
        client.ask("echo")
        assert not sizes
        monkeypatch.setattr(socket.socket, "setsockopt", setsockopt)
        with Client(server) as client:
            client.ask("echo")
    assert sizes == ([] if expected is None else [expected])


# --- connections ----------------------------------------------------------------------------


def test_connections_of_an_address_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    with serving(max_connections_per_ip=2) as server, ExitStack() as stack:
        clients = [stack.enter_context(Client(server)) for _ in range(2)]
        for client in clients:
            client.ask("echo")
        with caplog.at_level(logging.WARNING, "kstore.broker"), Client(server) as third:
            assert third.is_closed()
        assert "max.connections.per.ip" in caplog.text
        clients[0].socket.close()
        server.wait_on_loop(lambda: len(server.listener.connections) == 1)
        assert stack.enter_context(Client(server)).ask("echo") == b"echo"


def test_overrides_limit_an_address_and_the_addresses_of_a_name() -> None:
    own = "192.0.2.1:7, localhost:1 ,[2001:db8::1]:0,2001:db8::2:3"
    limits = limits_by_address(own)
    assert {name: limits[name] for name in ("192.0.2.1", "127.0.0.1", "2001:db8::1")} == {
        "192.0.2.1": 7,
        "127.0.0.1": 1,
        "2001:db8::1": 0,
    }
    assert limits["2001:db8::2"] == 3
    with serving(max_connections_per_ip_overrides=own) as server, Client(server) as client:
        assert client.ask("echo") == b"echo"
        with Client(server) as second:
            assert second.is_closed()
    other = {"max_connections_per_ip": 1, "max_connections_per_ip_overrides": "127.0.0.1:2"}
    with serving(**other) as server, Client(server), Client(server) as second:
        assert second.ask("echo") == b"echo"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("localhost", "is not host:limit"),
        (":1", "is not host:limit"),
        ("localhost:x", "localhost"),
        ("localhost:-1", "localhost"),
        ("no such host:1", "cannot resolve 'no such host'"),
    ],
)
def test_overrides_that_cannot_be_read(text: str, why: str) -> None:
    with pytest.raises(InvalidConfigError, match=why):
        limits_by_address(text)


def test_at_max_connections_the_next_one_waits() -> None:
    with serving(max_connections=2) as server, ExitStack() as stack:
        clients = [stack.enter_context(Client(server)) for _ in range(2)]
        for client in clients:
            client.ask("echo")
        third = stack.enter_context(Client(server))  # in the backlog
        third.send("echo third")
        assert clients[1].ask("echo") == b"echo"
        assert len(server.listener.connections) == 2
        clients[0].socket.close()
        assert third.receive() == (1, b"echo third")


def backlog_of(server: Server) -> int:
    """The kernel's limit of connections that wait to be accepted: tcpi_sacked of a listener."""
    assert server.listener._socket is not None
    info = server.listener._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return int(struct.unpack_from("=6I", info, 8)[5])


def test_the_accept_backlog_is_the_limit_of_the_system_unless_set() -> None:
    with serving() as server:
        assert backlog_of(server) == int(Path("/proc/sys/net/core/somaxconn").read_text())
    with serving(socket_listen_backlog_size=7) as server:
        assert backlog_of(server) == 7


def test_without_descriptors_accepting_pauses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Scarce:
        def __init__(self, real: socket.socket) -> None:
            self.real = real
            self.refused = 0

        def accept(self) -> tuple[socket.socket, tuple[str, int]]:
            if not self.refused:
                self.refused = 1
                raise OSError(24, "Too many open files")
            return self.real.accept()

        def __getattr__(self, name: str) -> object:
            return getattr(self.real, name)

    monkeypatch.setattr("kstore.broker.listener._PAUSE_SECONDS", 0.01)
    with serving() as server, caplog.at_level(logging.WARNING, "kstore.broker"):
        scarce = Scarce(server.listener._socket)
        server.listener._socket = scarce
        with Client(server) as client:
            assert client.ask("echo") == b"echo"
        assert scarce.refused
    assert "cannot accept connections" in caplog.text


def test_idle_connections_are_closed_and_waiting_ones_are_not() -> None:
    with ExitStack() as stack:
        server = stack.enter_context(serving(connections_max_idle_ms=0))
        idle, waiting = (stack.enter_context(Client(server)) for _ in range(2))
        waiting.send("park a")
        idle.ask("echo")
        server.wait_for(lambda: len(server.parked) == 1)
        server.on_loop(lambda: server.listener.close_idle(server.loop.time() + 1))
        assert idle.is_closed()
        server.complete("park a")
        assert waiting.receive() == (1, b"done")


def test_no_connection_is_closed_without_a_limit_of_idle_time() -> None:
    with serving(connections_max_idle_ms=-1) as server, Client(server) as idle:
        idle.ask("echo")
        server.on_loop(lambda: server.listener.close_idle(server.loop.time() + 1e9))
        assert idle.ask("echo") == b"echo"


# --- bytes of requests ----------------------------------------------------------------------


def big_frame(size: int) -> bytes:
    body = struct.pack(">hhih", PRODUCE, 0, 1, -1) + struct.pack(">h", 4) + b"echo"
    body += bytes(size - len(body))
    return struct.pack(">i", len(body)) + body


def used(server: Server) -> int:
    return int(server.on_loop(lambda: server.memory.used))


def test_all_connections_together_hold_a_bounded_number_of_bytes() -> None:
    """Twenty clients send half of a frame each; each frame is finished in the end."""
    limit, size = 1_000_000, 500_000
    with serving(queued_max_request_bytes=limit) as server, ExitStack() as stack:
        clients = [stack.enter_context(Client(server)) for _ in range(20)]
        request = big_frame(size)
        for client in clients:
            client.socket.setblocking(False)
        left = {client: memoryview(request) for client in clients}
        most = 0
        while any(left.values()):
            for client, view in left.items():
                try:
                    sent = client.socket.send(view[:50_000]) if view else 0
                except BlockingIOError:
                    sent = 0
                left[client] = view[sent:]
            most = max(most, used(server))
        for client in clients:
            client.socket.settimeout(30)
            assert client.receive() == (1, b"echo")
        assert most > limit // 2
        assert most < limit + size + len(clients) * 65_536 * 2


def test_at_the_limit_a_stalled_client_is_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(request_memory, "STALL_SECONDS", -1.0)
    with serving(queued_max_request_bytes=100_000) as server, ExitStack() as stack:
        stalled = [stack.enter_context(Client(server)) for _ in range(4)]
        for client in stalled:
            client.socket.sendall(big_frame(1_000_000)[:200_000])
        server.wait_on_loop(lambda: bool(server.memory._waiting) and server.memory.used > 100_000)
        with caplog.at_level(logging.WARNING, "kstore.broker"), Client(server) as client:
            client.send("echo")

            def close_stalled() -> bool:
                server.memory.close_stalled(server.loop.time())
                return not server.memory._waiting  # the others may have sent all that they will

            server.wait_on_loop(close_stalled)
            assert client.receive() == (1, b"echo")
        assert "out of memory for requests" in caplog.text


def test_small_requests_are_served_at_the_limit() -> None:
    """Half requests that hold all the memory stop only the clients that send as much."""
    with serving(queued_max_request_bytes=100_000) as server, ExitStack() as stack:
        for _ in range(4):
            half = stack.enter_context(Client(server))
            half.socket.sendall(big_frame(1_000_000)[:200_000])
        server.wait_on_loop(lambda: bool(server.memory._waiting) and server.memory.used > 100_000)
        with Client(server) as client:
            client.socket.settimeout(30)
            assert client.ask("echo") == b"echo"
            assert client.ask("echo again") == b"echo again"
        assert used(server) > 100_000


class Holder:
    """A connection within a large frame."""

    has_partial_frame = True

    def __init__(self, held: int) -> None:
        self.buffered = self.held = held
        self.closed = ""

    def resume_reading(self) -> None:
        pass

    def close(self, reason: str) -> None:
        self.closed = reason


@pytest.mark.parametrize(("received", "seconds", "is_closed"), [
    (0, 9, False), (0, 11, True), (60, 60, True), (50 << 20, 55, False), (50 << 20, 65, True),
])  # fmt: skip
def test_a_client_that_drips_at_the_limit_is_closed(
    received: int, seconds: float, is_closed: bool
) -> None:
    memory = RequestMemory(1000)
    slow, other = Holder(1 << 20), Holder(1 << 20)
    memory.add(2 << 20)
    assert memory.may_read(slow)  # it reads to the end of its frame
    assert not memory.may_read(other)
    slow.buffered += received
    memory.close_stalled(monotonic() + seconds)
    assert bool(slow.closed) == is_closed


def test_waiting_requests_give_their_bytes_back_when_answered() -> None:
    with serving(queued_max_request_bytes=1_000) as server, ExitStack() as stack:
        clients = [stack.enter_context(Client(server)) for _ in range(10)]
        for number, client in enumerate(clients):
            client.send("park " + "x" * 200 + str(number))
        for number, client in enumerate(clients):
            server.complete("park " + "x" * 200 + str(number))
            assert client.receive() == (1, b"done")
