"""A single partition is not created over folders that exist, are lost or are offline."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import Store
from kstore.errors import (
    LogDirOfflineError,
    TopicExistsError,
    UnknownPartitionError,
)
from support.stores import QUIET, leave_to_kafka, snapshot

A, B = "KkfQFslATR-nwp1ii66Mkw", "wl29c-eVQmCyOOzKBLyFwA"


def open_store(path: Path | list[Path]) -> Store:
    return kstore.open(path, "a", config=QUIET)


def make(path: Path | list[Path], *numbers: int) -> None:
    with open_store(path) as store:
        for number in numbers:
            store.create_partition("t", number, topic_id=A).extend([b"v"] * 3)


def held(path: Path) -> Any:
    return json.loads((path / "kstore.topics").read_bytes())["topics"]["t"].get("held")


# --- a folder that appeared ---------------------------------------------------------------


@pytest.mark.parametrize("exist_ok", [False, True])
def test_a_folder_that_came_back_is_not_deleted(tmp_path: Path, exist_ok: bool) -> None:
    """The only one of its topic, moved away before the opening and put back after it."""
    path = tmp_path / "a"
    make(path, 1)
    (path / "t-1").rename(tmp_path / "away")
    with open_store(path) as store:
        (tmp_path / "away").rename(path / "t-1")
        before = snapshot(path / "t-1")
        with pytest.raises(TopicExistsError, match="t-1 was put here after the store was opened"):
            store.create_partition("t", 1, topic_id=A, exist_ok=exist_ok)
        assert snapshot(path / "t-1") == before
    with open_store(path) as store:
        assert store["t"].end_offsets() == {1: 3}


def test_a_folder_of_kafka_that_appeared_is_not_deleted(tmp_path: Path) -> None:
    path = tmp_path / "a"
    make(path, 1, 2)
    leave_to_kafka(path)
    (path / "t-2").rename(tmp_path / "away")
    with open_store(path) as store:
        (tmp_path / "away").rename(path / "t-2")
        before = snapshot(path / "t-2")
        with pytest.raises(TopicExistsError):
            store.create_partition("t", 2, topic_id=A, exist_ok=True)
        assert snapshot(path / "t-2") == before


def test_a_folder_that_appears_during_the_creation_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, 1)
    with open_store(tmp_path) as store:
        shutil.copytree(tmp_path / "t-1", tmp_path / "t-2")
        before = snapshot(tmp_path / "t-2")
        monkeypatch.setattr(store._catalog, "exists", lambda folder: False)
        with pytest.raises(kstore.errors.StorageError):
            store.create_partition("t", 2, topic_id=A)
        assert snapshot(tmp_path / "t-2") == before
    assert not list(tmp_path.glob("*-delete"))


# --- all folders are lost -----------------------------------------------------------------


def test_a_topic_of_which_every_partition_is_lost_is_not_created_again(tmp_path: Path) -> None:
    make(tmp_path, 1, 4)
    for number in (1, 4):
        shutil.rmtree(tmp_path / f"t-{number}")
    with open_store(tmp_path) as store:
        before = [str(each) for each in store.verify().warnings]
        with pytest.raises(UnknownPartitionError, match="t-1 is lost"):
            store.create_partition("t", 1)
        with pytest.raises(UnknownPartitionError, match="t-1 is lost"):
            store.create_partition("t", 7, topic_id=B)
        assert [str(each) for each in store.verify().warnings] == before
    assert held(tmp_path) == [1, 4]


def test_the_partitions_of_an_ordinary_topic_that_is_lost(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.create_topic("t", 3)
    for number in range(3):
        shutil.rmtree(tmp_path / f"t-{number}")
    with open_store(tmp_path) as store, pytest.raises(UnknownPartitionError, match="t-1 is lost"):
        store.create_partition("t", 1)
    assert held(tmp_path) is None


def test_a_partition_beside_lost_ones_does_not_hide_them(tmp_path: Path) -> None:
    make(tmp_path, 1, 4)
    for number in (1, 4):
        shutil.rmtree(tmp_path / f"t-{number}")
    with open_store(tmp_path) as store:
        assert store.create_partition("t", 7, config={"retention.ms": 5000}).end_offset == 0
        assert (store["t"].topic_id, store["t"].partitions) == (A, (7,))
        store.delete_partition("t", 7)
        store.create_partition("t", 8, topic_id=A)
    assert held(tmp_path) == [1, 4, 8]


def test_lost_partitions_are_given_up_one_by_one(tmp_path: Path) -> None:
    make(tmp_path, 1, 4)
    for number in (1, 4):
        shutil.rmtree(tmp_path / f"t-{number}")
    with open_store(tmp_path) as store:
        for number in (1, 4):
            store.delete_partition("t", number)
        store.create_partition("t", 4, topic_id=B)
        assert store["t"].topic_id == B
        assert store.verify().warnings == []
    assert held(tmp_path) == [4]


# --- a directory is offline ---------------------------------------------------------------


def test_another_topic_does_not_inherit_while_a_directory_is_offline(tmp_path: Path) -> None:
    """Not the offsets of the one whose last partition was deleted."""
    dirs = [tmp_path / "a", tmp_path / "b"]
    with open_store(dirs) as store:
        store.create_partition("t", 4, topic_id=A).append(b"v")
        with store.consumer("t", group="g") as consumer:
            consumer.commit({("t", 4): 1})
        store.delete_partition("t", 4)
    lost = dirs[1] if (dirs[0] / "__consumer_offsets-0").exists() else dirs[0]
    hidden = lost.rename(tmp_path / "hidden")
    lost.write_text("not a directory")
    with open_store(dirs) as store:
        with pytest.raises(LogDirOfflineError):
            store.create_partition("t", 4, topic_id=B, is_new=True)
        assert store.create_partition("t", 5, topic_id=A, is_new=True).end_offset == 0
    lost.unlink()
    hidden.rename(lost)
    with open_store(dirs) as store:
        assert (store["t"].topic_id, store["t"].partitions) == (A, (5,))


def test_partitions_that_are_all_offline_are_not_forgotten(tmp_path: Path) -> None:
    dirs = [tmp_path / "a", tmp_path / "b"]
    make(dirs, 4)
    lost, other = dirs if (dirs[0] / "t-4").exists() else dirs[::-1]
    lost.rename(tmp_path / "hidden")
    lost.write_text("not a directory")
    with open_store(dirs) as store:
        store.create_partition("t", 5, topic_id=A, is_new=True)
    assert held(other) == [4, 5]
