"""A deletion that is interrupted at each of its disk steps, then finished by the next writer."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import kstore
from kstore import LogConfig, Store, StoreConfig
from support.recording_disk import Recorder, Trace, Tree
from torture.checks import materialise
from torture.crash_disk import CrashDisk
from torture.parts import scratch

SMALL = LogConfig(segment_index_bytes=100)
QUIET = StoreConfig(background=False, log=SMALL)
T0, U0 = ("t", 0), ("u", 0)
BOUNDS = {"kill": 1, "ordered": 1, "hostile": 1}


@pytest.fixture
def path() -> Iterator[Path]:
    with scratch() as made:
        yield Path(made)


@pytest.fixture(autouse=True)
def few_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"segment.index.bytes": "100"}
    for module in (
        "kstore.coordinator.group.offsets_table",
        "kstore.coordinator.group.store_group",
    ):
        monkeypatch.setattr(f"{module}.OFFSETS_PARTITIONS", 2)
        monkeypatch.setattr(f"{module}.OFFSETS_PROPERTIES", {"cleanup.policy": "compact", **small})
    monkeypatch.setattr("kstore.coordinator.transaction.store_transactions.STATE_PARTITIONS", 1)
    monkeypatch.setattr(
        "kstore.coordinator.transaction.store_transactions.STATE_PROPERTIES",
        {"cleanup.policy": "compact", **small},
    )


def prepare(root: Path) -> None:
    """Two topics with records, offsets of two groups in the log, and of one in a file."""
    with kstore.open(root, config=QUIET) as store:
        for name in ("t", "u"):
            store.create_topic(name, 2)[0].extend([b"old"] * 10)
        for group in ("g", "h"):
            with store.consumer(["t", "u"], group=group) as consumer:
                consumer.commit({T0: 5, U0: 6})
    with kstore.open(root, "r", config=QUIET) as reader:
        with reader.consumer(["t", "u"], group="file") as consumer:
            consumer.commit({T0: 5, U0: 6})
        beside = (root / "kstore.offsets.file").read_bytes()
    with kstore.open(root, config=QUIET):
        pass  # folds it in
    (root / "kstore.offsets.file").write_bytes(beside)


def delete(root: Path) -> Trace:
    """Delete one of them while a transaction is open in both."""
    disk = Recorder(root)
    store = Store(root, config=QUIET, files=disk)
    producer = store.transactional_producer("id", timeout_ms=900_000)
    producer.begin_transaction()
    producer.send("t", b"lost", partition=0)
    producer.send("u", b"aborted", partition=0)
    producer.flush()
    store["u"].flush()
    disk.note("begun")
    store.delete_topic("t")
    disk.note("deleted")
    trace = Trace(disk.base, list(disk.ops), disk.notes)
    producer.abort_transaction()
    store.close()
    assert not disk.outside
    return trace


def states(trace: Trace, models: tuple[str, ...]) -> list[tuple[str, str, Tree]]:
    """(model, what was said before, tree) of each state that differs; kills at every step."""
    disk, found, seen = CrashDisk(trace), [], set()
    for index in range(len(trace.ops) + 1):
        said = [note for at, (note,) in trace.notes if at <= index]
        if said:
            torn = trace.ops[index] if index < len(trace.ops) else None
            for model in models if index % 3 == 0 else models[:1]:
                for tree in disk.states(model, BOUNDS[model], Random(index), torn):
                    digest = hash(tuple(sorted(tree.items())))
                    if digest not in seen:
                        seen.add(digest)
                        found.append((model, said[-1], tree))
        if index < len(trace.ops):
            disk.apply(index, trace.ops[index])
    return found


def committed(store: Store, topic_partition: tuple[str, int]) -> list[int | None]:
    found = []
    for group in ("g", "h", "file"):
        with store.consumer(group=group, assignment=[U0]) as consumer:
            found.append(consumer.committed(topic_partition))
    return found


def check(root: Path, said: str) -> str:
    """The topic exists with its offsets, or is gone with them; created again it is empty."""
    with kstore.open(root, config=QUIET) as store:
        assert not list(root.glob("*-delete"))
        assert committed(store, U0) == [6, 6, 6]
        is_there = "t" in store
        assert not (is_there and said == "deleted")
        if is_there:
            assert committed(store, T0) == [5, 5, 5]
            assert len(list(store["t"][0].view(isolation="read_committed"))) == 10
            store.delete_topic("t")
        assert committed(store, T0) == [None] * 3
        log = store.create_topic("t", 2)[0]
        with store.transactional_producer("id").transaction() as producer:
            producer.send("u", b"next", partition=0)
        assert (log.end_offset, log.last_stable_offset) == (0, 0)
        log.append(b"new")
        for group in ("g", "h", "file"):
            with store.consumer("t", group=group) as consumer:
                assert [r.value for rs in consumer.poll().values() for r in rs] == [b"new"]
        rows = [record.value for record in store["u"][0].view(isolation="read_committed")]
        assert rows == [b"old"] * 10 + [b"next"]
    return "there" if is_there else "gone"


def test_offsets_are_deleted_with_their_topic_whenever_the_deletion_is_interrupted(
    path: Path,
) -> None:
    root, copy = path / "store", path / "copy"
    prepare(root)
    outcomes: Counter[tuple[str, str]] = Counter()
    for model, said, tree in states(delete(root), ("kill", "ordered", "hostile")):
        materialise(tree, str(copy))
        outcomes[model, check(copy, said)] += 1
    for model in BOUNDS:
        assert outcomes[model, "there"] > 0
        assert outcomes[model, "gone"] > 10, outcomes


def test_a_deletion_that_is_cut_short_again_while_it_is_finished(path: Path) -> None:
    """From the state behind the renames, where no tombstone is on disk yet."""
    root, copy = path / "store", path / "copy"
    prepare(root)
    unfinished = [
        tree
        for model, said, tree in states(delete(root), ("kill",))
        if said == "begun" and b'"deleting"' in (tree.get("kstore.topics") or b"")
    ]
    first = next(tree for tree in unfinished if "t-0" not in tree)
    materialise(first, str(copy))
    disk = Recorder(copy)
    disk.note("begun")
    store = Store(copy, config=QUIET, files=disk)
    disk.note("deleted")
    trace = Trace(disk.base, list(disk.ops), disk.notes)
    assert "t" not in store
    store.close()
    count = 0
    for _, said, tree in states(trace, ("kill", "ordered")):
        materialise(tree, str(path / "again"))
        assert check(path / "again", said) == "gone"
        count += 1
    assert count > 20
