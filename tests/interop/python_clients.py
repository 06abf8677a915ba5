"""The consumers of kafka-python and aiokafka: a complete topic, in either isolation level."""

import asyncio
import time

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from kafka import KafkaConsumer, TopicPartition

PATIENCE = 30  # seconds until a reader gives up; what it has by then is what it says

Shown = list[list[tuple[int, str]]]  # of each partition: (offset, value)


def kafka_python(address: str, topic: str, partitions: int, count: int, isolation: str) -> Shown:
    """Everything from the beginning on: count records, and whatever else comes at once."""
    consumer = KafkaConsumer(
        bootstrap_servers=address, isolation_level=isolation, enable_auto_commit=False
    )
    topic_partitions = [TopicPartition(topic, number) for number in range(partitions)]
    found: Shown = [[] for _ in topic_partitions]
    try:
        consumer.assign(topic_partitions)
        consumer.seek_to_beginning(*topic_partitions)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            enough = sum(map(len, found)) >= count
            polled = consumer.poll(timeout_ms=500)
            for tp, records in polled.items():
                found[tp.partition] += [(r.offset, r.value.decode()) for r in records]
            if enough and not polled:
                break
    finally:
        consumer.close()
    return found


def aio(address: str, topic: str, partitions: int, count: int, isolation: str) -> Shown:
    """The same by aiokafka."""
    return asyncio.run(_aio(address, topic, partitions, count, isolation))


async def _aio(address: str, topic: str, partitions: int, count: int, isolation: str) -> Shown:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=address, isolation_level=isolation, enable_auto_commit=False
    )
    topic_partitions = [AioPartition(topic, number) for number in range(partitions)]
    found: Shown = [[] for _ in topic_partitions]
    await consumer.start()
    try:
        consumer.assign(topic_partitions)
        await consumer.seek_to_beginning(*topic_partitions)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            enough = sum(map(len, found)) >= count
            polled = await consumer.getmany(timeout_ms=500)
            for tp, records in polled.items():
                found[tp.partition] += [(r.offset, r.value.decode()) for r in records]
            if enough and not polled:
                break
    finally:
        await consumer.stop()
    return found
