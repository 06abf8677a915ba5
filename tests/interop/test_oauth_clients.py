"""Unmodified clients with OAUTHBEARER against a served directory: signed and unsecured tokens."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import pytest
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka import Consumer as RdkafkaConsumer
from confluent_kafka import KafkaException
from confluent_kafka import Producer as RdkafkaProducer
from confluent_kafka import TopicPartition as RdkafkaPartition
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider

import kstore
from interop.kafka_jars import ToolError, run
from interop.node import Node, free_ports
from kstore.broker.client_session import ClientSession
from kstore.cli import main
from kstore.security.principal import Principal
from support.token_issuer import SigningKey, claims_of, key_set, token_settings

PATIENCE = 30
KEY = SigningKey("one")
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
LISTENERS = ("SIGNED", "SHORT", "UNSECURED")
LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
    "OAuthBearerUnsecuredValidatorCallbackHandler"
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kstore.Broker]:
    root = tmp_path_factory.mktemp("served")
    (root / "keys.json").write_bytes(key_set(KEY))
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
        "listener.security.protocol.map": ",".join(f"{name}:SASL_PLAINTEXT" for name in LISTENERS),
        "listener.name.short.oauthbearer.connections.max.reauth.ms": 500,
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "connection.failed.authentication.delay.ms": 0,
        "listener.name.unsecured.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
    }
    for listener in ("signed", "short"):
        for name, value in token_settings(listener, root / "keys.json").items():
            is_global = name.startswith("sasl.oauthbearer.")
            settings[f"listener.name.{listener}.{name}" if is_global else name] = value
    with kstore.serve(root / "data", settings=settings) as broker:
        yield broker


def token_of(is_valid: bool = True, seconds: float = 600) -> str:
    return KEY.sign(claims_of(seconds=seconds) if is_valid else claims_of(iat=1, exp=2))


# --- kafka-python ----------------------------------------------------------------------------


class Tokens(AbstractTokenProvider):
    def __init__(self, is_valid: bool = True, seconds: float = 600) -> None:
        super().__init__()
        self.is_valid = is_valid
        self.seconds = seconds
        self.count = 0

    def token(self) -> str:
        self.count += 1
        return token_of(self.is_valid, self.seconds)

    def extensions(self) -> dict[str, str]:
        return {"traceId": "1", "logicalCluster": "lkc-1"}


def python_options(broker: kstore.Broker, tokens: Tokens) -> dict[str, Any]:
    return {
        "bootstrap_servers": broker.listeners["SIGNED"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": tokens,
    }


def test_kafka_python(broker: kstore.Broker) -> None:
    topic = "kafka-python"
    broker.store.create_topic(topic)
    options = python_options(broker, Tokens())
    producer = KafkaProducer(**options)
    assert producer.send(topic, b"paid").get(PATIENCE).offset == 0
    producer.close()
    consumer = KafkaConsumer(**options)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found = consumer.poll(timeout_ms=PATIENCE * 1000)
    assert [each.value for each in found[partition]] == [b"paid"]
    consumer.close()
    with pytest.raises(KafkaError):
        KafkaAdminClient(
            **python_options(broker, Tokens(is_valid=False)), bootstrap_timeout_ms=2000
        )


# --- librdkafka ------------------------------------------------------------------------------


def rdkafka_options(broker: kstore.Broker, listener: str, **options: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": broker.listeners[listener],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        **options,
    }


def exchange_with_rdkafka(broker: kstore.Broker, topic: str, options: dict[str, Any]) -> None:
    broker.store.create_topic(topic)
    producer = RdkafkaProducer(options)
    producer.produce(topic, b"paid")
    assert producer.flush(PATIENCE) == 0
    consumer = RdkafkaConsumer({**options, "group.id": "unused"})
    consumer.assign([RdkafkaPartition(topic, 0, 0)])
    message = consumer.poll(PATIENCE)
    assert message is not None
    assert (message.error(), message.value()) == (None, b"paid")
    consumer.close()


def test_librdkafka_with_signed_tokens(broker: kstore.Broker) -> None:
    def token(_: str) -> tuple[str, float, str, dict[str, str]]:
        return token_of(), time.time() + 600, "alice", {"traceId": "1"}

    exchange_with_rdkafka(broker, "signed", rdkafka_options(broker, "SIGNED", oauth_cb=token))


def test_librdkafka_with_unsecured_tokens(broker: kstore.Broker) -> None:
    unsecured = {
        "enable.sasl.oauthbearer.unsecure.jwt": True,
        "sasl.oauthbearer.method": "default",
        "sasl.oauthbearer.config": "principal=alice lifeSeconds=600",
    }
    exchange_with_rdkafka(broker, "unsecured", rdkafka_options(broker, "UNSECURED", **unsecured))
    errors: list[Any] = []
    producer = RdkafkaProducer(
        rdkafka_options(broker, "SIGNED", **unsecured, error_cb=errors.append, log_level=0)
    )
    deadline = time.monotonic() + PATIENCE
    while "_AUTHENTICATION" not in {each.name() for each in errors}:
        producer.poll(0.1)
        assert time.monotonic() < deadline, errors
    assert any("invalid_token" in each.str() for each in errors), errors
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=1)


def test_librdkafka_renews_its_session(
    broker: kstore.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions of half a second, on the connection that the client keeps."""
    sessions: list[ClientSession] = []
    authenticated = ClientSession.authenticated

    def count(session: ClientSession, principal: Principal, lifetime_ms: int) -> None:
        assert lifetime_ms == 500
        sessions.append(session)
        authenticated(session, principal, lifetime_ms)

    monkeypatch.setattr(ClientSession, "authenticated", count)
    broker.store.create_topic("renewed")
    errors: list[Any] = []
    producer = RdkafkaProducer(
        rdkafka_options(
            broker,
            "SHORT",
            oauth_cb=lambda _: (token_of(), time.time() + 600),
            error_cb=errors.append,
        )
    )
    deadline = time.monotonic() + PATIENCE
    while max((sessions.count(each) for each in sessions), default=0) < 4:
        producer.produce("renewed", b"paid")
        assert producer.flush(PATIENCE) == 0
        assert time.monotonic() < deadline
    assert errors == []


