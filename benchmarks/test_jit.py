"""pytest-benchmark's face of the compiled loops, each result checked against NumPy's."""

import numpy as np
import pytest

from kstore import jit
from kstore.bench import kernels_jit as work
from kstore.bench.contest import scaled


@pytest.mark.parametrize("records", [1, 10, 150])
@pytest.mark.parametrize("way", [work.reach, work.reach_numpy])
def test_reach(benchmark, way, records):
    log, index = (
        np.frombuffer(data, np.uint8) for data in work.segment(scaled(2_000, 20), records)
    )
    asked = work.wanted(log.tobytes(), scaled(20_000, 50))
    benchmark.extra_info["offsets"] = asked.size
    found = benchmark(way, log, index, work.BASE_OFFSET, asked)
    assert found == work.reach_numpy(log, index, work.BASE_OFFSET, asked)
    assert found[0] > 0
    assert found[1] == 0


def test_predicate(benchmark):
    some = work.columns(scaled(1_000_000, 100))
    predicate = jit.compile_predicate(work.wanted_row)
    rows = benchmark(predicate.rows, some)
    assert np.array_equal(rows, work.wanted_rows_numpy(some))


def test_tumbling(benchmark):
    some = work.columns(scaled(1_000_000, 100))
    values = some.values.lengths.astype(np.int64)
    windows = benchmark(jit.tumbling, some.timestamps, values, 1000)
    expected = work.tumbling_numpy(some.timestamps, values, 1000)
    assert all(np.array_equal(got, want) for got, want in zip(windows, expected, strict=True))
