"""Kafka's own load and checking tools of one version, judged by what they print."""

import json
import re
import tempfile
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from interop.kafka_jars import java_command
from strangers.kafka_scripts import require_kafka
from strangers.suite import (
    CACHE,
    FAILED,
    PASSED,
    Results,
    Suite,
    Target,
    build,
    run_command,
)

TOOLS = "org.apache.kafka.tools."
RECORDS = 20_000
COPIED = 5_000
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
}
_KAFKA = {"group.coordinator.rebalance.protocols": "classic,consumer"}
_TEST_JARS = """<project><modelVersion>4.0.0</modelVersion>
<groupId>kstore.tests</groupId><artifactId>tools</artifactId><version>1</version>
<packaging>pom</packaging><dependencies>{}</dependencies></project>
"""
_TEST_JAR = """<dependency><groupId>org.apache.kafka</groupId><artifactId>{}</artifactId>
<version>{}</version><classifier>test</classifier><exclusions><exclusion><groupId>*</groupId>
<artifactId>*</artifactId></exclusion></exclusions></dependency>
"""


class _Wrong(Exception):
    """A tool failed, or printed what it should not."""


class _Tools:
    """The tools against one broker; each method is one of the suite's tests."""

    def __init__(self, version: str, target: Target) -> None:
        self.version = version
        self.target = target
        self.at = ("--bootstrap-server", target.address)
        self.tail = uuid.uuid4().hex[:6]  # of the names of topics: a broker may be used again
        self.verifiable = f"verifiable-{self.tail}"

    def java(self, main: str, *words: object, limit: float = 150, jars: Path | None = None) -> str:
        command = java_command(self.version, main, *words)
        if jars is not None:
            command[command.index("-cp") + 1] += f":{jars}/*"
        with tempfile.TemporaryDirectory() as scratch:
            output = Path(scratch) / "output"
            status = run_command(command, output, limit=limit)
            text = output.read_text(errors="replace")
        with self.target.log.open("a") as log:
            log.write(f"--- {main} ended with {status}\n{text[-20_000:]}")
        if status != 0:
            raise _Wrong(f"{main} ended with {status}")
        return text

    def topic(self, name: str, partitions: int = 1) -> str:
        words = (*self.at, "--create", "--topic", name, "--partitions", partitions)
        self.java(f"{TOOLS}TopicCommand", *words)
        return name

    def verifiable_producer(self) -> None:
        topic = self.topic(self.verifiable, 3)
        lines = self._produce(topic, RECORDS)
        acked = sum(line["name"] == "producer_send_success" for line in lines)
        last = lines[-1]
        _check(acked == last["sent"] == last["acked"] == RECORDS, last)

    def _produce(self, topic: str, count: int) -> list[dict[str, object]]:
        words = (*self.at, "--topic", topic, "--max-messages", count, "--acks", -1)
        return _lines(self.java(f"{TOOLS}VerifiableProducer", *words))

    def verifiable_consumer(self, *protocol: str) -> None:
        words = (*self.at, "--topic", self.verifiable, "--max-messages", RECORDS, *protocol)
        words += ("--group-id", f"group{len(protocol)}-{self.tail}", "--reset-policy", "earliest")
        lines = _lines(self.java(f"{TOOLS}VerifiableConsumer", *words))
        names = {line["name"] for line in lines}
        counts = [line["count"] for line in lines if line["name"] == "records_consumed"]
        commits = [line["success"] for line in lines if line["name"] == "offsets_committed"]
        _check(sum(map(int, map(str, counts))) == RECORDS, counts[-3:])
        _check(bool(commits) and all(commits), commits[-3:])
        _check({"partitions_assigned", "shutdown_complete"} <= names, names)

    def verifiable_consumer_848(self) -> None:
        self.verifiable_consumer("--group-protocol", "consumer")

    def log_compaction_tester(self) -> None:
        main, jars = f"{TOOLS}LogCompactionTester", None
        if self.version < "4":
            main, jars = "kafka.tools.LogCompactionTester", _test_jars(self.version)
        words = (*self.at, "--messages", RECORDS, "--topics", 1, "--percent-deletes", 10)
        text = self.java(main, *words, "--sleep", 10, limit=240, jars=jars)
        _check(re.search(r"\b0 mismatches", text) is not None, text[-500:])

    def transactional_message_copier(self) -> None:
        source, target = self.topic(f"in-{self.tail}"), self.topic(f"out-{self.tail}")
        self._produce(source, COPIED)
        words = ("--broker-list", self.target.address, "--input-topic", source)
        words += ("--input-partition", "0", "--output-topic", target)
        words += ("--transactional-id", f"copier-{self.tail}", "--transaction-size", "200")
        words += ("--consumer-group", f"copier-{self.tail}", "--max-messages", str(COPIED))
        self.java(f"{TOOLS}TransactionalMessageCopier", *words, "--enable-random-aborts")
        read = ("--topic", target, "--from-beginning", "--isolation-level", "read_committed")
        consumer = f"{TOOLS}consumer.ConsoleConsumer"
        text = self.java(consumer, *self.at, *read, "--timeout-ms", 5000)
        values = sorted(int(line) for line in text.splitlines() if line.strip().isdigit())
        _check(values == list(range(COPIED)), f"{len(values)} values, {len(set(values))} distinct")

    def end_to_end_latency(self) -> None:
        topic = self.topic(f"latency-{self.tail}")
        words: tuple[object, ...] = (self.target.address, topic, 2000, "all", 1024)
        if self.version >= "4.2":
            words = (*self.at, "--topic", topic, "--num-records", 2000)
            words += ("--producer-acks", "all", "--record-size", 1024)
        _check("Avg latency" in self.java(f"{TOOLS}EndToEndLatency", *words), "no latency")

    def producer_performance(self, acks: str = "all", size: int = 1024) -> None:
        topic = self.topic(f"performance-{acks}-{size}-{self.tail}")
        words = ("--topic", topic, "--num-records", 100_000, "--record-size", size)
        words += (
            "--throughput",
            -1,
            "--producer-props",
            f"bootstrap.servers={self.target.address}",
        )
        text = self.java(f"{TOOLS}ProducerPerformance", *words, f"acks={acks}")
        _check("100000 records sent" in text, text[-300:])

    def producer_performance_acks_1(self) -> None:
        self.producer_performance("1")

    def producer_performance_small(self) -> None:
        self.producer_performance("all", 100)

    def consumer_performance(self) -> None:
        topic = f"performance-all-1024-{self.tail}"
        count = "--num-records" if self.version >= "4.2" else "--messages"
        words = (*self.at, "--topic", topic, count, 100_000, "--timeout", 20_000)
        text = self.java(f"{TOOLS}ConsumerPerformance", *words)
        rows = [line.split(", ") for line in text.splitlines() if line.count(", ") > 6]
        shown = dict(zip(map(str.strip, rows[-2]), map(str.strip, rows[-1]), strict=True))
        _check(int(shown["data.consumed.in.nMsg"]) >= 100_000, shown)


