"""Tools with OAUTHBEARER: tokens from files, unsecured tokens, and sessions that end."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore.cli import main
from kstore.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kstore.remote.connection import Connection
from kstore.security.client_settings import client_security
from support.token_issuer import SigningKey, claims_of, key_set, token_settings

KEY = SigningKey("one")
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
    "OAuthBearerUnsecuredValidatorCallbackHandler"
)
SETTINGS = {
    "listeners": "SIGNED://127.0.0.1:0,UNSECURED://127.0.0.1:0",
    "listener.security.protocol.map": "SIGNED:SASL_PLAINTEXT,UNSECURED:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "connection.failed.authentication.delay.ms": 0,
    "listener.name.unsecured.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kstore.Broker]:
    root = tmp_path_factory.mktemp("served")
    (root / "keys.json").write_bytes(key_set(KEY))
    settings: dict[str, object] = {}
    for name, value in token_settings("SIGNED", root / "keys.json").items():
        is_global = name.startswith("sasl.oauthbearer.")
        settings[f"listener.name.signed.{name}" if is_global else name] = value
    with kstore.serve(root / "data", settings={**SETTINGS, **settings}) as broker:
        broker.store.create_topic("orders")
        yield broker


def client(token: Path) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
        "sasl.login.retry.backoff.max.ms": "1",
    }


def run(broker: kstore.Broker, listener: str, settings: dict[str, str], folder: Path) -> int:
    path = folder / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    server = ("--bootstrap-server", broker.listeners[listener])
    return main(["topics", "--list", *server, "--command-config", str(path)])


def test_a_tool_authenticates_by_a_token_in_a_file(
    broker: kstore.Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = tmp_path / "token"
    token.write_text(KEY.sign(claims_of()))
    assert run(broker, "SIGNED", client(token), tmp_path) == 0
    assert capsys.readouterr().out == "orders\n"
    expired = KEY.sign(claims_of(iat=1, exp=2))
    token.write_text(expired)
    assert run(broker, "SIGNED", client(token), tmp_path) == 1
    said = "".join(capsys.readouterr())
    assert '{"status":"invalid_token"}' in said
    assert not any(part in said for part in expired.split("."))
    token.unlink()
    assert run(broker, "SIGNED", client(token), tmp_path) == 1
    assert str(token) in "".join(capsys.readouterr())


def test_an_unsecured_token_is_accepted_by_an_unsecured_listener_only(
    broker: kstore.Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = client(tmp_path)
    del settings["sasl.oauthbearer.token.endpoint.url"]
    settings["sasl.jaas.config"] = f'{MODULE} unsecuredLoginStringClaim_sub="alice";'
    assert run(broker, "UNSECURED", settings, tmp_path) == 0
    assert capsys.readouterr().out == "orders\n"
    assert run(broker, "SIGNED", settings, tmp_path) == 1


def test_a_tool_renews_its_session_with_a_new_token(broker: kstore.Broker, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(KEY.sign(claims_of(seconds=2)))
    security = client_security(client(token))
    with Connection("127.0.0.1", broker.port, security=security) as connection:
        ends = connection._session_ends
        token.write_text(KEY.sign(claims_of(seconds=600)))
        deadline = time.monotonic() + 30
        while connection._session_ends == ends:
            assert connection.ask(MetadataRequest(topics=[]), MetadataResponse).brokers
            assert time.monotonic() < deadline
        assert connection._session_ends - ends > 300
