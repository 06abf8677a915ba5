"""Transactional producers of Kafka's Python clients: each record is copied exactly once."""

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore

SETTINGS = {"group.initial.rebalance.delay.ms": 0}
COUNT, OF_EACH = 30, 5  # records, and records of one transaction
WAIT = 60.0
EXPECTED = [b"%d" % n for n in range(COUNT)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("source")[0].extend(EXPECTED)
        store.create_topic("copy")
        yield store


@pytest.fixture
def servers(store: kstore.Store) -> Iterator[str]:
    with kstore.Broker(store, port=0, settings=SETTINGS) as broker:
        yield broker.bootstrap_servers


def copied(store: kstore.Store) -> list[bytes | None]:
    """Once every transaction has ended: its markers are written after its client is answered."""
    log = store["copy"][0]
    deadline = time.monotonic() + WAIT
    while log.last_stable_offset < log.end_offset and time.monotonic() < deadline:
        time.sleep(0.01)
    return [each.value for each in log.view(isolation="read_committed")]


def all_copied(store: kstore.Store) -> list[bytes | None]:
    """With the records of aborted transactions."""
    return [each.value for each in store["copy"][0].view()]


def test_confluent_kafka_copies_exactly_once(store: kstore.Store, servers: str) -> None:
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "copying",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["source"])
    # Without a logger, librdkafka's threads complain on the stderr of later tests that the broker
    # is gone.
    settings = {
        "bootstrap.servers": servers,
        "transactional.id": "copier",
        "logger": logging.getLogger("confluent_kafka"),
    }
    producer = Producer(settings)
    producer.init_transactions(WAIT)
    done, round_number = 0, 0
    while done < COUNT:
        messages = consumer.consume(OF_EACH, WAIT)
        assert messages
        producer.begin_transaction()
        for each in messages:
            producer.produce("copy", each.value())
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), WAIT
        )
        round_number += 1
        if round_number % 2:
            assert producer.flush(WAIT) == 0  # an abort discards what was not sent
            producer.abort_transaction(WAIT)
            for each in consumer.committed(consumer.assignment(), WAIT):
                consumer.seek(TopicPartition("source", 0, max(each.offset, 0)))
        else:
            producer.commit_transaction(WAIT)
            done += len(messages)
    other = Producer(settings)
    other.init_transactions(WAIT)
    producer.begin_transaction()
    producer.produce("copy", b"fenced")
    with pytest.raises(KafkaException):
        producer.commit_transaction(WAIT)
    consumer.close()
    assert copied(store) == EXPECTED
    assert len(all_copied(store)) > COUNT


def test_kafka_python_copies_exactly_once(store: kstore.Store, servers: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.structs import OffsetAndMetadata

    consumer = KafkaConsumer(
        "source",
        bootstrap_servers=servers,
        group_id="copying",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=OF_EACH,
    )
    producer = KafkaProducer(bootstrap_servers=servers, transactional_id="copier")
    producer.init_transactions()
    done, round_number = 0, 0
    source = TopicPartition("source", 0)
    while done < COUNT:
        records = consumer.poll(timeout_ms=5_000).get(source, [])
        if not records:
            continue
        producer.begin_transaction()
        for each in records:
            producer.send("copy", each.value)
        position = OffsetAndMetadata(records[-1].offset + 1, "", -1)
        producer.send_offsets_to_transaction({source: position}, "copying")
        round_number += 1
        if round_number % 2:
            producer.abort_transaction()
            consumer.seek(source, consumer.committed(source) or 0)
        else:
            producer.commit_transaction()
            done += len(records)
    producer.close()
    consumer.close()
    assert copied(store) == EXPECTED


def test_aiokafka_copies_exactly_once(store: kstore.Store, servers: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    async def copy() -> None:
        consumer: Any = AIOKafkaConsumer(
            "source",
            bootstrap_servers=servers,
            group_id="copying",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        producer: Any = AIOKafkaProducer(bootstrap_servers=servers, transactional_id="copier")
        await consumer.start()
        await producer.start()
        source = TopicPartition("source", 0)
        done = round_number = 0
        while done < COUNT:
            found = await consumer.getmany(timeout_ms=5_000, max_records=OF_EACH)
            records = found.get(source, [])
            if not records:
                continue
            round_number += 1
            await producer.begin_transaction()
            for each in records:
                await producer.send("copy", each.value)
            await producer.send_offsets_to_transaction({source: records[-1].offset + 1}, "copying")
            if round_number % 2:
                await producer.abort_transaction()
                consumer.seek(source, await consumer.committed(source) or 0)
            else:
                await producer.commit_transaction()
                done += len(records)
        await producer.stop()
        await consumer.stop()

    asyncio.run(asyncio.wait_for(copy(), 4 * WAIT))
    assert copied(store) == EXPECTED
