"""pytest-benchmark's face of a leader's checks; every contestant's result is checked."""

import pytest

from kstore.bench import admission as work
from kstore.bench.contest import scaled
from kstore.bench.log_append import check, fresh_log


@pytest.mark.parametrize("shape", work.SHAPES)
def test_append_as_leader(benchmark, tmp_path, shape):
    records = work.SHAPES[shape][0]
    batch = work.shaped(shape)
    with fresh_log(tmp_path) as log:
        info = benchmark.pedantic(
            log.append_as_leader, (batch,), iterations=scaled(500), rounds=5, warmup_rounds=1
        )
        assert info.last_offset == log.end_offset - 1
        check(log, log.end_offset, log.end_offset // records * len(batch))


def test_append_of_an_idempotent_producer(benchmark, tmp_path):
    shape = next(iter(work.SHAPES))
    records = work.SHAPES[shape][0]
    count = scaled(500)
    batches = iter([work.shaped(shape, n * records) for n in range(5 * count)])
    with fresh_log(tmp_path) as log:
        benchmark.pedantic(lambda: log.append_as_leader(next(batches)), iterations=count, rounds=5)
        assert log.end_offset == log.producers()[0].last_sequence + 1
        assert log.end_offset % records == 0
        check(log, log.end_offset)
