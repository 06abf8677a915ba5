"""Reads, scans and recovery in page cache against Kafka's own log layer, on the same bytes."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import kstore
from kstore._native import limits
from kstore.bench import log_append, log_read
from kstore.bench.contest import Contest, Timed, scaled
from kstore.bench.peers import KafkaLog, attempt, kafka_log, timed
from kstore.bench.recovery import read_whole
from kstore.log.filenames import log_name

GIB = 1 << 30
# name: wanted for a scan on one core and on two, and for recovery
BARS: dict[str, tuple[float | None, float | None, float | None]] = {
    "110 KB": (2.0, 3.0, None),
    "16.5 KB": (2.0, 3.0, 1.5),
    "1.15 KB": (None, None, 4.0),
    "one record": (10.0, None, 10.0),
}
PREAD = "pread of a header, its place known"
MAPPED = "a mapped header read in C, its place known"
Calls = dict[str, Callable[[], object]]
Bars = tuple[tuple[str, str, float | None], ...]


def reading(name: str, log: kstore.Log, peer: KafkaLog | None) -> Contest:
    seeds = itertools.count(1)
    count = scaled(100_000, 1000)
    calls: Calls = {
        "kstore": lambda: log_read.at_random(log, count, next(seeds)),
        PREAD: lambda: log_read.raw_at_random(log, count, next(seeds)),
        MAPPED: lambda: log_read.mapped_at_random(log, count, next(seeds)),
    }
    bars: Bars = (("kstore", PREAD, None), ("kstore", MAPPED, None))
    if peer is not None:
        calls["Kafka"] = lambda: timed(peer.read(name_of(name), count, next(seeds)), single=True)
        bars += (("kstore", "Kafka", 2.0), ("kstore p99", "Kafka p99", None))
    return Contest(
        name=f"read(offset) at random offsets, batches of {name}",
        calls=calls,
        amount=1,
        unit="reads",
        bars=bars,
        ceiling=MAPPED,
        rounds=9,
    )


def scanning(name: str, log: kstore.Log, peer: KafkaLog | None) -> Contest:
    one, two, _ = BARS[name]
    whole = log.segments.views[0].whole()
    calls: Calls = {
        "kstore, one core": partial(log_read.scan, log, 1),
        "kstore, two cores": partial(log_read.scan, log, 2),
        "read every byte": lambda: limits.read_all(whole) and None,
    }
    bars: Bars = (
        ("kstore, two cores", "kstore, one core", None),
        ("kstore, one core", "read every byte", None),
    )
    if peer is not None:
        calls["Kafka"] = lambda: seconds(peer.iterate(name_of(name)))
        calls["Kafka, fetches of 1 MiB"] = lambda: seconds(peer.fetch(name_of(name)))
        bars = (
            ("kstore, one core", "Kafka", one),
            ("kstore, two cores", "Kafka", two),
            ("kstore, one core", "Kafka, fetches of 1 MiB", None),
            *bars,
        )
    return Contest(
        name=f"scan every record with CRC as columns, {whole.size} bytes, batches of {name}",
        calls=calls,
        amount=log.end_offset,
        unit="records",
        bars=bars,
        expected=log.end_offset,
        unchecked=frozenset(["read every byte"]),
        ceiling="read every byte",
        rounds=7,
    )


def seconds(result: dict[str, float | int | str]) -> Timed:
    return Timed(float(result["seconds"]), result=int(result["count"]))


def recovering(name: str, store: Path, end: int, size: int, peer: KafkaLog | None) -> Contest:
    unsynced = log_read.Unsynced()
    calls: Calls = {
        "kstore": partial(log_read.recover, store, end, unsynced),
        "kstore, all synced": partial(log_read.recover, store, end),
        "read": lambda: read_whole(store / "bench-0" / log_name(0)),
    }
    bars: Bars = (("kstore", "read", None),)
    if peer is not None:

        def by_kafka() -> Timed:
            result = peer.recover(name_of(name))
            return Timed(float(result["seconds"]), result=int(result["bytes"]))

        calls["Kafka, nothing synced"] = by_kafka
        bars += (
            ("kstore", "Kafka, nothing synced", BARS[name][2]),
            ("kstore, all synced", "Kafka, nothing synced", None),
        )
    return Contest(
        name=f"recover an unclean log, {size} bytes, batches of {name}",
        calls=calls,
        amount=size,
        bars=bars,
        expected=size,
        ceiling="read",
        rounds=7,
    )


def seeking(directory: Path) -> Iterator[Contest]:
    """By time, beside by offset."""
    records = log_append.SHAPES["16.5 KB"]
    store = log_read.fill_by_time(directory, records, scaled(GIB // 4, 1 << 20))
    seeds = itertools.count(1)
    count = scaled(50_000, 500)
    with kstore.open(store) as opened:
        log = opened["bench"][0]
        yield Contest(
            name="seek to random times, batches of 16.5 KB",
            calls={
                "kstore, offset_at(time)": lambda: log_read.at_times(
                    log, records, count, next(seeds)
                ),
                "kstore, read(offset)": lambda: log_read.at_random(log, count, next(seeds)),
                PREAD: lambda: log_read.raw_at_random(log, count, next(seeds)),
                MAPPED: lambda: log_read.mapped_at_random(log, count, next(seeds)),
            },
            amount=1,
            unit="seeks",
            bars=(("kstore, offset_at(time)", "kstore, read(offset)", None),),
            ceiling=MAPPED,
            rounds=9,
        )
    shutil.rmtree(store)


def name_of(shape: str) -> str:
    return shape.replace(" ", "-").replace(".", "")


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as path, kafka_log(Path(path) / "kafka") as peer:
        for name, records in log_append.SHAPES.items():
            size = scaled(GIB, 1 << 20)
            made = None
            if peer is not None:
                made = attempt("Kafka", partial(peer.fill, name_of(name), records, size))
            if made is None:
                peer = None
                store = log_read.fill(Path(path), records, size)
            else:
                store = log_read.adopt(Path(path), str(made["directory"]))
            with kstore.open(store) as opened:
                log = opened["bench"][0]
                end, size = log.end_offset, log.size
                yield reading(name, log, peer)
                yield scanning(name, log, peer)
            yield recovering(name, store, end, size, peer)
            shutil.rmtree(store)
        yield from seeking(Path(path))
