"""Topics that existed before the broker are adopted with the settings of a source.

Every record here is ten years old, and Kafka's default retention is seven days.
"""

import json
from pathlib import Path

import pytest

import kstore
from kstore.cli import main
from kstore.cluster.adoption import adopt_topics, read_source
from kstore.cluster.local_metadata import LocalMetadata
from kstore.errors import CorruptFileError, InvalidConfigError, StorageError
from kstore.files.filenames import META_PROPERTIES, TOPICS_FILE
from support import metadata
from support.stores import snapshot

TEN_YEARS_AGO = 1_480_000_000_000
WEEK_MS = 604_800_000
SMALL = {"segment.bytes": "300"}
COUNT = 40
IDS = {"orders": "AAAAAAAAAAAAAAAAAAABAA", "kept": "AAAAAAAAAAAAAAAAAAACAA"}
FOREVER = {"retention.ms": "-1"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A broker's directory: partitions, meta.properties, and no settings of topics."""
    path = tmp_path / "data"
    with kstore.open(path) as store:
        for topic, topic_id in IDS.items():
            log = store.create_topic(topic, config=SMALL, topic_id=topic_id)[0]
            for number in range(COUNT):
                log.append(b"%020d" % number, timestamp=TEN_YEARS_AGO + number)
    (path / TOPICS_FILE).unlink()
    text = "version=1\nnode.id=3\ncluster.id=a3N0b3JlLWludGVyb3AtMQ\n"
    (path / META_PROPERTIES).write_text(text)
    return path


def write_metadata(directory: Path, *settings: bytes, ids: dict[str, str] = IDS) -> Path:
    topics = [metadata.topic(name, topic_id) for name, topic_id in ids.items()]
    metadata.write(directory, *topics, *settings)
    return directory


def write_json(tmp_path: Path, document: object) -> Path:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(document))
    return path


def served(directory: Path, source: Path) -> dict[str, tuple[int, int]]:
    """Log starts and ends after retention ran in a served directory that adopts."""
    with kstore.open(directory) as store:
        with kstore.Broker(store, port=0, adopt=source):
            store.apply_retention()
        return {topic: (store[topic][0].start_offset, store[topic][0].end_offset) for topic in IDS}


def test_a_metadata_log_gives_each_topic_its_settings(directory: Path) -> None:
    write_metadata(directory, metadata.setting("kept", "retention.ms", "-1"))
    assert served(directory, directory) == {"orders": (COUNT, COUNT), "kept": (0, COUNT)}


def test_a_file_adopts_only_its_topics(directory: Path, tmp_path: Path) -> None:
    source = write_json(tmp_path, {"orders": {"retention.ms": WEEK_MS}})
    assert served(directory, source) == {"orders": (COUNT, COUNT), "kept": (0, COUNT)}


def test_settings_of_the_clusters_brokers_keep_records(directory: Path) -> None:
    """A cluster that keeps everything by log.retention.ms=-1 must not fall to seven days."""
    write_metadata(
        directory,
        metadata.broker_setting("", "log.retention.ms", "-1"),
        metadata.broker_setting("4", "log.retention.ms", "1"),  # of another node
    )
    assert served(directory, directory) == {"orders": (0, COUNT), "kept": (0, COUNT)}


def test_a_topic_with_another_id_is_not_adopted(directory: Path) -> None:
    other = {"orders": "AAAAAAAAAAAAAAAAAAABQQ"}
    assert served(directory, write_metadata(directory, ids=other))["orders"] == (0, COUNT)


def test_what_was_set_here_stays(tmp_path: Path) -> None:
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("orders", config={"retention.ms": 5000, "segment.bytes": 1000})
        local = LocalMetadata(store)
        adopt_topics(store, local, read_source(write_json(tmp_path, {"orders": {}})))
        assert local.topic_setting("orders", "retention.ms") == "5000"
        assert local.topic_setting("orders", "segment.bytes") == "1000"
        local.close()


def test_a_second_start_leaves_later_changes(directory: Path, tmp_path: Path) -> None:
    source = read_source(write_json(tmp_path, {"orders": FOREVER}))
    with kstore.open(directory) as store:
        local = LocalMetadata(store)
        adopt_topics(store, local, source)
        local.replace_topic_config("orders", {"retention.ms": "7"})
        adopt_topics(store, local, source)
        assert local.topic_setting("orders", "retention.ms") == "7"
        local.close()


def test_an_adopted_topic_is_deleted(directory: Path, tmp_path: Path) -> None:
    source = read_source(write_json(tmp_path, {"orders": FOREVER}))
    with kstore.open(directory) as store:
        local = LocalMetadata(store)
        adopt_topics(store, local, source)
        local.delete_topic("orders")
        assert list(store) == ["kept"]
        local.close()


def test_a_setting_that_the_broker_refuses_leaves_the_topic(directory: Path) -> None:
    write_metadata(directory, metadata.setting("orders", "remote.storage.enable", "true"))
    assert served(directory, directory) == {"orders": (0, COUNT), "kept": (COUNT, COUNT)}


@pytest.mark.parametrize(
    ("document", "error"),
    [
        ([], CorruptFileError),
        ({"orders": 5}, CorruptFileError),
        ({"orders": {"retention.ms": None}}, CorruptFileError),
        ({"orders": {"retention.ms": "soon"}}, InvalidConfigError),
        ({"orders": {"retention": "5"}}, InvalidConfigError),
        ({"kept": {}, "nonesuch": {}}, InvalidConfigError),
    ],
)
def test_a_wrong_file_adopts_nothing(
    directory: Path, tmp_path: Path, document: object, error: type[Exception]
) -> None:
    source = write_json(tmp_path, document)
    with pytest.raises(error):
        served(directory, source)
    with kstore.open(directory) as store:
        local = LocalMetadata(store)
        assert not any(topic.is_adopted for topic in local.image.topics.values())
        local.close()


def test_a_missing_source_is_an_error(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        read_source(tmp_path / "none.json")
    with pytest.raises(InvalidConfigError, match="__cluster_metadata-0"):
        read_source(directory)


def test_a_dry_run_reports_and_changes_nothing(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_metadata(directory, metadata.setting("kept", "retention.ms", "-1"))
    before = snapshot(directory)
    words = ["serve", "--log-dir", str(directory), "--adopt", str(directory), "--dry-run"]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("kept: would be adopted; ")
    assert "retention.ms=-1" in lines[0]
    assert "retention.ms=604800000 (default)" in lines[1]
    assert f"orders-0: retention would delete the records before offset {COUNT}: " in lines[2]
    assert lines[-1].startswith("2 of 2 topics would be adopted; retention would delete ")
    assert snapshot(directory) == before


def test_a_dry_run_needs_a_source(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--log-dir", str(directory), "--dry-run"]) == 1
    assert "--dry-run needs --adopt" in capsys.readouterr().err
