"""A store to read by offset ranges, with the tasks of a plan and with the engine."""

import random
from pathlib import Path

import kstore
from kstore.spark import Plan
from kstore.spark.source.offset_ranges import SegmentSpan
from kstore.spark.source.options import parse_source
from kstore.spark.source.read_task import run_task
from support.stores import QUIET

T0 = 1_700_000_000_000


def fill(path: Path, count: int = 3000, **settings: object) -> None:
    """Fill one partition: several segments, repeated keys, every tenth record in its own batch."""
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


def read_by_engine(path: Path) -> list[tuple[int, bytes | None]]:
    """Offset and value of every record, read by the engine."""
    with kstore.open(path, mode="r") as store:
        return [(record.offset, record.value) for record in store["t"][0]]


def planned_ranges(found: Plan) -> list[SegmentSpan]:
    return [span for task in found.tasks for each in task for span in each.spans]
