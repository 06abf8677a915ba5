"""Handles, producers and consumers follow a topic's partitions and settings as they change."""

import multiprocessing
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig, Store, StoreConfig
from kstore._native.format.murmur2 import partition_for_key
from kstore.errors import (
    InvalidConfigError,
    ReadOnlyError,
    UnknownTopicOrPartitionError,
)

QUIET = StoreConfig(background=False)
KEYS = [b"key %d" % number for number in range(20)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=QUIET) as opened:
        yield opened


@pytest.fixture
def reader(store: Store) -> Iterator[Store]:
    with kstore.open(store.paths, "r", config=QUIET) as opened:
        yield opened


# --- partitions -----------------------------------------------------------------------------


def test_a_handle_from_before_uses_partitions_added_later(store: Store) -> None:
    handle = store.create_topic("t", 2)
    assert store.add_partitions("t", 5) is handle
    assert (len(handle), handle.partitions) == (5, (0, 1, 2, 3, 4))
    assert [handle.append(b"v", key=key).partition for key in KEYS] == [
        partition_for_key(key, 5) for key in KEYS
    ]
    assert handle[-1].partition == 4


def test_a_custom_partitioner_survives_added_partitions(store: Store) -> None:
    handle = store.create_topic("t", 2)
    handle.partition_by(lambda key, value, count: count - 1)
    store.add_partitions("t", 3)
    assert handle.append(b"v").partition == 2


@pytest.mark.parametrize("own", [False, True])
def test_a_producer_from_before_uses_partitions_added_later(store: Store, own: bool) -> None:
    store.create_topic("t", 2)
    partitioner = (lambda key, value, count: partition_for_key(key, count)) if own else None
    with store.producer("t", linger_ms=0, partitioner=partitioner) as producer:
        producer.send(b"v", key=b"k").result(30)
        store.add_partitions("t", 5)
        found = [producer.send(b"v", key=key).result(30).partition for key in KEYS]
        assert producer.send(b"v", partition=4).result(30).partition == 4
    assert found == [partition_for_key(key, 5) for key in KEYS]


def test_a_transactional_producer_from_before_uses_partitions_added_later(store: Store) -> None:
    store.create_topic("t", 2)
    with store.transactional_producer("tx") as producer:
        with producer.transaction():
            producer.send("t", b"v", key=b"k")
        store.add_partitions("t", 5)
        with producer.transaction():
            found = [producer.send("t", b"v", key=key).partition for key in KEYS]
    assert found == [partition_for_key(key, 5) for key in KEYS]


def test_a_readers_handle_sees_what_a_writer_adds(store: Store, reader: Store) -> None:
    store.create_topic("t", 1)
    handle = reader["t"]
    store.add_partitions("t", 3)[2].append(b"v")
    assert (len(handle), handle.partitions) == (3, (0, 1, 2))
    assert [record.value for log in handle for record in log] == [b"v"]
    assert handle is reader["t"]


def _add_partitions(path: str) -> None:
    with kstore.open(path, config=QUIET) as store:
        store.add_partitions("t", 3)[2].append(b"v")


