"""The metadata of one node: topics and settings of a store, as a broker changes them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kstore
from kstore.cluster.image import ZERO_UUID, ClusterImage, Endpoint
from kstore.cluster.local_metadata import LocalMetadata
from kstore.cluster.metadata import AlterOp, Metadata
from kstore.config import LogConfig, setting_text
from kstore.errors import (
    InvalidConfigError,
    PolicyViolationError,
    StorageError,
    UnknownTopicOrPartitionError,
)

WEEK_MS = 604_800_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
def metadata(store: kstore.Store) -> Iterator[LocalMetadata]:
    local = LocalMetadata(store, endpoints={"PLAINTEXT": Endpoint("127.0.0.1", 9092)})
    yield local
    local.close()


def test_local_metadata_implements_the_metadata_interface(metadata: LocalMetadata) -> None:
    port: Metadata = metadata
    assert port.node_id == 0
    broker = port.image.brokers[0]
    assert broker.endpoints == {"PLAINTEXT": Endpoint("127.0.0.1", 9092)}


def test_a_created_topic_is_in_the_image_and_in_the_store(
    store: kstore.Store, metadata: LocalMetadata
) -> None:
    topic = metadata.create_topic("orders", partitions=3, config={"segment.bytes": "1000"})
    assert metadata.image.topic_by_id(topic.topic_id) is metadata.image.topic("orders") is topic
    assert list(topic.partitions) == [0, 1, 2]
    assert topic.partitions[2].leader == 0
    assert topic.is_adopted
    assert len(store["orders"]) == 3
    assert store["orders"].config.segment_bytes == 1000


def test_validate_only_changes_nothing(store: kstore.Store, metadata: LocalMetadata) -> None:
    before = metadata.image
    planned = metadata.create_topic("orders", partitions=2, validate_only=True)
    assert len(planned.partitions) == 2
    assert metadata.image is before
    assert "orders" not in store


def test_a_topic_of_the_stores_user_appears(store: kstore.Store, metadata: LocalMetadata) -> None:
    store.create_topic("embedded", 2)
    found = metadata.image.topic("embedded")
    assert found is not None
    assert not found.is_adopted
    assert found.topic_id != ZERO_UUID


def test_a_read_of_the_image_does_not_wait(store: kstore.Store, metadata: LocalMetadata) -> None:
    store.create_topic("embedded")
    before = metadata.image
    with ThreadPoolExecutor(1) as other, metadata._lock, store._lock:
        store._catalog.changed(None)
        assert other.submit(lambda: metadata.image).result(timeout=30) is before


def test_the_image_follows_however_long_threads_have_the_lock(
    store: kstore.Store, metadata: LocalMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that releases the lock finds that another one has taken it since."""
    follow, taken = metadata._follow_store, []

    def follow_too_late() -> None:
        if not taken:
            taken.append(other.submit(metadata._lock.acquire).result(timeout=30))
        follow()

    with ThreadPoolExecutor(1) as other:
        with metadata._lock, ThreadPoolExecutor(1) as creator:
            creator.submit(store.create_topic, "embedded").result(timeout=30)
            monkeypatch.setattr(metadata, "_follow_store", follow_too_late)
            metadata._lock.on_release = follow_too_late
        assert taken == [True]
        assert metadata.image.topic("embedded") is None
        other.submit(metadata._lock.release).result(timeout=30)
        assert metadata.image.topic("embedded") is not None


def test_the_default_of_a_topic_setting_is_described_as_that(metadata: LocalMetadata) -> None:
    texts = {each.name: each.documentation for each in metadata.describe_broker_config()}
    assert "default of the topic setting retention.ms" in texts["log.retention.hours"]


