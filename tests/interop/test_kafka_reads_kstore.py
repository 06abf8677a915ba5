"""kstore writes into a broker's directory and is stopped or killed; Kafka reads what it left.

Judges: DumpLogSegments over every file, the broker's own words while it opens the directory, and
Kafka's consumers in both isolation levels, with producers' states and offsets by time.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import kstore
from interop import append_to_broker_dir
from interop.clients import Clients, clients
from interop.compare_with_kafka import (
    Judged,
    assert_same_producers,
    assert_same_records,
    assert_same_transactions,
)
from interop.dump import dump_log, usual_complaints
from interop.node import Node
from interop.workload import PARTITIONS, prepare
from oracle.reader import read_log

OPENING = (
    "warn,kafka.log=info,org.apache.kafka.storage.internals.log=info,kafka.log.LogCleaner=warn"
)
QUIET = {"log.cleaner.enable": "false", "log.initial.task.delay.ms": 600_000}


class Stage:
    """A node that has made the topics, and whose directory kstore writes into."""

    def __init__(self, version: str, root: Path, java: Clients) -> None:
        self.version = version
        self.root = root
        self.java = java
        self.node = Node(version, root)
        self.node.settings |= QUIET
        self.node.start()
        java.use(self.node)
        prepare(java)
        self.node.stop()
        self.node.level = OPENING

    def judge(self) -> tuple[dict[str, Judged], list[str]]:
        """Let the broker open the directory: what it says of the partitions, and its own words."""
        self.node.start()
        self.java.use(self.node)
        consumed = self.java.look(PARTITIONS)
        self.node.stop()
        return consumed, self.node.lines()


@pytest.fixture(scope="module")
def stage(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    root = tmp_path_factory.mktemp("they-read-us")
    with clients(kafka, root) as java:
        made = Stage(kafka, root, java)
        try:
            yield made
        finally:
            made.node.kill()


def assert_agrees(log_dir: Path, consumed: dict[str, Judged]) -> None:
    """kstore, as a reader of the directory it left, says what Kafka said."""
    with kstore.open(log_dir, mode="r") as store:
        for name, partition in consumed.items():
            topic, _, number = name.rpartition("-")
            log = store[topic][int(number)]
            assert_same_records(log, partition)
            assert_same_transactions(log, partition)
            assert_same_producers(log, partition)


def complaints(lines: list[str]) -> list[str]:
    """Warnings and errors of the classes that load logs; a controller warns of itself."""
    loud = [line for line in lines if " WARN " in line or " ERROR " in line]
    ours = [line for line in loud if "kafka.log" in line or "internals.log" in line]
    return [line for line in ours if "log.cleaner.enable` is deprecated" not in line]


@pytest.fixture(scope="module")
def closed(stage: Stage) -> tuple[Path, dict[str, int]]:
    """What kstore wrote and closed cleanly: a copy of the directory, and the end offsets."""
    with kstore.open(stage.node.log_dir) as store:
        append_to_broker_dir.work(store, 1)
        append_to_broker_dir.work(store, 2)
        ends = {
            f"{log.topic}-{log.partition}": log.end_offset
            for log in append_to_broker_dir.all_logs(store)
        }
    left = stage.root / "closed"
    shutil.copytree(stage.node.log_dir, left)
    return left, ends


def test_a_broker_skips_recovery_of_a_directory_that_kstore_closed(
    stage: Stage, closed: tuple[Path, dict[str, int]]
) -> None:
    """The broker skips recovery, loads every snapshot as it lies, and serves the same."""
    left, ends = closed
    consumed, lines = stage.judge()
    text = "\n".join(line for line in lines if "__cluster_metadata" not in line)
    assert "Skipping recovery of" in text
    assert "Recovering unflushed segment" not in text
    assert "since no clean shutdown file was found" not in text
    for name in PARTITIONS:
        assert ends[name] > 0
        loaded = f"[ProducerStateManager partition={name}] Loading producer state from snapshot"
        assert f"{loaded} file 'SnapshotFile(offset={ends[name]}," in text, name
        assert f"{name}] Wrote producer snapshot" not in text.partition("Loaded ")[0], name
        deleted = re.findall(f"Deleted producer state snapshot .*/{name}/([0-9]+).snapshot", text)
        start = consumed[name].plain.beginning_offset  # snapshots below it go, Kafka's own too
        assert all(int(offset) <= start for offset in deleted), name
    assert complaints(lines) == []
    assert_agrees(left, consumed)


def test_kafkas_dump_has_no_complaint_about_kstores_files(
    stage: Stage, closed: tuple[Path, dict[str, int]]
) -> None:
    """DumpLogSegments says of our files what it says of Kafka's own, and complains of nothing."""
    left, _ = closed
    files = [path for name in PARTITIONS for path in sorted((left / name).iterdir())]
    logs = [path for path in files if path.suffix == ".log"]
    dump = dump_log(stage.version, logs, "--deep-iteration")
    compacted = [path for path in logs if path.parent.name == "compacted-0"]
    plain = [path for path in logs if path not in compacted]
    complaints = dump_log(stage.version, plain, "--deep-iteration").complaints
    assert sorted(complaints.splitlines()) == sorted(usual_complaints(stage.version, plain))
    assert without_usual(dump_log(stage.version, compacted, "--deep-iteration").complaints) == []
    for path in logs:
        found = [
            (r.offset, r.timestamp, r.key_size, r.value_size, r.headers)
            for r in dump.files[str(path)].records
        ]
        assert found == [
            (
                r.offset,
                r.timestamp,
                size(r.key),
                size(r.value),
                tuple(name for name, _ in r.headers),
            )
            for r in read_log(path.read_bytes()).records
        ]
        assert all(batch.valid for batch in dump.files[str(path)].batches)
    indexes = [path for path in files if path.suffix in (".index", ".timeindex")]
    sane = dump_log(stage.version, indexes, "--index-sanity-check")
    assert without_usual(sane.complaints) == []
    for path in indexes:
        empty = path.suffix == ".index" and path.stat().st_size == 0
        verdict = "is empty" if empty else "passed sanity check"
        assert sane.files[str(path)].lines == [f"{path} {verdict}."]
    verified = dump_log(stage.version, indexes, "--verify-index-only")
    assert without_usual(verified.complaints) == []
    others = [path for path in files if path.suffix in (".txnindex", ".snapshot")]
    shown = dump_log(stage.version, [*indexes, *others])
    assert without_usual(shown.complaints) == []
    lines = {suffix: [] for suffix in (".txnindex", ".snapshot")}
    for path in others:
        lines[path.suffix] += shown.files[str(path)].lines
    assert sum(line.startswith("version: 0 producerId: 23") for line in lines[".txnindex"]) > 10
    assert sum(line.startswith("producerId: 23") for line in lines[".snapshot"]) > 20


