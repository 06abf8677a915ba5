"""Ctrl-C while a topic or partition is created or deleted: memory then agrees with the disk."""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from kstore import LogConfig, Store, StoreConfig
from kstore.checkpoint import state_file, topics_file
from kstore.errors import InvalidPartitionsError, UnknownPartitionError
from kstore.store import (
    deleted_folders,
    log_deletion,
    log_manager,
    partition_changes,
    topic_creation,
    topic_deletion,
    topic_registry,
)
from support.disks import HastyDisk
from support.interrupts import Interrupt

MODULES = [
    deleted_folders,
    log_deletion,
    log_manager,
    partition_changes,
    state_file,
    topic_creation,
    topic_deletion,
    topic_registry,
    topics_file,
]
DISK = HastyDisk()
CONFIG = StoreConfig(background=False, log=LogConfig(segment_index_bytes=100))


def open_store(root: Path) -> Store:
    return Store(root, config=CONFIG, files=DISK)


def contents(store: Store) -> dict[str, list[int]]:
    """The topics and their partitions, each of which takes a record."""
    for topic in store:
        for log in store[topic]:
            log.append(b"")
    return {topic: list(store[topic].partitions) for topic in store}


def extend_again(store: Store) -> None:
    with suppress(InvalidPartitionsError):  # it has them already
        store.add_partitions("grown", 3)


Change = Callable[[Store], object]
CHANGES: dict[str, tuple[Change, Change]] = {
    "create": (
        lambda store: store.create_topic("new", 3),
        lambda store: store.create_topic("new", 3, exist_ok=True),
    ),
    "extend": (
        lambda store: store.add_partitions("grown", 3),
        extend_again,
    ),
    "delete": (
        lambda store: store.delete_topic("doomed"),
        lambda store: store.delete_topic("doomed", missing_ok=True),
    ),
    "create a partition": (
        lambda store: store.create_partition("grown", 4),
        lambda store: store.create_partition("grown", 4, exist_ok=True),
    ),
    "create the first partition": (
        lambda store: store.create_partition("new", 4),
        lambda store: store.create_partition("new", 4, exist_ok=True),
    ),
    "delete a partition": (
        lambda store: store.delete_partition("doomed", 0),
        lambda store: store.delete_partition("doomed", 0, missing_ok=True),
    ),
}
KEPT = {"kept": [0, 1], "grown": [0, 1], "doomed": [0, 1]}
RESULT = {
    "create": KEPT | {"new": [0, 1, 2]},
    "extend": KEPT | {"grown": [0, 1, 2]},
    "delete": {name: KEPT[name] for name in ("kept", "grown")},
    "create a partition": KEPT | {"grown": [0, 1, 4]},
    "create the first partition": KEPT | {"new": [4]},
    "delete a partition": KEPT | {"doomed": [1]},
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_interrupt_at_every_line_of_a_change(tmp_path: Path, name: str) -> None:
    change, again = CHANGES[name]
    at, count = -1, 1
    while at < count:
        root = tmp_path / f"{at}"
        root.mkdir()
        with open_store(root) as store:
            for topic in KEPT:
                store.create_topic(topic, 2)
            assert contents(store) == KEPT
            with Interrupt(MODULES, at) as interrupt:
                try:
                    change(store)
                except KeyboardInterrupt:
                    assert interrupt.where
            if at < 0:
                count = interrupt.count
            assert interrupt.where or at < 0
            may_miss = name == "delete a partition"  # a handle has it until the next call
            with suppress(UnknownPartitionError) if may_miss else nullcontext():
                assert contents(store) in (KEPT, RESULT[name]), interrupt.where
            again(store)
            assert contents(store) == RESULT[name], interrupt.where
            assert store.verify().warnings == []
            if name == "delete":
                store.create_topic("doomed", 1)
                assert store["doomed"][0].end_offset == 0
                store.delete_topic("doomed")
        with open_store(root) as store:
            assert contents(store) == RESULT[name], interrupt.where
            assert store.verify().warnings == []
        at += 1
