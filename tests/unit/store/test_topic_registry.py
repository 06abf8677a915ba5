"""Log directories and the topics in them, without opening a log."""

import json
import logging
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from kstore.checkpoint.log_dir import LogDir
from kstore.checkpoint.topics_file import CREATING
from kstore.config import LogConfig
from kstore.errors import (
    CorruptFileError,
    InvalidConfigError,
    InvalidTopicError,
    NewerFormatError,
    PolicyViolationError,
    StorageError,
    StoreLockedError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from kstore.files.filenames import TOPICS_FILE
from kstore.files.files import DISK, Files
from kstore.store.remove_tree import remove_tree
from kstore.store.topic_creation import TopicToCreate
from kstore.store.topic_registry import TopicRegistry
from support.disks import FaultyDisk

EVERYTHING = LogConfig(
    message_format_version="0.10.0",
    segment_bytes=1 << 20,
    segment_ms=1000,
    segment_jitter_ms=3,
    segment_index_bytes=4096,
    preallocate=True,
    index_interval_bytes=1,
    max_message_bytes=77,
    retention_ms=5,
    retention_bytes=6,
    cleanup_policy="compact,delete",
    file_delete_delay_ms=0,
    flush_messages=9,
    flush_ms=10,
    compression_type="zstd",
    message_timestamp_type="LogAppendTime",
    message_timestamp_before_max_ms=11,
    message_timestamp_after_max_ms=12,
    producer_id_expiration_ms=14,
    min_cleanable_dirty_ratio=0.25,
    min_compaction_lag_ms=15,
    max_compaction_lag_ms=16,
    delete_retention_ms=17,
    batch_size=13,
    batch_compression="lz4",
)
TOPIC_ID = "AAAAAAAAQACAAAAAAAAAqg"


def catalog(*paths: Path, files: Files = DISK, writable: bool = False) -> TopicRegistry:
    dirs = [LogDir(files, str(path), writable=writable) for path in paths]
    return TopicRegistry(dirs, LogConfig())


def snapshot(path: Path) -> dict[str, bytes]:
    return {
        str(each.relative_to(path)): each.read_bytes() if each.is_file() else b""
        for each in path.rglob("*")
    }


# --- topics come and go ---------------------------------------------------------------------


def test_a_created_topic_has_directories_an_id_and_an_entry(tmp_path: Path) -> None:
    registry = catalog(tmp_path)
    registry.create("orders", 3, LogConfig(retention_ms=1000), None)
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "kstore.topics",
        "orders-0",
        "orders-1",
        "orders-2",
    ]
    ids = {(tmp_path / f"orders-{n}" / "partition.metadata").read_text() for n in range(3)}
    assert ids == {f"version: 0\ntopic_id: {registry.topic_id('orders')}"}
    document = json.loads((tmp_path / TOPICS_FILE).read_bytes())
    assert document["topics"]["orders"]["config"] == {"retention.ms": "1000"}
    assert "state" not in document["topics"]["orders"]


def test_every_setting_comes_back(tmp_path: Path) -> None:
    changed = [
        name
        for name in LogConfig.__dataclass_fields__
        if getattr(EVERYTHING, name) == getattr(LogConfig(), name)
    ]
    assert changed == []  # or this test does not see a setting
    catalog(tmp_path).create("t", 1, EVERYTHING, TOPIC_ID)
    again = catalog(tmp_path)
    assert again.config("t") == EVERYTHING
    assert again.topic_id("t") == TOPIC_ID
    again.configure("t", LogConfig(segment_ms=8))
    assert catalog(tmp_path).config("t") == LogConfig(segment_ms=8)


def test_partitions_go_where_the_fewest_are(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for path in (first, second):
        path.mkdir()
    for number in range(3):
        (first / f"old-{number}").mkdir()
    (first / "gone-0.0123456789abcdef0123456789abcdef-delete").mkdir()
    catalog(first, second).create("t", 6, None, None)
    assert len(list(first.glob("t-*"))) == 1
    assert len(list(second.glob("t-*"))) == 5
    assert (first / TOPICS_FILE).read_bytes() == (second / TOPICS_FILE).read_bytes()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ü", "x" * 250, "a b"])
def test_bad_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidTopicError):
        catalog(tmp_path).create(name, 1, None, None)
    assert list(tmp_path.iterdir()) == []


def test_names_collide_as_in_kafka(tmp_path: Path) -> None:
    registry = catalog(tmp_path)
    registry.create("a.b", 1, None, None)
    with pytest.raises(InvalidTopicError):
        registry.create("a_b", 1, None, None)
    with pytest.raises(TopicExistsError) as caught:
        registry.create("a.b", 1, None, None)
    assert caught.value.code == 36


