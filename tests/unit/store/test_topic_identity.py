"""What distinguishes a topic from a later one of its name: its id, or a creation stamp."""

import json
import shutil
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig, StoreConfig
from kstore.errors import CorruptFileError, NewerFormatError, UnknownTopicIdError
from kstore.files.filenames import PARTITION_METADATA
from kstore.kafka_uuid import random_uuid

QUIET = StoreConfig(background=False)


def make_kafkas(path: Path, topic: str, topic_id: str | None = None) -> Path:
    """A partition as a broker makes it; before Kafka 2.8 topics have no id."""
    folder = path / f"{topic}-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").touch()
    if topic_id is not None:
        (folder / PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {topic_id}")
    return folder


def topics_file(path: Path) -> dict[str, object]:
    return json.loads((path / "kstore.topics").read_bytes())


def test_a_topic_without_an_id_gets_a_creation_stamp(tmp_path: Path) -> None:
    make_kafkas(tmp_path, "old")
    make_kafkas(tmp_path, "with-id", random_uuid())
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("own")
        document = topics_file(tmp_path)
        assert document["format"] == 2
        stamps = document["stamps"]
        assert list(stamps) == ["old"]
        assert list(document["topics"]) == ["own"]
        assert not store._catalog.is_own("old")
        assert store["old"].topic_id is None
        assert not (tmp_path / "old-0" / PARTITION_METADATA).exists()
    with kstore.open(tmp_path, config=QUIET) as store:
        assert topics_file(tmp_path)["stamps"] == stamps
        store.delete_topic("old", foreign=True)
        assert "stamps" not in topics_file(tmp_path)
        assert topics_file(tmp_path)["format"] == 1
    make_kafkas(tmp_path, "old")
    with kstore.open(tmp_path, config=QUIET):
        assert topics_file(tmp_path)["stamps"] != stamps


def test_a_creation_stamp_is_removed_with_its_topic_and_kept_when_the_topic_gets_an_id(
    tmp_path: Path,
) -> None:
    gone, upgraded = make_kafkas(tmp_path, "gone"), make_kafkas(tmp_path, "upgraded")
    with (
        kstore.open(tmp_path, config=QUIET),
        kstore.open(tmp_path, "r", config=QUIET) as reader,
        reader.consumer(["gone", "upgraded"], group="g") as consumer,
    ):
        consumer.commit({("gone", 0): 0, ("upgraded", 0): 0})
        stamps = topics_file(tmp_path)["stamps"]
    shutil.rmtree(gone)
    (upgraded / PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {random_uuid()}")
    with kstore.open(tmp_path, config=QUIET) as store:
        assert topics_file(tmp_path)["stamps"] == {"upgraded": stamps["upgraded"]}
        with store.consumer("upgraded", group="g") as consumer:
            assert consumer.committed(("upgraded", 0)) == 0


def test_offsets_of_a_topic_without_an_id_are_bound_to_its_stamp(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_kafkas(tmp_path, "old")
    with (
        kstore.open(tmp_path, config=QUIET),
        kstore.open(tmp_path, "r", config=QUIET) as reader,
        reader.consumer("old", group="g") as consumer,
    ):
        consumer.commit({("old", 0): 0})
    late = (tmp_path / "kstore.offsets.g").read_bytes()
    with kstore.open(tmp_path, config=QUIET) as store:
        with store.consumer("old", group="g") as consumer:
            assert consumer.committed(("old", 0)) == 0
        store.delete_topic("old", foreign=True)
    make_kafkas(tmp_path, "old")
    (tmp_path / "kstore.offsets.g").write_bytes(late)
    with kstore.open(tmp_path, config=QUIET) as store:
        assert "committed offsets dropped" in caplog.text
        with store.consumer("old", group="g") as consumer:
            assert consumer.committed(("old", 0)) is None
    assert folder.exists()


def test_topics_files_of_older_formats_are_read_and_of_newer_ones_refused(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("own", config=LogConfig(segment_bytes=1000))
    assert topics_file(tmp_path)["format"] == 1
    with kstore.open(tmp_path, config=QUIET) as store:
        assert store["own"].config == LogConfig(segment_bytes=1000)
    document = {**topics_file(tmp_path), "format": 4}
    (tmp_path / "kstore.topics").write_text(json.dumps(document))
    for mode in ("a", "r"):
        with pytest.raises(NewerFormatError):
            kstore.open(tmp_path, mode, config=QUIET)


# --- a store that is opened without one of its log directories ---------------------------------


def open_once(*paths: Path) -> None:
    with kstore.open(list(paths), config=QUIET):
        pass


def test_a_stamp_is_kept_while_the_directory_of_its_topic_is_not_open(tmp_path: Path) -> None:
    first_dir, second_dir = tmp_path / "here", tmp_path / "there"
    make_kafkas(first_dir, "near")
    make_kafkas(second_dir, "far")
    with kstore.open([first_dir, second_dir], config=QUIET) as store:
        with store.consumer("far", group="g") as consumer:
            consumer.commit({("far", 0): 0})
        identity = store._manager.identities.identity_of("far")
    for _ in range(2):
        open_once(first_dir)
        for mode in ("r", "a", "a"):
            with kstore.open([first_dir, second_dir], mode, config=QUIET) as store:
                assert store._manager.identities.identity_of("far") == identity
    assert topics_file(first_dir)["stamps"] == topics_file(second_dir)["stamps"]
    assert topics_file(first_dir)["stamps"]["far"] == identity


def test_a_topic_recreated_in_a_directory_gets_another_creation_stamp(tmp_path: Path) -> None:
    """The newer file of a directory without the topic does not keep the old one."""
    first_dir, second_dir = tmp_path / "here", tmp_path / "there"
    make_kafkas(first_dir, "near")
    folder = make_kafkas(second_dir, "far")
    open_once(first_dir, second_dir)
    stamps = topics_file(first_dir)["stamps"]
    shutil.rmtree(folder)
    open_once(second_dir)
    document = {**topics_file(first_dir), "generation": 99}
    (first_dir / "kstore.topics").write_text(json.dumps(document))
    make_kafkas(second_dir, "far")
    open_once(first_dir, second_dir)
    assert topics_file(second_dir)["stamps"]["far"] != stamps["far"]
    assert topics_file(second_dir)["stamps"]["near"] == stamps["near"]


def test_a_stamp_moves_with_its_topic_into_a_directory_with_an_older_file(tmp_path: Path) -> None:
    first_dir, second_dir = tmp_path / "here", tmp_path / "there"
    make_kafkas(second_dir, "far")
    open_once(first_dir, second_dir)
    make_kafkas(first_dir, "near")
    open_once(first_dir)
    stamp = topics_file(first_dir)["stamps"]["near"]
    with kstore.open([first_dir, second_dir], config=QUIET) as store:
        store.move("near", 0, second_dir)
        assert store._manager.identities.identity_of("near") == stamp
    open_once(first_dir)
    with kstore.open([first_dir, second_dir], config=QUIET) as store:
        assert store._manager.identities.identity_of("near") == stamp


def test_no_second_offsets_topic_is_created_while_a_directory_is_not_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first_dir, second_dir = tmp_path / "here", tmp_path / "there"
    with kstore.open(second_dir, config=QUIET) as store:
        store.create_topic("t")[0].extend([b"v"] * 3)
        with store.consumer("t", group="g") as consumer:
            consumer.commit({("t", 0): 1})
    open_once(first_dir, second_dir)
    first_dir.mkdir(exist_ok=True)
    shutil.copy(second_dir / "kstore.topics", first_dir)
    with (
        kstore.open([first_dir, second_dir], "r", config=QUIET) as reader,
        reader.consumer("t", group="g") as consumer,
    ):
        consumer.commit({("t", 0): 2})
    filed = first_dir / "kstore.offsets.g"
    assert filed.exists()
    open_once(first_dir)
    assert filed.exists()
    assert "no open log directory contains" in caplog.text
    with kstore.open([first_dir, second_dir], config=QUIET) as store:
        assert not filed.exists()
        with store.consumer("t", group="g") as consumer:
            assert consumer.committed(("t", 0)) == 2


# --- a topic that gets settings after its broker's upgrade --------------------------------------


def test_a_topic_that_gets_settings_after_its_broker_s_upgrade_is_not_another_one(
    tmp_path: Path,
) -> None:
    folder = make_kafkas(tmp_path, "old")
    with (
        kstore.open(tmp_path, "r", config=QUIET) as reader,
        reader.consumer("old", group="g") as consumer,
    ):
        assert reader._manager.identities.identity_of("old") is None
        (folder / PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {random_uuid()}")
        with kstore.open(tmp_path, config=QUIET) as store:
            store.alter_topic("old", config={"retention.ms": "1000"})
            assert store["old"].topic_id is not None
            assert "stamps" not in topics_file(tmp_path)
        consumer.commit({("old", 0): 0})
        assert consumer.committed(("old", 0)) == 0
        with kstore.open(tmp_path, config=QUIET) as store:
            store.delete_topic("old")
            store.create_topic("old")
        with pytest.raises(UnknownTopicIdError):
            consumer.commit({("old", 0): 0})


# --- a topic whose id cannot be read -------------------------------------------------------------


def test_a_topic_without_a_readable_id_does_not_keep_readers_of_a_deleted_one(
    tmp_path: Path,
) -> None:
    bad = make_kafkas(tmp_path, "bad", random_uuid())
    good = make_kafkas(tmp_path, "good", random_uuid())
    with kstore.open(tmp_path, "r", config=QUIET) as reader:
        logs = {topic: reader[topic][0] for topic in ("bad", "good")}
        assert [each.end_offset for each in logs.values()] == [0, 0]
        kept = (bad / PARTITION_METADATA).read_bytes()
        (bad / PARTITION_METADATA).write_bytes(b"version: 0\n")
        shutil.rmtree(good)
        assert list(reader) == ["bad"]
        with pytest.raises(UnknownTopicIdError):
            logs["good"].end_offset  # noqa: B018
        assert logs["bad"].end_offset == 0
        (bad / PARTITION_METADATA).write_bytes(kept)
        shutil.rmtree(bad)
        assert list(reader) == []
        with pytest.raises(UnknownTopicIdError):
            logs["bad"].end_offset  # noqa: B018


def test_a_topic_without_a_readable_id_keeps_no_other_s_committed_offsets_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = make_kafkas(tmp_path, "bad", random_uuid())
    make_kafkas(tmp_path, "good", random_uuid())
    with (
        kstore.open(tmp_path, "r", config=QUIET) as reader,
        reader.consumer(["bad", "good"], group="g") as consumer,
    ):
        consumer.commit({("bad", 0): 0, ("good", 0): 0})
    kept = (bad / PARTITION_METADATA).read_bytes()
    (bad / PARTITION_METADATA).write_bytes(b"version: 0\n")
    with (
        kstore.open(tmp_path, "r", config=QUIET) as reader,
        reader.consumer("good", group="g") as consumer,
    ):
        assert consumer.committed(("good", 0)) == 0
        consumer.commit({("good", 0): 0})
        with pytest.raises(CorruptFileError, match="topic_id expected"):
            consumer.committed(("bad", 0))
    with kstore.open(tmp_path, config=QUIET) as store:
        assert "committed offsets remain in their file" in caplog.text
        with store.consumer("good", group="g") as consumer:
            assert consumer.committed(("good", 0)) == 0
    (bad / PARTITION_METADATA).write_bytes(kept)
    with kstore.open(tmp_path, config=QUIET) as store:
        assert not (tmp_path / "kstore.offsets.g").exists()
        with store.consumer("bad", group="g") as consumer:
            assert consumer.committed(("bad", 0)) == 0
