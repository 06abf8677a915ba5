"""Spark reads 10 million records from kstore, from ready-made Arrow batches (the most that Spark
takes from a Python source), and by Spark's own Kafka connector from a broker on the same machine.

The connector needs pyspark 4.2 (``PYTHONPATH=.cache/pyspark-4.2``, see `make
spark-all`). KSTORE_BENCH_DIR names a folder for the data, which is kept there for another run.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import spark_data as bench
from kstore.bench.contest import Contest, scaled
from peers.broker import broker
from peers.spark import data_folder, session

RECORDS = 10_000_000
READY, OURS, THEIRS = "ready-made", "kstore", "Kafka connector"


def prepared(folder: Path, records: int) -> tuple[Path, Path]:
    """The store and the ready-made batches, written unless they exist."""
    store, ready = folder / f"store-{records}", folder / f"ready-{records}"
    if not store.exists():
        bench.fill(store.with_suffix(".part"), records)
        store.with_suffix(".part").rename(store)
    if not ready.exists():
        bench.make_ready(store, ready.with_suffix(".part"))
        ready.with_suffix(".part").rename(ready)
    return store, ready


def contests() -> Iterator[Contest]:
    records = scaled(RECORDS, 1000)
    with ExitStack() as stack:
        folder = stack.enter_context(data_folder())
        store, ready = prepared(folder, records)
        spark, with_connector = stack.enter_context(session())
        sources: dict[str, tuple[str, Path | str]] = {
            READY: ("ready-made", ready),
            OURS: ("kstore", store),
        }
        if with_connector:
            root = folder / f"broker-{os.getpid()}"
            address = stack.enter_context(broker(store, bench.TOPIC, bench.PARTITIONS, root))
            sources[THEIRS] = ("kafka", address)

        def run(work: Callable[..., object], who: str, columns: str = "") -> object:
            return work(bench.load(spark, *sources[who], columns=columns))

        yield Contest(
            name=f"Spark {bench.SPARK_VERSION}, a hash over all columns of {records:,} records",
            calls={who: partial(run, bench.fingerprint, who) for who in sources},
            amount=records,
            unit="records",
            bars=tuple((OURS, who, None) for who in sources if who != OURS),
            rounds=1,  # only checks that the rows are equal
        )
        for name, work, column, expected, wanted in (
            ("scan of all columns to noop", bench.scan, "", None, (0.85, 2.5, 0)),
            ("count()", bench.count, "offset", records, (0.7, 2.5, 5.5)),
            ("groupBy(key).count()", bench.groups, "key", bench.keys(records), (0.8, 2.3, 4)),
        ):
            calls = {who: partial(run, work, who) for who in sources}
            bars = [(OURS, READY, wanted[0])]
            if column:
                narrow = f", columns={column}"
                calls[READY + narrow] = partial(run, work, READY, column)
                calls[OURS + narrow] = partial(run, work, OURS, column)
                bars.append((OURS + narrow, READY + narrow, None))
            if with_connector:
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
                rounds=5,
            )
        del sources[READY]
        yield time_range(spark, folder, store, records, sources)


def time_range(
    spark: Any, folder: Path, store: Path, records: int, sources: dict[str, tuple[str, Path | str]]
) -> Contest:
    """The middle 1% by time, compared with a store that has only those records."""
    since, until, expected = bench.middle(records)
    only = folder / f"only-{records}"
    if not only.exists():
        bench.fill(only.with_suffix(".part"), expected, since)
        only.with_suffix(".part").rename(only)
    wanted, planned, read, looked = bench.range_sizes(store, since, until)
    interval = bench.PARTITIONS * bench.index_interval(store)
    print(
        f"   time range: {wanted:,} bytes hold it; {planned:,} planned, {read:,} read by tasks, "
        f"{looked:,} by planning; one index interval a segment is {interval:,}",
        file=sys.stderr,
    )
    if not wanted <= planned <= read <= wanted + interval:
        raise AssertionError(f"{wanted} bytes are wanted, {planned} planned, {read} read")
    bounds = {"startingTimestamp": since, "endingTimestamp": until}

    def run(kind: str, source: Path | str, **options: object) -> int:
        return bench.count(bench.load(spark, kind, source, **options))

    alone = "kstore, a store of just that"
    calls = {who: partial(run, *source, **bounds) for who, source in sources.items()}
    calls[alone] = partial(run, "kstore", only)
    bars: list[tuple[str, str, float | None]] = [(OURS, alone, None)]
    bars += [(OURS, who, None) for who in sources if who != OURS]
    return Contest(
        name=f"Spark {bench.SPARK_VERSION}, count() of a time range, 1% of {records:,} records",
        calls=calls,
        amount=expected,
        unit="records",
        expected=expected,
        bars=tuple(bars),
        rounds=9,
    )