@pytest.mark.parametrize("count", [0, -1, 1.5, 10**9])
def test_a_partition_count_out_of_range_is_refused(tmp_path: Path, count: int) -> None:
    with pytest.raises(InvalidConfigError):
        catalog(tmp_path).create("t", count, None, None)


@pytest.mark.parametrize("topic_id", ["short", "A" * 22, "AAAAAAAAAAAAAAAAAAAAAQ", "!" * 22])
def test_topic_ids_are_kafkas(tmp_path: Path, topic_id: str) -> None:
    with pytest.raises(InvalidConfigError):
        catalog(tmp_path).create("t", 1, None, topic_id)
    assert list(tmp_path.iterdir()) == []


def delete(registry: TopicRegistry, topic: str) -> None:
    registry.begin_delete(topic)
    registry.retire(topic)
    registry.finish_delete(topic)


def test_deletion_leaves_nothing(tmp_path: Path) -> None:
    registry = catalog(tmp_path)
    registry.create("keep", 1, None, None)
    before = snapshot(tmp_path)
    registry.create("t", 2, None, None)
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(b"x")
    delete(registry, "t")
    assert snapshot(tmp_path).keys() > before.keys()  # folders with the suffix -delete
    for folder in tmp_path.glob("t-*"):
        remove_tree(DISK, str(folder))
    assert snapshot(tmp_path).keys() == before.keys()
    assert list(registry.topics) == ["keep"]
    with pytest.raises(UnknownTopicOrPartitionError):
        registry.check_deletable("t", foreign=True)


def test_a_foreign_topic_is_not_deleted_by_mistake(tmp_path: Path) -> None:
    (tmp_path / "kafka-0").mkdir()
    registry = catalog(tmp_path)
    with pytest.raises(PolicyViolationError):
        registry.check_deletable("kafka", foreign=False)
    registry.check_deletable("kafka", foreign=True)
    delete(registry, "kafka")
    assert not (tmp_path / "kafka-0").exists()


def test_a_foreign_topic_ignores_the_stores_retention_and_cleanup_policy(tmp_path: Path) -> None:
    (tmp_path / "kafka-0").mkdir()
    dirs = [LogDir(DISK, str(tmp_path), writable=False)]
    default = LogConfig(retention_ms=1, retention_bytes=1, cleanup_policy="compact", segment_ms=5)
    config = TopicRegistry(dirs, default).config("kafka")
    assert (config.retention_ms, config.retention_bytes) == (-1, -1)
    assert config.cleanup_policy == "delete"
    assert config.segment_ms == 5


class Failing(Files):
    """Fails at the n-th change of names."""

    def __init__(self, fail_at: int) -> None:
        self.left = fail_at

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise StorageError("no", errno=5)

    def make_directory(self, path: object) -> None:
        self._count()
        super().make_directory(path)

    def rename(self, source: object, target: object) -> None:
        self._count()
        super().rename(source, target)

    def remove_directory(self, path: object) -> None:
        self._count()
        super().remove_directory(path)


@pytest.mark.parametrize("fail_at", range(1, 12))
def test_an_interrupted_creation_is_completed_when_it_resumes(tmp_path: Path, fail_at: int) -> None:
    try:
        catalog(tmp_path, files=Failing(fail_at)).create("t", 3, None, TOPIC_ID)
    except StorageError:
        complete = False
    else:
        complete = True
    registry = catalog(tmp_path)
    registry.resume()
    if complete or "t" in registry.topics:
        assert sorted(registry.topics["t"]) == [0, 1, 2]
        assert registry.topic_id("t") == TOPIC_ID
        assert catalog(tmp_path).configured() == ["t"]
    else:
        assert fail_at == 1  # not even the intent was written
        assert registry.configured() == []


OTHER_ID = "BBBBBBBBQBCBBBBBBBBBqg"


@pytest.mark.parametrize("stays_full", [False, True], ids=["once", "while undoing"])
@pytest.mark.parametrize("fail_at", range(40))
def test_a_creation_on_a_full_disk_leaves_the_name_available(
    tmp_path: Path, fail_at: int, stays_full: bool
) -> None:
    """A broker's next attempt has another topic id."""
    disk = FaultyDisk()
    registry = catalog(tmp_path, files=disk)
    disk.arm(fail_at, lambda: StorageError("no space", errno=28), sticky=stays_full)
    try:
        registry.create("t", 3, None, TOPIC_ID)
    except StorageError:
        disk.arm(-1, AssertionError)
        started = catalog(tmp_path)
        started.resume()  # a start in between does not fail
        if "t" in started.topics:
            assert started.topic_id("t") == TOPIC_ID
            return
        registry.create("t", 2, None, OTHER_ID)
        assert registry.topic_id("t") == OTHER_ID
        assert sorted(registry.topics["t"]) == [0, 1]
    else:
        assert fail_at >= len(disk.calls)
    assert sorted(path.name for path in tmp_path.glob("t-*")) in (
        ["t-0", "t-1"],
        ["t-0", "t-1", "t-2"],
    )


