"""pytest-benchmark's face of the segment workloads, results checked."""

import numpy as np
import pytest

from kstore._native import batch, limits
from kstore.bench import kernels_batch as work
from kstore.bench.contest import scaled


@pytest.fixture(name="messages", scope="module")
def _messages():
    segment = work.segment(scaled(1 << 30), work.message(100))
    yield segment
    segment.mapping.close()


@pytest.fixture(name="batches", scope="module", params=[1024, 16384])
def _batches(request):
    segment = work.segment(scaled(1 << 30), work.record_batch(request.param))
    yield segment
    segment.mapping.close()


def walked(*arguments):
    return len(batch.walk_frames(*arguments))


def right(mapping, **options):
    table = batch.scan(mapping, **options)
    return len(table) - table.bad_crc_count


def test_walk_frames_from_seeds(benchmark, messages):
    seeds = np.array(messages.seeds(), dtype=np.int64)
    assert benchmark(walked, messages.mapping, seeds) == messages.count


def test_walk_frames_without_seeds(benchmark, messages):
    assert benchmark(walked, messages.mapping) == messages.count


def test_limit_one_chain(benchmark, messages):
    assert benchmark(limits.count_frames, messages.mapping) == messages.count


def test_limit_read(benchmark, messages):
    assert benchmark(limits.read_all, messages.mapping) >= 0


@pytest.mark.parametrize("threads", [1, 2])
def test_check_every_batch(benchmark, batches, threads):
    seeds = batches.seeds()
    assert benchmark(right, batches.mapping, threads=threads, seeds=seeds) == batches.count


@pytest.mark.parametrize("size", [1 << 10, 16 << 10, 110 << 10])
def test_validate_as_a_leader(benchmark, size):
    data = work.record_batch(size)
    report = benchmark(batch.validate_leader, data, now=work.TIMESTAMP)
    assert (report.ok, report.size) == (True, len(data))
