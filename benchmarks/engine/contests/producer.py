"""Producers: what idempotence costs, and how long the commit of a transaction takes."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from time import perf_counter

import kstore
from engine.data.batches import client_batch
from engine.data.fresh import copies, values_in_turn
from engine.data.logs import TOPIC
from kstore.bench.contest import Calls, Contest, Timed, scaled
from kstore.bench.data.raw_files import write_blocks

RECORDS_A_BATCH = 150  # a producer's 16 KiB
BATCHES = "write of ready batches"
SYNCS = 3  # of a commit: its records, the decision, its markers
ACKS: dict[str, int | str] = {"page cache": 1, "on disk": "all"}


@contextmanager
def new_store(directory: Path, count: int) -> Iterator[kstore.Store]:
    """A store with an empty topic, which must have ``count`` committed records at the end."""
    path = mkdtemp(dir=directory)
    try:
        with kstore.open(path) as store:
            store.create_topic(TOPIC)
            yield store
            view = store[TOPIC][0].view(isolation="read_committed")
            found = sum(len(columns) for columns in view.scan())
            if found != count:
                raise AssertionError(f"{found} records are visible, not {count}")
    finally:
        shutil.rmtree(path)


def send(directory: Path, count: int, acks: int | str, *, idempotent: bool) -> Timed:
    """Send records one by one until all are acknowledged; per record."""
    with (
        new_store(directory, count) as store,
        store.producer(TOPIC, acks=acks, enable_idempotence=idempotent) as producer,
    ):
        values = values_in_turn(count)
        started = perf_counter()
        for value in values:
            producer.send(value)
        producer.flush()
        seconds = perf_counter() - started
    return Timed(seconds / count, result=count)


def commit(directory: Path, count: int, acks: int | str, records: int) -> Timed:
    """Run transactions on one partition, one after another; per commit."""
    with new_store(directory, count * records) as store:
        producer = store.transactional_producer(TOPIC, acks=acks)
        values = iter(values_in_turn(count * records))
        started = perf_counter()
        for _ in range(count):
            producer.begin_transaction()
            for value in islice(values, records):
                producer.send(TOPIC, value)
            producer.commit_transaction()
        seconds = perf_counter() - started
    return Timed(seconds / count, result=count * records)


def write_bare(directory: Path, block: bytes, blocks: int, count: int, sync_every: float) -> Timed:
    """Bare writes of a block, synced as in ``write_blocks``; for one of ``count`` units."""
    seconds = write_blocks(directory, copies(block, blocks), sync_every)
    return Timed(seconds / count, result=count)


def sending(name: str, directory: Path) -> Contest:
    count = scaled(100_000, 100)
    sent = partial(send, directory, count, ACKS[name])
    batch = client_batch(RECORDS_A_BATCH)
    sync_every = inf if ACKS[name] == "all" else 0
    return Contest(
        name=f"a producer's records of 100 bytes, {name}",
        calls={
            "plain": partial(sent, idempotent=False),
            "idempotent": partial(sent, idempotent=True),
            BATCHES: partial(
                write_bare, directory, batch, -(-count // RECORDS_A_BATCH), count, sync_every
            ),
        },
        amount=1,
        unit="records",
        bars=(("idempotent", "plain", None), ("plain", BATCHES, None)),
        ceiling=BATCHES,
    )


def committing(name: str, directory: Path, records: int) -> Contest:
    is_synced = ACKS[name] == "all"
    count = scaled(100 if is_synced else 1000, 5)
    floor = f"{SYNCS} {'synced ' if is_synced else ''}writes"
    calls: Calls = {
        "kstore": partial(commit, directory, count, ACKS[name], records),
        floor: partial(
            write_bare, directory, bytes(4096), count * SYNCS, count, 1 if is_synced else 0
        ),
    }
    return Contest(
        name=f"transactions of {records}, {name}",
        calls=calls,
        amount=1,
        unit="commits",
        bars=(("kstore", floor, None),),
        ceiling=floor,
        expected=count * records,
        unchecked=frozenset([floor]),
    )


def contests() -> Iterator[Contest]:
    with TemporaryDirectory() as path:
        for name in ACKS:
            yield sending(name, Path(path))
            for records in (1, 100):
                yield committing(name, Path(path), records)
