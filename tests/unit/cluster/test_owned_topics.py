"""A broker compacts __consumer_offsets and __transaction_state, those of Kafka too.

The records are ten years old, as in test_nothing_is_shortened: only compaction may remove some,
and never the latest of a key.
"""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kstore
from kafka_files import data_sets
from kstore.cluster.adoption import adopt_topics, plan_adoption, read_source
from kstore.cluster.local_metadata import LocalMetadata
from kstore.cluster.metadata import AlterOp
from kstore.cluster.settings.layers import BrokerConfig
from kstore.coordinator.group.offset_expiration import Retention, RetentionFacts
from kstore.coordinator.group.offset_records import (
    OffsetCommit,
    OffsetKey,
    encode_offset_key,
    encode_offset_value,
)
from kstore.coordinator.group.offsets_store import OffsetsStore
from kstore.coordinator.owned_topics import OWNED_TOPICS
from kstore.coordinator.transaction.transaction_state_records import (
    TransactionMetadata,
    TransactionState,
    encode_key,
    encode_value,
)
from kstore.coordinator.transaction.transaction_state_store import TransactionStateStore
from kstore.files.filenames import META_PROPERTIES, TOPICS_FILE
from unit.cluster.test_nothing_is_shortened import BEFORE, Before

TEN_YEARS_AGO = 1_480_000_000_000
OFFSETS, STATE = "__consumer_offsets", "__transaction_state"
COUNT = 40  # of the records of each topic, for two keys
COMPACT = {"cleanup.policy": "compact", "segment.bytes": "104857600"}
BOTH = pytest.mark.parametrize("topic", [OFFSETS, STATE])
MINUTE = 60_000


def commit(number: int) -> tuple[bytes, bytes]:
    key = OffsetKey(f"g{number % 2}", "orders", 0)
    value = OffsetCommit(number, commit_timestamp=TEN_YEARS_AGO + number)
    return encode_offset_key(key), encode_offset_value(value)


def state(number: int) -> tuple[bytes, bytes]:
    found = TransactionMetadata(
        f"id{number % 2}", number, 0, 1000, TransactionState.EMPTY, last_update_ms=TEN_YEARS_AGO
    )
    return encode_key(found.transactional_id), encode_value(found)


RECORDS: dict[str, Callable[[int], tuple[bytes, bytes]]] = {OFFSETS: commit, STATE: state}


@pytest.fixture
def of_kafka(tmp_path: Path) -> Path:
    """A broker's directory: both topics in small segments, and no settings of topics."""
    directory = tmp_path / "data"
    with kstore.open(directory) as store:
        store.create_topic("orders")
        for topic, make in RECORDS.items():
            log = store.create_topic(topic, 1, config={"segment.bytes": 300})[0]
            for number in range(COUNT):
                key, value = make(number)
                log.append(value, key=key, timestamp=TEN_YEARS_AGO + number)
    (directory / TOPICS_FILE).unlink()
    (directory / META_PROPERTIES).write_text(
        "version=1\nnode.id=3\ncluster.id=a3N0b3JlLWludGVyb3AtMQ\n"
    )
    return directory


def loaded(store: kstore.Store) -> dict[str, Any]:
    """What the coordinators load: each group's commits, each transactional id's state."""
    offsets, states = OffsetsStore(store), TransactionStateStore(store)
    found: dict[str, Any] = {}
    for partition in offsets.filled():
        for group in offsets.load(partition).names:
            found[group] = offsets.fetch(partition, group)[0]
    for partition in states.filled():
        for each in states.load(partition).states:
            found[each.transactional_id] = each
    return found


def config_of(metadata: LocalMetadata, topic: str) -> dict[str, str]:
    return dict(metadata.image.topics[topic].config)


def nothing(_metadata: LocalMetadata, _topic: str) -> None:
    pass


def served(directory: Path, topic: str, before: Before = nothing) -> dict[str, str]:
    """The topic's settings after a broker served the directory twice, with all of the cleaning."""
    for _ in range(2):
        with kstore.open(directory) as store:
            metadata = LocalMetadata(store)
            before(metadata, topic)
            store.apply_retention()
            store.compact()
            config = config_of(metadata, topic)
            metadata.close()
    return config


@BEFORE
@BOTH
def test_the_latest_record_of_each_key_stays(of_kafka: Path, topic: str, before: Before) -> None:
    served(of_kafka, topic, before)
    with kstore.open(of_kafka, mode="r") as store:
        assert (store[topic][0].start_offset, len(loaded(store))) == (0, 4)
    config = served(of_kafka, topic)  # replacing all settings has removed the policy meanwhile
    assert config.items() >= COMPACT.items()
    with kstore.open(of_kafka, mode="r") as store:
        log = store[topic][0]
        assert (log.start_offset, log.end_offset) == (0, COUNT)
        keys = [record.key for record in log]
        assert 2 <= len(keys) < COUNT / 2  # older ones went, except from the active segment
        assert len(set(keys)) == 2
        found = loaded(store)
    assert {
        name: commits["orders", 0].offset for name, commits in found.items() if "g" in name
    } == {
        "g0": COUNT - 2,
        "g1": COUNT - 1,
    }
    assert (found["id0"].producer_id, found["id1"].producer_id) == (COUNT - 2, COUNT - 1)


@BOTH
def test_a_store_without_a_broker_compacts_nothing(of_kafka: Path, topic: str) -> None:
    with kstore.open(of_kafka) as store:
        assert "no topic has cleanup.policy=compact" in str(store.compact().reason)
        assert len(list(store[topic][0])) == COUNT


