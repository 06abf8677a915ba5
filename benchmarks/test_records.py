"""pytest-benchmark's face of encoding and decoding, results checked."""

import pytest

from kstore.bench.records import Decoding, Encoding


@pytest.mark.parametrize("way", ["by_kstore", "by_puts"])
def test_encode(benchmark, way):
    work = Encoding()
    benchmark.extra_info["records"] = work.count
    assert len(benchmark(getattr(work, way))) == 61 + work.by_bare_loop()


def test_encode_by_a_bare_loop(benchmark):
    work = Encoding()
    assert benchmark(work.by_bare_loop) == len(work.by_kstore()) - 61


@pytest.mark.parametrize("per_batch", [1, 150, 1000])
@pytest.mark.parametrize("way", ["into_values", "into_records", "into_places", "into_columns"])
def test_decode(benchmark, way, per_batch):
    work = Decoding(per_batch=per_batch)
    benchmark.extra_info["records"] = work.count
    assert benchmark(getattr(work, way)) == work.count
