"""Kafka's ConsumerPerformance against kstore, Kafka and a null broker, interleaved.

    PYTHONPATH=benchmarks:src python -m load.consumer_tool [RECORDS] [ROUNDS]

The tool reads a topic of one partition with records of 1,000 bytes in batches of 16, with a group
of its own each time. The brokers have the same batches; the null broker sends them from a file and
does nothing else. Files are in memory (/dev/shm) if that exists. The figure is the tool's
`fetch.MB.sec`, which is without the time until the group is complete. The client is the
bottleneck, so the null broker's figure is the ceiling.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import peers.kafka  # finds tests/interop

# isort: split

from engine.data.batches import at_offsets, build_batch
from interop.kafka_jars import run
from load import frames
from load.brokers import Broker, KafkaBroker, Topics, kstore_broker, null_broker
from load.programs import Generator
from peers.kafka import VERSION

assert peers.kafka.VERSION
TOOL = "org.apache.kafka.tools.ConsumerPerformance"
RECORDS, ROUNDS = 500_000, 5
SIZE, EACH = 1000, 16  # bytes of a record's value; records of a batch
TOPIC = "consumed"
WANTED = {"null": 0.9, f"Kafka {VERSION}": 1.0}  # kstore's ratio to it
_SHM = "/dev/shm"


def _fill(broker: Broker, generator: Generator, batch: bytes, records: int) -> None:
    topics = Topics(broker)
    topics.create(TOPIC, 1)
    request = frames.produce(TOPIC, 0, batch)
    generator.run("send", broker.port, [request], in_flight=5, count=records // EACH)
    assert topics.ends(TOPIC) == [records]


def _read(broker: Broker, group: str, records: int) -> float:
    """Run the tool; return MB/s without the time until the group is complete."""
    words = ["--bootstrap-server", f"127.0.0.1:{broker.port}", "--topic", TOPIC]
    words += ["--group", group, "--messages", str(records), "--timeout", "30000", "--hide-header"]
    printed = run(VERSION, TOOL, *words, timeout=300).stdout.decode()
    lines = [line.split(", ") for line in printed.splitlines() if line.count(", ") == 9]
    assert lines, printed
    fields = lines[-1]
    assert int(fields[4]) == records, printed
    mib = float(fields[2])  # of keys and values
    assert abs(mib - records * SIZE / (1 << 20)) < 0.001, printed
    return mib * (1 << 20) / 1e6 / (int(fields[7]) / 1e3)


def _measure(brokers: Sequence[Broker], rounds: int, records: int) -> dict[str, list[float]]:
    """Samples of each broker; a first round, in which everything starts, is discarded."""
    found: dict[str, list[float]] = {broker.name: [] for broker in brokers}
    for number in range(rounds + 1):
        turn = number % len(brokers)
        for broker in [*brokers[turn:], *brokers[:turn]]:
            speed = _read(broker, f"group-{number:03}", records)
            if number:
                found[broker.name].append(speed)
    return found


def main() -> int:
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    records = max(1, asked // EACH) * EACH
    now = time.time_ns() // 1_000_000  # retention deletes what is older
    batch = build_batch(EACH, SIZE, timestamp=now, period=1, leader_epoch=-1)
    where = _SHM if os.path.isdir(_SHM) else None
    with tempfile.TemporaryDirectory(dir=where, prefix="kstore-consumer-") as directory:
        root = Path(directory)
        log = root / "batches"
        with log.open("wb") as file:
            file.writelines(at_offsets(batch, records // EACH, EACH))
        null = null_broker(root, [str(len(batch)), os.fspath(log), str(EACH)])
        brokers: list[Broker] = [kstore_broker(root), KafkaBroker(root), null]
        try:
            for broker in brokers:
                broker.start()
                if broker.keeps_records:
                    _fill(broker, Generator(root), batch, records)
            found = _measure(brokers, rounds, records)
        finally:
            for broker in brokers:
                broker.stop()
    for name, samples in found.items():
        print(f"{name}: {statistics.median(samples):,.1f} MB/s, {min(samples):,.1f} to "
              f"{max(samples):,.1f}")  # fmt: skip
    for name, wanted in WANTED.items():
        ratios = [mine / its for mine, its in zip(found["kstore"], found[name], strict=True)]
        print(f"kstore / {name}: {statistics.median(ratios):.2f} (wanted: {wanted})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
