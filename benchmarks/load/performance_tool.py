"""Runs Kafka's ProducerPerformance against each broker; the client is the bottleneck."""

import re
from collections.abc import Sequence

from interop.kafka_jars import run
from load.brokers import Broker, Topics
from load.rounds import Results, keep
from peers.kafka import VERSION

TOOL = "org.apache.kafka.tools.ProducerPerformance"
PARTITIONS = 16  # as in every topic of the null broker
_LINE = re.compile(rb"(\d+) records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\)")
SETTINGS = {
    "ProducerPerformance, defaults": (),
    "ProducerPerformance, 64 KB, 5 ms": ("batch.size=65536", "linger.ms=5"),
}


def measure_tool(brokers: Sequence[Broker], rounds: int, records: int) -> Results:
    """Measure MB/s, with 1,000-byte records and acks=1, from the tool's last line of output."""
    results: Results = {}
    for broker in brokers:
        broker.start()
    try:
        for work, settings in SETTINGS.items():
            for number in range(rounds + 1):
                turn = number % len(brokers)
                for broker in [*brokers[turn:], *brokers[:turn]]:
                    sample = _run(broker, f"tool-{number:03}", records, settings)
                    if number:
                        keep(results, work, broker.name, sample)
    finally:
        for broker in brokers:
            broker.stop()
    return results


def _run(broker: Broker, topic: str, records: int, settings: Sequence[str]) -> dict[str, float]:
    topics = Topics(broker)
    topics.create(topic, PARTITIONS)
    words = ["--topic", topic, "--num-records", records, "--record-size", 1000, "--throughput", -1]
    words += ["--producer-props", f"bootstrap.servers=127.0.0.1:{broker.port}", "acks=1", *settings]
    # The null broker supports only old versions of InitProducerId.
    words += ["enable.idempotence=false"]
    printed = run(VERSION, TOOL, *words, timeout=300).stdout
    found = _LINE.findall(printed)
    assert found, printed
    assert int(found[-1][0]) == records, printed
    if broker.keeps_records:
        assert sum(topics.ends(topic)) == records
    topics.delete(topic)
    return {"MB/s": float(found[-1][2])}
