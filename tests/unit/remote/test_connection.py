"""A connection of the tools against a server that answers badly."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kstore.errors import InvalidConfigError, KStoreError, SourceError
from kstore.protocol.messages.api_versions import ApiVersionsResponse
from kstore.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kstore.protocol.wire import Writer
from kstore.remote import connection as connecting
from kstore.remote.authentication import AuthenticationFailedError
from kstore.remote.cluster import parse_servers
from kstore.remote.connection import Begun, Connection
from kstore.security.client_settings import ClientSasl, ClientSecurity

Serve = Callable[[socket.socket], None]


@contextmanager
def server(*serves: Serve) -> Iterator[int]:
    """A port where each connection in turn is served by one of the functions."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            for serve in serves:
                accepted, _ = listening.accept()
                with accepted:
                    serve(accepted)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(10)
        assert not thread.is_alive()


def request_of(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(size, socket.MSG_WAITALL)


def answer(connection: socket.socket, request: bytes, body: bytes) -> None:
    frame = request[4:8] + body
    connection.sendall(struct.pack(">i", len(frame)) + frame)


def versions(*ranges: tuple[int, int, int], version: int = 3) -> bytes:
    keys = [ApiVersionsResponse.ApiKeys(*each) for each in ranges]
    writer = Writer()
    ApiVersionsResponse(api_keys=keys).encode(writer, version)
    return b"".join(map(bytes, writer.chunks()))


def test_the_highest_common_version_is_used() -> None:
    def serve(connection: socket.socket) -> None:
        answer(connection, request_of(connection), versions((3, 0, 5), (18, 0, 4)))
        request = request_of(connection)
        assert struct.unpack_from(">hh", request) == (3, 5)
        writer = Writer()
        MetadataResponse(cluster_id="c").encode(writer, 5)
        answer(connection, request, b"".join(map(bytes, writer.chunks())))

    with server(serve) as port, Connection("127.0.0.1", port) as connection:
        assert connection.ask(MetadataRequest(), MetadataResponse).cluster_id == "c"


def test_an_older_broker_answers_versions_in_version_0() -> None:
    def serve(connection: socket.socket) -> None:
        refused = struct.pack(">hihhh", 35, 1, 18, 0, 2)
        answer(connection, request_of(connection), refused)
        request = request_of(connection)
        assert struct.unpack_from(">hh", request) == (18, 0)
        answer(connection, request, versions((3, 0, 1), version=0))

    with server(serve) as port, Connection("127.0.0.1", port) as connection:
        assert connection.version_of(MetadataRequest()) == 1


def test_a_broker_before_api_versions_gets_version_0() -> None:
    def close(connection: socket.socket) -> None:
        request_of(connection)

    def wait(connection: socket.socket) -> None:
        assert connection.recv(1) == b""

    with server(close, wait) as port, Connection("127.0.0.1", port) as connection:
        assert connection.version_of(MetadataRequest()) == 0
        assert connection._unanswered == 0  # else it would not authenticate again


def test_a_request_without_a_common_version_is_refused() -> None:
    def serve(connection: socket.socket) -> None:
        answer(connection, request_of(connection), versions((18, 0, 4)))
        assert connection.recv(1) == b""

    with server(serve) as port, Connection("127.0.0.1", port) as connection:
        with pytest.raises(KStoreError, match="does not support METADATA") as caught:
            connection.ask(MetadataRequest(), MetadataResponse)
        assert caught.value.code == 35


@pytest.mark.parametrize("size", [-1, 3, 0x7FFFFFFF, 0x48545450])
def test_a_size_that_no_answer_has_is_refused(size: int) -> None:
    def serve(connection: socket.socket) -> None:
        request_of(connection)
        connection.sendall(struct.pack(">i", size))

    with server(serve) as port, pytest.raises(SourceError, match="announced a response"):
        Connection("127.0.0.1", port)


def test_an_answer_to_another_request_is_refused() -> None:
    def serve(connection: socket.socket) -> None:
        request_of(connection)
        answer(connection, b"....\0\0\0\x63", versions((3, 0, 1)))

    with server(serve) as port, pytest.raises(SourceError, match="responded to request 99"):
        Connection("127.0.0.1", port)


def test_a_broker_that_is_silent_is_given_up() -> None:
    released = threading.Event()

    def serve(connection: socket.socket) -> None:
        request_of(connection)
        released.wait(10)

    with server(serve) as port:
        with pytest.raises(SourceError, match="no response from"):
            Connection("127.0.0.1", port, timeout=0.05)
        released.set()


class SlowSocket:
    """Gives its bytes some at a time; each receipt takes seconds of a clock."""

    def __init__(self, clock: list[float], data: bytes, step: int, seconds: float) -> None:
        self.clock, self.data, self.step, self.seconds = clock, data, step, seconds
        self.timeouts: list[float] = []

    def settimeout(self, seconds: float) -> None:
        self.timeouts.append(seconds)

    def recv_into(self, free: memoryview) -> int:
        self.clock[0] += self.seconds
        step = min(self.step, len(free))
        given, self.data = self.data[:step], self.data[step:]
        free[: len(given)] = given
        return len(given)

    def close(self) -> None:
        self.data = b""


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Connection, SlowSocket]]:
    """A connection whose socket is slow, by a clock of its own."""

    def made(data: bytes, step: int, seconds: float) -> tuple[Connection, SlowSocket]:
        clock = [0.0]

        def serve(connection: socket.socket) -> None:
            answer(connection, request_of(connection), versions((3, 0, 1), (18, 0, 4)))
            request_of(connection)

        with server(serve) as port:
            connection = Connection("127.0.0.1", port, timeout=30)
            monkeypatch.setattr(connecting.time, "monotonic", lambda: clock[0])
            begun.append(connection.begin(MetadataRequest()))
        connection.close()
        connection._socket = SlowSocket(clock, struct.pack(">i", len(data)) + data, step, seconds)
        return connection, connection._socket

    begun: list[Begun] = []
    made.begun = begun
    return made


