"""OAUTHBEARER over sockets: tokens, sessions that end with them, and keys that are replaced."""

import json
import logging
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jwt
import pytest

import kstore
from kstore.broker.json_web_key_refresher import JsonWebKeyRefresher
from kstore.broker.loop import Loop
from kstore.clock import now_ms
from kstore.errors import InvalidConfigError, KStoreError
from kstore.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kstore.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kstore.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kstore.remote.cluster import Cluster
from kstore.security.client_settings import client_security
from kstore.security.json_web_keys import UnknownKeyError
from kstore.security.oauth_settings import OAuthBearerSettings
from kstore.security.oauthbearer import initial_response
from kstore.security.web_tokens import ClaimRules
from support.http_server import web_server
from support.raw_client import RawClient
from support.token_issuer import SigningKey, claims_of, key_set, token_settings

KEY = SigningKey("one")
INVALID = '{"status":"invalid_token"}'
PATIENCE = 30.0
Serve = Callable[..., kstore.Broker]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    brokers: list[kstore.Broker] = []
    keys = tmp_path / "keys.json"
    keys.write_bytes(key_set(KEY))

    def start(**changes: object) -> kstore.Broker:
        settings = {
            "listeners": "TOKENS://127.0.0.1:0",
            "listener.security.protocol.map": "TOKENS:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "connection.failed.authentication.delay.ms": 0,
            **token_settings("TOKENS", keys),
            **changes,
        }
        brokers.append(kstore.serve(tmp_path / "data", settings=settings))
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.close()


def connect(broker: kstore.Broker) -> RawClient:
    return RawClient(broker.port)


def send(client: RawClient, message: bytes) -> SaslAuthenticateResponse:
    answer = client.ask(SaslHandshakeRequest("OAUTHBEARER"), 1)
    assert (answer.error_code, answer.mechanisms) == (0, ["OAUTHBEARER"])
    return client.ask(SaslAuthenticateRequest(message), 2)


def login(client: RawClient, token: str) -> SaslAuthenticateResponse:
    return send(client, initial_response(token, {"traceId": "1"}))


def is_closed(client: RawClient) -> bool:
    client._socket.settimeout(PATIENCE)
    try:
        return client._socket.recv(1) == b""
    except ConnectionError:
        return True


def is_accepted(broker: kstore.Broker, token: str) -> bool:
    with connect(broker) as client:
        answer = login(client, token)
        assert answer.error_code == 0
        return answer.auth_bytes == b""


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_token_lets_a_client_in(serve: Serve) -> None:
    with connect(serve()) as client:
        answer = login(client, KEY.sign(claims_of(seconds=600)))
        assert (answer.error_code, answer.auth_bytes) == (0, b"")
        assert 500_000 < answer.session_lifetime_ms <= 600_000
        assert client.ask(MetadataRequest(topics=[]), 1).brokers


