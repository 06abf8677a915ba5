"""The checkpoints of a log directory: entries of partitions, kept, replaced and dropped."""

import logging
from pathlib import Path

import pytest

from kstore.checkpoint.log_dir_offsets import LogDirOffsets, LogState
from kstore.files.files import DISK


def test_checkpoints_keep_what_was_not_opened(tmp_path: Path) -> None:
    for name in ("recovery-point", "log-start", "replication"):
        (tmp_path / f"{name}-offset-checkpoint").write_text("0\n2\nold 0 5\nt 0 6\n")
    offsets = LogDirOffsets(DISK, str(tmp_path), [], writable=True)
    assert offsets.recovery_point(("old", 0)) == 5
    offsets.checkpoint({("t", 0): LogState(9, None, 10), ("t", 1): LogState(3, 2, 4)})
    texts = {
        name: (tmp_path / f"{name}-offset-checkpoint").read_text()
        for name in ("recovery-point", "log-start", "replication")
    }
    assert texts == {
        "recovery-point": "0\n3\nold 0 5\nt 0 9\nt 1 3\n",
        "log-start": "0\n2\nold 0 5\nt 1 2\n",
        "replication": "0\n3\nold 0 5\nt 0 10\nt 1 4\n",
    }
    assert offsets.log_start(("t", 0)) == 0
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n2\nold 0 1\nt 0 1\n")
    offsets.forget([("t", 0), ("t", 1), ("t", 2)])
    for path in tmp_path.glob("*-offset-checkpoint"):
        assert path.read_text().splitlines()[1:] in (["1", "old 0 5"], ["1", "old 0 1"])


def test_a_checkpoint_that_does_not_parse_means_recovery_from_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n5\nt 0 6\n")
    notes: list[str] = []
    offsets = LogDirOffsets(DISK, str(tmp_path), notes, writable=False)
    with caplog.at_level(logging.WARNING, "kstore"):
        assert offsets.recovery_point(("t", 0)) == 0
    assert "recovery-point-offset-checkpoint" in caplog.text
    assert [note for note in notes if "continuing without it" in note] == notes != []
    assert [path.name for path in tmp_path.iterdir()] == ["recovery-point-offset-checkpoint"]


def test_a_writer_keeps_a_checkpoint_that_does_not_parse(tmp_path: Path) -> None:
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n5\nt 0 6\n")
    notes: list[str] = []
    offsets = LogDirOffsets(DISK, str(tmp_path), notes, writable=True)
    assert offsets.log_start(("t", 0)) == offsets.current_log_start(("t", 0)) == 0
    assert [", kept as " in note for note in notes] == [True]
    offsets.checkpoint({("t", 0): LogState(3, 2, 4)})
    assert [p.read_text() for p in tmp_path.rglob("*log-start*.*")] == ["0\n5\nt 0 6\n"]
    assert offsets.current_log_start(("t", 0)) == 2
