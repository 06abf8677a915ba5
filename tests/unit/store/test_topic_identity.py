"""What tells a topic from a later one of its name: its id, or a creation stamp."""

import json
import shutil
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig, StoreConfig
from kstore.checkpoint.identity import random_uuid
from kstore.errors import NewerFormatError
from kstore.files.filenames import PARTITION_METADATA

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


def test_a_stamp_goes_where_its_topic_is_gone_and_stays_where_it_got_an_id(tmp_path: Path) -> None:
    gone, upgraded = make_kafkas(tmp_path, "gone"), make_kafkas(tmp_path, "upgraded")
    with (
        kstore.open(tmp_path, config=QUIET),
        kstore.open(tmp_path, "r", config=QUIET) as reader,
        reader.consumer("g", topics=["gone", "upgraded"]) as consumer,
    ):
        consumer.commit({("gone", 0): 0, ("upgraded", 0): 0})
        stamps = topics_file(tmp_path)["stamps"]
    shutil.rmtree(gone)
    (upgraded / PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {random_uuid()}")
    with kstore.open(tmp_path, config=QUIET) as store:
        assert topics_file(tmp_path)["stamps"] == {"upgraded": stamps["upgraded"]}
        with store.consumer("g", topics=["upgraded"]) as consumer:
            assert consumer.committed(("upgraded", 0)) == 0


def test_offsets_of_a_topic_without_an_id_are_bound_to_its_stamp(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_kafkas(tmp_path, "old")
    with (
        kstore.open(tmp_path, config=QUIET),
        kstore.open(tmp_path, "r", config=QUIET) as reader,
        reader.consumer("g", topics=["old"]) as consumer,
    ):
        consumer.commit({("old", 0): 0})
    late = (tmp_path / "kstore.offsets.g").read_bytes()
    with kstore.open(tmp_path, config=QUIET) as store:
        with store.consumer("g", topics=["old"]) as consumer:
            assert consumer.committed(("old", 0)) == 0
        store.delete_topic("old", foreign=True)
    make_kafkas(tmp_path, "old")
    (tmp_path / "kstore.offsets.g").write_bytes(late)
    with kstore.open(tmp_path, config=QUIET) as store:
        assert "committed offsets dropped" in caplog.text
        with store.consumer("g", topics=["old"]) as consumer:
            assert consumer.committed(("old", 0)) is None
    assert folder.exists()


def test_topics_files_of_older_formats_are_read_and_of_newer_ones_refused(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("own", config=LogConfig(segment_bytes=1000))
    assert topics_file(tmp_path)["format"] == 1
    with kstore.open(tmp_path, config=QUIET) as store:
        assert store["own"].config == LogConfig(segment_bytes=1000)
    document = {**topics_file(tmp_path), "format": 3}
    (tmp_path / "kstore.topics").write_text(json.dumps(document))
    for mode in ("a", "r"):
        with pytest.raises(NewerFormatError):
            kstore.open(tmp_path, mode, config=QUIET)