# Of every compacted log, Kafka's own too, the tool says that there are gaps, and of a segment
# whose batches were all emptied that no timestamp is left.
USUAL = (
    r"Non-consecutive offsets in .*/compacted-0/\d+\.log|  -?\d+ is followed by \d+"
    r"|Found timestamp mismatch in :.*/compacted-0/\d+\.timeindex"
    r"|  Index timestamp: \d+, log timestamp: -1"
)


def without_usual(complaints: str) -> list[str]:
    return [line for line in complaints.splitlines() if not re.fullmatch(USUAL, line)]


def size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def test_a_broker_recovers_a_directory_whose_writer_kstore_was_killed(stage: Stage) -> None:
    """SIGKILL while kstore appends: the broker recovers, and kstore recovers a copy to the same."""
    command = [sys.executable, "-m", "interop.append_to_broker_dir", str(stage.node.log_dir), "3"]
    writer = subprocess.Popen(
        command, stdout=subprocess.PIPE, env=append_to_broker_dir.environment()
    )
    try:
        assert writer.stdout is not None
        flushed: dict[str, int] = json.loads(writer.stdout.readline())
        time.sleep(Random().uniform(0.05, 0.8))  # the moment is the test's input
    finally:
        writer.kill()
        writer.communicate()
    left = stage.root / "killed"
    shutil.copytree(stage.node.log_dir, left)
    consumed, lines = stage.judge()
    assert "since no clean shutdown file was found" in "\n".join(lines)
    for name in PARTITIONS:
        assert consumed[name].end_offset >= flushed[name] > 0
    with kstore.open(left) as store:
        for name in PARTITIONS:
            topic, _, number = name.rpartition("-")
            assert store[topic][int(number)].recovery is not None
    assert_agrees(left, consumed)
