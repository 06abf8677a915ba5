"""A partition whose folder is gone: what ``verify`` and ``repair`` say of it."""

import json
import shutil
from pathlib import Path

import pytest

import kstore
from kstore.checkpoint.topics_file import TopicEntry
from kstore.cli import main
from kstore.files.files import DISK
from kstore.verify import missing_folders
from kstore.verify.losses import MISSING
from kstore.verify.missing_folders import find_missing_folders
from support.logs import fill_segments
from support.stores import MARKER, QUIET, leave_to_kafka

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
NAME = "orders-0"


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Closed cleanly: two partitions with records."""
    path = tmp_path / "two"
    with kstore.open(path, config=QUIET) as store:
        for log in store.create_topic("orders", 2):
            fill_segments(log)
    assert statuses(path) == (0, 0)
    return path


def remove(path: Path, name: str) -> None:
    """Remove a file; a directory without ``kstore.topics`` is a broker's."""
    if name == "kstore.topics":
        leave_to_kafka(path)
    else:
        (path / name).unlink()


def statuses(root: Path) -> tuple[int, int]:
    """Of verify and of repair."""
    return main(["verify", "--log-dir", str(root)]), main(["repair", "--path", str(root)])


def test_a_partition_directory_missing_after_a_clean_stop_is_certain_damage(
    two: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(two / NAME)
    assert statuses(two) == (1, 2)
    out = capsys.readouterr().out
    assert f"missing: {two / NAME}: the folder is missing" in out
    assert "the recovery point is 30" in out


@pytest.mark.parametrize("without", [MARKER, "kstore.topics"])
def test_a_partition_folder_that_only_a_checkpoint_names_is_a_warning(
    two: Path, without: str
) -> None:
    """A stale checkpoint says the same, of a topic that was deleted."""
    shutil.rmtree(two / NAME)
    remove(two, without)
    assert statuses(two) == (3, 3)


@pytest.mark.parametrize(
    ("without", "expected"), [((), (1, 2)), ((MARKER,), (3, 3)), (("kstore.topics",), (3, 3))]
)
def test_a_missing_only_partition_directory_is_reported_by_name(
    tmp_path: Path,
    without: tuple[str, ...],
    expected: tuple[int, int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "one"
    with kstore.open(path, config=QUIET) as store:
        fill_segments(store.create_topic("orders")[0])
    assert statuses(path) == (0, 0)
    shutil.rmtree(path / "orders-0")
    for name in without:
        remove(path, name)
    capsys.readouterr()
    assert statuses(path) == expected
    out = capsys.readouterr().out
    assert out.count(str(path / "orders-0")) == 2
    assert out.count("the recovery point is 30") == 2


def test_partitions_that_are_deleted_moving_or_elsewhere_are_not_missing(two: Path) -> None:
    for state in ("delete", "future", "stray"):
        folder = (two / NAME).rename(two / f"{NAME}.{'0' * 32}-{state}")
        assert statuses(two) == (0, 0)
        folder.rename(two / NAME)
    two.with_name("other").mkdir()
    (two / NAME).rename(two.with_name("other") / NAME)
    (two / RECOVERY_POINTS).write_text("0\n1\norders 1 30\n")
    assert main(["verify", "--log-dir", f"{two},{two.with_name('other')}"]) == 0


def test_a_partition_folder_that_only_kstore_topics_names_is_a_warning(
    two: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``repair`` sees one directory of a store: its status does not change."""
    shutil.rmtree(two / NAME)
    (two / RECOVERY_POINTS).write_text("0\n1\norders 1 30\n")
    capsys.readouterr()
    assert statuses(two) == (3, 0)
    out = capsys.readouterr().out
    assert out.count(f"{two / NAME}: there is no such folder, though kstore.topics has") == 2
    for name in (RECOVERY_POINTS, MARKER):
        (two / name).unlink()
        assert statuses(two) == (3, 0)
    document = json.loads((two / "kstore.topics").read_bytes())
    for state in ("creating", "deleting"):
        document["topics"]["orders"]["state"] = state
        (two / "kstore.topics").write_text(json.dumps(document))
        assert statuses(two) == (0, 0)


def test_the_only_partition_that_only_kstore_topics_names_is_a_warning(two: Path) -> None:
    for name in ("orders-0", "orders-1"):
        shutil.rmtree(two / name)
    (two / RECOVERY_POINTS).unlink()
    assert main(["verify", "--log-dir", str(two)]) == 3


def test_a_partition_that_is_lost_beside_a_writer_is_a_warning(two: Path) -> None:
    shutil.rmtree(two / NAME)
    with kstore.open(two, config=QUIET):
        [found] = find_missing_folders(DISK, [str(two)])
        assert (found.topic, found.partition, found.is_certain) == ("orders", 0, False)
        report = kstore.verify(two)
        assert [each.kind for each in report.warnings] == [MISSING]
        assert main(["verify", "--log-dir", str(two)]) == 3
    assert find_missing_folders(DISK, [str(two), str(two.parent / "offline")]) == []


def test_a_partition_that_a_writer_deletes_is_not_missing(
    two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kstore.open(two, config=QUIET) as store:
        put = store._catalog.partition_changes._put
        found: list[object] = []

        def look_before(topic: str, entry: TopicEntry) -> None:
            if 0 not in entry.numbers:  # the folder is renamed, the entry not yet written
                assert not (two / NAME).exists()
                monkeypatch.setattr(missing_folders, "sleep", lambda seconds: put(topic, entry))
                found.append(find_missing_folders(DISK, [str(two)]))
            put(topic, entry)

        monkeypatch.setattr(store._catalog.partition_changes, "_put", look_before)
        store.delete_partition("orders", 0)
    assert found == [[]]
