"""Arguments in the form of Kafka's clients: the error says what to write instead."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import Store, StoreConfig

ORDERS = ("orders", 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as opened:
        opened.create_topic("orders").extend([b"1", b"2", b"3"])
        yield opened


@pytest.mark.parametrize(
    ("method", "settings", "call"),
    [
        (
            Store.producer,
            {"linger.ms": 5, "compression.type": "lz4", "bootstrap.servers": "host"},
            "store.producer(linger_ms=5, compression='lz4')",
        ),
        (Store.producer, {"sasl.password": "secret"}, "store.producer(name=value)"),
        (
            Store.consumer,
            {"group.id": "billing", "auto.offset.reset": "latest"},
            "store.consumer('orders', group='billing', auto_offset_reset='latest')",
        ),
        (
            Store.transactional_producer,
            {"transactional.id": "pay", "transaction.timeout.ms": 9},
            "store.transactional_producer('pay', timeout_ms=9)",
        ),
    ],
)
def test_settings_in_a_dict_are_written_as_keywords(
    store: Store, method: Callable[..., object], settings: dict[str, object], call: str
) -> None:
    with pytest.raises(TypeError) as caught:
        method(store, settings)
    assert str(caught.value) == f"settings are keywords: {call}"


def test_a_transaction_has_keywords_too(store: Store) -> None:
    wrong: Any = {"transactional.id": "pay"}
    with pytest.raises(TypeError, match=r"transactional_producer\('pay', name=value\)"):
        store.transaction(wrong).__enter__()


def test_a_dict_of_topics_is_still_read(store: Store) -> None:
    with store.consumer({"orders": "anything"}) as consumer:
        assert consumer.assignment == {ORDERS}


def test_a_dotted_setting_is_answered(store: Store) -> None:
    dotted: Any = {"linger.ms": 5}
    with pytest.raises(TypeError, match=r"no setting 'linger\.ms': use linger_ms"):
        store.producer("orders", **dotted)
    dotted = {"compression.type": "lz4"}
    with pytest.raises(TypeError, match=r"no setting 'compression\.type': use compression"):
        store.producer("orders", **dotted)


@pytest.mark.parametrize(
    ("poll", "advice"),
    [
        (lambda consumer: consumer.poll(1.0), r"use poll\(timeout=1.0\), in seconds"),
        (
            lambda consumer: consumer.poll(1000),
            r"timeout=1000\), .*max_records=1000\)",
        ),
        (lambda consumer: consumer.poll(timeout_ms=500), "use timeout, in seconds"),
        (lambda consumer: consumer.poll(num_messages=5), "use max_records"),
        (lambda consumer: consumer.poll(update_offsets=True), "use max_records or timeout"),
    ],
)
def test_a_wrong_poll_names_the_timeout(
    store: Store, poll: Callable[[Any], object], advice: str
) -> None:
    with store.consumer("orders") as consumer:
        with pytest.raises(TypeError, match=advice):
            poll(consumer)
        assert consumer.positions() == {}  # nothing is read


def test_a_wrong_commit_says_what_it_takes(store: Store) -> None:
    wrong: list[Callable[[Any, Any], object]] = [
        lambda consumer, batch: consumer.commit(batch),
        lambda consumer, batch: consumer.commit(next(iter(batch))),
        lambda consumer, batch: consumer.commit([ORDERS]),
        lambda consumer, batch: consumer.commit([]),
        lambda consumer, batch: consumer.commit(message=batch),
        lambda consumer, batch: consumer.commit(asynchronous=False),
    ]
    with store.consumer("orders", group="billing") as consumer:
        batch = next(iter(consumer))
        for commit in wrong:
            with pytest.raises(TypeError, match=r"commit\(\) takes {\(topic, partition\): next"):
                commit(consumer, batch)
        assert consumer.committed(ORDERS) is None
        consumer.commit({ORDERS: 2})
        assert consumer.committed(ORDERS) == 2


def test_records_of_a_poll_are_its_values(store: Store) -> None:
    with store.consumer("orders") as consumer:
        polled: Any = consumer.poll()
        with pytest.raises(AttributeError, match=r"use .values\(\), or consumer.records\(\)"):
            [record.value for record in polled]
        assert [record.value for each in polled.values() for record in each] == [b"1", b"2", b"3"]
