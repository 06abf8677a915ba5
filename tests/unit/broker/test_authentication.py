"""Listeners and SASL over sockets: what is served before a client has authenticated."""

import logging
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kstore
from kstore.errors import AddressError, InvalidConfigError
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kstore.protocol.messages.api_versions import ApiVersionsRequest
from kstore.protocol.messages.describe_cluster import DescribeClusterRequest
from kstore.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from kstore.protocol.messages.metadata import MetadataRequest
from kstore.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kstore.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kstore.security.scram import salted
from support.raw_client import RawClient

WAIT = 30.0
TOKEN = b"\0alice\0secret"
SETTINGS: dict[str, object] = {
    "listeners": "INTERNAL://127.0.0.1:0,CLEAR://127.0.0.1:0",
    "advertised.listeners": "INTERNAL://127.0.0.1:0,CLEAR://clear.example:9999",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLEAR:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.clear.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_alice="secret" user_bob="secret";'
    ),
    "kstore.sasl.plain.without.tls": True,
    "connection.failed.authentication.delay.ms": 0,
}
Serve = Callable[..., kstore.Broker]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    brokers: list[kstore.Broker] = []

    def start(**changes: object) -> kstore.Broker:
        brokers.append(kstore.serve(tmp_path / "data", settings={**SETTINGS, **changes}))
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.close()


def port_of(broker: kstore.Broker, listener: str) -> int:
    assert broker._listeners is not None
    return broker._listeners.bound[listener].port


def connect(broker: kstore.Broker, listener: str = "CLEAR") -> RawClient:
    return RawClient(port_of(broker, listener))


def is_closed(client: RawClient) -> bool:
    client._socket.settimeout(WAIT)
    try:
        return client._socket.recv(1) == b""
    except ConnectionError:
        return True


def login(client: RawClient, token: bytes = TOKEN, mechanism: str = "PLAIN") -> tuple[int, int]:
    """The error code of SaslAuthenticate, and how long the session lasts."""
    answer = client.ask(SaslHandshakeRequest(mechanism), 1)
    assert (answer.error_code, answer.mechanisms) == (0, ["PLAIN", "SCRAM-SHA-256"])
    answer = client.ask(SaslAuthenticateRequest(token), 2)
    return answer.error_code, answer.session_lifetime_ms


def send_token(client: RawClient, token: bytes) -> None:
    client._socket.sendall(struct.pack(">i", len(token)) + token)


# --- listeners -------------------------------------------------------------------------------


def test_each_listener_answers_its_own_address(serve: Serve) -> None:
    broker = serve()
    assert broker.listeners == {
        "INTERNAL": f"127.0.0.1:{port_of(broker, 'INTERNAL')}",
        "CLEAR": "clear.example:9999",
    }
    assert broker.bootstrap_servers == broker.listeners["INTERNAL"]
    with connect(broker, "INTERNAL") as inside, connect(broker) as outside:
        assert login(outside) == (0, 0)
        for client, expected in ((inside, "127.0.0.1"), (outside, "clear.example")):
            [node] = client.ask(MetadataRequest(topics=[]), 9).brokers
            assert node.host == expected
            assert client.ask(DescribeClusterRequest(), 0).brokers[0].host == expected


def test_nine_listeners_are_served(tmp_path: Path) -> None:
    names = [f"L{number}" for number in range(9)]
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
    }
    with kstore.serve(tmp_path / "data", settings=settings) as broker:
        assert len(set(broker.listeners.values())) == 9
        for name in names:
            with connect(broker, name) as client:
                [node] = client.ask(MetadataRequest(topics=[]), 9).brokers
                assert f"{node.host}:{node.port}" == broker.listeners[name]


def test_listeners_exclude_host_and_port(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match="omit host, port"):
        kstore.serve(tmp_path / "data", port=0, settings=SETTINGS)


