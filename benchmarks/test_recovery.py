"""pytest-benchmark's face of recovery and verification, results checked."""

import pytest

from kstore.bench import recovery
from kstore.bench.contest import scaled
from kstore.log import filenames


@pytest.fixture(params=recovery.SHAPES)
def partition(request, tmp_path):
    """A directory with one segment, and (batches, end offset) of it."""
    records, value_size = recovery.SHAPES[request.param]
    end = recovery.write_partition(tmp_path, records, value_size, scaled(1 << 30))
    return tmp_path, (end // records, end)


def test_recover(benchmark, partition):
    directory, expected = partition
    benchmark.extra_info["bytes"] = (directory / filenames.log_name(0)).stat().st_size
    assert benchmark(recovery.recover, directory) == expected


@pytest.mark.parametrize("threads", [1, 2])
def test_verify(benchmark, partition, threads):
    directory, (batches, _) = partition
    benchmark.extra_info["bytes"] = (directory / filenames.log_name(0)).stat().st_size
    assert benchmark(recovery.verify, directory, threads) == batches
