"""pytest-benchmark's face of the appends; what is in the log is checked after each."""

import os

import pytest

from kstore.bench import log_append as work
from kstore.bench.contest import scaled

LARGE = ("110 KB", "16.5 KB", "1.15 KB")


@pytest.fixture(name="log")
def _log(tmp_path):
    with work.fresh_log(tmp_path) as log:
        yield log
        assert log.end_offset > 0
        work.check(log, log.end_offset)


@pytest.mark.parametrize("shape", LARGE)
def test_append_as_leader(benchmark, log, shape):
    batch = work.prepared(work.SHAPES[shape])
    info = benchmark.pedantic(
        log.append_as_leader, (batch,), iterations=scaled(1000), rounds=5, warmup_rounds=1
    )
    assert info.last_offset == log.end_offset - 1
    assert log.size * work.SHAPES[shape] == log.end_offset * len(batch)


@pytest.mark.parametrize("shape", LARGE)
def test_append_as_follower(benchmark, log, shape):
    count = scaled(1000)
    batches = iter(work.consecutive(work.SHAPES[shape], 6 * count))
    info = benchmark.pedantic(
        lambda: log.append_as_follower(next(batches)), iterations=count, rounds=5
    )
    assert info.last_offset == log.end_offset - 1


def test_extend(benchmark, log):
    values = work.thousand_values()
    offsets = benchmark.pedantic(
        log.extend, (values,), iterations=scaled(1000), rounds=5, warmup_rounds=1
    )
    assert (len(offsets), offsets.stop) == (1000, log.end_offset)
    assert [record.value for record in log.view(offsets.start, None)] == values


def test_append_one(benchmark, log):
    value = b"x" * work.VALUE_SIZE
    offset = benchmark.pedantic(
        log.append, (value,), iterations=scaled(20_000), rounds=5, warmup_rounds=1
    )
    assert log[offset].value == value


@pytest.mark.parametrize("shape", work.SHAPES)
def test_limit_write(benchmark, tmp_path, shape):
    batch = work.prepared(work.SHAPES[shape])
    fd = os.open(tmp_path / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        size = benchmark.pedantic(os.write, (fd, batch), iterations=scaled(1000), rounds=5)
    finally:
        os.close(fd)
    assert size == len(batch)