def test_a_change_of_one_topic_leaves_the_images_of_others(
    store: kstore.Store, metadata: LocalMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata.create_topic("a", partitions=3)
    metadata.create_topic("b", partitions=3)
    before = metadata.image
    [list(topic.partitions.values()) for topic in before.topics.values()]  # the epochs are read
    monkeypatch.setattr("kstore.cluster.local_image._leader_epoch", None)
    metadata.alter_topic_config("a", [(AlterOp.SET, "retention.ms", "5")])
    store.create_topic("c")
    after = metadata.image
    assert after.topics["b"] is before.topics["b"]
    assert after.topics["a"] is not before.topics["a"]
    assert after.topics["a"].config == {"retention.ms": "5"}
    store.add_partitions("b", 4)
    assert len(metadata.image.topics["b"].partitions) == 4
    store.delete_topic("b")
    monkeypatch.undo()
    store.create_topic("b", 4)
    assert metadata.image.topics["b"].topic_id != after.topics["b"].topic_id


def test_callbacks_get_the_old_and_the_new_image(metadata: LocalMetadata) -> None:
    seen: list[tuple[ClusterImage, ClusterImage]] = []
    registration = metadata.on_change(lambda old, new: seen.append((old, new)))
    metadata.create_topic("one")
    registration.close()
    registration.close()
    metadata.create_topic("two")
    ((old, new),) = seen
    assert old.topic("one") is None
    assert new.topic("one") is not None


def test_a_failing_callback_does_not_undo_the_change(metadata: LocalMetadata) -> None:
    def fail(_old: ClusterImage, _new: ClusterImage) -> None:
        raise RuntimeError

    metadata.on_change(fail)
    metadata.create_topic("one")
    assert metadata.image.topic("one") is not None


def test_a_new_topic_follows_the_brokers_settings(
    store: kstore.Store, metadata: LocalMetadata
) -> None:
    metadata.create_topic("orders")
    log = store["orders"][0]
    assert log.config.retention_ms == WEEK_MS
    metadata.alter_broker_config([(AlterOp.SET, "log.retention.ms", "5000")])
    assert log.config.retention_ms == 5000
    metadata.alter_topic_config("orders", [(AlterOp.SET, "retention.ms", "-1")])
    assert log.config.retention_ms == -1
    metadata.alter_topic_config("orders", [(AlterOp.DELETE, "retention.ms", None)])
    assert log.config.retention_ms == 5000


def test_an_embedded_topic_keeps_what_it_had(store: kstore.Store, metadata: LocalMetadata) -> None:
    store.create_topic("embedded")
    metadata.alter_broker_config([(AlterOp.SET, "log.retention.ms", "5000")])
    metadata.replace_topic_config("embedded", {"segment.bytes": "1000"})
    assert store["embedded"][0].config.segment_bytes == 1000
    assert store["embedded"][0].config.retention_ms == -1
    entries = {entry.name: entry for entry in metadata.describe_topic_config("embedded")}
    assert entries["retention.ms"].value == "-1"


def test_adopting_a_topic_lets_it_follow(store: kstore.Store, metadata: LocalMetadata) -> None:
    store.create_topic("embedded")
    assert metadata.adopt("embedded").is_adopted
    assert store["embedded"][0].config.retention_ms == WEEK_MS


def test_only_topics_of_the_broker_are_deleted(
    store: kstore.Store, metadata: LocalMetadata
) -> None:
    store.create_topic("embedded")
    metadata.create_topic("orders")
    with pytest.raises(PolicyViolationError):
        metadata.delete_topic("embedded")
    metadata.delete_topic("orders")
    assert list(store) == ["embedded"]
    with pytest.raises(UnknownTopicOrPartitionError):
        metadata.delete_topic("orders")


def test_a_topic_recreated_by_a_client_follows_the_broker(
    store: kstore.Store, metadata: LocalMetadata
) -> None:
    metadata.create_topic("orders", partitions=1)
    store.delete_topic("orders")  # the broker's record of it remains
    assert metadata.create_topic("orders", partitions=1).is_adopted
    metadata.delete_topic("orders")
    assert "orders" not in store


def test_a_creation_that_is_repeated_after_a_failure_follows_the_broker(
    store: kstore.Store, metadata: LocalMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: object) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(store._catalog._creator, "_make_directories", full_disk)
        with pytest.raises(StorageError):
            metadata.create_topic("orders", partitions=1)
    assert metadata.create_topic("orders", partitions=1).is_adopted


def test_older_topics_may_be_deleted_where_the_broker_is_started_so(store: kstore.Store) -> None:
    store.create_topic("embedded")
    metadata = LocalMetadata(store, can_delete_existing=True)
    metadata.delete_topic("embedded")
    assert list(store) == []
    metadata.close()


def test_a_topic_may_ask_for_durable_acknowledgements(tmp_path: Path) -> None:
    name = "kstore.acks.durable"
    with kstore.open(tmp_path) as store:
        metadata = LocalMetadata(store, broker_config={name: "true"})
        metadata.create_topic("orders", config={name: "false"})
        assert metadata.topic_setting("orders", name) == "false"
        metadata.alter_topic_config("orders", [(AlterOp.DELETE, name, None)])
        assert metadata.topic_setting("orders", name) == "true"  # the broker's
        metadata.alter_topic_config("orders", [(AlterOp.SET, name, "false")])
        with pytest.raises(InvalidConfigError, match="true or false"):
            metadata.alter_topic_config("orders", [(AlterOp.SET, name, "yes")])
        metadata.close()
    with kstore.open(tmp_path) as store:
        metadata = LocalMetadata(store)
        topic = metadata.image.topic("orders")
        assert topic is not None
        assert topic.config == {name: "false"}
        metadata.close()


def test_settings_that_the_engine_lacks_are_kept(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        metadata = LocalMetadata(store)
        metadata.create_topic("orders", config={"min.insync.replicas": "2", "retention.ms": "-1"})
        cluster_id = metadata.image.cluster_id
        metadata.close()
    with kstore.open(tmp_path) as store:
        metadata = LocalMetadata(store)
        topic = metadata.image.topic("orders")
        assert topic is not None
        assert topic.config == {"min.insync.replicas": "2", "retention.ms": "-1"}
        assert topic.is_adopted
        assert store["orders"][0].config.retention_ms == -1
        assert metadata.topic_setting("orders", "min.insync.replicas") == "2"
        assert metadata.image.cluster_id == cluster_id
        metadata.close()


def test_a_bad_setting_changes_nothing(store: kstore.Store, metadata: LocalMetadata) -> None:
    with pytest.raises(InvalidConfigError, match="Unknown topic config name: foo"):
        metadata.create_topic("orders", config={"foo": "1"})
    assert "orders" not in store


def test_a_setting_that_equals_the_engines_default_is_stored_where_it_was_set(
    store: kstore.Store, metadata: LocalMetadata
) -> None:
    text = setting_text(LogConfig()["segment.bytes"])
    metadata.create_topic("new", config={"segment.bytes": text})
    metadata.create_topic("altered")
    metadata.alter_topic_config("altered", [(AlterOp.SET, "segment.bytes", text)])
    for name in ("new", "altered"):
        assert dict(store._catalog.set_properties(name)) == {"segment.bytes": text}
        assert metadata.image.topics[name].config == {"segment.bytes": text}
    metadata.alter_topic_config("altered", [(AlterOp.DELETE, "segment.bytes", None)])
    assert dict(store._catalog.set_properties("altered")) == {}
    assert metadata.image.topics["altered"].config == {}