def _check(holds: bool, shown: object) -> None:
    if not holds:
        raise _Wrong(str(shown))


def _lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def _test_jars(version: str) -> Path:
    """Until 4.0 the tester of the compaction lay in Kafka's jars of tests."""
    folder = CACHE / f"kafka-{version}-tests"
    if not (folder / "libs").exists():
        names = ("kafka_2.13", "kafka-clients", "kafka-server-common")
        folder.mkdir(parents=True, exist_ok=True)
        jars = "".join(_TEST_JAR.format(name, version) for name in names)
        (folder / "pom.xml").write_text(_TEST_JARS.format(jars))
        maven = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=part"]
        build(maven, folder)
        (folder / "part").rename(folder / "libs")
    return folder / "libs"


TESTS: dict[str, Callable[[_Tools], None]] = {
    "VerifiableProducer": _Tools.verifiable_producer,
    "VerifiableConsumer": _Tools.verifiable_consumer,
    "VerifiableConsumer KIP-848": _Tools.verifiable_consumer_848,
    "LogCompactionTester": _Tools.log_compaction_tester,
    "TransactionalMessageCopier": _Tools.transactional_message_copier,
    "EndToEndLatency": _Tools.end_to_end_latency,
    "ProducerPerformance 100 bytes": _Tools.producer_performance_small,
    "ProducerPerformance acks=1": _Tools.producer_performance_acks_1,
    "ProducerPerformance": _Tools.producer_performance,
    "ConsumerPerformance": _Tools.consumer_performance,
}
# What another test reads.
_AFTER = {
    "VerifiableConsumer": "VerifiableProducer",
    "VerifiableConsumer KIP-848": "VerifiableProducer",
    "ConsumerPerformance": "ProducerPerformance",
}


@dataclass(frozen=True)
class KafkaTools(Suite):
    """Each tool is a test."""

    version: str = ""

    @property
    def expected(self) -> str:
        return "kafka-tools"

    def prepare(self, source: Path | None) -> None:
        require_kafka(self.version)
        if self.version < "4":
            _test_jars(self.version)

    def run(self, target: Target, only: Collection[str] = ()) -> Results:
        tools = _Tools(self.version, target)
        wanted = {*only, *(_AFTER[name] for name in only if name in _AFTER)} or set(TESTS)
        results = {}
        for name, test in TESTS.items():
            if name not in wanted:
                continue
            try:
                test(tools)
                results[name] = PASSED
            except (_Wrong, ValueError, KeyError, IndexError) as problem:  # also what it printed
                with target.log.open("a") as log:
                    log.write(f"--- {name} FAILED: {type(problem).__name__} {problem}\n")
                results[name] = FAILED
        return results


SUITES = (
    KafkaTools("Kafka's tools 3.9.2", SETTINGS, _KAFKA, version="3.9.2"),
    KafkaTools("Kafka's tools 4.3.0", SETTINGS, _KAFKA, version="4.3.0"),
)