@pytest.mark.parametrize("stays_full", [False, True], ids=["once", "while undoing"])
@pytest.mark.parametrize("fail_at", range(30))
def test_a_failed_extension_changes_nothing(tmp_path: Path, fail_at: int, stays_full: bool) -> None:
    disk = FaultyDisk()
    registry = catalog(tmp_path, files=disk)
    registry.create("t", 2, None, TOPIC_ID)
    (tmp_path / "t-1" / "00000000000000000000.log").write_bytes(b"records")
    disk.arm(fail_at, lambda: StorageError("no space", errno=28), sticky=stays_full)
    try:
        registry.grow("t", 4)
    except StorageError:
        count = registry.partition_count("t")
        assert sorted(registry.topics["t"]) == [*range(count)]
        if count == 4:  # the last sync failed
            return
        assert count == 2
        if not stays_full:
            assert sorted(path.name for path in tmp_path.glob("t-*")) == ["t-0", "t-1"]
            entry = catalog(tmp_path).settings.get("t")
            assert (entry.partitions, entry.state) == (2, "live")
        disk.arm(-1, AssertionError)
        registry.grow("t", 3)
        assert sorted(path.name for path in tmp_path.glob("t-*")) == ["t-0", "t-1", "t-2"]
        assert registry.partition_count("t") == 3
    else:
        assert fail_at >= len(disk.calls)
    assert (tmp_path / "t-1" / "00000000000000000000.log").read_bytes() == b"records"


class FullDisk(Files):
    native = False
    is_full = True

    def write_atomically(self, path, data):
        if self.is_full:
            raise StorageError("no space", errno=28, path=path)
        super().write_atomically(path, data)


