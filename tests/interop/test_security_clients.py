"""Python's Kafka clients with SASL against a served directory: who gets in, and who does not."""

import asyncio
import gc
import os
import ssl
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaClient, AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer as RdkafkaConsumer
from confluent_kafka import KafkaException
from confluent_kafka import Producer as RdkafkaProducer
from confluent_kafka import TopicPartition as RdkafkaPartition
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from support.secure_broker import MECHANISMS, SecureBroker, secure_broker

PATIENCE = 30
PASSWORD = 'it\'s "secret", äöü='
_QUOTED = PASSWORD.replace('"', '\\"')
PLAIN_USERS = f'username="admin" password="admin" user_alice="{_QUOTED}" user_bob="bob"'
PAIRS = [("SASL_PLAINTEXT", each) for each in MECHANISMS]
PAIRS += [("SASL_SSL", each) for each in MECHANISMS]


class Served:
    """A broker with four listeners, and the files with which clients trust and are trusted."""

    def __init__(self, secured: SecureBroker) -> None:
        self.broker = secured.broker
        self.trusted = os.fspath(secured.trusted)
        self.client = secured.client

    def address(self, protocol: str) -> str:
        return self.broker.listeners[protocol]

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.trusted)
        context.load_cert_chain(self.client)
        return context


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with secure_broker(tmp_path_factory.mktemp("served"), PLAIN_USERS) as secured:
        broker = secured.broker
        admin = AdminClient({"bootstrap.servers": broker.listeners["INTERNAL"]})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            scram = ScramCredentialInfo(mechanism, 4096)
            alice = UserScramCredentialUpsertion("alice", scram, PASSWORD.encode())
            assert admin.alter_user_scram_credentials([alice])["alice"].result(PATIENCE) is None
        yield Served(secured)


def python_options(
    served: Served, protocol: str, mechanism: str, user: str = "alice", password: str = PASSWORD
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "bootstrap_servers": served.address(protocol),
        "security_protocol": protocol,
    }
    if protocol != "SASL_PLAINTEXT":
        options["ssl_context"] = served.context()
    if protocol != "SSL":
        options["sasl_mechanism"] = mechanism
        options["sasl_plain_username"] = user
        options["sasl_plain_password"] = password
    return options


def rdkafka_options(
    served: Served, protocol: str, mechanism: str, user: str = "alice", password: str = PASSWORD
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "bootstrap.servers": served.address(protocol),
        "security.protocol": protocol,
    }
    if protocol != "SASL_PLAINTEXT":
        options["ssl.ca.location"] = served.trusted
        options["ssl.key.location"] = options["ssl.certificate.location"] = os.fspath(served.client)
    if protocol != "SSL":
        options["sasl.mechanism"] = mechanism
        options["sasl.username"] = user
        options["sasl.password"] = password
    return options


def topic_of(served: Served, *words: str) -> str:
    name = "-".join(words)
    served.broker.store.create_topic(name)
    return name


ALL = pytest.mark.parametrize(("protocol", "mechanism"), [*PAIRS, ("SSL", "")])


@ALL
def test_kafka_python_produces_and_consumes(served: Served, protocol: str, mechanism: str) -> None:
    topic = topic_of(served, "kafka-python", protocol, mechanism)
    options = python_options(served, protocol, mechanism)
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


@ALL
def test_librdkafka_produces_and_consumes(served: Served, protocol: str, mechanism: str) -> None:
    topic = topic_of(served, "librdkafka", protocol, mechanism)
    options = rdkafka_options(served, protocol, mechanism)
    producer = RdkafkaProducer(options)
    producer.produce(topic, b"paid")
    assert producer.flush(PATIENCE) == 0
    consumer = RdkafkaConsumer({**options, "group.id": "unused"})
    consumer.assign([RdkafkaPartition(topic, 0, 0)])
    message = consumer.poll(PATIENCE)
    assert message is not None
    assert (message.error(), message.value()) == (None, b"paid")
    consumer.close()


@ALL
def test_aiokafka_produces_and_consumes(served: Served, protocol: str, mechanism: str) -> None:
    topic = topic_of(served, "aiokafka", protocol, mechanism)
    options = python_options(served, protocol, mechanism)

    async def exchange() -> bytes | None:
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait(topic, b"paid")
        async with AIOKafkaConsumer(**options) as consumer:
            consumer.assign([AioPartition(topic, 0)])
            await consumer.seek_to_beginning()
            return (await asyncio.wait_for(consumer.getone(), PATIENCE)).value

    assert asyncio.run(exchange()) == b"paid"


@pytest.mark.parametrize(("protocol", "mechanism"), PAIRS)
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("unknown", PASSWORD)])
def test_a_wrong_password_is_refused(
    served: Served, protocol: str, mechanism: str, user: str, password: str
) -> None:
    options = python_options(served, protocol, mechanism, user, password)
    with pytest.raises(KafkaError):
        KafkaAdminClient(**options, bootstrap_timeout_ms=2000)

    async def connect() -> None:
        client = AIOKafkaClient(**options)
        try:
            await client.bootstrap()
        finally:
            await client.close()

    with warnings.catch_warnings():
        # aiokafka does not wait until the transport of a refused connection is closed.
        warnings.filterwarnings("ignore", "unclosed", ResourceWarning)
        with pytest.raises(AioKafkaError):
            asyncio.run(connect())
        gc.collect()
    errors: list[Any] = []
    producer = RdkafkaProducer(
        {
            **rdkafka_options(served, protocol, mechanism, user, password),
            "error_cb": errors.append,
            "log_level": 0,
        }
    )
    deadline = time.monotonic() + PATIENCE
    while "_AUTHENTICATION" not in {each.name() for each in errors}:
        producer.poll(0.1)
        assert time.monotonic() < deadline, errors
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=1)


def test_scram_users_by_librdkafka(served: Served) -> None:
    admin = AdminClient({"bootstrap.servers": served.address("INTERNAL")})
    described = admin.describe_user_scram_credentials(["alice", "unknown"])
    infos = described["alice"].result(PATIENCE).scram_credential_infos
    assert [(each.mechanism, each.iterations) for each in infos] == [
        (ScramMechanism.SCRAM_SHA_256, 4096),
        (ScramMechanism.SCRAM_SHA_512, 4096),
    ]
    with pytest.raises(KafkaException, match="does not exist"):
        described["unknown"].result(PATIENCE)
    upsertion = UserScramCredentialUpsertion(
        "carol", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192), b"carol"
    )
    admin.alter_user_scram_credentials([upsertion])["carol"].result(PATIENCE)
    options = rdkafka_options(served, "SASL_SSL", "SCRAM-SHA-256", "carol", "carol")
    assert AdminClient(options).list_topics(timeout=PATIENCE).brokers
    deletion = UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([deletion])["carol"].result(PATIENCE)
    with pytest.raises(KafkaException):
        AdminClient({**options, "log_level": 0}).list_topics(timeout=2)
