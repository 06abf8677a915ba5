"""Embedded consumers read up to the high watermark, as Kafka's consumers do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore import Store, StoreConfig, TopicPartition

T0 = TopicPartition("t", 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A topic whose records are replicated up to offset 1."""
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as opened:
        log = opened.create_topic("t")[0]
        log.set_high_watermark(0)
        log.extend([b"0", b"1", b"2"])
        log.set_high_watermark(1)
        yield opened


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
def test_records_above_it_are_read_when_it_rises(store: Store, level: str) -> None:
    with store.consumer(assignment=[T0], isolation_level=level, timeout=0) as consumer:
        assert [record.value for record in consumer.records()] == [b"0"]
        assert consumer.lag() == {T0: 0}
        store["t"][0].set_high_watermark(3)
        assert consumer.lag() == {T0: 2}
        assert [record.value for record in consumer.records()] == [b"1", b"2"]


def test_a_position_above_it_waits_and_is_not_reset(store: Store) -> None:
    with store.consumer(assignment=[T0], timeout=0) as consumer:
        consumer.seek(T0, 2)
        assert consumer.poll(timeout=0) == {}
        assert consumer.position(T0) == 2
        store["t"][0].set_high_watermark(3)
        assert [record.value for record in consumer.records()] == [b"2"]


def test_the_end_is_the_high_watermark(store: Store) -> None:
    with store.consumer(assignment=[T0]) as consumer:
        consumer.seek_to_end(T0)
        assert consumer.position(T0) == 1


def test_followers_read_above_it(store: Store) -> None:
    log = store["t"][0]
    assert [record.value for record in log] == [b"0", b"1", b"2"]
    assert [record.value for record in log.follow(start=0, timeout=0)] == [b"0", b"1", b"2"]