def test_a_full_disk_at_an_unfinished_extension_does_not_prevent_opening(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    registry = catalog(tmp_path)
    registry.create("t", 2, None, TOPIC_ID)
    registry.create("other", 1, None, OTHER_ID)
    entry = registry.settings.get("t")
    registry.settings.put("t", replace(entry, partitions=4, state=CREATING))  # and a kill
    disk = FullDisk()
    started = catalog(tmp_path, files=disk)
    started.resume()
    assert "topic t: its creation cannot be finished" in caplog.text
    assert started.partition_count("t") == len(started.topics["t"])
    assert {0, 1} <= started.topics["t"].keys()
    disk.is_full = False
    started.grow("t", 4)
    assert sorted(catalog(tmp_path).topics["t"]) == [0, 1, 2, 3]


@pytest.mark.parametrize("is_killed", [False, True], ids=["full", "killed"])
@pytest.mark.parametrize("fail_at", range(64))
def test_each_of_several_topics_is_created_completely_or_not_at_all(
    tmp_path: Path, fail_at: int, is_killed: bool
) -> None:
    disk = FaultyDisk()
    registry = catalog(tmp_path, files=disk)
    registry.create("before", 1, None, None)
    wanted = {"a": (2, TOPIC_ID), "b": (1, OTHER_ID), "c": (2, None)}
    disk.calls.clear()
    kind = KeyboardInterrupt if is_killed else partial(StorageError, "no space", errno=28)
    disk.arm(fail_at, kind)
    try:
        errors = registry.create_all(
            [TopicToCreate(name, count, None, given) for name, (count, given) in wanted.items()]
        )
    except (StorageError, KeyboardInterrupt):
        errors = None
    if errors is not None:
        assert wanted.keys() - errors.keys() == registry.topics.keys() - {"before"}
        assert not is_killed or fail_at >= len(disk.calls)
    disk.arm(-1, AssertionError)
    started = catalog(tmp_path)
    started.resume()
    for name, (count, given) in wanted.items():
        folders = sorted(path.name for path in tmp_path.glob(f"{name}-*"))
        if name in started.topics:
            assert folders == [f"{name}-{n}" for n in range(count)]
            assert given in (None, started.topic_id(name))
        else:
            assert folders == []
            assert errors is None or name in errors
    assert "before" in started.topics


def test_several_topics_are_two_writes_of_the_file(tmp_path: Path) -> None:
    disk = FaultyDisk()
    registry = catalog(tmp_path, files=disk)
    disk.calls.clear()
    wanted = [TopicToCreate(f"t.{n}", 1) for n in range(50)]
    errors = registry.create_all([*wanted, TopicToCreate("t_7", 1), TopicToCreate("t.3", 1)])
    assert isinstance(errors.pop("t_7"), InvalidTopicError)
    assert isinstance(errors.pop("t.3"), TopicExistsError)
    assert not errors
    assert len(registry.topics) == 50
    assert registry.settings.generation == 2


def test_a_second_attempt_with_another_id_replaces_a_half_made_topic(tmp_path: Path) -> None:
    disk = FaultyDisk()
    registry = catalog(tmp_path, files=disk)
    registry.create("first", 1, None, None)
    disk.arm(15, lambda: StorageError("no space", errno=28), sticky=True)
    with pytest.raises(StorageError):
        registry.create("t", 3, None, TOPIC_ID)
    assert list(tmp_path.glob("t-*"))  # nothing could be removed either
    disk.arm(-1, AssertionError)
    registry.create("t", 2, None, OTHER_ID)
    reopened = catalog(tmp_path)
    reopened.resume()
    assert sorted(reopened.topics["t"]) == [0, 1]
    assert reopened.topic_id("t") == OTHER_ID


def test_directories_with_another_id_do_not_prevent_opening(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As two attempts with different ids have left it before: the directories' id counts."""
    catalog(tmp_path).create("good", 1, None, None)
    disk = FaultyDisk()
    disk.arm(15, lambda: StorageError("no space", errno=28), sticky=True)
    with pytest.raises(StorageError):
        catalog(tmp_path, files=disk).create("t", 3, None, TOPIC_ID)
    path = tmp_path / TOPICS_FILE
    path.write_text(path.read_text().replace(TOPIC_ID, OTHER_ID))
    registry = catalog(tmp_path)
    registry.resume()
    assert sorted(registry.topics["t"]) == [0, 1, 2]
    assert registry.topic_id("t") == TOPIC_ID
    assert "the former counts" in caplog.text


def test_a_creation_that_cannot_be_finished_does_not_prevent_opening(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalog(tmp_path).create("good", 1, None, None)
    disk = FaultyDisk()
    disk.arm(15, lambda: StorageError("no space", errno=28), sticky=True)
    with pytest.raises(StorageError):
        catalog(tmp_path, files=disk).create("t", 3, None, TOPIC_ID)
    (tmp_path / "t-1").mkdir(exist_ok=True)
    (tmp_path / "t-1" / "partition.metadata").write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    registry = catalog(tmp_path)
    registry.resume()
    assert "its creation cannot be finished" in caplog.text
    assert sorted(registry.topics["good"]) == [0]


@pytest.mark.parametrize("fail_at", range(1, 5))
def test_an_interrupted_deletion_is_completed_when_it_resumes(tmp_path: Path, fail_at: int) -> None:
    catalog(tmp_path).create("t", 2, None, None)
    try:
        delete(catalog(tmp_path, files=Failing(fail_at)), "t")
    except StorageError:
        begun = fail_at > 1
    else:
        begun = True
    registry = catalog(tmp_path)
    registry.resume()
    assert ("t" in registry.topics) is not begun
    assert bool(list(tmp_path.glob("t-?"))) is not begun
    assert len(registry.folders_to_remove()) == begun


# --- what stands in a directory ---------------------------------------------------------------


def test_unrecognized_directories_are_listed_and_not_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("lost+found", "t-0", "t-1.x-future", "remote-log-index-cache", "t-01", "a-b"):
        (tmp_path / name).mkdir()
    (tmp_path / "__cluster_metadata-0").mkdir()
    (tmp_path / "plain-0").write_bytes(b"a file")
    before = snapshot(tmp_path)
    with caplog.at_level(logging.WARNING, "kstore"):
        registry = catalog(tmp_path)
    assert [Path(each).name for each in registry.unrecognized] == ["a-b", "lost+found", "t-01"]
    assert len([r for r in caplog.records if "not a partition directory" in r.message]) == 3
    assert list(registry.topics) == ["t"]
    assert snapshot(tmp_path) == before


def test_one_partition_in_two_directories_is_an_error(tmp_path: Path) -> None:
    for each in ("a", "b"):
        (tmp_path / each / "t-3").mkdir(parents=True)
    with pytest.raises(CorruptFileError) as caught:
        catalog(tmp_path / "a", tmp_path / "b")
    assert caught.value.path == str(tmp_path / "b" / "t-3")


def test_unknown_names_bring_close_ones(tmp_path: Path) -> None:
    registry = catalog(tmp_path)
    registry.create("orders", 1, None, None)
    with pytest.raises(UnknownTopicOrPartitionError) as caught:
        registry.log_dir_of("order", 0)
    assert "'orders'" in caught.value.reason
    with pytest.raises(UnknownTopicOrPartitionError):
        registry.log_dir_of("orders", 1)


# --- kstore.topics ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        '{"format": "1"}',
        '{"format": 1}',
        '{"format": 0, "generation": 1, "topics": {}}',
        '{"format": 1, "generation": 0, "topics": {}}',
        '{"format": 1, "generation": 1, "topics": []}',
    ],
)
def test_a_damaged_topics_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / TOPICS_FILE).write_text(text)
    with pytest.raises(CorruptFileError) as caught:
        catalog(tmp_path)
    assert caught.value.path == str(tmp_path / TOPICS_FILE)


