"""Opening 10,000 clean partitions against Kafka's log manager with two threads; and a thousand by
whole programs, start and memory included, against a broker over the same directory."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import kstore
from engine.child_process import python_call, run_python
from engine.data.batches import client_batch
from engine.open_process import FILES
from engine.peers.kafka import KafkaBroker, KafkaLog, kafka_broker, kafka_log
from kstore.bench.contest import Bar, Calls, Contest, Timed, scaled
from kstore.bench.peers.availability import attempt
from kstore.config import StoreConfig

PARTITIONS = 10_000
FIRST_USE = 0.050  # seconds
SERVED = 1000  # partitions of a broker
HEAPS = {"1 GB heap": "1g", "256 MB heap": "256m"}  # the first as in kafka-server-start.sh
TOPIC = "many"
MEMORY = "memory, MiB"
ENDS = "all end offsets"


def make_store(path: Path, partitions: int) -> Path:
    """A store with one topic, one record in each partition, cleanly closed."""
    batch = client_batch(1)
    with kstore.open(path, config=StoreConfig(background=False)) as store:
        for log in store.create_topic(TOPIC, partitions=partitions):
            log.append_as_leader(batch)
    return path


def program(path: Path) -> list[str]:
    """Arguments of the Python process that opens the store."""
    return python_call("open_process", "main", os.fspath(path), TOPIC)


def open_and_use(path: Path, partitions: int) -> Timed:
    """Seconds from open to the end of a first append and a first read of one partition.

    Also: from open until every end offset is known as well, and the peak memory of the process.
    Modules are loaded before the clock starts.
    """
    done = subprocess.run(
        [sys.executable, *program(path)], capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise AssertionError(f"the measured process failed:\n{done.stderr[-2000:]}")
    reply = parse_reply(done.stdout, partitions)
    return Timed(
        reply["first"], result=partitions, also={ENDS: reply["ends"], MEMORY: reply["memory"]}
    )


def parse_reply(output: str, partitions: int) -> dict[str, Any]:
    """What the process printed; AssertionError if it did not read what the store holds."""
    reply: dict[str, Any] = json.loads(output)
    if reply["partitions"] != partitions or reply["read"] != "first":
        raise AssertionError(f"the measured process read {reply}")
    return reply


def contests() -> Iterator[Contest]:
    yield from in_process()
    yield from whole_programs()


def in_process() -> Iterator[Contest]:
    count = scaled(PARTITIONS, 10)
    with TemporaryDirectory() as path, kafka_log(Path(path) / "kafka") as peer:
        store = make_store(Path(path) / "kstore", count)
        calls: Calls = {
            "kstore": partial(open_and_use, store, count),
            "50 ms": lambda: Timed(FIRST_USE, result=count),
        }
        bars: list[Bar] = [("kstore", "50 ms", 1.0)]
        theirs = "Kafka, all loaded"
        if peer is not None and attempt("Kafka", partial(peer.partitions, count)) is not None:
            calls[theirs] = partial(load_by_kafka, peer, count)
            bars.append((f"kstore {ENDS}", theirs, 1.0))
            bars.append((f"kstore {MEMORY}", f"{theirs} {MEMORY}", None))
        yield Contest(
            name=f"open {count} clean partitions, {FILES} descriptors; first use",
            calls=calls,
            bars=tuple(bars),
            targets=frozenset(["50 ms"]),
            rounds=7,
        )


def load_by_kafka(peer: KafkaLog, count: int) -> Timed:
    result = peer.load()
    assert result["end_offsets"] == count  # one record each
    also = {MEMORY: float(result["memory"]), "live heap, MiB": float(result["live"])}
    return Timed(float(result["seconds"]), result=int(result["count"]), also=also)


def whole_programs() -> Iterator[Contest]:
    """From the start of a program: Kafka until it serves, kstore until it has exited."""
    count = scaled(SERVED, 10)
    with TemporaryDirectory() as path:
        root = Path(path)
        store = make_store(root / "kstore", count)
        with kafka_broker(store, TOPIC, count, root / "kafka") as broker:
            directory = store if broker is None else broker.log_dir
            ours = "kstore, the whole program"
            calls: Calls = {ours: partial(run_kstore, directory, count, root / "output")}
            bars: list[Bar] = []
            for name, heap in HEAPS.items():
                if broker is None:
                    break
                theirs = f"Kafka's broker, {name}"
                calls[theirs] = partial(serve, broker, heap)
                bars.append((ours, theirs, None))
                bars.append((f"{ours} {MEMORY}", f"{theirs} {MEMORY}", None))
            yield Contest(
                name=f"start on {count} clean partitions until every end offset is known",
                calls=calls,
                bars=tuple(bars),
                expected=count,
                rounds=5,
            )


def run_kstore(directory: Path, count: int, output: Path) -> Timed:
    """Imports, open, an append to one partition and a read of it, every end offset, close."""
    timed = run_python(program(directory), output)
    parse_reply(output.read_text(encoding="utf-8"), count)
    return Timed(timed.seconds, result=count, also=timed.also)


def serve(broker: KafkaBroker, heap: str) -> Timed:
    result = broker.serve(heap)
    if int(result["end_offsets"]) < int(result["partitions"]):
        raise AssertionError(f"a partition without its record: {result}")
    also = {"port open": float(result["port"]), MEMORY: float(result["memory"])}
    return Timed(float(result["seconds"]), result=int(result["partitions"]), also=also)
