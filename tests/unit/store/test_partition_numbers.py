"""A partition's number, and how many there are: whole numbers, True and 1.0 are none."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kstore
from kstore.errors import InvalidConfigError


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with kstore.open(tmp_path) as opened:
        opened.create_topic("t", 4)
        yield opened


@pytest.mark.parametrize("count", [True, False, 0, -1, 2.0, "2", None, 10**30])
def test_a_number_of_partitions_is_refused_before_anything_is_written(
    store: kstore.Store, tmp_path: Path, count: Any
) -> None:
    settings = (tmp_path / "kstore.topics").read_bytes()
    before = sorted(os.listdir(tmp_path))
    for refused in (
        lambda: store.create_topic("new", count),
        lambda: store.create_topic("t", count, exist_ok=True),
        lambda: store.add_partitions("t", count),
    ):
        with pytest.raises(InvalidConfigError, match="1 to 1000000 partitions"):
            refused()
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "kstore.topics").read_bytes() == settings
    assert "new" not in store
    assert store.create_topic("new", 1).partitions == (0,)


def test_a_topic_id_that_is_no_text_is_refused_before_anything_is_written(
    store: kstore.Store, tmp_path: Path
) -> None:
    wrong: Any = 5
    with pytest.raises(InvalidConfigError, match="a topic id is text, not int"):
        store.create_topic("new", 1, topic_id=wrong)
    assert not (tmp_path / "new-0").exists()
    assert store.create_topic("new", 1)


def send(store: kstore.Store, partition: Any) -> Any:
    with store.producer("t") as producer:
        return producer.send(b"v", partition=partition).result(60)


def send_in_transaction(store: kstore.Store, partition: Any) -> Any:
    with store.transactional_producer("id") as producer, producer.transaction():
        return producer.send("t", b"v", partition=partition)


def assign(store: kstore.Store, partition: Any) -> Any:
    (found,) = store.consumer(assignment=[("t", partition)]).assignment
    return found


WAYS: dict[str, Callable[[kstore.Store, Any], Any]] = {
    "index": lambda store, partition: store["t"][partition],
    "append": lambda store, partition: store["t"].append(b"v", partition=partition),
    "send": send,
    "send in a transaction": send_in_transaction,
    "assign": assign,
}


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("partition", [True, 1.0, "1"])
def test_a_value_equal_to_a_number_is_no_partition(
    store: kstore.Store, way: str, partition: Any, is_open: bool
) -> None:
    if is_open:
        store["t"].append(b"first", partition=1)
    with pytest.raises(TypeError, match=f"whole number, not {type(partition).__name__}"):
        WAYS[way](store, partition)
    assert store["t"][1].end_offset == is_open


@pytest.mark.parametrize("way", WAYS)
def test_a_number_of_numpy_is_a_partition(store: kstore.Store, way: str) -> None:
    found = WAYS[way](store, np.int64(1))
    assert type(found.partition) is int
    assert found.partition == 1


def test_a_partitioner_may_return_a_bool(store: kstore.Store) -> None:
    topic = store["t"]
    topic.partition_by(lambda key, value, count: key is not None and key > b"m")
    for key, partition in ((b"a", 0), (b"z", 1)):
        position = topic.append(b"v", key=key)
        assert type(position.partition) is int
        assert position.partition == partition


@pytest.mark.parametrize("acks", [True, False])
def test_acks_is_no_boolean(store: kstore.Store, acks: bool) -> None:
    """True would be 1, which is less than the default: not on disk."""
    with pytest.raises(InvalidConfigError, match="acks must be"):
        store.producer("t", acks=acks)
    with pytest.raises(InvalidConfigError, match="acks must be"):
        store.transactional_producer("id", acks=acks)


@pytest.mark.parametrize("linger", [1e300, 10**400, float("inf")], ids=["1e300", "int", "inf"])
def test_a_producer_lingers_for_linger_ms(store: kstore.Store, linger: Any) -> None:
    """Longer than a thread can wait at once, too: the thread lives, and delivers at a flush."""
    with store.producer("t", linger_ms=linger) as producer:
        sent = producer.send(b"v", partition=0)
        producer.flush()
        assert sent.result(60) == (0, 0)


def test_no_number_of_milliseconds_is_refused(store: kstore.Store) -> None:
    for name in ("linger_ms", "max_block_ms", "buffer_memory"):
        wrong: dict[str, Any] = {name: float("nan")}
        with pytest.raises(
            InvalidConfigError, match=r"is in milliseconds, at least 0|a whole number from 1 "
        ):
            store.producer("t", **wrong)