def test_if_one_port_is_in_use_no_listener_stays_open(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        first, second = free.getsockname()[1], taken.getsockname()[1]
        free.close()
        settings = {
            "listeners": f"A://127.0.0.1:{first},B://127.0.0.1:{second}",
            "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
        }
        with pytest.raises(AddressError, match=f"127.0.0.1:{second}"):
            kstore.serve(tmp_path / "data", settings=settings)
        with socket.socket() as again:
            again.bind(("127.0.0.1", first))


def test_the_limit_of_connections_is_that_of_all_listeners(serve: Serve) -> None:
    broker = serve(**{"max.connections": 1})
    with connect(broker, "INTERNAL") as first:
        first.ask(ApiVersionsRequest(), 0)
        second = connect(broker)
        second.send(ApiVersionsRequest(), 0)
        second._socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            second.receive(ApiKey.API_VERSIONS, 0)
    second._socket.settimeout(WAIT)
    assert second.receive(ApiKey.API_VERSIONS, 0).error_code == 0
    second._socket.close()


# --- SASL ------------------------------------------------------------------------------------


def test_only_authentication_is_served_before_it(serve: Serve) -> None:
    broker = serve()
    with connect(broker) as client:
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0
        client.send(MetadataRequest(), 0)
        assert is_closed(client)
    for key in range(-1, 100):
        if key not in (17, 18, 36):
            with connect(broker) as client:
                client._socket.sendall(struct.pack(">ihhih", 10, key, 0, 1, -1))
                assert is_closed(client), key


def test_a_session_of_handshake_version_1_is_not_renewed(serve: Serve) -> None:
    with connect(serve()) as client:
        assert login(client) == (0, 0)
        assert client.ask(MetadataRequest(topics=[]), 1).brokers
        assert client.ask(SaslHandshakeRequest("PLAIN"), 1).error_code == 34
        assert client.ask(SaslAuthenticateRequest(TOKEN), 1).error_code == 34


def test_a_session_of_version_0_has_tokens_without_headers(serve: Serve) -> None:
    broker = serve()
    with connect(broker) as client:
        assert client.ask(SaslHandshakeRequest("PLAIN"), 0).error_code == 0
        send_token(client, TOKEN)
        assert client._socket.recv(4, socket.MSG_WAITALL) == bytes(4)
        assert client.ask(MetadataRequest(topics=[]), 1).brokers
    with connect(broker) as client:  # pipelined behind the token
        client.ask(SaslHandshakeRequest("PLAIN"), 0)
        send_token(client, TOKEN)
        client.send(MetadataRequest(topics=[]), 1)
        assert client._socket.recv(4, socket.MSG_WAITALL) == bytes(4)
        assert client.receive(ApiKey.METADATA, 1).brokers
    for wrong in (b"\0alice\0wrong", b"", b"\xff" * 100):
        with connect(broker) as client:
            client.ask(SaslHandshakeRequest("PLAIN"), 0)
            send_token(client, wrong)
            assert is_closed(client)


def test_a_wrong_password_is_answered_late_and_closes(serve: Serve) -> None:
    broker = serve(**{"connection.failed.authentication.delay.ms": 300})
    with connect(broker) as client:
        began = time.monotonic()
        assert login(client, b"\0alice\0wrong") == (58, 0)
        assert time.monotonic() - began >= 0.3
        assert is_closed(client)


def test_another_mechanism_is_refused(serve: Serve) -> None:
    with connect(serve()) as client:
        answer = client.ask(SaslHandshakeRequest("GSSAPI"), 1)
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
        assert is_closed(client)


def test_authenticate_without_a_handshake(serve: Serve) -> None:
    with connect(serve()) as client:
        assert client.ask(SaslAuthenticateRequest(TOKEN), 2).error_code == 58
        assert is_closed(client)


def test_frames_are_small_before_authentication(serve: Serve) -> None:
    broker = serve(**{"sasl.server.max.receive.size": 1000})
    for size in (1001, 0x7FFFFFFF, -1):
        with connect(broker) as client:
            client._socket.sendall(struct.pack(">i", size))
            assert is_closed(client), size
    with connect(broker) as client:
        assert login(client) == (0, 0)
        topics = [MetadataRequest.Topics(name="t" * 200) for _ in range(20)]
        assert len(client.ask(MetadataRequest(topics=topics), 1).topics) == 1


def test_a_client_that_does_not_authenticate_is_closed(serve: Serve) -> None:
    broker = serve(**{"kstore.handshake.timeout.ms": 300})
    with connect(broker) as silent, connect(broker) as good:
        assert login(good) == (0, 0)
        assert is_closed(silent)
        assert good.ask(MetadataRequest(topics=[]), 1).brokers


def test_a_plain_listener_has_no_authentication(serve: Serve) -> None:
    with connect(serve(), "INTERNAL") as client:
        assert client.ask(SaslHandshakeRequest("PLAIN"), 1).error_code == 34
        assert client.ask(SaslAuthenticateRequest(TOKEN), 1).error_code == 34
        assert client.ask(MetadataRequest(topics=[]), 1).brokers


# --- sessions that end -----------------------------------------------------------------------


def test_a_session_ends_and_begins_again(serve: Serve) -> None:
    broker = serve(**{"connections.max.reauth.ms": 400})
    with connect(broker) as lazy, connect(broker) as eager:
        assert login(lazy) == login(eager) == (0, 400)
        assert login(eager) == (0, 400)  # before the end
        time.sleep(0.6)
        assert login(eager) == (0, 400)  # and after it
        assert eager.ask(MetadataRequest(topics=[]), 1).brokers
        lazy.send(MetadataRequest(topics=[]), 1)
        assert is_closed(lazy)


def test_another_user_cannot_take_a_session(serve: Serve) -> None:
    with connect(serve(**{"connections.max.reauth.ms": 60_000})) as client:
        assert login(client) == (0, 60_000)
        assert login(client, b"\0bob\0secret") == (58, 0)
        assert is_closed(client)


# --- SCRAM's users ---------------------------------------------------------------------------

_Upsertion = AlterUserScramCredentialsRequest.Upsertions
_Deletion = AlterUserScramCredentialsRequest.Deletions


def upsertion(user: str, mechanism: int = 1, iterations: int = 4096, salt: bytes = b"x") -> object:
    name = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}.get(mechanism, "SCRAM-SHA-256")
    return _Upsertion(user, mechanism, iterations, salt, salted(name, "secret", salt, 1))


