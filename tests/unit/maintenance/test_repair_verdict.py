"""What repair counts as damage, and what it only leaves out."""

import json
from pathlib import Path

import pytest

import kstore
from kstore.cli import main
from support.stores import QUIET


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory that was closed cleanly, of one topic with three segments."""
    path = tmp_path / "data"
    with kstore.open(path, config=QUIET) as store:
        log = store.create_topic("orders", config=kstore.LogConfig(file_delete_delay_ms=60_000))[0]
        for number in range(30):
            if number in (10, 20):
                log.roll()
            log.append(b"order %d" % number)
    return path


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("old-0.0123456789abcdef0123456789abcdef-delete", "being deleted"),
        ("old-0.0123456789abcdef0123456789abcdef-future", "future replica of an unfinished move"),
        ("old-0.0123456789abcdef0123456789abcdef-stray", "a stray partition"),
        ("remote-log-index-cache", "not a partition"),
        ("lost+found", "not a partition"),
    ],
)
def test_folders_that_are_no_live_partition_are_skipped_and_are_no_damage(
    root: Path, tmp_path: Path, name: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / name).mkdir()
    (root / name / "00000000000000000000.log").write_bytes(b"not read")
    assert main(["repair", "--path", str(root)]) == 0
    assert f"skipped: {name}, " in (text := capsys.readouterr().out)
    assert why in text
    assert main(["repair", "--json", "--path", str(root)]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["ok"] is True
    assert tree["notes"] == []
    assert len(tree["left_out"]) == 1
    out = tmp_path / "out"
    assert main(["repair", "--path", str(root), "--execute", "--output", str(out)]) == 0
    assert not (out / name).exists()


def test_leftovers_in_a_partition_are_skipped_and_are_no_damage(root: Path) -> None:
    with kstore.open(root, config=QUIET) as store:
        store["orders"][0].delete_records(10)
    partition = root / "orders-0"
    assert list(partition.glob("*.deleted"))
    (partition / "leader-epoch-checkpoint.tmp").write_bytes(b"half")
    (partition / "folder").mkdir()
    report = kstore.plan_repair(root)
    assert report.ok
    assert len(report.partitions[0].left_out) == 2


def test_a_corrupt_checkpoint_is_damage_still(root: Path) -> None:
    (root / "log-start-offset-checkpoint").write_text("nonsense")
    assert not kstore.plan_repair(root).ok
