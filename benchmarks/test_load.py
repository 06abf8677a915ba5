"""The load generator against the null broker: every work runs, and a wrong answer is an error."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from engine.data.batches import at_offsets, build_batch
from load import frames
from load.brokers import SOURCES, ProcessBroker, null_broker
from load.programs import Generator, GeneratorError
from load.rounds import measure
from load.starts import measure_large_starts
from load.table import table
from load.workloads import WORKLOADS


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ProcessBroker]:
    running = null_broker(tmp_path)
    running.start()
    yield running
    running.stop()


def test_every_work_runs(tmp_path: Path) -> None:
    results = measure([null_broker(tmp_path)], WORKLOADS, 1, 0.001, tmp_path)
    assert {work for work, _ in results} == {*(workload.name for workload in WORKLOADS), "memory"}
    text = table(results, ["null"], "null", "null")
    assert all(workload.name in text for workload in WORKLOADS)


def test_each_answer_is_counted(tmp_path: Path, broker: ProcessBroker) -> None:
    requests = [frames.produce("t", each, frames.batch(1)) for each in range(3)]
    found = Generator(tmp_path).run("send", broker.port, requests, in_flight=4, count=300)
    assert found.sent == (100, 100, 100)
    assert found.requests == 300
    assert found.bytes == 300 * len(requests[0].data)
    assert 0 < found.p50 <= found.p99 <= found.longest < found.seconds


def test_an_error_code_ends_the_run(tmp_path: Path, broker: ProcessBroker) -> None:
    request = frames.produce("t", 0, frames.batch(1))
    wrong = replace(request, error_at=request.error_at - 6)  # the count of partitions: 1
    with pytest.raises(GeneratorError, match="error code 1"):
        Generator(tmp_path).run("send", broker.port, [wrong], count=10)


def test_a_closed_connection_ends_the_run(tmp_path: Path, broker: ProcessBroker) -> None:
    request = frames.produce("t", 0, frames.batch(1))
    unknown = request.data[:4] + (99).to_bytes(2, "big") + request.data[6:]
    with pytest.raises(GeneratorError, match="the connection was closed after 0 answers"):
        Generator(tmp_path).run("send", broker.port, [replace(request, data=unknown)], count=10)


def test_large_directories_start_and_serve_every_partition(tmp_path: Path) -> None:
    results = measure_large_starts(1, 0.001, tmp_path)
    assert {work for work, _ in results} == {
        "start, 10 clean partitions",
        "start after a kill, 0.0 GB",
    }
    assert all(samples["kstore"][0] > 0 for samples in results.values())


def test_a_consumer_with_a_group_reads_the_log_of_a_null_broker(tmp_path: Path) -> None:
    batch = build_batch(16, 1000)
    log = tmp_path / "batches"
    log.write_bytes(b"".join(at_offsets(batch, 200, 16)))  # several answers
    running = null_broker(tmp_path, [str(len(batch)), os.fspath(log), "16"])
    running.start()
    try:
        address = f"127.0.0.1:{running.port}"
        options = {"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest"}
        with contextlib.closing(Consumer(options)) as consumer:
            consumer.subscribe(["t"])
            found = consumer.consume(3200, timeout=60)
    finally:
        running.stop()
    assert [each.offset() for each in found] == list(range(3200))


@pytest.mark.parametrize(
    ("name", "words", "printed"),
    [
        ("heartbeats", ["0.5", "100"], "16 answered without an error"),
        ("offsets_loading", ["20000"], "20,000 commits of 20,000 keys"),
        ("durable_transactions", ["0.2"], "64 producers have"),
        ("durable_transactions", ["0.2", "--sync-ms", "3"], "syncs of at least 3 ms"),
        ("scrapes", ["20", "2"], "2 scrapes"),
    ],
)
def test_a_program_runs_and_checks_its_result(name: str, words: list[str], printed: str) -> None:
    paths = os.pathsep.join([os.fspath(Path(__file__).parent), os.fspath(SOURCES)])
    done = subprocess.run(
        [sys.executable, "-m", f"load.{name}", *words],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