def test_users_are_altered_and_described(serve: Serve) -> None:
    broker = serve()
    with connect(broker, "INTERNAL") as client:

        def alter(upsertions: list[object], deletions: list[object] | None = None) -> list[object]:
            asked = AlterUserScramCredentialsRequest(deletions or [], upsertions)
            results = client.ask(asked, 0).results
            return [(each.user, each.error_code) for each in results]

        both = [upsertion("alice"), upsertion("alice", 2), upsertion("bob")]
        assert alter(both) == [("alice", 0), ("bob", 0)]
        assert alter([upsertion("carol"), upsertion("carol")]) == [("carol", 92)]
        assert alter([upsertion("carol", iterations=4095)]) == [("carol", 93)]
        assert alter([upsertion("carol", iterations=16_385)]) == [("carol", 93)]
        assert alter([upsertion("carol", salt=b"")]) == [("carol", 93)]
        assert alter([upsertion("carol", 3)]) == [("carol", 33)]
        assert alter([upsertion("")]) == [("", 93)]
        assert alter([upsertion("dora")], [_Deletion("bob", 2)]) == [("bob", 91), ("dora", 0)]
        assert alter([], [_Deletion("bob", 1)]) == [("bob", 0)]
        users = DescribeUserScramCredentialsRequest.Users
        found = client.ask(DescribeUserScramCredentialsRequest(), 0).results
        assert [(each.user, len(each.credential_infos)) for each in found] == [
            ("alice", 2),
            ("dora", 1),
        ]
        asked = DescribeUserScramCredentialsRequest([users("bob"), users("alice"), users("alice")])
        results = client.ask(asked, 0).results
        assert [(each.user, each.error_code) for each in results] == [("bob", 91), ("alice", 92)]


def test_passwords_are_in_no_log_line(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    password = b"\0alice\0hunter2-wrong"
    broker = serve()
    with connect(broker) as client:
        assert login(client, password) == (58, 0)
    with connect(broker) as client:
        client.ask(SaslHandshakeRequest("PLAIN"), 0)
        send_token(client, password)
        assert is_closed(client)
    broker.close()
    assert "authentication failed" in caplog.text
    assert "hunter2" not in caplog.text
    assert "secret" not in caplog.text
