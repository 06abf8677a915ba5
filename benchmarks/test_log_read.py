"""pytest-benchmark's face of reads, scans and recovery; every result is checked."""

import random

import pytest

import kstore
from kstore.bench import log_append, log_read
from kstore.bench.contest import scaled


@pytest.fixture(name="filled", scope="module", params=log_append.SHAPES)
def _filled(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("log")
    return log_read.fill(directory, log_append.SHAPES[request.param], scaled(1 << 30, 1 << 20))


@pytest.fixture(name="log")
def _log(filled):
    with kstore.open(filled) as store:
        yield store["bench"][0]


def test_read_at_random(benchmark, log):
    draw = random.Random(1)
    offsets = [draw.randrange(log.end_offset) for _ in range(1000)]

    def reads():
        return [log.read(offset, 1) for offset in offsets]

    for found, offset in zip(benchmark(reads), offsets, strict=True):
        base = int.from_bytes(found.memory()[:8], "big")
        assert base <= offset <= base + int.from_bytes(found.memory()[23:27], "big")


@pytest.mark.parametrize("threads", [1, 2])
def test_scan(benchmark, log, threads):
    timed = benchmark.pedantic(log_read.scan, (log, threads), rounds=5)
    assert timed.result == log.end_offset


def test_recover(benchmark, filled):
    with kstore.open(filled, mode="r") as store:
        end, size = store["bench"][0].end_offset, store["bench"][0].size
    timed = benchmark.pedantic(log_read.recover, (filled, end), rounds=5)
    assert timed.result == size
