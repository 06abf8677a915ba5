"""The load generator against the null broker: every work runs, and a wrong answer is an error."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from load import frames
from load.brokers import ProcessBroker, null_broker
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
