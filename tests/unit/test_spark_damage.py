"""Damage under a task of Spark's: its place, or everything but the damaged batch."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.errors import (
    CorruptRecordError,
)
from kstore.spark import Plan, plan, reading
from kstore.spark.options import parse_source
from kstore.spark.planning import Piece
from kstore.spark.reading import RangeReader
from kstore.spark.tasks import run_task
from support.stores import QUIET

T0 = 1_700_000_000_000


@pytest.fixture(autouse=True)
def no_stores_from_elsewhere() -> Any:
    """As in a worker that has just started."""
    reading._open_stores.clear()
    yield
    for store in reading._open_stores.values():
        store.close()
    reading._open_stores.clear()


def fill(path: Path, count: int = 3000, **settings: object) -> None:
    """One partition, some segments, keys that repeat, one record in ten its own batch."""
    config = kstore.LogConfig(segment_bytes=20_000, index_interval_bytes=500, **settings)
    rng = random.Random(5)
    with kstore.open(path, config=QUIET) as store:
        log = store.create_topic("t", config=config)[0]
        n = 0
        while n < count:
            size = rng.choice((1, 5, 40))
            log.extend(
                kstore.Record(0, T0 + k, b"k%d" % (k % 50), b"v%d" % k) for k in range(n, n + size)
            )
            n += size


def run(path: Path, found: Plan, **options: object) -> list[tuple[int, bytes | None]]:
    """Offset and value of every row of a plan's tasks."""
    texts = {"path": str(path), "subscribe": "t", "columns": "offset,value"}
    wanted = parse_source({**texts, **{name: str(value) for name, value in options.items()}})
    return [
        (row["offset"], row["value"])
        for task in found.tasks
        for batch in run_task(wanted, wanted.columns, task)
        for row in batch.to_pylist()
    ]


def there(path: Path) -> list[tuple[int, bytes | None]]:
    """The same, by the engine."""
    with kstore.open(path, mode="r") as store:
        return [(record.offset, record.value) for record in store["t"][0]]


def pieces(found: Plan) -> list[Piece]:
    return [piece for task in found.tasks for each in task for piece in each.pieces]


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Offsets that were not read as planned."""
    seen: list[tuple[int, int]] = []
    original = RangeReader._search

    def search(self: RangeReader, of: Any, start: int, stop: int) -> Any:
        seen.append((start, stop))
        return original(self, of, start, stop)

    monkeypatch.setattr(RangeReader, "_search", search)
    return seen


def flip(piece: Piece, at: int = 70) -> None:
    path = Path(piece.path)
    data = bytearray(path.read_bytes())
    data[piece.position + at] ^= 0x10
    inode = path.stat().st_ino
    with open(path, "r+b") as file:
        file.write(data)
    assert path.stat().st_ino == inode


def test_damage_fails_the_task_with_its_place(tmp_path: Path) -> None:
    fill(tmp_path)
    found = plan(tmp_path, topics="t", maxPartitionBytes=5000)
    hurt = pieces(found)[4]
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
def test_damage_is_left_out_and_counted(
    tmp_path: Path, mode: str, at: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the payload, of the checksum, of the offset (twice), of the size, of the last offset."""
    monkeypatch.setattr(reading, "CHUNK", chunk)
    fill(tmp_path)
    before = there(tmp_path)
    found = plan(tmp_path, topics="t", maxPartitionBytes=5000)
    hurt = pieces(found)[4]
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