@pytest.mark.parametrize(
    "body",
    [
        "1",
        "{}",
        '{"partitions": 0, "config": {}}',
        '{"partitions": 1, "config": {"segment.bytes": "few"}}',
        '{"partitions": 1, "config": {"segment.bytes": {}}}',
        '{"partitions": 1, "config": {"no.such": "1"}}',
        '{"partitions": 1, "config": {}, "state": "odd"}',
    ],
)
def test_a_damaged_entry_is_named_when_it_is_used(tmp_path: Path, body: str) -> None:
    (tmp_path / "t-0").mkdir()
    text = f'{{"format": 1, "generation": 1, "topics": {{"t": {body}}}}}'
    (tmp_path / TOPICS_FILE).write_text(text)
    registry = catalog(tmp_path)
    with pytest.raises(CorruptFileError) as caught:
        registry.config("t")
    assert caught.value.path == str(tmp_path / TOPICS_FILE)


def test_a_newer_topics_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / TOPICS_FILE).write_text('{"format": 4, "anything": "else"}')
    with pytest.raises(NewerFormatError):
        catalog(tmp_path)


def test_the_newest_of_several_topics_files_counts(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for path in (first, second):
        path.mkdir()
    registry = catalog(first, second)
    registry.create("t", 1, LogConfig(segment_ms=1), None)
    stale = (second / TOPICS_FILE).read_bytes()
    registry.configure("t", LogConfig(segment_ms=2))
    (second / TOPICS_FILE).write_bytes(stale)
    assert catalog(first, second).config("t").segment_ms == 2
    (first / TOPICS_FILE).write_bytes(stale)
    assert catalog(first, second).config("t").segment_ms == 1


# --- a log directory's lock and marker ----------------------------------------------------------


def test_a_directory_has_one_writer(tmp_path: Path) -> None:
    held = LogDir(DISK, str(tmp_path / "deep" / "er"), writable=True)
    code = (
        "import sys\nfrom kstore.checkpoint.log_dir import LogDir\n"
        "from kstore.files.files import DISK\n"
        "LogDir(DISK, sys.argv[1], writable=False)\nLogDir(DISK, sys.argv[1], writable=True)"
    )
    run = [sys.executable, "-c", code, held.path]
    found = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 1
    assert "StoreLockedError" in found.stderr
    assert held.path in found.stderr
    with pytest.raises(StoreLockedError):
        LogDir(DISK, held.path, writable=True)
    held.release()
    assert subprocess.run(run, capture_output=True, timeout=60, check=False).returncode == 0


def test_a_reader_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / ".kafka_cleanshutdown").write_text("{}")
    before = snapshot(tmp_path)
    reader = LogDir(DISK, str(tmp_path), writable=False)
    assert reader.clean
    reader.begin()
    reader.finish(clean=True)
    assert snapshot(tmp_path) == before
    with pytest.raises(StorageError):
        catalog(tmp_path / "missing")
    assert snapshot(tmp_path) == before


def test_the_marker_is_removed_before_the_first_log_opens_and_written_back_unchanged(
    tmp_path: Path,
) -> None:
    marker = tmp_path / ".kafka_cleanshutdown"
    marker.write_text('{"version":0,"brokerEpoch":27}')
    registry = LogDir(DISK, str(tmp_path), writable=True)
    assert registry.clean
    assert marker.exists()  # no log was opened: a crash now leaves it clean
    registry.begin()
    assert not marker.exists()
    assert registry.clean
    registry.finish(clean=True)
    assert marker.read_text() == '{"version":0,"brokerEpoch":27}'
    again = LogDir(DISK, str(tmp_path), writable=True)
    again.begin()
    again.finish(clean=False)
    assert not marker.exists()
    assert not LogDir(DISK, str(tmp_path), writable=True).clean
