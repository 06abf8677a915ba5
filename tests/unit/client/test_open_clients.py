"""How consumers, producers and transactions are opened, and what wrong calls answer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import Store, StoreConfig, TopicPartition
from kstore.client.consumer import Consumer
from kstore.client.sender import Sender
from kstore.errors import (
    ClosedError,
    InvalidConfigError,
    ReadOnlyError,
    UnknownTopicOrPartitionError,
)

QUIET = StoreConfig(background=False)
ORDERS, AUDIT = TopicPartition("orders", 0), TopicPartition("audit", 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=QUIET) as opened:
        opened.create_topic("orders").append(b"paid")
        opened.create_topic("audit")
        yield opened


def committed(store: Store, topic: str) -> list[bytes | None]:
    return [record.value for record in store[topic][0].view(isolation="read_committed")]


# --- consumers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "options", "assignment"),
    [
        (("orders",), {}, {ORDERS}),
        (("orders", "audit"), {}, {ORDERS, AUDIT}),
        ((["orders", "audit"],), {}, {ORDERS, AUDIT}),
        ((), {"topics": ["orders"]}, {ORDERS}),
        ((), {"topics": "orders"}, {ORDERS}),
        (("orders",), {"assignment": [AUDIT]}, {ORDERS, AUDIT}),
        ((None,), {"assignment": [AUDIT]}, {AUDIT}),
    ],
)
def test_topics_come_first(
    store: Store, names: tuple[Any, ...], options: dict[str, Any], assignment: set[TopicPartition]
) -> None:
    with store.consumer(*names, group="billing", **options) as consumer:
        assert consumer.assignment == assignment
        assert repr(consumer).startswith("<kstore.Consumer 'billing' of ")


def test_the_group_of_an_earlier_call_is_still_read(store: Store) -> None:
    with (
        pytest.warns(DeprecationWarning, match="write group='billing'") as warned,
        store.consumer("billing", topics=["orders"]) as consumer,
    ):
        assert repr(consumer) == "<kstore.Consumer 'billing' of orders-0>"
    assert warned[0].filename == __file__
    with (
        pytest.warns(DeprecationWarning, match="write group='billing'"),
        store.consumer("billing", assignment=[ORDERS]) as consumer,
    ):
        assert repr(consumer) == "<kstore.Consumer 'billing' of orders-0>"


def test_a_call_with_two_meanings_is_refused(store: Store) -> None:
    with pytest.raises(InvalidConfigError, match=r"'audit' is a topic: write consumer\(group="):
        store.consumer("audit", assignment=[ORDERS])


@pytest.mark.parametrize("names", [("billing",), ("orders", "billing"), (["billing"],)])
def test_a_group_where_a_topic_belongs(store: Store, names: tuple[Any, ...]) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="write group='billing'"):
        store.consumer(*names)


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"auto_offset_resets": "latest"}, "use auto_offset_reset"),
        ({"consumer_timeout_ms": 100}, "use timeout, in seconds"),
        ({"enable_auto_commit": True}, "`with batch:`, which commits"),
        ({"bootstrap_servers": "localhost"}, "a store needs no broker"),
        ({"value_deserializer": bytes}, r"json.loads\(record.value\), record.value.decode\(\)"),
        ({"session_timeout_ms": 10_000}, "and needs none: a store's consumer reads the files"),
        ({"client_id": "one"}, "a consumer or producer of a store has no name"),
        ({"xyz": 1}, "use one of group, topics, assignment, auto_offset"),
    ],
)
def test_an_unknown_setting_is_an_error_with_the_right_one(
    store: Store, options: dict[str, Any], advice: str
) -> None:
    with pytest.raises(TypeError, match=advice):
        store.consumer("orders", **options)


def test_unknown_settings_of_producers(store: Store) -> None:
    for open_client in (store.producer, store.transactional_producer):
        with pytest.raises(TypeError, match=r"producer\(\) has no setting 'compresion'"):
            open_client("orders", compresion="zstd")
    with (
        pytest.raises(TypeError, match="use timeout_ms"),
        store.transaction("id", transaction_timeout_ms=1),
    ):
        pass


# --- transactions -----------------------------------------------------------------------------


def test_a_transaction_commits_at_the_end_of_its_block(store: Store) -> None:
    with store.transaction("billing") as transaction:
        transaction.send("orders", b"one")
        transaction.send("audit", b"two")
        assert committed(store, "audit") == []
    assert committed(store, "orders") == [b"paid", b"one"]
    assert committed(store, "audit") == [b"two"]
    assert "closed" in repr(transaction)


def test_a_transaction_is_aborted_when_its_block_raises(store: Store) -> None:
    def fail() -> None:
        with store.transaction("billing") as transaction:
            transaction.send("orders", b"one")
            transaction.flush()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert committed(store, "orders") == [b"paid"]
    assert store["orders"][0].last_stable_offset == store["orders"][0].end_offset
    with store.transaction("billing", timeout_ms=5000, acks=1) as transaction:
        transaction.send("orders", b"two")
    assert committed(store, "orders") == [b"paid", b"two"]


def test_a_reader_has_no_transactions(store: Store, tmp_path: Path) -> None:
    with kstore.open(tmp_path, "r") as reader:
        with pytest.raises(ReadOnlyError), reader.transaction("billing"):
            pass
        with pytest.raises(ReadOnlyError):
            reader.producer("orders")


# --- while the store closes -------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["orders", None])
def test_a_producer_that_is_opened_while_the_store_closes_is_closed(
    store: Store, topic: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Sender] = []
    begin = Sender.start

    def start(sender: Sender) -> None:
        made.append(sender)
        begin(sender)
        store.close()  # by another thread, say

    monkeypatch.setattr(Sender, "start", start)
    with pytest.raises(ClosedError):
        store.producer(topic)
    assert [(sender.closed, sender._thread.is_alive()) for sender in made] == [(True, False)]


def test_a_consumer_that_is_opened_while_the_store_closes_is_closed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Consumer] = []
    begin = Consumer.__init__

    def start(consumer: Consumer, *arguments: Any, **settings: Any) -> None:
        begin(consumer, *arguments, **settings)
        made.append(consumer)
        store.close()

    monkeypatch.setattr(Consumer, "__init__", start)
    with pytest.raises(ClosedError):
        store.consumer("orders")
    with pytest.raises(ClosedError):
        made[0].poll(timeout=0)
