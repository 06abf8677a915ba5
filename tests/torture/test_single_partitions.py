"""A partition is created or deleted alone: each crash leaves it completely there, or gone."""

import errno
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

import kstore
from kstore import LogConfig, Store, StoreConfig
from kstore.checkpoint.offset_checkpoint import read_offsets, write_offsets
from kstore.errors import StorageError
from kstore.files.files import DISK
from support.recording_disk import Recorder, Trace, Tree
from torture.checks import materialise
from torture.crash_disk import MODELS, CrashDisk
from torture.io_errors import FailingDisk
from torture.parts import quietly, scratch

ID = "KkfQFslATR-nwp1ii66Mkw"
LOG = LogConfig(segment_index_bytes=100, file_delete_delay_ms=0)
QUIET = StoreConfig(background=False, log=LOG)
KEPT = {1: 10, 7: 10}  # partitions and the records in them
STALE = "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"


@pytest.fixture
def path() -> Iterator[Path]:
    with scratch() as made:
        yield Path(made)


def prepare(root: Path) -> None:
    """Partitions 1, 4 and 7 with records; checkpoints that still have partition 9."""
    with kstore.open(root, config=QUIET) as store:
        for number in (1, 4, 7):
            store.create_partition("t", number, topic_id=ID).extend([b"v"] * 10)
    for name in STALE:
        known = read_offsets(DISK, root / name)
        write_offsets(DISK, root / name, {**known, ("t", 9): 5})


def create(store: Store) -> None:
    store.create_partition("t", 9, topic_id=ID)


def create_first(store: Store) -> None:
    store.create_partition("n", 9, topic_id=ID)


def delete(store: Store) -> None:
    store.delete_partition("t", 4, topic_id=ID)


CHANGES: dict[str, tuple[Callable[[Store], None], str, int]] = {
    "create": (create, "t", 9),
    "create the first": (create_first, "n", 9),
    "delete": (delete, "t", 4),
}


def record(root: Path, change: Callable[[Store], None]) -> Trace:
    disk = Recorder(root)
    store = Store(root, config=QUIET, files=disk)
    disk.note("begun")
    change(store)
    disk.note("done")
    store["t"][1].flush()
    trace = Trace(disk.base, list(disk.ops), disk.notes)
    store.close()
    assert not disk.outside
    return trace


def states(trace: Trace) -> Iterator[tuple[str, str, Tree]]:
    """(model, what was said before, tree) of each state that differs."""
    disk, seen = CrashDisk(trace), set()
    for index in range(len(trace.ops) + 1):
        said = [note for at, (note,) in trace.notes if at <= index]
        torn = trace.ops[index] if index < len(trace.ops) else None
        for model in MODELS if said else ():
            for tree in disk.states(model, 1, Random(index), torn):
                digest = hash((model, said[-1], *sorted(tree.items())))
                if digest not in seen:
                    seen.add(digest)
                    yield model, said[-1], tree
        if torn is not None:
            disk.apply(index, torn)


def check(root: Path, change: Callable[[Store], None], topic: str, number: int) -> bool:
    """Whether the partition exists, completely; nothing else has changed, or is missed."""
    with kstore.open(root, config=QUIET) as store:
        is_there = topic in store and number in store[topic].partitions
        records = 10 if number == 4 else 0
        if is_there:
            log = store.partition(topic, number, topic_id=ID)
            assert (log.start_offset, log.end_offset) == (0, records)
            assert (Path(log.path) / "partition.metadata").exists()
        assert {n: store["t"][n].end_offset for n in KEPT} == KEPT
        report = store.verify()
        assert (report.ok, report.warnings) == (True, [])
        if is_there == (number == 4):  # not done
            change(store)
        store.apply_retention()  # removes what is left of folders
        settings = json.loads((root / "kstore.topics").read_text())["topics"]
        present = {name: list(store[name].partitions) for name in store}
        assert {name: each["held"] for name, each in settings.items()} == present
        folders = sorted(each.name for each in root.iterdir() if each.is_dir())
        assert folders == sorted(f"{name}-{n}" for name in present for n in present[name])
    with kstore.open(root, config=QUIET) as store:
        assert (topic in store and number in store[topic].partitions) == (number != 4)
        assert store.verify().warnings == []
    return is_there


@pytest.mark.parametrize("name", CHANGES)
def test_a_crash_at_each_step(path: Path, name: str) -> None:
    change, topic, number = CHANGES[name]
    root, copy = path / "store", path / "copy"
    prepare(root)
    outcomes: Counter[tuple[str, str, bool]] = Counter()
    for model, said, tree in states(record(root, change)):
        materialise(tree, str(copy))
        outcomes[model, said, check(copy, change, topic, number)] += 1
    for model in MODELS:
        assert outcomes[model, "begun", number == 4] > 0, outcomes
        assert outcomes[model, "done", number == 4] == 0, outcomes
        assert outcomes[model, "done", number != 4] > 0, outcomes


@pytest.mark.parametrize("name", CHANGES)
def test_a_full_disk_at_each_call(path: Path, name: str) -> None:
    """The call fails and the same store, or the next one, completes it."""
    change, topic, number = CHANGES[name]
    failures = 0
    for at in range(1000):
        root = path / f"{at}"
        prepare(root)
        disk = FailingDisk(str(root))
        with quietly(), Store(root, config=QUIET, files=disk) as store:
            disk.count, disk.at, disk.code = 0, at, errno.ENOSPC
            said = ""
            try:
                change(store)
            except StorageError as error:
                failures, said = failures + 1, str(error)
            if said and number != 4 and topic in store and number in store[topic].partitions:
                assert "kstore.topics" not in said  # only its log was not opened
            is_over, disk.at = disk.count <= at, -1
            if at % 2:
                if number == 4:
                    store.delete_partition(topic, number, missing_ok=True)
                else:
                    store.create_partition(topic, number, topic_id=ID, exist_ok=True)
        check(root, change, topic, number)
        if is_over:
            break
    else:
        raise AssertionError("the change does not end")
    assert failures > 10
