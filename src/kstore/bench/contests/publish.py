"""Messages handed over one by one or in bulk until all are acknowledged: kstore in this process
beside brokers, which a socket stands before. In the first contest nobody syncs before it answers,
in the second everybody does; like is compared with like: thousands with thousands, single ones
with single ones."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from kstore.bench import log_append, log_stream, producer, servers
from kstore.bench.contest import Contest, Timed, scaled
from kstore.bench.peers import missing, optional, standing

VALUE = b"x" * log_append.VALUE_SIZE
RECORDS = 500_000
EXTEND, PRODUCER = "kstore, extend of 1000", "kstore, a producer"
WRITE, SYNC = "pwrite of ready batches", "write of ready batches, fdatasync each MiB"
# Wanted of values handed over by the thousand against messages that confluent-kafka is handed one
# by one, enqueued and acknowledged: what a program does with either. Like pairs stand beside it.
CONFLUENT = 15.0
Calls = dict[str, Callable[[], object]]
Bars = list[tuple[str, str, float | None]]
MOCK = {
    "bootstrap.servers": "mock",
    "test.mock.num.brokers": 1,
    "linger.ms": 5,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 1 << 20,
    "delivery.report.only.error": True,
    "log_level": 0,
}


def by_confluent(package: Any, count: int, together: int = 1) -> Timed:
    """librdkafka's producer against the broker that it mocks in the same process.

    One message a call, or so many ``together``.
    """
    failed: list[object] = []
    sender = package.Producer(MOCK)
    sender.list_topics("log", timeout=30)

    def refused(error: object, message: object) -> None:
        failed.append(error)

    started = perf_counter()
    if together == 1:
        produce = sender.produce
        for _ in range(count):
            produce("log", VALUE, on_delivery=refused)
    else:
        messages = [{"value": VALUE} for _ in range(together)]
        for _ in range(count // together):
            if sender.produce_batch("log", messages, on_delivery=refused) != together:
                raise AssertionError("its queue is full")
    left = sender.flush(120)
    seconds = perf_counter() - started
    if left or failed:
        raise AssertionError(f"{left} messages are left, {len(failed)} failed: {failed[:1]}")
    return Timed(seconds / count, result=count)


def extends(directory: Path, count: int) -> Timed:
    timed = log_append.extends(directory, count // 1000)
    return Timed(timed.seconds / 1000, result=count)


def streamed(directory: Path, count: int) -> Timed:
    """The same, acknowledged on disk, at most 1 MiB waiting for it."""
    return Timed(log_stream.stream(directory, count, reader=False).seconds, result=count)


def add_servers(
    calls: Calls, bars: Bars, running: ExitStack, path: Path, count: int, *, synced: bool
) -> None:
    """Redis and NATS, where they are; both have a thousand messages under way."""
    for program, name, serve in (
        ("redis-server", "Redis Streams, XADD in bulk", servers.redis),
        ("nats-server", "NATS JetStream, in bulk", servers.nats),
    ):
        name = f"{name}, synced" if synced else name
        if reason := (servers.why_not_synced if synced else servers.why_not)(program):
            missing[name] = reason
        elif publish := standing(running, name, serve(path, synced=synced)):
            calls[name] = partial(publish, count, VALUE)
            bars.append((EXTEND, name, None))


def written(directory: Path, count: int) -> Timed:
    """The batches of a thousand, ready-made, by the bare system call."""
    timed = log_append.raw_pwrites(directory, count // 1000)
    return Timed(timed.seconds / 1000, result=count)


def contest(name: str, floor: str, calls: Calls, bars: Bars) -> Contest:
    return Contest(
        name=name,
        calls=calls,
        amount=1,
        unit="records",
        bars=((EXTEND, floor, None), *bars),
        ceiling=floor,
        rounds=5,
    )


def in_page_cache(directory: Path, running: ExitStack, count: int) -> Contest:
    calls: Calls = {
        EXTEND: partial(extends, directory, count),
        PRODUCER: partial(producer.sent, directory, count, 1, idempotent=False),
        WRITE: partial(written, directory, count),
    }
    bars: Bars = []
    package = optional("confluent_kafka", "confluent-kafka")
    if package is not None:
        mock = "confluent-kafka, its mock broker"
        calls[mock] = partial(by_confluent, package, count)
        bars += [(PRODUCER, mock, None), (EXTEND, mock, CONFLUENT)]
        if hasattr(package.Producer, "produce_batch"):
            calls[f"{mock}, 1000 a call"] = partial(by_confluent, package, count, 1000)
            bars.append((EXTEND, f"{mock}, 1000 a call", None))
        else:
            missing[f"{mock}, 1000 a call"] = "its version has no produce_batch"
    add_servers(calls, bars, running, directory, count, synced=False)
    title = f"hand over {count} messages of {len(VALUE)} bytes, acknowledged, nothing synced"
    return contest(title, WRITE, calls, bars)


def on_disk(directory: Path, running: ExitStack, count: int) -> Contest:
    calls: Calls = {
        EXTEND: partial(streamed, directory, count),
        PRODUCER: partial(producer.sent, directory, count, "all", idempotent=False),
        SYNC: partial(log_stream.raw_stream, directory, count),
    }
    bars: Bars = []
    add_servers(calls, bars, running, directory, count, synced=True)
    title = f"hand over {count} messages of {len(VALUE)} bytes, acknowledged once on disk"
    return contest(title, SYNC, calls, bars)


def contests() -> Iterator[Contest]:
    count = scaled(RECORDS, 2000) // 1000 * 1000
    for make in (in_page_cache, on_disk):
        with TemporaryDirectory() as path, ExitStack() as running:
            yield make(Path(path), running, count)
