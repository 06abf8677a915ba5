"""A group's deletion that is interrupted at each of its disk steps.

The group's newest commits are in the log and in a reader's file, older ones in the other of the
two. Whatever a crash leaves, no partition gets an older commit back.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

import kstore
from kstore import LogConfig, Store, StoreConfig
from support.recording_disk import Recorder, Trace, Tree
from torture.checks import materialise
from torture.crash_disk import MODELS, CrashDisk
from torture.parts import scratch

QUIET = StoreConfig(background=False, log=LogConfig(segment_index_bytes=100))
T0, T1 = ("t", 0), ("t", 1)
NEWEST = {T0: 8, T1: 3}
STATES = 3  # of a disk at one moment


@pytest.fixture
def path() -> Iterator[Path]:
    with scratch() as made:
        yield Path(made)


@pytest.fixture(autouse=True)
def few_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "kstore.coordinator.group.store_group"
    monkeypatch.setattr(f"{module}.OFFSETS_PARTITIONS", 1)
    small = {"cleanup.policy": "compact", "segment.index.bytes": "100"}
    monkeypatch.setattr(f"{module}.OFFSETS_PROPERTIES", small)


def record_deletion(root: Path, delete: Callable[[Store], None]) -> Trace:
    with kstore.open(root, config=QUIET) as store:
        for log in store.create_topic("t", 2):
            log.extend([b"x"] * 10)
        store.alter_group_offsets("g", {T1: 2})
    disk = Recorder(root)
    store = Store(root, config=QUIET, files=disk)
    with Store(root, "r", config=QUIET, files=disk) as reader:
        reader.alter_group_offsets("g", {T0: 7, T1: 3})
    store.alter_group_offsets("g", {T0: 8})
    disk.note("begun")
    delete(store)
    disk.note("deleted")
    trace = Trace(disk.base, list(disk.ops), disk.notes)
    store.close()
    assert not disk.outside
    return trace


def states(trace: Trace) -> Iterator[tuple[str, str, Tree]]:
    """(model, what was noted before, tree) of each state, from the deletion's begin."""
    disk = CrashDisk(trace)
    for index in range(len(trace.ops) + 1):
        noted = [note for at, (note,) in trace.notes if at <= index]
        if noted:
            torn = trace.ops[index] if index < len(trace.ops) else None
            for model in MODELS:
                for tree in disk.states(model, STATES, Random(index), torn):
                    yield model, noted[-1], tree
        if index < len(trace.ops):
            disk.apply(index, trace.ops[index])


def offsets_after_recovery(root: Path) -> dict[tuple[str, int], int]:
    with kstore.open(root, config=QUIET) as store:
        groups = store.groups()
        if "g" not in groups:
            return {}
        found = {tuple(tp): each.offset for tp, each in groups["g"].offsets.items()}
        store.delete_group("g")
        assert store.groups() == {}
        return found


@pytest.mark.parametrize(
    ("delete", "left"),
    [
        (lambda store: store.delete_group("g"), {}),
        (lambda store: store.delete_group_offsets("g", [T0]), {T1: 3}),
    ],
)
def test_no_older_commit_returns_whenever_a_groups_deletion_is_interrupted(
    path: Path, delete: Callable[[Store], None], left: dict[tuple[str, int], int]
) -> None:
    root, copy = path / "store", path / "copy"
    outcomes: Counter[tuple[str, bool]] = Counter()
    for model, noted, tree in states(record_deletion(root, delete)):
        materialise(tree, str(copy))
        found = offsets_after_recovery(copy)
        assert found.items() <= NEWEST.items(), (model, noted, found)
        assert left.items() <= found.items()
        if noted == "deleted":
            assert found == left
        outcomes[model, found == left] += 1
    for model in MODELS:
        assert outcomes[model, False] > 0, outcomes
        assert outcomes[model, True] > 0, outcomes
