"""pytest-benchmark's face of scans with and without read_committed; what they count is checked."""

import pytest

import kstore
from kstore.bench import log_read
from kstore.bench.contest import scaled
from kstore.bench.contests.committed import LEVELS, SHAPES, count

FILLS = {"no transactions": log_read.fill, "transactions": log_read.fill_transactions}


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("shape", SHAPES)
def test_scan(benchmark, tmp_path, shape, fill, isolation):
    path = FILLS[fill](tmp_path, SHAPES[shape], scaled(64 << 20, 1 << 20))
    with kstore.open(path, mode="a") as store:
        log = store["bench"][0]
        everything = count(log, "read_uncommitted")
        found = benchmark.pedantic(count, (log, isolation), rounds=5, warmup_rounds=1)
        assert log.last_stable_offset == log.end_offset
        hidden = log.aborted_transactions(log.start_offset, log.end_offset)
        if isolation == "read_committed" and hidden:  # one in ten, where there are ten
            assert 0.8 * everything < found < everything
        else:
            assert found == everything > 0
