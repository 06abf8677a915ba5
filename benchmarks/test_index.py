"""pytest-benchmark's face of the index workloads, results checked."""

import numpy as np
import pytest

from kstore._native.index import OffsetIndex
from kstore.bench import kernels_index as work
from kstore.bench.contest import scaled


@pytest.fixture(params=work.SHAPES)
def relative(request):
    return work.keys(request.param, scaled(work.ENTRIES, 600))


def test_one_lookup(benchmark, relative):
    index = OffsetIndex(work.entries(relative), work.BASE_OFFSET)
    asked = work.targets(relative, 2000)
    offsets = (asked + work.BASE_OFFSET).tolist()
    benchmark.extra_info["lookups"] = len(offsets)
    total = benchmark(lambda: sum(map(index.lookup, offsets)))
    assert total == np.searchsorted(relative, asked, "right").sum()


def test_many_lookups(benchmark, relative):
    index = OffsetIndex(work.entries(relative), work.BASE_OFFSET)
    asked = work.targets(relative, scaled(1 << 20))
    out = np.empty_like(asked)
    benchmark.extra_info["lookups"] = asked.size
    benchmark(index.lookup_many, asked + work.BASE_OFFSET, out)
    assert np.array_equal(out, np.searchsorted(relative, asked, "right"))


def test_searchsorted(benchmark, relative):
    asked = work.targets(relative, 2000)
    native, numbers = relative.astype(np.uint32), list(asked.astype(np.uint32))
    benchmark.extra_info["lookups"] = len(numbers)
    total = benchmark(lambda: sum(native.searchsorted(number, "right") for number in numbers))
    assert total == np.searchsorted(relative, asked, "right").sum()
