"""Messages handed over one by one or in bulk until all are acknowledged: kstore in this process
beside brokers, which a socket stands before. Nobody syncs before it answers, unless it says so."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from kstore.bench import log_append, producer, servers
from kstore.bench.contest import Contest, Timed, scaled
from kstore.bench.peers import missing, optional

VALUE = b"x" * log_append.VALUE_SIZE
RECORDS = 500_000
CONFLUENT = 15.0  # wanted against confluent-kafka's messages, enqueued and acknowledged
MOCK = {
    "bootstrap.servers": "mock",
    "test.mock.num.brokers": 1,
    "linger.ms": 5,
    "queue.buffering.max.messages": 2_000_000,
    "queue.buffering.max.kbytes": 1 << 20,
    "delivery.report.only.error": True,
    "log_level": 0,
}


def by_confluent(package: Any, count: int) -> Timed:
    """librdkafka's producer against the broker that it mocks in the same process."""
    failed: list[object] = []
    sender = package.Producer(MOCK)
    sender.list_topics("log", timeout=30)

    def refused(error: object, message: object) -> None:
        failed.append(error)

    started = perf_counter()
    produce = sender.produce
    for _ in range(count):
        produce("log", VALUE, on_delivery=refused)
    left = sender.flush(120)
    seconds = perf_counter() - started
    if left or failed:
        raise AssertionError(f"{left} messages are left, {len(failed)} failed: {failed[:1]}")
    return Timed(seconds / count, result=count)


def extends(directory: Path, count: int) -> Timed:
    timed = log_append.extends(directory, count // 1000)
    return Timed(timed.seconds / 1000, result=count)


def contests() -> Iterator[Contest]:
    count = scaled(RECORDS, 1000) // 1000 * 1000
    with TemporaryDirectory() as path, ExitStack() as running:
        directory = Path(path)
        calls: dict[str, Callable[[], object]] = {
            "kstore, extend of 1000": partial(extends, directory, count),
            "kstore, a producer": partial(producer.sent, directory, count, 1, idempotent=False),
        }
        bars: list[tuple[str, str, float | None]] = []
        package = optional("confluent_kafka", "confluent-kafka")
        if package is not None:
            name = "confluent-kafka, its mock broker"
            calls[name] = partial(by_confluent, package, count)
            bars.append(("kstore, extend of 1000", name, CONFLUENT))
            bars.append(("kstore, a producer", name, None))
        for program, name, serve in (
            ("redis-server", "Redis Streams, XADD in bulk", servers.redis),
            ("nats-server", "NATS JetStream, in bulk", servers.nats),
        ):
            if reason := servers.why_not(program):
                missing[name] = reason
                continue
            publish = running.enter_context(serve(directory))
            calls[name] = partial(publish, count, VALUE)
            bars.append(("kstore, extend of 1000", name, None))
        yield Contest(
            name=f"hand over {count} messages of {len(VALUE)} bytes, acknowledged",
            calls=calls,
            amount=1,
            unit="records",
            bars=tuple(bars),
            ceiling="kstore, extend of 1000",
            rounds=5,
        )
