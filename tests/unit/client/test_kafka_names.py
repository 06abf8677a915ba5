"""Methods of Kafka's clients under their names there: the error says what to call."""

import asyncio
import copy
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import Store, StoreConfig
from kstore.hints.kafka_names import (
    OF_CONSUMERS,
    OF_DELIVERIES,
    OF_POSITIONS,
    OF_PRODUCERS,
    OF_TOPIC_PARTITIONS,
    OF_TRANSACTIONS,
)
from kstore.hints.missing_names import is_answer


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as opened:
        opened.create_topic("t")
        yield opened


def clients(store: Store) -> Iterator[tuple[Any, dict[str, str]]]:
    yield store.consumer("t"), OF_CONSUMERS
    yield store.producer("t"), OF_PRODUCERS
    yield store.producer(), OF_PRODUCERS
    yield store.transactional_producer("id"), OF_TRANSACTIONS
    delivery = store.producer("t").send(b"x")
    yield delivery, OF_DELIVERIES
    yield kstore.Position(0, 1), OF_POSITIONS
    yield kstore.TopicPartition("t", 0), OF_TOPIC_PARTITIONS


def test_a_method_with_another_name_is_named(store: Store) -> None:
    for client, names in clients(store):
        for name, instead in names.items():
            with pytest.raises(AttributeError) as caught:
                getattr(client, name)
            kind = type(client).__name__
            assert str(caught.value) == f"{kind!r} object has no attribute {name!r}: {instead}"


def test_other_attributes_are_missing_as_usual(store: Store) -> None:
    for client, names in clients(store):
        members = {name: getattr(type(client), name, None) for name in names}
        assert all(each is None or is_answer(each) for each in members.values())
        assert not hasattr(client, "nothing")
        with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
            client.nothing  # noqa: B018


def test_python_suggests_no_other_name_than_kstore(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    producer: Any = store.transactional_producer("id")
    for name, suggested in (("begin", False), ("in_transactoin", True)):
        with pytest.raises(AttributeError) as caught:
            getattr(producer, name)
        sys.__excepthook__(AttributeError, caught.value, None)
        assert ("Did you mean: 'in_transaction'" in capsys.readouterr().err) == suggested


def test_pairs_with_answers_are_still_copied_and_pickled() -> None:
    for pair in (kstore.TopicPartition("t", 0), kstore.Position(0, 1)):
        for twin in (copy.copy(pair), copy.deepcopy(pair), pickle.loads(pickle.dumps(pair))):
            assert type(twin) is type(pair)
            assert twin == pair


def test_batches_and_transactions_refuse_asyncio(store: Store) -> None:
    async def enter(client: Any) -> None:
        async with client:
            pass

    async def read(client: Any) -> None:
        async for _ in client:
            pass

    consumer, producer = store.consumer("t"), store.transactional_producer("id")
    with pytest.raises(
        TypeError, match=r"a Consumer is for threads: use `async for record in consumer.records"
    ):
        asyncio.run(read(consumer))
    with pytest.raises(TypeError, match="a TransactionalProducer is for threads: use `with`"):
        asyncio.run(enter(producer))
    with pytest.raises(TypeError, match=r"a transaction is for threads: use `with`, in asyncio"):
        asyncio.run(enter(store.transaction("id")))


def test_a_flush_that_is_awaited_names_the_call_for_asyncio(store: Store) -> None:
    async def flush(producer: Any) -> None:
        await producer.flush()

    for producer in (store.producer("t"), store.producer()):
        with pytest.raises(
            TypeError, match=r"^flush\(\) is for threads: use `await asyncio.to_thread\(producer.fl"
        ):
            asyncio.run(flush(producer))
        left = producer.flush()
        assert left == 0
        assert repr(left) == str(left) == f"{left}" == "0"