# --- aiokafka --------------------------------------------------------------------------------


class AioTokens(AioTokenProvider):
    async def token(self) -> str:
        return token_of()


def test_aiokafka(broker: kstore.Broker) -> None:
    broker.store.create_topic("aiokafka")
    options: dict[str, Any] = {
        "bootstrap_servers": broker.listeners["SIGNED"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": AioTokens(),
    }

    async def exchange() -> bytes | None:
        async with aiokafka.AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait("aiokafka", b"paid")
        async with aiokafka.AIOKafkaConsumer(**options) as consumer:
            consumer.assign([aiokafka.TopicPartition("aiokafka", 0)])
            await consumer.seek_to_beginning()
            return (await asyncio.wait_for(consumer.getone(), PATIENCE)).value

    assert asyncio.run(exchange()) == b"paid"


# --- Java ------------------------------------------------------------------------------------


def topics(version: str, address: str, folder: Path, settings: dict[str, str]) -> str:
    path = folder / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    words = ("--list", "--bootstrap-server", address, "--command-config", path)
    return run(version, "org.apache.kafka.tools.TopicCommand", *words).stdout.decode()


@pytest.fixture
def java(kafka: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    # Kafka 4 reads tokens from these URLs and files only.
    where = tmp_path / "token"
    prefix = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
    monkeypatch.setenv(
        "JAVA_TOOL_OPTIONS", f"{prefix}.urls={where.as_uri()} {prefix}.files={where}"
    )
    return kafka


def test_java_with_signed_tokens(broker: kstore.Broker, java: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": LOGIN,
        "sasl.oauthbearer.token.endpoint.url": token.as_uri(),
        "sasl.jaas.config": f'{MODULE} extension_traceId="1";',
    }
    broker.store.create_topic("java", exist_ok=True)
    token.write_text(token_of())
    address = broker.listeners["SIGNED"]
    assert "java\n" in topics(java, address, tmp_path, settings)
    token.write_text(SigningKey("one").sign(claims_of()))  # another key of that name
    with pytest.raises(ToolError, match="invalid_token"):
        topics(java, address, tmp_path, settings)


def test_java_with_unsecured_tokens(broker: kstore.Broker, java: str, tmp_path: Path) -> None:
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{MODULE} unsecuredLoginStringClaim_sub="alice";',
    }
    broker.store.create_topic("java", exist_ok=True)
    assert "java\n" in topics(java, broker.listeners["UNSECURED"], tmp_path, settings)
    with pytest.raises(ToolError, match="invalid_token"):
        topics(java, broker.listeners["SIGNED"], tmp_path, settings)


# --- kstore's tools at Kafka -----------------------------------------------------------------


def test_kstores_tools_at_a_broker_of_kafka(
    node: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With an extension, and with a token whose time is over, which Kafka answers with JSON."""
    [port] = free_ports(1)
    own = f"PLAINTEXT://{node.address},TOKENS://127.0.0.1:{port}"
    node.settings = {
        "listeners": f"{own},CONTROLLER://127.0.0.1:{node._controller}",
        "advertised.listeners": own,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "TOKENS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.tokens.oauthbearer.sasl.jaas.config": (
            f'{MODULE} unsecuredLoginStringClaim_sub="broker";'
        ),
    }
    node.start()
    node.create_topic("orders")
    path = tmp_path / "client.properties"
    words = ["topics", "--list", "--bootstrap-server", f"127.0.0.1:{port}", "--command-config"]
    settings = (
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f'sasl.jaas.config={MODULE} unsecuredLoginStringClaim_sub="alice" '
        'unsecuredLoginExtension_traceId="1"'
    )
    path.write_text(f"{settings};\n")
    assert main([*words, str(path)]) == 0
    assert "orders\n" in capsys.readouterr().out
    path.write_text(f'{settings} unsecuredLoginNumberClaim_exp="2";\n')
    assert main([*words, str(path)]) == 1
    assert "invalid_token" in "".join(capsys.readouterr())