@BOTH
def test_settings_are_those_of_a_topic_that_the_broker_creates(of_kafka: Path, topic: str) -> None:
    with kstore.open(of_kafka) as store:
        metadata = LocalMetadata(store)
        assert config_of(metadata, topic) == OWNED_TOPICS[topic] == COMPACT
        assert config_of(metadata, "orders") == {}
        assert store[topic][0].config.cleanup_policy == "compact"
        described = {each.name: each.value for each in metadata.describe_topic_config(topic)}
        assert described["retention.ms"] == "-1"
        assert not metadata.image.topics[topic].is_adopted  # other defaults do not apply
        metadata.close()


@BOTH
@pytest.mark.parametrize("policy", ["delete", "compact,delete", ""])
def test_a_policy_that_was_set_stays(of_kafka: Path, topic: str, policy: str) -> None:
    def set_policy(metadata: LocalMetadata, topic: str) -> None:
        metadata.alter_topic_config(topic, [(AlterOp.SET, "cleanup.policy", policy)])

    served(of_kafka, topic, set_policy)
    assert served(of_kafka, topic)["cleanup.policy"] == policy


@BOTH
def test_a_policy_that_the_stores_user_set_stays(of_kafka: Path, topic: str) -> None:
    with kstore.open(of_kafka) as store:
        store.alter_topic(topic, {"cleanup.policy": "delete"})
    assert served(of_kafka, topic) == {"cleanup.policy": "delete"}


@BOTH
def test_other_settings_stay(of_kafka: Path, topic: str) -> None:
    with kstore.open(of_kafka) as store:
        store.alter_topic(topic, {"segment.bytes": 5000, "retention.ms": 1000})
    assert served(of_kafka, topic) == {
        "cleanup.policy": "compact",
        "segment.bytes": "5000",
        "retention.ms": "1000",
    }
    with kstore.open(of_kafka, mode="r") as store:
        assert store[topic][0].start_offset == 0  # no retention


@BOTH
def test_adopting_without_a_policy_compacts(of_kafka: Path, tmp_path: Path, topic: str) -> None:
    """The broker's defaults would delete what is older than seven days."""
    (tmp_path / "topics.json").write_text(f'{{"{topic}": {{}}}}')
    source = read_source(tmp_path / "topics.json")
    with kstore.open(of_kafka, mode="r") as store:
        [planned] = plan_adoption(store, source, BrokerConfig())
        assert planned.config == COMPACT
    assert served(of_kafka, topic, lambda each, _: adopt_topics(each._store, each, source)) == (
        COMPACT
    )
    with kstore.open(of_kafka, mode="r") as store:
        assert set(loaded(store)) == {"g0", "g1", "id0", "id1"}
        assert store[topic][0].start_offset == 0


@BOTH
def test_adopted_by_an_earlier_version(of_kafka: Path, topic: str) -> None:
    with kstore.open(of_kafka) as store:
        metadata = LocalMetadata(store)
        metadata.adopt(topic, {})
        assert config_of(metadata, topic) == {}
        metadata.close()
    assert served(of_kafka, topic) == COMPACT
    with kstore.open(of_kafka, mode="r") as store:
        assert store[topic][0].start_offset == 0


def test_a_broker_starts_where_the_settings_cannot_be_written(
    of_kafka: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise kstore.StorageError("no space left")

    with kstore.open(of_kafka) as store:
        monkeypatch.setattr(store, "alter_topic", refuse)
        with caplog.at_level(logging.WARNING, "kstore"):
            metadata = LocalMetadata(store)
        assert config_of(metadata, OFFSETS) == {}
        metadata.close()
    assert f"topic {OFFSETS} is not compacted: no space left" in caplog.text
    assert f"topic {STATE} is not compacted: no space left" in caplog.text


def test_old_commits_expire_after_the_full_time_under_the_broker(of_kafka: Path) -> None:
    served(of_kafka, OFFSETS)
    with kstore.open(of_kafka) as store:
        metadata = LocalMetadata(store)
        offsets, facts = OffsetsStore(store), {"g0": RetentionFacts(True)}
        served_for = kstore.clock.now_ms() - metadata.served_since
        assert offsets.expire(0, facts, Retention(served_for + MINUTE, metadata.served_since)) == (
            set()
        )
        assert offsets.fetch(0, "g0")[0]
        assert offsets.expire(0, facts, Retention(0, metadata.served_since)) == {"g0"}
        assert not offsets.fetch(0, "g0")[0]
        metadata.close()


@pytest.mark.parametrize("name", ["kraft-3.9.2-clean", "kraft-4.3.0-clean"])
def test_of_kafkas_own_directory_nothing_is_lost(name: str, tmp_path: Path) -> None:
    root = data_sets.unpack(f"made-{name}", tmp_path)
    directory = root / "log-dir"
    shutil.copytree(directory, tmp_path / "copy")
    with kstore.open(tmp_path / "copy", mode="r") as store:
        before = loaded(store)
        counts = {each: sum(map(len, map(list, store[each]))) for each in OWNED_TOPICS}
    assert any("transaction" in each for each in before)
    assert len(before) > 2
    for _ in range(2):
        with kstore.open(directory) as store:
            metadata = LocalMetadata(store)
            for topic in OWNED_TOPICS:
                assert config_of(metadata, topic) == COMPACT
            store.apply_retention()
            store.compact(roll=True)
            assert loaded(store) == before
            metadata.close()
    with kstore.open(directory, mode="r") as store:
        assert loaded(store) == before
        for topic, count in counts.items():
            assert 0 < sum(map(len, map(list, store[topic]))) < count
            assert all(log.start_offset == 0 for log in store[topic])
