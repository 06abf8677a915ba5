"""A producer's records, numbered for idempotence or not, and transactions, one by one.

Every function makes a store of its own below a directory, works under a clock of its own, checks
what came of it, and removes it.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter

import kstore
from kstore.bench.contest import Timed
from kstore.bench.log_append import prepared, raw_file

VALUE = bytes(100)
TOPIC = "bench"
RECORDS_A_BATCH = 150  # of 100 bytes: a producer's 16 KiB


@contextmanager
def _store(directory: Path) -> Iterator[kstore.Store]:
    path = mkdtemp(dir=directory)
    try:
        with kstore.open(path) as store:
            store.create_topic(TOPIC)
            yield store
    finally:
        shutil.rmtree(path)


def sent(directory: Path, count: int, acks: int | str, *, idempotent: bool) -> Timed:
    """Records one by one to a producer, until all are acknowledged; per record."""
    with _store(directory) as store:
        started = perf_counter()
        with store.producer(TOPIC, acks=acks, enable_idempotence=idempotent) as producer:
            for _ in range(count):
                producer.send(VALUE)
            producer.flush()
            seconds = perf_counter() - started
        _check(store, count)
    return Timed(seconds / count, result=count)


def committed(directory: Path, count: int, acks: int | str, records: int = 1) -> Timed:
    """Transactions of so many records each, on one partition, one after another; per commit."""
    with _store(directory) as store:
        producer = store.transactional_producer(TOPIC, acks=acks)
        started = perf_counter()
        for _ in range(count):
            producer.begin_transaction()
            for _ in range(records):
                producer.send(TOPIC, VALUE)
            producer.commit_transaction()
        seconds = perf_counter() - started
        _check(store, count * records)
    return Timed(seconds / count, result=count * records)


def written(directory: Path, count: int, acks: int | str) -> Timed:
    """So many records in ready batches as large as a producer's, by the bare system call, with
    one fdatasync where everything has to be on disk; per record."""
    batch = prepared(RECORDS_A_BATCH)
    batches = -(-count // RECORDS_A_BATCH)
    with raw_file(directory, batches * len(batch)) as fd:
        started = perf_counter()
        for _ in range(batches):
            os.write(fd, batch)
        if acks == "all":
            os.fdatasync(fd)
        seconds = perf_counter() - started
    return Timed(seconds / count, result=count)


def bare_writes(directory: Path, count: int, syncs: int, acks: int | str) -> Timed:
    """So many bare writes of a page, an fdatasync after each where all is to be on disk; per
    count."""
    page = bytes(4096)
    with raw_file(directory, count * syncs * len(page)) as fd:
        started = perf_counter()
        for _ in range(count * syncs):
            os.write(fd, page)
            if acks == "all":
                os.fdatasync(fd)
        seconds = perf_counter() - started
    return Timed(seconds / count, result=count)


def _check(store: kstore.Store, count: int) -> None:
    view = store[TOPIC][0].view(isolation="read_committed")
    found = sum(len(columns) for columns in view.scan())
    if found != count:
        raise AssertionError(f"{found} records show, not {count}")
