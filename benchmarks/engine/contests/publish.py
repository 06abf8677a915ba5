"""Messages published one by one or in bulk until all are acknowledged: kstore in this process
beside brokers behind a socket.

In the first contest no contestant syncs before the acknowledgement, in the second all do.
Thousands are compared with thousands, single messages with single ones.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from engine.contests import log_append, log_stream, producer
from engine.data.batches import VALUE_SIZE
from engine.data.fresh import values_in_turn
from engine.peers import brokers
from kstore.bench.contest import Bar, Calls, Contest, Timed, scaled
from kstore.bench.peers.availability import enter_peer, missing, optional

RECORDS = 500_000
EXTEND, PRODUCER = "kstore, extend of 1000", "kstore, a producer"
WRITE, SYNC = "pwrite of ready batches", "write of ready batches, fdatasync each MiB"
# Wanted of values by the thousand against messages by the thousand to confluent-kafka, enqueued and
# acknowledged.
CONFLUENT = 15.0
Bars = list[Bar]
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
    """librdkafka's producer against its mock broker in the same process.

    ``together``: messages per call.
    """
    failed: list[object] = []
    sender = package.Producer(MOCK)
    sender.list_topics("log", timeout=30)

    def refused(error: object, message: object) -> None:
        failed.append(error)

    values = values_in_turn(count)
    several = [
        [{"value": value} for value in values[at : at + together]]
        for at in range(0, count if together > 1 else 0, together)
    ]
    started = perf_counter()
    if together == 1:
        produce = sender.produce
        for value in values:
            produce("log", value, on_delivery=refused)
    else:
        for messages in several:
            if sender.produce_batch("log", messages, on_delivery=refused) != together:
                raise AssertionError("its queue is full")
    left = sender.flush(120)
    seconds = perf_counter() - started
    if left or failed:
        raise AssertionError(f"{left} messages are left, {len(failed)} failed: {failed[:1]}")
    return Timed(seconds / count, result=count)


def extends(directory: Path, count: int) -> Timed:
    timed = log_append.extend_thousands(directory, count // 1000)
    return Timed(timed.seconds / 1000, result=count)


def streamed(directory: Path, count: int) -> Timed:
    """The same, acknowledged once on disk, with at most 1 MiB unacknowledged."""
    return Timed(log_stream.stream(directory, count, reader=False).seconds, result=count)


def add_servers(
    calls: Calls, bars: Bars, running: ExitStack, path: Path, count: int, *, synced: bool
) -> None:
    """Redis and NATS if installed, each with a thousand messages in flight."""
    for program, name, serve in (
        ("redis-server", "Redis Streams, XADD in bulk", brokers.redis),
        ("nats-server", "NATS JetStream, in bulk", brokers.nats),
    ):
        name = f"{name}, synced" if synced else name
        if reason := (brokers.why_not_synced if synced else brokers.why_not)(program):
            missing[name] = reason
        elif publish := enter_peer(running, name, serve(path, synced=synced)):
            calls[name] = partial(publish, values_in_turn(count))
            bars.append((EXTEND, name, None))


def written(directory: Path, count: int) -> Timed:
    """Ready batches of a thousand values by the bare system call."""
    timed = log_append.pwrite_thousands(directory, count // 1000)
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
        PRODUCER: partial(producer.send, directory, count, 1, idempotent=False),
        WRITE: partial(written, directory, count),
    }
    bars: Bars = []
    package = optional("confluent_kafka", "confluent-kafka")
    if package is not None:
        mock = "confluent-kafka, its mock broker"
        calls[mock] = partial(by_confluent, package, count)
        bars.append((PRODUCER, mock, None))
        if hasattr(package.Producer, "produce_batch"):
            calls[f"{mock}, 1000 a call"] = partial(by_confluent, package, count, 1000)
            bars.append((EXTEND, f"{mock}, 1000 a call", CONFLUENT))
        else:
            missing[f"{mock}, 1000 a call"] = "its version has no produce_batch"
    add_servers(calls, bars, running, directory, count, synced=False)
    title = f"hand over {count} messages of {VALUE_SIZE} bytes, acknowledged, nothing synced"
    return contest(title, WRITE, calls, bars)


def on_disk(directory: Path, running: ExitStack, count: int) -> Contest:
    calls: Calls = {
        EXTEND: partial(streamed, directory, count),
        PRODUCER: partial(producer.send, directory, count, "all", idempotent=False),
        SYNC: partial(log_stream.write_raw, directory, count, 1 << 20),
    }
    bars: Bars = []
    add_servers(calls, bars, running, directory, count, synced=True)
    title = f"hand over {count} messages of {VALUE_SIZE} bytes, acknowledged once on disk"
    return contest(title, SYNC, calls, bars)


def contests() -> Iterator[Contest]:
    count = scaled(RECORDS, 2000) // 1000 * 1000
    for make in (in_page_cache, on_disk):
        with TemporaryDirectory() as path, ExitStack() as running:
            yield make(Path(path), running, count)
