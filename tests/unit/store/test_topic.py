"""A topic: its logs, and which of them a record goes to."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import kstore
from kstore import LogConfig, Position, Store, StoreConfig
from kstore.client.partitioner import StickyPartitioner
from kstore.errors import MessageTooLargeError, UnknownTopicOrPartitionError


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as opened:
        yield opened


def test_a_topic_is_a_sequence_of_logs(store: Store) -> None:
    topic = store.create_topic("t", 3)
    assert len(topic) == 3
    assert topic.partitions == (0, 1, 2)
    assert [log.partition for log in topic] == [0, 1, 2]
    assert topic[-1] is topic[2]
    assert topic[1] in topic
    assert object() not in topic
    assert topic[:2] == [topic[0], topic[1]]
    assert topic[-1:] == topic[2:9] == [topic[2]]
    assert topic[3:] == []
    for wrong in (3, -4):
        with pytest.raises(UnknownTopicOrPartitionError):
            topic[wrong]
    with pytest.raises(TypeError):
        topic["0"]
    assert "'t'" in repr(topic)


@pytest.mark.parametrize(
    ("key", "partition"),
    [(b"21", 0), (b"foobar", 6), (b"abc", 7), (b"a-little-bit-long-string", 2), (b"", 1)],
)
def test_keys_go_where_java_sends_them(store: Store, key: bytes, partition: int) -> None:
    topic = store.create_topic("t", 10)
    assert topic.append(b"v", key=key) == Position(partition, 0)
    record = topic[partition][0]
    assert (record.key, record.value) == (key, b"v")


def test_records_without_a_key_stay_for_a_batch(store: Store) -> None:
    topic = store.create_topic("t", 8, config=LogConfig(batch_size=1000))
    chosen = [topic.append(b"x" * 99).partition for _ in range(100)]
    runs = [chosen[start : start + 10] for start in range(0, 100, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert all(first[0] != second[0] for first, second in pairwise(runs))


def test_the_sticky_partitioner_copes_with_fewer_partitions() -> None:
    partitioner = StickyPartitioner(10**9)
    assert all(0 <= partitioner(None, b"x", count) < count for count in (50, 3, 1, 1, 2))
    assert partitioner(b"key", None, 1) == 0


def test_the_caller_may_choose(store: Store) -> None:
    topic = store.create_topic("t", 4)
    seen = []

    def by_length(key: bytes | None, value: bytes | None, count: int) -> int:
        seen.append((key, value, count))
        return len(value or b"")

    topic.partition_by(by_length)
    assert topic.append(b"xyz", key=b"k").partition == 3
    assert seen == [(b"k", b"xyz", 4)]
    with pytest.raises(UnknownTopicOrPartitionError):
        topic.append(b"long value")
    assert topic.append(b"long value", partition=1) == Position(1, 0)
    topic.partition_by(None)
    assert topic.append(b"long value", key=b"21").partition == topic.partition_for(b"21")
    with pytest.raises(UnknownTopicOrPartitionError):
        topic.append(b"x", partition=4)


def test_everything_of_a_record_is_kept(store: Store) -> None:
    topic = store.create_topic("t")
    position = topic.append(None, key=b"k", headers=[("a", b"1"), ("a", None)], timestamp=1234)
    record = topic[position.partition][position.offset]
    assert (record.key, record.value, record.timestamp) == (b"k", None, 1234)
    assert [tuple(header) for header in record.headers] == [("a", b"1"), ("a", None)]
    with pytest.raises(TypeError):
        topic.append("text")
    assert topic[0].end_offset == 1


def test_settings_are_the_topics_own(store: Store) -> None:
    topic = store.create_topic("t", config=LogConfig(max_message_bytes=100))
    assert topic.config.max_message_bytes == 100
    with pytest.raises(MessageTooLargeError):
        topic.append(b"x" * 100)
    assert topic.end_offsets() == {0: 0}
    topic.append(b"x")
    topic.flush()
    assert topic[0].recovery_point == 1
    assert topic.end_offsets() == {0: 1}


def test_a_directory_may_have_only_some_partitions(tmp_path: Path) -> None:
    for partition in (2, 5):
        (tmp_path / f"t-{partition}").mkdir()
    with kstore.open(tmp_path) as store:
        topic = store["t"]
        assert topic.partitions == (2, 5)
        assert len(topic) == 6
        assert [log.partition for log in topic] == [2, 5]
        with pytest.raises(UnknownTopicOrPartitionError):
            topic.append(b"x", partition=0)
        assert topic.append(b"x", partition=5) == Position(5, 0)
        assert topic.topic_id is None


def test_errors_for_common_mistakes_say_what_to_do(store: Store) -> None:
    topic = store.create_topic("mistakes")
    wrong: list[tuple[str, Callable[[], object]]] = [
        (r"key\.encode\(\)", lambda: topic.append(b"v", key="k")),
        (r"value\.encode\(\)", lambda: topic.append("v")),
        (r"use append", lambda: topic[0].extend(b"v")),
        (r"by its offset, not str", lambda: topic[0]["k"]),
    ]
    for sentence, call in wrong:
        with pytest.raises(TypeError, match=sentence):
            call()
    assert topic[0].end_offset == 0
    topic.append(b"v")
    assert topic[0][np.int64(0)].value == b"v"
