"""Two log.dirs that real brokers left in the middle of moves, deletions and stray partitions."""

import json
from pathlib import Path

import pytest

import kstore
from kafka_files.data_sets import expected_partition, unpack
from kstore import Log
from support.stores import QUIET, snapshot

VERSIONS = ("3.9.2", "4.3.0")


@pytest.fixture(params=VERSIONS)
def broker_dirs(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpack(f"dirs-kraft-{request.param}", tmp_path)


def dirs(broker_dirs: Path, name: str) -> list[Path]:
    return [broker_dirs / name / "d1", broker_dirs / name / "d2"]


def agree(log: Log, broker_dirs: Path) -> None:
    """The log holds what Kafka's own consumer read."""
    stored = json.loads((broker_dirs / "expectations.json").read_text())["partitions"]
    name = f"{log.topic}-{log.partition}"
    expected = expected_partition(name, stored[name])
    assert (log.start_offset, log.end_offset) == (expected.beginning_offset, expected.end_offset)
    found = [(r.offset, r.timestamp, r.key, r.value) for r in log]
    assert len(found) == len(expected.records)
    assert found == [(r.offset, r.timestamp, r.key, r.value) for r in expected.records]


def folders(path: Path, ending: str) -> list[str]:
    return sorted(each.name for each in path.iterdir() if each.name.endswith(ending))


def logs_of(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.glob("*.log")}


def test_unfinished_moves_of_a_broker_are_listed_and_not_read(broker_dirs: Path) -> None:
    paths = dirs(broker_dirs, "in-flight")
    before = snapshot(broker_dirs)
    with kstore.open(paths, "r") as store:
        for about, path in zip(store.log_dirs, paths, strict=True):
            assert list(about.futures) == folders(path, "-future") != []
            assert list(about.deleted) == folders(path, "-delete") != []
            assert about.strangers == ()
        for topic in ("moving", "stays", "trimmed", "stray"):
            for log in store[topic]:
                agree(log, broker_dirs)
        assert "gone" not in store
    assert snapshot(broker_dirs) == before


def test_unfinished_moves_of_a_broker_are_continued(broker_dirs: Path) -> None:
    """To where the broker itself took them: its later directories have the same logs."""
    paths = dirs(broker_dirs, "in-flight")
    later = dirs(broker_dirs, "moved-and-stray")
    gone = {path: folders(path, "-delete") for path in paths}
    with kstore.open(paths, config=QUIET) as store:
        for partition, target in ((0, 1), (1, 0)):
            log = store["moving"][partition]
            moved = store.move("moving", partition, paths[target])
            # The broker had copied the first segment; it is not copied again.
            assert moved.size == sum(view.size for view in log.segments.views[1:])
            agree(log, broker_dirs)
            folder = f"moving-{partition}"
            assert log.path == str(paths[target] / folder)
            assert logs_of(paths[target] / folder) == logs_of(later[target] / folder)
            for name in ("partition.metadata", "leader-epoch-checkpoint"):
                assert (paths[target] / folder / name).read_bytes() == (
                    later[target] / folder / name
                ).read_bytes()
        for about in store.log_dirs:
            assert about.futures == ()
        # Topics without kstore settings: what waits for deletion is the broker's to remove.
        store.apply_retention()
        assert {path: folders(path, "-delete") for path in paths} == gone
    with kstore.open(paths, config=QUIET) as store:
        assert all(not report.segments_scanned for report in store.recovery.reports.values())
        for log in store["moving"]:
            agree(log, broker_dirs)


def test_strays_are_listed_and_never_changed(broker_dirs: Path) -> None:
    paths = dirs(broker_dirs, "moved-and-stray")
    (name,) = folders(paths[0], "-stray")
    before = snapshot(paths[0] / name)
    with kstore.open(paths, config=QUIET) as store:
        assert store.log_dirs[0].strays == (name,)
        assert "alien" not in store
        store["stays"][1].append(b"x")
        store.apply_retention()
    assert snapshot(paths[0] / name) == before


def test_a_clean_directory_opened_and_closed_keeps_its_bytes(broker_dirs: Path) -> None:
    """Every log opened for writing, nothing appended: checkpoints may be sorted, no more.

    What the broker would have removed itself goes: `.deleted` files, snapshots at the log start.
    """
    paths = dirs(broker_dirs, "in-flight")
    before = {path: data for path, (data, _) in snapshot(broker_dirs / "in-flight").items()}
    with kstore.open(paths, config=QUIET) as store:
        for topic in store:
            for log in store[topic]:
                assert log.end_offset > 0
    after = {path: data for path, (data, _) in snapshot(broker_dirs / "in-flight").items()}
    new = {path for path in after if path not in before}
    assert {Path(path).name for path in new} <= {".lock", "kstore.topics"}
    gone = {path for path in before if path not in after}
    stale = {path for path in gone if not path.endswith(".deleted")}
    assert stale == {
        f"d{2 - n}/trimmed-{n}/{80:020d}.snapshot" for n in (0, 1)
    }  # at the log start: the broker removed them as well when it opened the logs
    assert not any((broker_dirs / "moved-and-stray" / path).exists() for path in stale)
    changed = {path for path in before.keys() & after.keys() if before[path] != after[path]}
    for path in changed:
        assert path.endswith("-offset-checkpoint"), path
        assert sorted(before[path].splitlines()) == sorted(after[path].splitlines()), path
