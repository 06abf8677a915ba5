"""pytest-benchmark's face of scans with and without read_committed; what they count is checked."""

import pytest

import kstore
from kstore.bench import log_read
from kstore.bench.contest import scaled
from kstore.bench.contests.committed import LEVELS, SHAPES, in_order, in_transactions

FILLS = {
    "no transactions": (log_read.fill, in_order),
    "transactions": (log_read.fill_transactions, in_transactions),
}


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("kind", FILLS)
@pytest.mark.parametrize("shape", SHAPES)
def test_scan(benchmark, tmp_path, shape, kind, isolation):
    fill, expected = FILLS[kind]
    records, size = SHAPES[shape], scaled(64 << 20, 1 << 20)
    with kstore.open(fill(tmp_path, records, size), mode="a") as store:
        log = store["bench"][0]
        told = expected(log, records, size)
        scan = log_read.scan  # raises where it is another number
        benchmark.pedantic(scan, (log, 1, isolation, told[isolation]), rounds=5, warmup_rounds=1)
        assert log.last_stable_offset == log.end_offset
        hidden = log.aborted_transactions(log.start_offset, log.end_offset)
        assert bool(hidden) == (kind == "transactions")
        assert (told["read_committed"] < told["read_uncommitted"]) == bool(hidden)
