"""TLS over sockets: handshakes, large and slow answers, hostile bytes, new certificates."""

import os
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.broker import tls_contexts
from kstore.protocol.headers import decode_response_header
from kstore.protocol.messages import message_types
from kstore.protocol.messages.api_versions import ApiVersionsRequest
from kstore.protocol.messages.fetch import FetchRequest
from kstore.protocol.messages.metadata import MetadataRequest
from kstore.protocol.wire import Reader
from support.certificates import Authority
from support.raw_client import RawClient

WAIT = 30.0
Serve = Callable[..., kstore.Broker]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def serve(tmp_path: Path, authority: Authority) -> Iterator[Serve]:
    brokers: list[kstore.Broker] = []

    def start(**changes: object) -> kstore.Broker:
        settings = {
            "listeners": "SSL://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": os.fspath(authority.issue("server")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": os.fspath(authority.certificate),
            **changes,
        }
        brokers.append(kstore.serve(tmp_path / "data", settings=settings))
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.close()


def context_of(authority: Authority, certificate: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=os.fspath(authority.certificate))
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


class TlsClient(RawClient):
    """A RawClient whose socket is encrypted."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__(port)
        plain = self._socket
        try:
            self._socket = context.wrap_socket(plain, server_hostname="localhost")
        except BaseException:
            plain.close()
            raise

    def receive_exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, "the connection is closed"
            data += more
        return data

    def receive(self, api_key: int, version: int) -> Any:
        reader = Reader(self.receive_exactly(struct.unpack(">i", self.receive_exactly(4))[0]))
        assert decode_response_header(reader, api_key, version) == 7
        return message_types(api_key)[1].decode(reader, version)


def principal_of(broker: kstore.Broker) -> str:
    assert broker._listeners is not None
    [connection] = broker._listeners.connections()
    return str(connection.principal)


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_requests_are_answered(serve: Serve, authority: Authority, version: str) -> None:
    context = context_of(authority)
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    broker = serve()
    with TlsClient(broker.port, context) as client:
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0
        client.send(ApiVersionsRequest(), 0)
        client.send(MetadataRequest(topics=[]), 1)
        client.receive(18, 0)
        assert client.receive(3, 1).brokers[0].port == broker.port
        assert principal_of(broker) == "User:ANONYMOUS"


def test_old_versions_and_plain_clients_are_refused(serve: Serve, authority: Authority) -> None:
    broker = serve(**{"ssl.enabled.protocols": "TLSv1.3"})
    context = context_of(authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        TlsClient(broker.port, context)
    with RawClient(broker.port) as client:
        client.send(ApiVersionsRequest(), 0)
        received = b""
        while more := client._socket.recv(100):
            received += more
        assert received[:1] in (b"", b"\x15")  # at most an alert of TLS


def test_large_requests_and_answers_pass_through_tls(serve: Serve, authority: Authority) -> None:
    broker = serve()
    log = broker.store.create_topic("orders")[0]
    for _ in range(8):
        log.append(os.urandom(900_000))
    topics = [MetadataRequest.Topics(name=f"{'t' * 200}{number}") for number in range(5000)]
    partition = FetchRequest.Topics.Partitions(partition=0, partition_max_bytes=1 << 24)
    fetch = FetchRequest(
        max_wait_ms=100, min_bytes=1, max_bytes=1 << 24, isolation_level=0,
        topics=[FetchRequest.Topics(topic="orders", partitions=[partition])],
    )  # fmt: skip
    with TlsClient(broker.port, context_of(authority)) as client:
        answer = client.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 4)
        assert len(answer.topics) == 5000
        answer = client.ask(fetch, 4)
        records = bytes(answer.responses[0].partitions[0].records)
        assert records == (Path(broker.store.paths[0]) / "orders-0" / f"{0:020d}.log").read_bytes()


def test_a_client_that_reads_slowly_gets_everything(serve: Serve, authority: Authority) -> None:
    broker = serve(**{"socket.send.buffer.bytes": 4096})
    log = broker.store.create_topic("orders")[0]
    for _ in range(4):
        log.append(os.urandom(900_000))
    partition = FetchRequest.Topics.Partitions(partition=0, partition_max_bytes=1 << 24)
    fetch = FetchRequest(
        max_wait_ms=100, min_bytes=1, max_bytes=1 << 24, isolation_level=0,
        topics=[FetchRequest.Topics(topic="orders", partitions=[partition])],
    )  # fmt: skip
    with TlsClient(broker.port, context_of(authority)) as client:
        client.send(fetch, 4)
        client.send(ApiVersionsRequest(), 0)
        time.sleep(0.3)  # the broker fills the socket's buffers and waits
        with TlsClient(broker.port, context_of(authority)) as other:
            assert other.ask(ApiVersionsRequest(), 0).error_code == 0
        records = client.receive(1, 4).responses[0].partitions[0].records
        assert len(records) > 4 * 900_000
        assert client.receive(18, 0).error_code == 0


def test_certificates_of_clients_name_the_principal(serve: Serve, authority: Authority) -> None:
    broker = serve(
        **{
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*?),O=Acme.*$/$1/,RULE:^CN=eve$/eve/",
        }
    )
    alice = authority.issue("alice", "/C=DE/O=Acme, Inc./CN=alice")
    with TlsClient(broker.port, context_of(authority, alice)) as client:
        client.ask(ApiVersionsRequest(), 0)
        assert principal_of(broker) == "User:alice"
    for certificate in (
        None,
        Authority(authority.folder / "other", "other").issue("mallory", "/CN=eve"),
        authority.issue("carol", "/CN=carol"),  # no rule has a name for it
    ):
        with (
            pytest.raises((ssl.SSLError, ConnectionError, AssertionError)),
            TlsClient(broker.port, context_of(authority, certificate)) as client,
        ):
            client.ask(ApiVersionsRequest(), 0)


def test_openssl_connects(serve: Serve, authority: Authority) -> None:
    broker = serve()
    done = subprocess.run(
        ["openssl", "s_client", "-connect", broker.bootstrap_servers, "-CAfile",
         os.fspath(authority.certificate), "-verify_return_error", "-brief"],
        input=b"", capture_output=True, timeout=WAIT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"Verification: OK" in done.stderr


# --- hostile bytes ---------------------------------------------------------------------------


def client_hello(authority: Authority) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = context_of(authority)
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def test_a_hello_that_is_cut_or_damaged(serve: Serve, authority: Authority) -> None:
    broker = serve(**{"kstore.handshake.timeout.ms": 500})
    hello = client_hello(authority)
    damaged = [
        hello[:1], hello[:5], hello[:100], hello[:-1], b"\xff" * 5000, bytes(100),
        b"\x16\x03\x01\xff\xff" + bytes(1000), hello[:20] + bytes(len(hello) - 20),
    ]  # fmt: skip
    sockets = [socket.create_connection(("127.0.0.1", broker.port), WAIT) for _ in damaged]
    for each, data in zip(sockets, damaged, strict=True):
        each.sendall(data)
    with TlsClient(broker.port, context_of(authority)) as client:
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0
        for each in sockets:  # ended by an alert, or by the time limit
            with each:
                try:
                    while each.recv(1000):
                        pass
                except ConnectionError:
                    continue
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0


def test_a_slow_handshake_ends(serve: Serve, authority: Authority) -> None:
    broker = serve(**{"kstore.handshake.timeout.ms": 400})
    hello = client_hello(authority)
    with socket.create_connection(("127.0.0.1", broker.port), WAIT) as slow:
        ended = False
        for byte in hello:
            try:
                slow.sendall(bytes((byte,)))
                time.sleep(0.02)
            except ConnectionError:
                ended = True
                break
        assert ended


def test_200_open_handshakes_do_not_block_another_client(
    serve: Serve, authority: Authority
) -> None:
    broker = serve()
    hello = client_hello(authority)
    sockets = []
    for _ in range(200):
        sockets.append(socket.create_connection(("127.0.0.1", broker.port), WAIT))
        sockets[-1].sendall(hello)
    with TlsClient(broker.port, context_of(authority)) as client:
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0
    for each in sockets:
        assert each.recv(1) == b"\x16"
        each.close()


# --- new certificates ------------------------------------------------------------------------


def serial(broker: kstore.Broker, authority: Authority) -> object:
    with TlsClient(broker.port, context_of(authority)) as client:
        assert isinstance(client._socket, ssl.SSLSocket)
        return (client._socket.getpeercert() or {})["serialNumber"]


def test_new_certificates_are_loaded_and_invalid_ones_are_not(
    serve: Serve, authority: Authority, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(tls_contexts, "_SECONDS_BETWEEN_CHECKS", 0.0)
    broker = serve()
    first = serial(broker, authority)
    assert serial(broker, authority) == first
    keystore = authority.issue("server")  # the file of the broker
    deadline = time.monotonic() + WAIT
    while (second := serial(broker, authority)) == first:
        assert time.monotonic() < deadline
    good = keystore.read_bytes()
    keystore.write_bytes(good[:200])
    while "keeps its certificate" not in caplog.text:
        assert serial(broker, authority) == second
        assert time.monotonic() < deadline
    keystore.write_bytes(good)
    assert serial(broker, authority) == second


def test_it_stops_while_clients_are_connected(serve: Serve, authority: Authority) -> None:
    broker = serve()
    with TlsClient(broker.port, context_of(authority)) as client:
        client.ask(ApiVersionsRequest(), 0)
        broker.close()
        assert client._socket.recv(1) == b""  # a proper end of TLS, not a cut connection
