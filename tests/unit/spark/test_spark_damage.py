"""Damage under a Spark task: its position is reported, or only the damaged batch is skipped."""

import json
from pathlib import Path

import pytest

import kstore
from kstore.errors import (
    CorruptRecordError,
)
from kstore.spark import plan
from kstore.spark.source import range_reader
from kstore.spark.source.offset_ranges import SegmentSpan
from support.ranges import fill, planned_ranges, read_by_engine, run

pytestmark = pytest.mark.usefixtures("no_stores_from_elsewhere")


def flip(planned: SegmentSpan, at: int = 70) -> None:
    path = Path(planned.path)
    data = bytearray(path.read_bytes())
    data[planned.position + at] ^= 0x10
    inode = path.stat().st_ino
    with open(path, "r+b") as file:
        file.write(data)
    assert path.stat().st_ino == inode


def test_damage_fails_the_task_and_names_path_position_and_offset(tmp_path: Path) -> None:
    fill(tmp_path)
    found = plan(tmp_path, topics="t", maxPartitionBytes=5000)
    hurt = planned_ranges(found)[4]
    flip(hurt)
    with pytest.raises(CorruptRecordError) as error:
        run(tmp_path, found)
    assert error.value.path == hurt.path
    assert error.value.position == hurt.position
    assert error.value.offset == hurt.start
    assert f"file {hurt.path}, position {hurt.position}, offset {hurt.start}" in str(error.value)


@pytest.mark.parametrize("mode", ["PERMISSIVE", "dropmalformed"])
@pytest.mark.parametrize("at", [70, 17, 3, 7, 10, 25])
@pytest.mark.parametrize("chunk", [1 << 20, 100])
def test_damage_is_skipped_and_counted(
    tmp_path: Path, mode: str, at: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the payload, of the checksum, of the offset (twice), of the size, of the last offset."""
    monkeypatch.setattr(range_reader, "CHUNK", chunk)
    fill(tmp_path)
    before = read_by_engine(tmp_path)
    found = plan(tmp_path, topics="t", maxPartitionBytes=5000)
    hurt = planned_ranges(found)[4]
    with kstore.open(tmp_path, mode="r") as store:
        lost = store["t"][0].read(hurt.start, 1)
        assert lost is not None
        count = int.from_bytes(lost.memory()[57:61], "big")
    flip(hurt, at)
    notes = tmp_path / "bad"
    rows = run(tmp_path, found, mode=mode, badRecordsPath=notes)
    gone = {row[0] for row in before} - {row[0] for row in rows}
    assert rows == [row for row in before if row[0] not in gone]
    assert gone == set(range(hurt.start, hurt.start + count))
    lines = [json.loads(line) for path in notes.iterdir() for line in path.read_text().splitlines()]
    assert [(line["path"], line["position"], line["topic"]) for line in lines] == [
        (hurt.path, hurt.position, "t")
    ]
