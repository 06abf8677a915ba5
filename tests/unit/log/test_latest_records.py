"""The latest record of a key that two partitions have, and their tombstones."""

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

import kstore
from kstore import Store, StoreConfig, Topic


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as opened:
        yield opened


def latest_values(topic: Topic) -> dict[bytes, bytes | None]:
    return {key: record.value for key, record in topic.latest().items()}


@pytest.mark.parametrize("partition", [0, 1])
def test_a_tombstone_of_any_partition_counts_by_its_time(store: Store, partition: int) -> None:
    topic = store.create_topic("t", 2)
    alive, deleted = topic[1 - partition], topic[partition]
    for key, time in ((b"before", 5), (b"after", 20)):
        alive.append(b"alive", key=key, timestamp=10)
        deleted.append(None, key=key, timestamp=time)
    assert latest_values(topic) == {b"before": b"alive"}
    assert set(alive.latest()) == {b"before", b"after"}
    assert deleted.latest() == {}
    alive.append(b"again", key=b"after", timestamp=30)
    assert latest_values(topic) == {b"before": b"alive", b"after": b"again"}


def test_a_tombstone_hides_the_older_records_of_its_own_partition(store: Store) -> None:
    topic = store.create_topic("t", 2)
    topic[0].append(b"of partition 0", key=b"k", timestamp=50)
    topic[0].append(None, key=b"k", timestamp=10)  # a higher offset counts, whatever its time
    topic[1].append(b"of partition 1", key=b"k", timestamp=20)
    assert latest_values(topic) == {b"k": b"of partition 1"}
    topic[0].append(None, key=b"k", timestamp=30)
    assert latest_values(topic) == {}


def test_of_equal_times_the_last_partition_counts(store: Store) -> None:
    topic = store.create_topic("t", 2)
    topic[0].append(b"0", key=b"k", timestamp=10)
    topic[1].append(b"1", key=b"k", timestamp=10)
    topic[0].append(b"0", key=b"deleted in 1", timestamp=10)
    topic[1].append(None, key=b"deleted in 1", timestamp=10)
    topic[0].append(None, key=b"deleted in 0", timestamp=10)
    topic[1].append(b"1", key=b"deleted in 0", timestamp=10)
    assert latest_values(topic) == {b"k": b"1", b"deleted in 0": b"1"}


def test_the_result_does_not_depend_on_the_order_of_partitions(store: Store) -> None:
    for number, order in enumerate(permutations([(10, b"a"), (20, None), (30, b"c")])):
        topic = store.create_topic(f"t{number}", 3)
        for log, (time, value) in zip(topic, order, strict=True):
            log.append(value, key=b"k", timestamp=time)
        assert latest_values(topic) == {b"k": b"c"}
