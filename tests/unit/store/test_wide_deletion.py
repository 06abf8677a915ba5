"""The deletion of a topic with many partitions: what it syncs, and when it removes the folders."""

import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig, Store, StoreConfig
from kstore.cluster.local_metadata import LocalMetadata
from kstore.errors import CorruptFileError
from kstore.files.files import Files
from kstore.store.deleted_folders import DeletedFolders
from kstore.store.topic_deletion import delete_topic_soon
from support.waiting import until

PARTITIONS = 30
QUIET = StoreConfig(background=False, log=LogConfig(segment_index_bytes=100))
BUSY = StoreConfig(log=LogConfig(segment_index_bytes=100))


class CountingDisk(Files):
    """Counts syncs and renames."""

    native = False

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def fdatasync(self, fd: int) -> None:
        self.counts["sync"] += 1
        super().fdatasync(fd)

    def fsync(self, fd: int) -> None:
        self.counts["sync"] += 1
        super().fsync(fd)

    def sync_directory(self, path: str | os.PathLike[str]) -> None:
        self.counts["sync"] += 1
        super().sync_directory(path)

    def rename(self, source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
        self.counts["rename"] += 1
        super().rename(source, target)


def folders(root: Path) -> list[str]:
    return sorted(each.name for each in root.iterdir() if each.is_dir())


def fill(store: Store, partitions: int) -> None:
    for log in store.create_topic("wide", partitions):
        log.append(b"not flushed")


def test_a_deletion_flushes_no_log_and_syncs_the_log_directory_once_for_all_renames(
    tmp_path: Path,
) -> None:
    counts = {}
    for partitions in (2, PARTITIONS):
        disk = CountingDisk()
        with Store(tmp_path / f"{partitions}", config=QUIET, files=disk) as store:
            fill(store, partitions)
            disk.counts.clear()
            store.delete_topic("wide")
            counts[partitions] = disk.counts.copy()
        assert folders(tmp_path / f"{partitions}") == []
    assert counts[PARTITIONS]["sync"] == counts[2]["sync"]
    assert counts[PARTITIONS]["rename"] == counts[2]["rename"] + PARTITIONS - 2


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The thread that removes folders waits for this event before each of its rounds."""
    event, remove = threading.Event(), DeletedFolders._remove

    def wait(self: DeletedFolders, is_stopping: Callable[[], bool]) -> None:
        if threading.current_thread().name == DeletedFolders.NAME:
            assert event.wait(30)
        remove(self, is_stopping)

    monkeypatch.setattr(DeletedFolders, "_remove", wait)
    return event


def test_a_broker_answers_before_the_folders_are_removed(
    tmp_path: Path, held: threading.Event
) -> None:
    with kstore.open(tmp_path, config=BUSY) as store:
        fill(store, 3)
        LocalMetadata(store, can_delete_existing=True).delete_topic("wide")
        assert "wide" not in store
        assert [each.endswith("-delete") for each in folders(tmp_path)] == [True] * 3
        again = store.create_topic("wide", 2)  # the name is free
        assert [log.end_offset for log in again] == [0, 0]
        held.set()
        until(lambda: folders(tmp_path) == ["wide-0", "wide-1"])
        again[0].append(b"new")
    with kstore.open(tmp_path, config=QUIET) as store:
        assert [record.value for record in store["wide"][0]] == [b"new"]


def test_the_next_writer_removes_what_a_stop_left(tmp_path: Path, held: threading.Event) -> None:
    with kstore.open(tmp_path, config=BUSY) as store:
        fill(store, 3)
        delete_topic_soon(store, "wide")
        store._manager.deleted_folders.request_stop()
        held.set()
    assert len(folders(tmp_path)) == 3
    assert len(json.loads((tmp_path / "kstore.topics").read_text())["deleted"]) == 1
    with kstore.open(tmp_path, "r") as reader:
        assert list(reader) == []
    with kstore.open(tmp_path, config=QUIET) as store:
        assert folders(tmp_path) == []
        store.create_topic("next")
    assert "deleted" not in json.loads((tmp_path / "kstore.topics").read_text())


def test_folders_of_a_deleted_topic_say_nothing_about_a_later_one(
    tmp_path: Path, held: threading.Event
) -> None:
    """A lost partition is not taken for deleted because of the earlier topic's folder."""
    with kstore.open(tmp_path, config=BUSY) as store:
        fill(store, 3)
        delete_topic_soon(store, "wide")
        store.create_partition("wide", 1)
        store.create_partition("wide", 2)
        store._manager.deleted_folders.request_stop()
        held.set()
    for each in (tmp_path / "wide-1").iterdir():
        each.unlink()
    (tmp_path / "wide-1").rmdir()
    assert len(folders(tmp_path)) == 4
    with kstore.open(tmp_path, config=QUIET) as store:
        assert store._catalog.lost.of("wide") == [1]
        assert folders(tmp_path) == ["wide-2"]


def test_other_folders_are_left(tmp_path: Path) -> None:
    other = tmp_path / f"wide-7.{'0' * 32}-delete"
    with kstore.open(tmp_path, config=QUIET) as store:
        fill(store, 3)
        other.mkdir()
        store.delete_topic("wide")
    assert folders(tmp_path) == [other.name]


@pytest.mark.parametrize("deleted", ['[""]', "[1]", '["../x"]', "7"])
def test_a_damaged_list_of_deleted_topics_is_refused(tmp_path: Path, deleted: str) -> None:
    content = f'"format": 1, "generation": 1, "topics": {{}}, "deleted": {deleted}'
    (tmp_path / "kstore.topics").write_text(f"{{{content}}}")
    with pytest.raises(CorruptFileError, match="'deleted'"):
        kstore.open(tmp_path)