def test_a_response_that_comes_byte_by_byte_is_given_up(slow: Any) -> None:
    connection, source = slow(bytes(1000), 1, 10)
    with pytest.raises(SourceError, match=r"no response from 127.0.0.1:\d+ within 30 s"):
        connection.finish(slow.begun[0], MetadataResponse)
    assert source.clock[0] <= 60


def test_a_large_response_has_more_time(slow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "_CHUNK", 50)
    writer = Writer()
    MetadataResponse(brokers=[MetadataResponse.Brokers(1, "h" * 1000, 1)]).encode(writer, 1)
    connection, _ = slow(struct.pack(">i", 2) + b"".join(map(bytes, writer.chunks())), 20, 9)
    monkeypatch.setattr(MetadataResponse, "decode", lambda reader, version: "decoded")
    assert connection.finish(slow.begun[0], MetadataResponse) == "decoded"


def test_the_time_for_a_response_begins_with_its_request(slow: Any) -> None:
    """Those of several brokers are awaited one after the other; their time is the same."""
    connection, source = slow(b"", 4, 0)
    source.clock[0] = 20.0
    with pytest.raises(SourceError):
        connection.finish(slow.begun[0], MetadataResponse)
    source.clock[0] = 99.0
    with pytest.raises(SourceError):
        connection.finish(slow.begun[0], MetadataResponse)
    assert source.timeouts == [10, 1]


def test_a_response_that_waited_for_others_has_its_time_to_flow(
    slow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a broker before it took all the time; its size shows that it is present."""
    connection, source = slow(struct.pack(">i", 2) + bytes(1000), 100, 0.9)
    monkeypatch.setattr(MetadataResponse, "decode", lambda reader, version: "decoded")
    source.clock[0] = 99.0
    assert connection.finish(slow.begun[0], MetadataResponse) == "decoded"
    assert source.timeouts == [1, 30]


SASL = ClientSecurity(sasl=ClientSasl(mechanism="PLAIN", user="alice", password="secret"))


def handshake(connection: socket.socket, *, error: int = 0) -> None:
    """Answer ApiVersions of a broker before Kafka 1.0, and SaslHandshake 0."""
    answer(connection, request_of(connection), versions((3, 0, 1), (17, 0, 0), (18, 0, 3)))
    request = request_of(connection)
    assert struct.unpack_from(">hh", request) == (17, 0)
    assert request.endswith(b"\0\x05PLAIN")
    answer(connection, request, struct.pack(">hi", error, 1) + b"\0\6GSSAPI")


def test_tokens_of_a_broker_before_kafka_1_0_have_no_header() -> None:
    def serve(connection: socket.socket) -> None:
        handshake(connection)
        assert request_of(connection) == b"\0alice\0secret"
        connection.sendall(struct.pack(">i", 0))
        assert connection.recv(1) == b""

    with server(serve) as port, Connection("127.0.0.1", port, security=SASL) as connection:
        assert connection.version_of(MetadataRequest()) == 1


@pytest.mark.parametrize("reply", [b"", struct.pack(">i", -1), struct.pack(">i", 1 << 24)])
def test_a_token_that_is_not_answered_is_a_failure(reply: bytes) -> None:
    def serve(connection: socket.socket) -> None:
        handshake(connection)
        request_of(connection)
        connection.sendall(reply)

    with server(serve) as port, pytest.raises(AuthenticationFailedError, match="failed") as caught:
        Connection("127.0.0.1", port, security=SASL)
    assert caught.value.code == 58
    assert "secret" not in str(caught.value)


def test_a_mechanism_that_the_broker_does_not_take() -> None:
    def serve(connection: socket.socket) -> None:
        handshake(connection, error=33)

    with server(serve) as port, pytest.raises(AuthenticationFailedError, match="takes GSSAPI"):
        Connection("127.0.0.1", port, security=SASL)


@pytest.mark.parametrize("text", ["", "a", "a:", ":9", "a:0", "a:99999", "a:9,b", "a:x"])
def test_addresses_are_checked(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="host:port"):
        parse_servers(text)


def test_several_addresses_and_ipv6_are_parsed() -> None:
    assert parse_servers("a:1, [::1]:9092") == [("a", 1), ("::1", 9092)]
