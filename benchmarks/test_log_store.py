"""pytest-benchmark's face of the durable stream and of opening many partitions."""

import pytest

from kstore.bench import log_open, log_stream
from kstore.bench.contest import scaled


@pytest.mark.parametrize("reader", [True, False])
def test_durable_stream(benchmark, tmp_path, reader):
    records = scaled(5_000_000, 20_000) // 1000 * 1000
    timed = benchmark.pedantic(log_stream.stream, (tmp_path, records), {"reader": reader}, rounds=3)
    assert timed.result == records
    assert ("reader" in timed.also) == reader
    benchmark.extra_info.update(timed.also)


def test_limit_durable_stream(benchmark, tmp_path):
    records = scaled(5_000_000, 20_000) // 1000 * 1000
    timed = benchmark.pedantic(log_stream.raw_stream, (tmp_path, records), rounds=3)
    assert timed.result == records


def test_open_many_partitions(benchmark, tmp_path):
    count = scaled(10_000, 10)
    path = log_open.make(tmp_path / "store", count)
    timed = benchmark.pedantic(log_open.open_and_use, (path, count), rounds=5)
    assert timed.result == count
    benchmark.extra_info.update({"first use": timed.seconds, **timed.also})
