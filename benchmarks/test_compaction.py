"""pytest-benchmark's face of compaction, results checked, and the memory that it takes."""

import shutil

import pytest

from kstore.bench import compaction
from kstore.bench.contest import scaled

RECORDS = 10_000_000
SLACK = 8 << 20  # buffers, a batch taken apart, what Python takes for itself


@pytest.mark.parametrize("partitions", [1, 2])
def test_compact(benchmark, tmp_path, partitions):
    records = scaled(RECORDS, 1000)
    root = compaction.write(tmp_path / "store", records, partitions)
    copy = tmp_path / "copy"

    def fresh():
        shutil.rmtree(copy, ignore_errors=True)
        return (compaction.linked(root, copy), partitions), {}

    benchmark.extra_info["records"] = partitions * records
    done = benchmark.pedantic(compaction.compact, setup=fresh, rounds=3)
    written, size, _ = done.result
    # Random keys: nearly all of them, each once (and of each partition the last batch's header).
    assert 0.99 * partitions * records // 10 <= written <= partitions * records // 10
    assert size < 150 * written


def test_memory(tmp_path):
    """No more than Kafka's map of as many bytes, and a few buffers; much less for fewer keys."""
    records = scaled(RECORDS, 1000)
    root = compaction.write(tmp_path / "store", records)
    peak, table, keys = compaction.memory(root)
    assert 0 < keys <= records // 10
    assert table <= compaction.DEDUPE_BUFFER
    assert peak <= table + SLACK
