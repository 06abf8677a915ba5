"""What callers guess of stores and topics: names, defaults, and maintenance of all partitions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig, Store, StoreConfig
from kstore.errors import (
    KStoreError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    ReadOnlyError,
    UnknownTopicOrPartitionError,
)
from support.damage import flip

QUIET = StoreConfig(background=False)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=QUIET) as opened:
        yield opened


def fill(store: Store, partitions: int = 2, **config: object) -> kstore.Topic:
    """A topic with 50 records in each partition, one a segment."""
    topic = store.create_topic("t", partitions, config={"segment.bytes": 100, **config})
    for log in topic:
        for n in range(50):
            log.append(b"%d" % n, key=b"key %d" % (n % 5), timestamp=1000 + n)
    return topic


def test_topics_are_a_list_of_names(store: Store) -> None:
    store.create_topic("b")
    store.create_topic("a")
    assert store.topics == ["a", "b"]
    assert "a" in store.topics
    assert (len(store.topics), store.topics[0], store.topics[-1:]) == (2, "a", ["b"])
    with pytest.raises(TypeError, match=r"the topic is store\['a'\]"):
        store.topics["a"]


def test_get_returns_the_default_for_an_unknown_topic(store: Store) -> None:
    fallback = store.create_topic("orders")
    assert store.get("nope") is None
    assert store.get("nope", fallback) is fallback
    assert store.get("orders") is fallback
    with pytest.raises(KeyError) as caught:
        store["order"]
    assert str(caught.value).startswith("there is no topic 'order'; did you mean 'orders'?")
    assert isinstance(caught.value, KStoreError)
    assert isinstance(caught.value, UnknownTopicOrPartitionError)


def test_a_topic_gets_more_partitions(store: Store) -> None:
    topic = store.create_topic("t")
    assert topic.add_partitions(3) is topic
    assert len(topic) == 3


def test_records_of_a_topic_are_deleted_by_partition(store: Store) -> None:
    topic = fill(store, 3)
    assert topic.delete_records({0: 10, 2: -1}) == {0: 10, 2: 50}
    assert [log.start_offset for log in topic] == [10, 0, 50]
    with pytest.raises(OffsetOutOfRangeError):
        topic.delete_records({0: 20, 1: 51})
    assert [log.start_offset for log in topic] == [10, 0, 50]
    with pytest.raises(TypeError, match="offsets differ by partition"):
        topic.delete_records(20)
    with pytest.raises(UnknownTopicOrPartitionError):
        topic.delete_records({0: 20, 3: 5})
    assert topic.delete_records(-1) == {0: 50, 1: 50, 2: 50}


def test_compacted_topics_keep_their_records(store: Store) -> None:
    topic = fill(store, 2, **{"cleanup.policy": "compact"})
    with pytest.raises(PolicyViolationError):
        topic.delete_records({0: 10})


def test_retention_of_a_topic_returns_the_segments_of_all_partitions(store: Store) -> None:
    topic = fill(store)
    assert topic.apply_retention() == 0
    topic.alter({"retention.ms": 1})
    assert topic.apply_retention() == 100
    assert [len(list(log)) for log in topic] == [0, 0]


def test_a_compaction_of_a_topic_or_store_gives_one_report(store: Store) -> None:
    topic = fill(store)
    assert store.compact().passes == 0  # no topic has the policy
    with pytest.raises(PolicyViolationError):
        topic.compact()
    topic.alter({"cleanup.policy": "compact"})
    for log in topic:
        log.roll()
    first = topic[0].compact()
    report = topic.compact()
    assert report.records_read == 50  # of partition 1; 0 is clean
    assert (report.records_kept, report.first_dirty_offset, report.end_offset) == (5, -1, -1)
    assert report.keys == first.keys
    assert [len(list(log)) for log in topic] == [5, 5]
    assert store.compact().records_read == 0
    single = store.create_topic("u", config={"cleanup.policy": "compact"})
    single[0].append(b"v", key=b"k")
    single[0].roll()
    assert single.compact().end_offset == 1  # one partition: its own report


def test_a_rewrite_of_a_topic_gives_one_report(store: Store) -> None:
    topic = fill(store)
    report = topic.recompress("gzip", force=True, roll=True)
    assert (report.segments, report.rewritten, report.ok) == (100, 100, True)
    assert topic.convert().segments == 100
    reports = topic.reindex()
    assert reports.ok
    assert reports.segments >= 100


def test_an_audit_of_a_store_or_topic_gives_one_report(store: Store, tmp_path: Path) -> None:
    topic = fill(store)
    seen = []
    report = store.verify(progress=lambda done, total: seen.append((done, total)))
    assert report.ok
    assert report.batches == topic.verify().batches == 100
    assert report.bytes == sum(log.size for log in topic)
    assert all(total == report.bytes and done <= total for done, total in seen)
    assert seen == sorted(seen)
    store.create_topic("other")
    path = tmp_path / "t-1" / f"{3:020}.log"
    flip(path, -1)
    damaged = store.verify()
    assert [each.path for each in damaged.findings] == [str(path)]
    assert not topic.verify().ok
    assert store["other"].verify().ok
    with pytest.raises(kstore.errors.CorruptRecordError):
        damaged.raise_if_corrupt()


def test_an_audit_reports_partitions_without_a_folder(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("t", 2)
        store.create_topic("u", 1)
    for each in [*(tmp_path / "t-1").iterdir()]:
        each.unlink()
    (tmp_path / "t-1").rmdir()
    with kstore.open(tmp_path, readonly=True) as store:
        lost = [str(tmp_path / "t-1")]
        assert [each.path for each in store.verify().warnings] == lost
        assert [each.path for each in store["t"].verify().warnings] == lost
        assert store["u"].verify().warning_count == 0
        with pytest.raises(ReadOnlyError):
            store.compact()
    with kstore.open(tmp_path, config=QUIET) as store:
        assert [each.path for each in store.verify().warnings] == lost
        assert store["u"].verify().warning_count == 0


def test_an_unknown_topic_is_not_verified_as_empty(store: Store) -> None:
    topic = fill(store)
    store.delete_topic("t")
    with pytest.raises(UnknownTopicOrPartitionError):
        topic.verify()


def test_a_number_beyond_the_partitions_is_an_index_error_too(store: Store) -> None:
    topic = store.create_topic("numbered", partitions=2)
    with pytest.raises(IndexError, match="has no partition 7"):
        topic[7]
    with pytest.raises(UnknownTopicOrPartitionError):
        topic[7]


def test_a_topic_that_exists_with_other_settings_is_returned_with_a_warning(store: Store) -> None:
    settings = {"retention.ms": 1, "segment.bytes": 1 << 20}
    topic = store.create_topic("kept", config=settings)
    assert store.create_topic("kept", config=settings, exist_ok=True) is topic
    assert store.create_topic("kept", exist_ok=True) is topic
    said = "'kept' exists with retention.ms=1, not 2; exist_ok=True changes no setting: topic.alter"
    for other in ({"retention.ms": 2}, LogConfig(retention_ms=2, segment_bytes=1 << 20)):
        with pytest.warns(UserWarning, match=said) as caught:
            store.create_topic("kept", config=other, exist_ok=True)
        assert [warning.filename for warning in caught] == [__file__]
    assert topic.config["retention.ms"] == 1
    assert dict(topic.config.items()) == dict(topic.config)
    assert dict(zip(topic.config.keys(), topic.config.values(), strict=True)) == dict(topic.config)
