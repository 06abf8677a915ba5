"""Habits of Python programs that work: they were guessed from README, and failed or misled."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import Store, StoreConfig
from kstore.errors import InvalidConfigError, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from kstore.hints.kafka_names import OF_NAMES_OF_GROUPS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as opened:
        opened.create_topic("orders", 2)
        yield opened


def test_a_duration_is_a_timedelta(store: Store) -> None:
    topic = store.create_topic("short", config={"retention.ms": timedelta(hours=24)})
    assert topic.config["retention.ms"] == 86_400_000
    topic.alter({"segment.ms": timedelta(microseconds=1500)})
    assert topic.config.segment_ms == 1
    with pytest.raises(InvalidConfigError, match=r"segment\.bytes must be a whole number"):
        topic.alter({"segment.bytes": timedelta(hours=1)})


def test_headers_of_a_copy_have_more_names(store: Store) -> None:
    log = store["orders"][0]
    log.append(b"v", headers=[("trace", b"1"), ("by", b"web"), ("trace", b"2")])
    headers = log[0].headers
    copy = {**headers, "error": b"bad"}
    assert copy == {"trace": b"2", "by": b"web", "error": b"bad"}


def test_following_does_not_count_from_the_end(store: Store) -> None:
    log = store["orders"][0]
    log.extend([b"v"] * 9)
    with pytest.raises(OffsetOutOfRangeError, match=r"not -5: log\.end_offset - 5 is that far"):
        log.follow(start=-5)
    assert len(list(log.follow(start=log.end_offset - 5, timeout=0))) == 5


def test_a_partition_in_place_of_a_topic_is_named(store: Store) -> None:
    advice = r"the log of its partition is store\['orders'\]\[1\]"
    wrong: Any
    for wrong in ("orders-1", ("orders", 1)):
        with pytest.raises(UnknownTopicOrPartitionError, match=advice):
            store.topic(wrong)


def test_iterating_groups_gives_names_that_say_so(store: Store) -> None:
    store.alter_group_offsets("billing", {("orders", 0): 0})
    (name,) = store.groups()
    assert name == "billing"
    for guess, advice in OF_NAMES_OF_GROUPS.items():
        with pytest.raises(AttributeError) as caught:
            getattr(name, guess)
        assert str(caught.value).endswith(advice)


def test_a_consumer_is_an_iterator_of_batches(store: Store) -> None:
    store["orders"].append(b"v", partition=0)
    store["orders"].append(b"w", partition=1)
    with store.consumer("orders", timeout=0) as consumer:
        assert isinstance(consumer, Iterator)
        assert [record.value for record in next(consumer)] == [b"v"]
        assert [record.value for batch in consumer for record in batch] == [b"w"]
        with pytest.raises(StopIteration):
            next(consumer)
        store["orders"].append(b"x", partition=0)
        assert [record.value for record in next(consumer)] == [b"x"]


def test_a_time_that_is_read_is_a_call(store: Store) -> None:
    log = store["orders"][0]
    log.append(b"v", timestamp=7)
    found: Any = log.max_timestamp
    for name in ("timestamp", "offset"):
        with pytest.raises(AttributeError, match=rf"a method, .*: use max_timestamp\(\)\.{name}$"):
            getattr(found, name)
    newest = found(isolation_level="read_committed")
    assert newest is not None
    assert (newest.timestamp, newest.offset) == (7, 0)
    assert callable(found)
    assert found.__name__ == "max_timestamp"
    with pytest.raises(TypeError, match="unexpected keyword argument 'limit'"):
        found(limit=3)
