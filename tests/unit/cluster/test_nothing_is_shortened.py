"""A topic that existed before the broker keeps its records, whatever the broker's defaults are.

Every record here is ten years old, and Kafka's default retention is seven days.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kstore
from kstore.cluster.local_metadata import LocalMetadata
from kstore.cluster.metadata import AlterOp, ConfigSource
from kstore.errors import PolicyViolationError
from kstore.files.filenames import META_PROPERTIES, TOPICS_FILE

TEN_YEARS_AGO = 1_480_000_000_000
SMALL = {"segment.bytes": "300"}
COUNT = 40

Before = Callable[[LocalMetadata, str], None]


def fill(store: kstore.Store, topic: str) -> None:
    for number in range(COUNT):
        store[topic][0].append(b"%020d" % number, timestamp=TEN_YEARS_AGO + number)


def offsets(store: kstore.Store, topic: str) -> tuple[int, int]:
    log = store[topic][0]
    return log.start_offset, log.end_offset


def nothing(_metadata: LocalMetadata, _topic: str) -> None:
    pass


def alter_another_key(metadata: LocalMetadata, topic: str) -> None:
    metadata.alter_topic_config(topic, [(AlterOp.SET, "max.message.bytes", "5000")])


def replace_by_another_key(metadata: LocalMetadata, topic: str) -> None:
    metadata.replace_topic_config(topic, {"max.message.bytes": "5000"})


def alter_what_the_engine_lacks(metadata: LocalMetadata, topic: str) -> None:
    metadata.replace_topic_config(topic, {"min.insync.replicas": "1"})


def delete_what_is_not_set(metadata: LocalMetadata, topic: str) -> None:
    metadata.alter_topic_config(topic, [(AlterOp.DELETE, "retention.ms", None)])


def alter_the_broker(metadata: LocalMetadata, _topic: str) -> None:
    metadata.alter_broker_config(
        [(AlterOp.SET, "log.retention.ms", "1"), (AlterOp.SET, "log.cleanup.policy", "compact")]
    )


BEFORE = pytest.mark.parametrize(
    "before",
    [
        nothing,
        alter_another_key,
        replace_by_another_key,
        alter_what_the_engine_lacks,
        delete_what_is_not_set,
        alter_the_broker,
    ],
)


@pytest.fixture
def embedded(tmp_path: Path) -> Path:
    """A directory with a topic of an embedded user."""
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("old", config=SMALL)
        fill(store, "old")
    return tmp_path / "data"


@pytest.fixture
def of_kafka(embedded: Path) -> Path:
    """A broker's directory: it has meta.properties, and no settings of topics."""
    (embedded / TOPICS_FILE).unlink()
    text = "version=1\nnode.id=3\ncluster.id=a3N0b3JlLWludGVyb3AtMQ\n"
    (embedded / META_PROPERTIES).write_text(text)
    return embedded


def served(directory: Path, before: Before, topic: str = "old") -> tuple[int, int]:
    """The log start and end after retention and compaction ran in a served directory, twice."""
    for _ in range(2):
        with kstore.open(directory) as store:
            metadata = LocalMetadata(store)
            before(metadata, topic)
            store.apply_retention()
            store.compact()
            found = offsets(store, topic)
            metadata.close()
    return found


@BEFORE
def test_an_embedded_topic_keeps_its_records(embedded: Path, before: Before) -> None:
    assert served(embedded, before) == (0, COUNT)


@BEFORE
def test_a_kafka_topic_keeps_its_records(of_kafka: Path, before: Before) -> None:
    assert served(of_kafka, before) == (0, COUNT)