def test_a_handle_sees_what_another_process_adds(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("t", 1)
    with kstore.open(tmp_path, "r", config=QUIET) as reader:
        handle = reader["t"]
        assert len(handle) == 1
        child = multiprocessing.get_context("spawn").Process(
            target=_add_partitions, args=(str(tmp_path),)
        )
        child.start()
        child.join(60)
        assert child.exitcode == 0
        assert len(handle) == 3
        assert [record.value for record in handle[2]] == [b"v"]


def test_a_reader_lists_the_directory_only_where_it_has_changed(
    store: Store, reader: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create_topic("t", 1)
    monkeypatch.setattr(
        "kstore.files.modification_time.TICK_NS", -1
    )  # as if the directory were old
    listed = []
    scan = type(reader._files).scan
    monkeypatch.setattr(
        type(reader._files), "scan", lambda *given: listed.append(1) or scan(*given)
    )
    for _ in range(10):
        assert len(reader["t"]) == 1
    assert len(listed) == 1


def test_a_handle_of_a_deleted_topic_raises_until_the_topic_is_recreated(
    store: Store, reader: Store
) -> None:
    handle = store.create_topic("t", 2, config=LogConfig(segment_bytes=1000))
    other = reader["t"]
    store.delete_topic("t")
    for topic_handle in (handle, other):
        for use in (
            lambda topic_handle=topic_handle: len(topic_handle),
            lambda topic_handle=topic_handle: topic_handle.partitions,
            lambda topic_handle=topic_handle: list(topic_handle),
            lambda topic_handle=topic_handle: topic_handle[0],
            lambda topic_handle=topic_handle: topic_handle[-1],
            lambda topic_handle=topic_handle: topic_handle.config,
            lambda topic_handle=topic_handle: topic_handle.topic_id,
            lambda topic_handle=topic_handle: topic_handle.end_offsets(),
        ):
            with pytest.raises(UnknownTopicOrPartitionError, match="no topic 't'"):
                use()
        assert "'t'" in repr(topic_handle)
    with pytest.raises(UnknownTopicOrPartitionError):
        handle.append(b"v")
    store.create_topic("t", 3)
    assert len(handle) == len(other) == 3
    assert handle.append(b"v", partition=2) == (2, 0)
    assert [record.value for record in other[2]] == [b"v"]
    assert handle.config == LogConfig()


# --- consumers ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["a", "r"])
@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_consumer_of_a_topic_reads_partitions_added_later(
    store: Store, mode: str, reset: str
) -> None:
    """From their beginning also with ``latest``, where Kafka's consumer misses records."""
    topic = store.create_topic("t", 1)
    topic.append(b"old")
    reading = store if mode == "a" else kstore.open(store.paths, "r", config=QUIET)
    with reading.consumer(
        "t", group="g", auto_offset_reset=reset, metadata_max_age_ms=0
    ) as consumer:
        assert [len(found) for found in consumer.poll().values()] == [1] * (reset == "earliest")
        store.add_partitions("t", 2)[1].append(b"new")
        found = {tp: [r.value for r in rows] for tp, rows in consumer.poll().items()}
        assert found == {("t", 1): [b"new"]}
        assert consumer.assignment == {("t", 0), ("t", 1)}
        consumer.commit()
        assert consumer.committed(("t", 1)) == 1
    if reading is not store:
        reading.close()


def test_a_consumer_of_named_partitions_does_not_get_others(store: Store) -> None:
    store.create_topic("t", 1)
    with (
        store.consumer(assignment=[("t", 0)]) as named,
        store.consumer("t") as chosen,
    ):
        chosen.assign([("t", 0)])
        store.add_partitions("t", 2)[1].append(b"new")
        for consumer in (named, chosen):
            assert consumer.poll() == {}
            assert consumer.assignment == {("t", 0)}


def test_a_new_partition_that_the_group_reads_elsewhere_is_skipped_with_a_warning(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.create_topic("t", 1)
    with store.consumer("t", group="g") as consumer:
        store.add_partitions("t", 2)
        with store.consumer(group="g", assignment=[("t", 1)]):
            assert consumer.poll() == {}
        assert consumer.assignment == {("t", 0)}
    assert "a new partition is skipped: another consumer of group 'g'" in caplog.text


def test_a_new_partition_without_a_committed_offset_is_an_error_where_nothing_may_be_reset(
    store: Store,
) -> None:
    store.create_topic("t", 1)
    with store.consumer("t", group="g", auto_offset_reset="none") as consumer:
        consumer.seek_to_beginning()
        assert consumer.poll() == {}
        store.add_partitions("t", 2)[1].append(b"new")
        with pytest.raises(kstore.errors.OffsetOutOfRangeError, match="nothing is committed"):
            consumer.poll()


def test_a_consumer_looks_for_partitions_no_more_often_than_configured(
    store: Store, reader: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create_topic("t", 1)
    now = [0.0]
    monkeypatch.setattr("kstore.client.metadata.monotonic", lambda: now[0])
    looked: list[float] = []
    look = reader._follow_writer
    monkeypatch.setattr(reader, "_follow_writer", lambda: looked.append(now[0]) or look())
    with reader.consumer("t", metadata_max_age_ms=5000) as consumer:
        del looked[:]
        for now[0] in (0.0, 1.0, 4.9, 5.0, 9.9, 10.0):
            consumer.poll()
    assert set(looked) == {0.0, 5.0, 10.0}
    for wrong in (-1, 0.5, None):
        with pytest.raises(InvalidConfigError, match=r"metadata\.max\.age\.ms"):
            reader.consumer("t", metadata_max_age_ms=wrong)


# --- settings -------------------------------------------------------------------------------


def test_alter_changes_what_it_names_and_leaves_the_rest(store: Store, tmp_path: Path) -> None:
    topic = store.create_topic("t", config=LogConfig(segment_bytes=1000, retention_ms=5))
    log = topic[0]
    topic.alter(config={"retention.ms": "7", "max_message_bytes": 900})
    assert topic.config == LogConfig(segment_bytes=1000, retention_ms=7, max_message_bytes=900)
    assert log.config == topic.config
    store.alter_topic("t", config={"batch.size": 10}, unset=["segment.bytes", "max_message_bytes"])
    assert topic.config == log.config == LogConfig(retention_ms=7, batch_size=10)
    topic.alter()
    store.close()
    with kstore.open(tmp_path) as again:
        assert again["t"].config == LogConfig(retention_ms=7, batch_size=10)


def test_an_unset_setting_is_as_the_store_has_it(tmp_path: Path) -> None:
    defaults = StoreConfig(log=LogConfig(segment_bytes=5000), background=False)
    with kstore.open(tmp_path, config=defaults) as store:
        topic = store.create_topic("t", config=LogConfig(segment_bytes=1000))
        topic.alter(unset=["segment.bytes"])
        assert topic.config == LogConfig(segment_bytes=5000)


def test_alter_gives_a_topic_of_kafkas_an_entry_and_changes_nothing_else(store: Store) -> None:
    store.close()
    Path(store.paths[0], "foreign-0").mkdir()
    with kstore.open(store.paths, config=QUIET) as again:
        before = again["foreign"].config
        again["foreign"].alter(config={"segment.bytes": 1000})
        assert again["foreign"].config == LogConfig(segment_bytes=1000)
        assert before == LogConfig()
        assert again._catalog.is_own("foreign")


@pytest.mark.parametrize(
    ("config", "unset", "message"),
    [
        ({"retension.ms": 1}, (), r"unknown setting 'retension\.ms'; did you mean retention\.ms"),
        ({"RETENTION_MS": 1}, (), r"did you mean retention\.ms"),
        ({}, ["segment_byte"], r"unknown setting 'segment_byte'; did you mean segment\.bytes"),
        ({"xyzzy": 1}, (), r"unknown setting 'xyzzy'; known are: batch\.compression, batch\.size"),
        ({"retention.ms": 1, "retention_ms": 2}, (), r"retention\.ms is set twice"),
        ({"retention.ms": 1}, ["retention_ms"], r"retention\.ms is both set and unset"),
        ({"retention.ms": None, "retention_ms": 2}, (), r"retention\.ms is (both set|set twice)"),
        ({"segment.bytes": 1}, (), r"segment\.bytes must be a whole number"),
        ({"retention.ms": True}, (), r"retention\.ms must be a whole number"),
    ],
)
def test_alter_refuses_wrong_settings_and_changes_nothing(
    store: Store, config: dict[str, object], unset: list[str], message: str
) -> None:
    topic = store.create_topic("t", config=LogConfig(retention_ms=5))
    with pytest.raises(InvalidConfigError, match=message):
        topic.alter(config={"max.message.bytes": 900, **config}, unset=unset)
    assert topic.config == LogConfig(retention_ms=5)


def test_alter_says_what_it_takes(store: Store, reader: Store) -> None:
    topic = store.create_topic("t")
    for config, unset, message in (
        (LogConfig(), (), r"alter changes the settings that a mapping names"),
        ([("a", 1)], (), "config is a mapping of settings, not list"),
        ({1: 2}, (), "a setting is named by text, not int"),
        ({}, "retention.ms", r"unset is a list of settings' names"),
        ({}, 5, r"unset is a list of settings' names"),
    ):
        with pytest.raises(TypeError, match=message):
            topic.alter(config=config, unset=unset)
    with pytest.raises(ReadOnlyError):
        reader["t"].alter(config={"retention.ms": 1})
    with pytest.raises(UnknownTopicOrPartitionError):
        store.alter_topic("absent", config={"retention.ms": 1})


def test_logs_get_the_last_settings_where_threads_alter_at_once(store: Store) -> None:
    topic = store.create_topic("t")
    log = topic[0]
    configure, held, entered = log.configure, threading.Event(), threading.Event()

    def slowly(config: LogConfig) -> None:
        if config.retention_ms == 1 and not entered.is_set():
            entered.set()
            assert held.wait(30)
        configure(config)

    log.configure = slowly
    first = threading.Thread(target=topic.alter, kwargs={"config": {"retention.ms": 1}})
    first.start()
    assert entered.wait(30)
    topic.alter(config={"retention.ms": 2})
    held.set()
    first.join(30)
    assert log.config == topic.config == LogConfig(retention_ms=2)


def test_configure_topic_is_deprecated_and_still_replaces(store: Store) -> None:
    topic = store.create_topic("t", config=LogConfig(segment_bytes=1000))
    with pytest.warns(DeprecationWarning, match="use alter_topic") as caught:
        store.configure_topic("t", LogConfig(segment_bytes=2000))
    assert [each.filename for each in caught] == [__file__]
    assert topic.config == LogConfig(segment_bytes=2000)


def test_configure_topic_warns_where_it_drops_a_setting(store: Store) -> None:
    topic = store.create_topic("t", config=LogConfig(segment_bytes=1000, retention_ms=5))
    with (
        pytest.warns(DeprecationWarning, match="use alter_topic"),
        pytest.warns(UserWarning, match=r"topic 't'.* leaves out: segment\.bytes=1000\.") as caught,
    ):
        store.configure_topic("t", LogConfig(retention_ms=6))
    assert [each.filename for each in caught] == [__file__] * len(caught)
    assert topic.config == LogConfig(retention_ms=6)