def test_an_invalid_token_is_refused_and_closes_the_connection(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = KEY.sign(claims_of(iat=1, exp=2))
    with connect(serve()) as client:
        answer = login(client, token)
        assert (answer.error_code, answer.auth_bytes) == (0, INVALID.encode())
        client.ask(SaslHandshakeRequest("OAUTHBEARER"), 1)  # no second attempt
        answer = client.ask(SaslAuthenticateRequest(b"\x01"), 2)
        assert (answer.error_code, answer.error_message) == (58, INVALID)
        assert is_closed(client)
    assert "the token is not valid: it has expired" in caplog.text
    assert not any(part in caplog.text for part in token.split("."))


def test_only_the_end_follows_a_token_that_is_not_valid(serve: Serve) -> None:
    with connect(serve()) as client:
        login(client, KEY.sign(claims_of(iat=1, exp=2)))
        message = initial_response(KEY.sign(claims_of()), {})
        answer = client.ask(SaslAuthenticateRequest(message), 2)
        assert answer.error_code == 58
        assert is_closed(client)


def test_an_invalid_message_is_refused_without_logging_the_token(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    broker = serve()
    token = KEY.sign(claims_of())
    for message in (
        b"", b"\x01", b"n,,\x01auth=Basic secret\x01\x01", b"\xff" * 1000,
        f"n,a=bob,\x01auth=Bearer {token}\x01\x01".encode(),
    ):  # fmt: skip
        with connect(broker) as client:
            answer = send(client, message)
            assert answer.error_code == 58
            assert "secret" not in (answer.error_message or "")
            assert is_closed(client)
    with connect(broker) as client:
        answer = send(client, f"n,a=alice,\x01auth=Bearer {token}\x01\x01".encode())
        assert (answer.error_code, answer.auth_bytes) == (0, b"")
    assert "secret" not in caplog.text
    assert token not in caplog.text


def test_messages_without_headers(serve: Serve) -> None:
    def raw(client: RawClient, message: bytes) -> None:
        client.ask(SaslHandshakeRequest("OAUTHBEARER"), 0)
        client._socket.sendall(struct.pack(">i", len(message)) + message)

    broker = serve()
    with connect(broker) as client:
        raw(client, initial_response(KEY.sign(claims_of()), {}))
        assert client._socket.recv(4) == bytes(4)
        assert client.ask(MetadataRequest(topics=[]), 1).brokers
    with connect(broker) as client:
        raw(client, initial_response(KEY.sign(claims_of(iat=1, exp=2)), {}))
        answer = client._socket.recv(100)
        assert answer == struct.pack(">i", len(INVALID)) + INVALID.encode()
        client._socket.sendall(struct.pack(">i", 1) + b"\x01")
        assert is_closed(client)


# --- sessions --------------------------------------------------------------------------------


def test_a_session_ends_with_its_token(serve: Serve) -> None:
    broker = serve()
    with connect(broker) as lazy, connect(broker) as eager:
        for client in (lazy, eager):
            answer = login(client, KEY.sign(claims_of(seconds=2)))
            assert 0 < answer.session_lifetime_ms <= 2000
        assert login(eager, KEY.sign(claims_of(seconds=600))).session_lifetime_ms > 2000

        def is_over() -> bool:
            lazy.send(MetadataRequest(topics=[]), 1)
            try:
                return not lazy._socket.recv(1 << 16)
            except ConnectionError:
                return True

        wait_for(is_over)
        assert eager.ask(MetadataRequest(topics=[]), 1).brokers


def test_the_shorter_limit_ends_a_session(serve: Serve) -> None:
    broker = serve(**{"listener.name.tokens.oauthbearer.connections.max.reauth.ms": 60_000})
    with connect(broker) as client:
        assert login(client, KEY.sign(claims_of(seconds=600))).session_lifetime_ms == 60_000
        assert login(client, KEY.sign(claims_of(seconds=30))).session_lifetime_ms <= 30_000
        # Within the clock's skew a token has expired and is valid: its session is over at once.
        assert login(client, KEY.sign(claims_of(seconds=-5, iat=1))).session_lifetime_ms == 1


def test_another_principal_cannot_take_a_session(serve: Serve) -> None:
    with connect(serve()) as client:
        assert login(client, KEY.sign(claims_of("alice"))).error_code == 0
        assert login(client, KEY.sign(claims_of("bob"))).error_code == 58
        assert is_closed(client)


# --- keys ------------------------------------------------------------------------------------


def test_replaced_keys_are_read_when_a_token_names_one(serve: Serve, tmp_path: Path) -> None:
    broker, other = serve(), SigningKey("two")
    token = other.sign(claims_of())
    (tmp_path / "keys.json").write_bytes(key_set(other))
    assert not is_accepted(broker, token)
    wait_for(lambda: is_accepted(broker, token))
    assert not is_accepted(broker, KEY.sign(claims_of()))


def test_keys_that_cannot_be_read_leave_the_old_ones(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with web_server() as server:
        server.answers["/keys"] = 200, key_set(KEY)
        broker = serve(
            **{
                "sasl.oauthbearer.jwks.endpoint.url": f"{server.url}/keys",
                "sasl.oauthbearer.jwks.endpoint.refresh.ms": 10,
                "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": 1,
            }
        )
        server.answers["/keys"] = 500, b"secret"
        wait_for(lambda: "keeps its keys of tokens" in caplog.text)
        asked = len(server.asked)
        wait_for(lambda: len(server.asked) > asked + 3)  # it retries
        assert is_accepted(broker, KEY.sign(claims_of()))
        other = SigningKey("two")
        server.answers["/keys"] = 200, key_set(other)
        wait_for(lambda: is_accepted(broker, other.sign(claims_of())))
        assert caplog.text.count("keeps its keys") == 1
        assert "HTTP 500" in caplog.text
        assert "secret" not in caplog.text
        broker.close()


def test_keys_that_cannot_be_read_stop_the_start(serve: Serve, tmp_path: Path) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    for document in (b"secret", b'{"keys": []}'):
        (tmp_path / "keys.json").write_bytes(document)
        with pytest.raises(InvalidConfigError, match=r"jwks.endpoint.url=file:///\S+/keys.json"):
            serve()
    (tmp_path / "keys.json").unlink()
    with pytest.raises(InvalidConfigError, match="No such file"):
        serve()
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_start_waits_for_a_server_of_keys() -> None:
    with web_server() as server:
        responses = iter([(503, b""), (200, b"{}"), (200, key_set(KEY))])
        server.answers["/keys"] = lambda: next(responses)
        settings = OAuthBearerSettings(
            rules=ClaimRules(ignores_audience=True),
            jwks_url=f"{server.url}/keys",
            retry_backoff_ms=1,
        )
        loop = Loop()
        refresher = JsonWebKeyRefresher("x", settings, loop)
        assert refresher.validate(KEY.sign(claims_of()), now_ms()).principal == "alice"
        server.answers["/keys"] = 404, b""
        with pytest.raises(InvalidConfigError, match="HTTP 404"):
            JsonWebKeyRefresher("x", settings, loop)
        assert len(server.asked) == 4
        loop.close()


def test_unknown_keys_cause_few_refreshes(tmp_path: Path) -> None:
    with web_server() as server:
        server.answers["/keys"] = 200, key_set(KEY)
        settings = OAuthBearerSettings(rules=ClaimRules(), jwks_url=f"{server.url}/keys")
        loop = Loop()
        refresher = JsonWebKeyRefresher("x", settings, loop)
        other = SigningKey("two").sign(claims_of())
        with pytest.raises(UnknownKeyError):
            refresher.validate(other, now_ms())
        wait_for(lambda: bool(loop._ready))
        loop._turn()  # takes the keys
        for _ in range(100):
            with pytest.raises(UnknownKeyError):
                refresher.validate(other, now_ms())
            assert not refresher._is_refreshing
        assert len(server.asked) == 2
        loop.close()


# --- unsecured -------------------------------------------------------------------------------

UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
    "OAuthBearerUnsecuredValidatorCallbackHandler"
)


def test_unsecured_tokens_only_where_they_are_wanted(
    tmp_path: Path, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    token = jwt.encode(claims_of(), None, algorithm="none")
    assert not is_accepted(serve(), token)
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
        "connection.failed.authentication.delay.ms": 0,
    }
    with kstore.serve(tmp_path / "unsecured", settings=settings) as broker:
        assert "accepts unsecured tokens" in caplog.text
        assert is_accepted(broker, token)
        assert not is_accepted(broker, KEY.sign(claims_of()))


def test_a_session_is_renewed_once_the_provider_is_back(serve: Serve) -> None:
    broker = serve()
    with web_server() as server:
        server.answers["/token"] = 200, json.dumps({"access_token": KEY.sign(claims_of())}).encode()
        security = client_security(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": f"{server.url}/token",
                "sasl.login.retry.backoff.ms": "1",
                "sasl.login.retry.backoff.max.ms": "2",
                "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer."
                'OAuthBearerLoginModule required clientId="a" clientSecret="b";',
            }
        )
        assert security.sasl is not None
        assert security.sasl.tokens is not None
        with Cluster(broker.bootstrap_servers, timeout=PATIENCE, security=security) as cluster:
            assert cluster.ask(MetadataRequest(), MetadataResponse).brokers
            tokens, good = security.sasl.tokens, server.answers["/token"]
            server.answers["/token"] = 503, b""
            tokens._until = tokens._expires = cluster._any()._session_ends = 0.0
            for _ in range(2):
                with pytest.raises(KStoreError, match="HTTP 503"):
                    cluster.ask(MetadataRequest(), MetadataResponse)
            server.answers["/token"] = good
            assert cluster.ask(MetadataRequest(), MetadataResponse).brokers


def test_keys_are_refreshed_again_after_no_thread_could_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(key_set(KEY))
    settings = OAuthBearerSettings(jwks_url=keys.as_uri(), rules=ClaimRules(), retry_backoff_ms=1)
    loop = Loop()
    refresher = JsonWebKeyRefresher("TOKENS", settings, loop)

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(UnknownKeyError):
            refresher.validate(SigningKey("two").sign(claims_of()), now_ms())
    assert "can't start new thread" in caplog.text
    assert not refresher._is_refreshing
    loop.close()