def test_a_topic_of_the_broker_loses_its_old_segments(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        metadata = LocalMetadata(store)
        metadata.create_topic("new", partitions=1, config=SMALL)
        fill(store, "new")
        store.apply_retention()
        assert offsets(store, "new") == (COUNT, COUNT)
        metadata.close()


def test_a_topic_of_the_broker_follows_it_again_when_it_restarts(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        metadata = LocalMetadata(store)
        metadata.create_topic("new", partitions=1, config=SMALL)
        fill(store, "new")
        metadata.close()
    with kstore.open(tmp_path) as store:
        store.apply_retention()
        assert offsets(store, "new") == (0, COUNT)  # no broker: what was set counts
    assert served(tmp_path, nothing, "new") == (COUNT, COUNT)


def test_the_setting_itself_shortens_a_topic(embedded: Path) -> None:
    def shorten(metadata: LocalMetadata, topic: str) -> None:
        metadata.alter_topic_config(topic, [(AlterOp.SET, "retention.ms", "1000")])

    assert served(embedded, shorten) == (COUNT, COUNT)


def test_adopting_shortens_a_topic(of_kafka: Path) -> None:
    def adopt(metadata: LocalMetadata, topic: str) -> None:
        metadata.adopt(topic, SMALL)

    assert served(of_kafka, adopt) == (COUNT, COUNT)


def test_an_explicit_default_is_kept(tmp_path: Path) -> None:
    """retention.ms=-1 is kstore's own default, and not the broker's."""
    with kstore.open(tmp_path) as store:
        metadata = LocalMetadata(store)
        metadata.create_topic("new", config={**SMALL, "retention.ms": "-1"})
        fill(store, "new")
        metadata.close()
    assert served(tmp_path, nothing, "new") == (0, COUNT)


@pytest.mark.parametrize("way", ["alter", "create", "replace"])
def test_an_explicit_default_of_the_stores_user_is_kept(tmp_path: Path, way: str) -> None:
    """-1 is kstore's default; set by hand it counts over a broker's seven days."""
    forever = {"retention.ms": -1, "segment.bytes": 200}
    with kstore.open(tmp_path / "data") as store:
        metadata = LocalMetadata(store)
        metadata.create_topic("new", config={"segment.bytes": "200", "retention.ms": "86400000"})
        if way == "alter":
            store.alter_topic("new", forever)
        elif way == "create":
            store.create_topic("other", config=forever)
        else:
            with pytest.warns((DeprecationWarning, UserWarning)):
                store.configure_topic("new", kstore.LogConfig(segment_bytes=200))
        topic = "other" if way == "create" else "new"
        if way == "create":
            metadata.adopt(topic)
        fill(store, topic)
        store.apply_retention()
        assert offsets(store, topic) == (0, COUNT)
        described = {each.name: each for each in metadata.describe_topic_config(topic)}
        assert described["retention.ms"].value == "-1"
        metadata.alter_topic_config(topic, [(AlterOp.DELETE, "retention.ms", None)])
        store.apply_retention()
        assert offsets(store, topic)[0] > 0
        metadata.close()


def test_no_cleanup_policy_keeps_everything(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        metadata = LocalMetadata(store)
        metadata.create_topic("new", config={**SMALL, "cleanup.policy": ""})
        fill(store, "new")
        metadata.close()
    assert served(tmp_path, nothing, "new") == (0, COUNT)


@pytest.mark.parametrize("way", ["create", "set", "subtract"])
def test_an_empty_cleanup_policy_counts_without_the_broker_too(tmp_path: Path, way: str) -> None:
    limits = {**SMALL, "retention.ms": "1000", "retention.bytes": "1"}
    with kstore.open(tmp_path) as store:
        metadata = LocalMetadata(store)
        metadata.create_topic(
            "t", config={**limits, **({"cleanup.policy": ""} if way == "create" else {})}
        )
        if way == "set":
            metadata.alter_topic_config("t", [(AlterOp.SET, "cleanup.policy", "")])
        elif way == "subtract":
            metadata.alter_topic_config("t", [(AlterOp.SUBTRACT, "cleanup.policy", "delete")])
        fill(store, "t")
        assert store["t"].config.cleanup_policy == ""
        metadata.close()
    with kstore.open(tmp_path) as store:
        assert store["t"].config.cleanup_policy == ""
        assert store["t"].config.retention_ms == 1000
        assert store.apply_retention() == 0
        assert "cleanup.policy" in store.compact().reason
        assert offsets(store, "t") == (0, COUNT)
        with pytest.raises(PolicyViolationError):
            store["t"][0].delete_records(3)
        store["t"].alter({"cleanup.policy": "delete"})
        assert store.apply_retention() > 0


def test_a_policy_that_is_named_twice_counts_without_the_broker_too(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        metadata = LocalMetadata(store)
        twice = {**SMALL, "retention.ms": "1000", "cleanup.policy": "compact,compact"}
        metadata.create_topic("t", config=twice)
        for number in range(COUNT):
            store["t"][0].append(b"%020d" % number, key=b"%d" % number, timestamp=TEN_YEARS_AGO)
        metadata.close()
    with kstore.open(tmp_path, config={"log.cleaner.enable": False}) as store:
        assert store["t"].config.cleanup_policy == "compact,compact"
        assert store.apply_retention() == 0
        assert offsets(store, "t") == (0, COUNT)


def test_a_later_topic_of_the_name_does_not_follow(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        metadata = LocalMetadata(store)
        metadata.create_topic("new", config=SMALL)
        metadata.close()
    with kstore.open(tmp_path) as store:
        store.delete_topic("new")
        store.create_topic("new", config=SMALL)
        fill(store, "new")
    assert served(tmp_path, nothing, "new") == (0, COUNT)


@pytest.fixture
def described(of_kafka: Path) -> Iterator[dict[str, tuple[str | None, ConfigSource]]]:
    with kstore.open(of_kafka) as store:
        metadata = LocalMetadata(store)
        entries = metadata.describe_topic_config("old")
        yield {entry.name: (entry.value, entry.source) for entry in entries}
        metadata.close()


def test_the_values_that_count_are_shown(
    described: dict[str, tuple[str | None, ConfigSource]],
) -> None:
    assert described["retention.ms"] == ("-1", ConfigSource.DEFAULT)
    assert described["cleanup.policy"] == ("delete", ConfigSource.DEFAULT)
    assert described["min.insync.replicas"] == ("1", ConfigSource.DEFAULT)


def test_the_identity_of_meta_properties_counts(of_kafka: Path) -> None:
    text = (of_kafka / META_PROPERTIES).read_bytes()
    with kstore.open(of_kafka) as store:
        metadata = LocalMetadata(store)
        assert metadata.node_id == 3
        assert metadata.image.cluster_id == "a3N0b3JlLWludGVyb3AtMQ"
        assert metadata.image.topics["old"].partitions[0].leader == 3
        metadata.close()
        with pytest.raises(kstore.InvalidConfigError, match=r"node\.id is 5"):
            LocalMetadata(store, node_id=5)
    assert (of_kafka / META_PROPERTIES).read_bytes() == text
