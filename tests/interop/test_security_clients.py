"""Python's Kafka clients with SASL against a served directory: who gets in, and who does not."""

import asyncio
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

import kstore

PATIENCE = 30
PASSWORD = 'it\'s "secret", äöü='
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_QUOTED = PASSWORD.replace('"', '\\"')
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="admin" password="admin" user_alice="{_QUOTED}" user_bob="bob";'
)
SETTINGS = {
    "listeners": "INTERNAL://127.0.0.1:0,CLEAR://127.0.0.1:0",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLEAR:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.clear.plain.sasl.jaas.config": JAAS,
    "kstore.sasl.plain.without.tls": True,
    "connection.failed.authentication.delay.ms": 0,
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kstore.Broker]:
    with kstore.serve(tmp_path_factory.mktemp("secure"), settings=SETTINGS) as broker:
        for client in ("kafka-python", "librdkafka", "aiokafka"):
            for mechanism in MECHANISMS:
                broker.store.create_topic(f"{client}-{mechanism}")
        admin = AdminClient({"bootstrap.servers": broker.listeners["INTERNAL"]})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            found = admin.alter_user_scram_credentials(
                [
                    UserScramCredentialUpsertion(
                        "alice", ScramCredentialInfo(mechanism, 4096), PASSWORD.encode()
                    )
                ]
            )
            assert found["alice"].result(PATIENCE) is None
        yield broker


def python_options(address: str, mechanism: str, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


def rdkafka_options(address: str, mechanism: str, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_produces_and_consumes(broker: kstore.Broker, mechanism: str) -> None:
    topic = f"kafka-python-{mechanism}"
    options = python_options(broker.listeners["CLEAR"], mechanism, "alice", PASSWORD)
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


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_produces_and_consumes(broker: kstore.Broker, mechanism: str) -> None:
    topic = f"librdkafka-{mechanism}"
    options = rdkafka_options(broker.listeners["CLEAR"], mechanism, "alice", PASSWORD)
    producer = RdkafkaProducer(options)
    producer.produce(topic, b"paid")
    assert producer.flush(PATIENCE) == 0
    consumer = RdkafkaConsumer({**options, "group.id": "unused"})
    consumer.assign([RdkafkaPartition(topic, 0, 0)])
    message = consumer.poll(PATIENCE)
    assert message is not None
    assert (message.error(), message.value()) == (None, b"paid")
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_produces_and_consumes(broker: kstore.Broker, mechanism: str) -> None:
    topic = f"aiokafka-{mechanism}"
    options = python_options(broker.listeners["CLEAR"], mechanism, "alice", PASSWORD)

    async def exchange() -> bytes | None:
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait(topic, b"paid")
        async with AIOKafkaConsumer(**options) as consumer:
            consumer.assign([AioPartition(topic, 0)])
            await consumer.seek_to_beginning()
            return (await asyncio.wait_for(consumer.getone(), PATIENCE)).value

    assert asyncio.run(exchange()) == b"paid"


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("unknown", PASSWORD)])
def test_a_wrong_password_is_refused(
    broker: kstore.Broker, mechanism: str, user: str, password: str
) -> None:
    options = python_options(broker.listeners["CLEAR"], mechanism, user, password)
    with pytest.raises(KafkaError):
        KafkaAdminClient(**options, bootstrap_timeout_ms=2000)

    async def connect() -> None:
        client = AIOKafkaClient(**options)
        try:
            await client.bootstrap()
        finally:
            await client.close()

    with pytest.raises(AioKafkaError):
        asyncio.run(connect())
    errors: list[Any] = []
    producer = RdkafkaProducer(
        {
            **rdkafka_options(broker.listeners["CLEAR"], mechanism, user, password),
            "error_cb": errors.append,
            "log_level": 0,
        }
    )
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=2)
    producer.poll(0)
    assert "_AUTHENTICATION" in {each.name() for each in errors}


def test_scram_users_by_librdkafka(broker: kstore.Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.listeners["INTERNAL"]})
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
    options = rdkafka_options(broker.listeners["CLEAR"], "SCRAM-SHA-256", "carol", "carol")
    assert AdminClient(options).list_topics(timeout=PATIENCE).topics
    deletion = UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([deletion])["carol"].result(PATIENCE)
    with pytest.raises(KafkaException):
        AdminClient({**options, "log_level": 0}).list_topics(timeout=2)
