"""Records through the producers and consumers of kafka-python, aiokafka and librdkafka.

Topic partitions are assigned: no groups. Each producer is idempotent and waits for every
acknowledgement; each consumer reads everything from the beginning on.
"""

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer as RdkafkaConsumer
from confluent_kafka import Producer as RdkafkaProducer
from confluent_kafka import TopicPartition as RdkafkaPartition
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

PATIENCE = 30.0  # seconds until a reader gives up


class Sent(NamedTuple):
    """A record as a client hands it over and gets it back."""

    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


Shown = dict[int, list[tuple[int, Sent]]]  # of each partition: offsets and records
Send = Callable[[str, str, str, Sequence[Sent]], None]
Read = Callable[..., Shown]


def kafka_python_send(address: str, topic: str, codec: str, records: Sequence[Sent]) -> None:
    producer = KafkaProducer(
        bootstrap_servers=address,
        compression_type=None if codec == "none" else codec,
        acks="all",
        enable_idempotence=True,
    )
    try:
        futures = [
            producer.send(
                topic,
                value=each.value,
                key=each.key,
                headers=list(each.headers),
                partition=each.partition,
                timestamp_ms=each.timestamp,
            )
            for each in records
        ]
        for future in futures:
            future.get(PATIENCE)
    finally:
        producer.close()


def aiokafka_send(address: str, topic: str, codec: str, records: Sequence[Sent]) -> None:
    async def send() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=address,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=True,
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    value=each.value,
                    key=each.key,
                    headers=list(each.headers),
                    partition=each.partition,
                    timestamp_ms=each.timestamp,
                )
                for each in records
            ]
            await asyncio.gather(*futures)
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(send(), PATIENCE))


def rdkafka_send(address: str, topic: str, codec: str, records: Sequence[Sent]) -> None:
    producer = RdkafkaProducer(
        {"bootstrap.servers": address, "compression.type": codec, "enable.idempotence": True}
    )
    errors: list[Any] = []
    for each in records:
        producer.produce(
            topic,
            value=each.value,
            key=each.key,
            headers=list(each.headers),
            partition=each.partition,
            timestamp=each.timestamp,
            on_delivery=lambda error, _: errors.append(error),
        )
    assert producer.flush(PATIENCE) == 0
    assert errors == [None] * len(records)


def _collect(poll: Callable[[], list[tuple[int, Sent]]], count: int) -> Shown:
    """Poll until count records came and nothing comes behind them."""
    found: Shown = {}
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        enough = sum(map(len, found.values())) >= count
        polled = poll()
        for offset, record in polled:
            found.setdefault(record.partition, []).append((offset, record))
        if enough and not polled:
            break
    return found


def kafka_python_read(
    address: str, topic: str, partitions: int, count: int, isolation: str = "read_uncommitted"
) -> Shown:
    consumer = KafkaConsumer(
        bootstrap_servers=address, isolation_level=isolation, enable_auto_commit=False
    )
    assigned = [TopicPartition(topic, number) for number in range(partitions)]

    def poll() -> list[tuple[int, Sent]]:
        batches = consumer.poll(timeout_ms=300).values()
        return [_shown(each) for each in itertools.chain(*batches)]

    try:
        consumer.assign(assigned)
        consumer.seek_to_beginning(*assigned)
        return _collect(poll, count)
    finally:
        consumer.close()


def aiokafka_read(
    address: str, topic: str, partitions: int, count: int, isolation: str = "read_uncommitted"
) -> Shown:
    async def read() -> Shown:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=address, isolation_level=isolation, enable_auto_commit=False
        )
        assigned = [AioPartition(topic, number) for number in range(partitions)]
        found: Shown = {}
        await consumer.start()
        try:
            consumer.assign(assigned)
            await consumer.seek_to_beginning(*assigned)
            until = time.monotonic() + PATIENCE
            while time.monotonic() < until:
                enough = sum(map(len, found.values())) >= count
                polled = await consumer.getmany(timeout_ms=300)
                for each in itertools.chain(*polled.values()):
                    found.setdefault(each.partition, []).append(_shown(each))
                if enough and not polled:
                    break
            return found
        finally:
            await consumer.stop()

    return asyncio.run(read())


def _shown(each: Any) -> tuple[int, Sent]:
    headers = tuple((name, bytes(value)) for name, value in each.headers)
    return each.offset, Sent(each.partition, each.timestamp, each.key, each.value, headers)


def rdkafka_read(
    address: str, topic: str, partitions: int, count: int, isolation: str = "read_uncommitted"
) -> Shown:
    consumer = RdkafkaConsumer(
        {
            "bootstrap.servers": address,
            "group.id": "unused",
            "isolation.level": isolation,
            "enable.auto.commit": False,
        }
    )

    def poll() -> list[tuple[int, Sent]]:
        messages = consumer.consume(1000, 0.3)
        assert not any(each.error() for each in messages), [each.error() for each in messages]
        return [
            (
                each.offset(),
                Sent(
                    each.partition(),
                    each.timestamp()[1],
                    each.key(),
                    each.value(),
                    tuple(each.headers() or ()),
                ),
            )
            for each in messages
        ]

    try:
        consumer.assign([RdkafkaPartition(topic, number, 0) for number in range(partitions)])
        return _collect(poll, count)
    finally:
        consumer.close()


SENDERS: dict[str, Send] = {
    "kafka-python": kafka_python_send,
    "aiokafka": aiokafka_send,
    "librdkafka": rdkafka_send,
}
READERS: dict[str, Read] = {
    "kafka-python": kafka_python_read,
    "aiokafka": aiokafka_read,
    "librdkafka": rdkafka_read,
}
