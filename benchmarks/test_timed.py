"""kstore's public calls under pytest-benchmark, for those who store and compare its runs.

    pytest benchmarks/test_timed.py --benchmark-autosave
    pytest benchmarks/test_timed.py -k "extend or scan" --benchmark-compare

Each round gets other inputs, after rounds of warm-up; ``extra_info`` has the records and bytes of a
round, and the seconds of a bare call for the same bytes (its ceiling). ``make bench`` has peers.
"""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import kstore
from engine.data.batches import TIME, VALUE_SIZE, client_batch
from engine.data.fresh import copies, value_lists
from engine.data.logs import TOPIC, fill, fill_by_time, fresh_log
from kstore._native.bench import memory_loops
from kstore.bench.contest import scaled
from kstore.bench.data.raw_files import fresh

ROUNDS, WARM_UP = 30, 3
MIB = 1 << 20
BATCH = 150  # records of about 16.5 KB


@dataclass(frozen=True)
class Timing:
    """A call that is timed, its inputs in turn, and a bare call for as many bytes."""

    call: Callable[[Any], object]
    inputs: Iterator[Any]
    records: int
    size: int
    ceiling: str
    bare: Callable[[], object]


@contextmanager
def bare_write(directory: Path, size: int, *, synced: bool = False) -> Iterator[Callable[[], int]]:
    """A write of so many bytes, with its sync."""
    block = bytes(size)
    with fresh(directory / "bare") as fd:

        def write() -> int:
            written = os.write(fd, block)
            if synced:
                os.fdatasync(fd)
            return written

        yield write


def for_each(call: Callable[[Any], object]) -> Callable[[Any], None]:
    """One call for each item: a single one is shorter than a clock's reading."""

    def calls(items: Any) -> None:
        for item in items:
            call(item)

    return calls


@contextmanager
def appending(directory: Path, how: str) -> Iterator[Timing]:
    lists = value_lists(ROUNDS + WARM_UP)
    size = len(client_batch(1000))
    with fresh_log(directory) as log, bare_write(directory, size) as bare:
        call = {"extend": log.extend, "append": for_each(log.append)}[how]
        yield Timing(call, cycle(lists), 1000, size, "write of a batch of 1000", bare)


@contextmanager
def appending_batches(directory: Path) -> Iterator[Timing]:
    batches = copies(client_batch(BATCH), 64 * 40)
    several = [batches[at : at + 64] for at in range(0, len(batches), 64)]
    size = sum(map(len, several[0]))
    with fresh_log(directory) as log, bare_write(directory, size) as bare:
        call = for_each(log.append_as_leader)
        yield Timing(call, cycle(several), 64 * BATCH, size, "write of the batches at once", bare)


@contextmanager
def flushing(directory: Path) -> Iterator[Timing]:
    lists = value_lists(ROUNDS + WARM_UP, 40)
    size = len(client_batch(40))
    with fresh_log(directory) as log, bare_write(directory, size, synced=True) as bare:

        def commit(values: list[bytes]) -> None:
            log.extend(values)
            log.flush()

        yield Timing(commit, cycle(lists), 40, size, "write and fdatasync", bare)


@contextmanager
def sending(directory: Path) -> Iterator[Timing]:
    lists = value_lists(ROUNDS + WARM_UP)
    size = len(client_batch(1000))
    with (
        kstore.open(directory / "store") as store,
        bare_write(directory, size) as bare,
    ):
        store.create_topic(TOPIC)
        with store.producer(TOPIC, acks=1) as producer:

            def send(values: list[bytes]) -> None:
                for value in values:
                    producer.send(value)
                producer.flush()

            yield Timing(send, cycle(lists), 1000, size, "write of a batch of 1000", bare)


@contextmanager
def scanning(directory: Path, how: str) -> Iterator[Timing]:
    size = scaled(64 * MIB, MIB)
    with kstore.open(fill(directory, BATCH, size)) as store:
        log = store[TOPIC][0]
        data = log.segments.views[0].all_published()

        records = log.end_offset if how == "scan" else min(20_000, log.end_offset)
        read_bytes = data.size * records // log.end_offset

        def scan(view: kstore.LogView) -> None:
            if sum(len(columns) for columns in view.scan()) != records:
                raise AssertionError("records are missing")

        def iterate(view: kstore.LogView) -> None:
            if sum(len(record.value) for record in view) != records * VALUE_SIZE:
                raise AssertionError("records are missing")

        call = scan if how == "scan" else iterate
        read = partial(memory_loops.read_all, memoryview(data)[:read_bytes])
        views = (log.view(0, records) for _ in cycle([1]))
        yield Timing(call, views, records, read_bytes, "read every byte of them", read)


@contextmanager
def looking_up(directory: Path, how: str) -> Iterator[Timing]:
    draw = random.Random(7)
    with kstore.open(fill_by_time(directory, BATCH, scaled(64 * MIB, MIB))) as store:
        log = store[TOPIC][0]
        end = log.end_offset
        calls = {"read": lambda at: log.read(at, 1), "offset_at": log.offset_at}
        asked = [[draw.randrange(end) for _ in range(1000)] for _ in range(ROUNDS + WARM_UP)]
        if how == "offset_at":
            asked = [[TIME + offset // BATCH for offset in some] for some in asked]
        view = log.segments.views[0].all_published().memory()
        with view as memory:

            def bare() -> None:
                for _ in range(1000):
                    memory_loops.load(memory, 0, 61)

            what = "a mapped header read 1000 times"
            yield Timing(for_each(calls[how]), cycle(asked), 1000, 61_000, what, bare)


# group, name: how it is prepared
FACES: dict[tuple[str, str], Callable[[Path], Any]] = {
    ("append", "append of 1000 single values"): partial(appending, how="append"),
    ("append", "extend of 1000 values"): partial(appending, how="extend"),
    ("append", "append_as_leader of 64 batches"): appending_batches,
    ("durable", "extend of 40 values and flush"): flushing,
    ("producer", "send of 1000 values and flush"): sending,
    ("scan", "scan as columns"): partial(scanning, how="scan"),
    ("scan", "records of a view, one by one"): partial(scanning, how="iterate"),
    ("look up", "read of 1000 random offsets"): partial(looking_up, how="read"),
    ("look up", "offset_at of 1000 random times"): partial(looking_up, how="offset_at"),
}


def seconds_of(call: Callable[[], object]) -> float:
    """The median of some calls without the first one."""
    took = []
    for _ in range(6):
        started = perf_counter()
        call()
        took.append(perf_counter() - started)
    return median(took[1:])


@pytest.mark.parametrize(("group", "name"), FACES, ids=[name for _, name in FACES])
def test_timed(group: str, name: str, benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    benchmark.group, benchmark.name = group, name
    with FACES[group, name](tmp_path) as timing:
        benchmark.extra_info.update(
            records=timing.records,
            bytes=timing.size,
            ceiling=timing.ceiling,
            ceiling_seconds=seconds_of(timing.bare),
        )
        rounds: dict[str, Any] = {"rounds": ROUNDS, "warmup_rounds": WARM_UP}
        benchmark.pedantic(
            timing.call, setup=lambda: ((next(timing.inputs),), {}), iterations=1, **rounds
        )
