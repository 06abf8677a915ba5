"""Spark reads 10 million records: by kstore, beside ready-made Arrow batches (all that Spark takes
from a Python source) and Spark's own Kafka connector at a real broker on the same machine.

The connector is there where pyspark is 4.2 (``PYTHONPATH=.cache/pyspark-4.2``, see `make
spark-all`). KSTORE_BENCH_DIR names a folder for the data, which is kept there for another run.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from kstore.bench import spark as bench
from kstore.bench.contest import Contest, scaled
from peers.broker import broker, connector_jars

RECORDS = 10_000_000
READY, OURS, THEIRS = "ready-made", "kstore", "Kafka connector"


def prepared(folder: Path, records: int) -> tuple[Path, Path]:
    """The store and the ready-made batches, made unless they are there."""
    store, ready = folder / f"store-{records}", folder / f"ready-{records}"
    if not ready.exists():
        bench.fill(store, records)
        bench.make_ready(store, ready.with_suffix(".part"))
        ready.with_suffix(".part").rename(ready)
    return store, ready


def contests() -> Iterator[Contest]:
    records = scaled(RECORDS, 1000)
    with ExitStack() as stack:
        kept = os.environ.get("KSTORE_BENCH_DIR")
        folder = Path(kept or stack.enter_context(tempfile.TemporaryDirectory()))
        store, ready = prepared(folder, records)
        jars, missing = connector_jars(bench.SPARK_VERSION)
        if missing:
            print(f"without Spark's Kafka connector: {missing}", file=sys.stderr)
        places: dict[str, tuple[str, Path | str]] = {
            READY: ("ready-made", ready),
            OURS: ("kstore", store),
        }
        if jars:
            root = folder / f"broker-{os.getpid()}"
            address = stack.enter_context(broker(store, bench.TOPIC, bench.PARTITIONS, root))
            places[THEIRS] = ("kafka", address)
        spark = stack.enter_context(bench.session(jars))

        def run(work: Callable[..., object], who: str, columns: str = "") -> object:
            return work(bench.load(spark, *places[who], columns=columns))

        found = {who: run(bench.fingerprint, who) for who in places}
        if len(set(found.values())) != 1 or found[OURS][0] != records:
            raise AssertionError(f"rows differ: {found}")
        for name, work, column, expected, wanted in (
            ("scan of all columns to noop", bench.scan, "", None, (0.85, 2.5, 0)),
            ("count()", count, "offset", records, (0.7, 2.5, 5.5)),
            ("groupBy(key).count()", bench.groups, "key", bench.keys(records), (0.8, 2.3, 4)),
        ):
            calls = {who: partial(run, work, who) for who in places}
            bars = [(OURS, READY, wanted[0])]
            if column:
                narrow = f", columns={column}"
                calls[READY + narrow] = partial(run, work, READY, column)
                calls[OURS + narrow] = partial(run, work, OURS, column)
                bars.append((OURS + narrow, READY + narrow, None))
            if jars:
                bars.append((OURS, THEIRS, wanted[1]))
                if column:
                    bars.append((OURS + narrow, THEIRS, wanted[2]))
            yield Contest(
                name=f"Spark {bench.SPARK_VERSION}, {name} of {records:,} records",
                calls=calls,
                amount=records,
                unit="records",
                expected=expected,
                bars=tuple(bars),
                rounds=3,
            )


def count(frame: "bench.DataFrame") -> int:
    return int(frame.count())
