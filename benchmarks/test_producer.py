"""pytest-benchmark's face of producers; what they sent is counted."""

from functools import partial

import pytest

from kstore.bench import producer as work
from kstore.bench.contest import scaled
from kstore.bench.contests.producer import ACKS


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("acks", ACKS)
def test_send(benchmark, tmp_path, acks, idempotent):
    count = scaled(100_000, 100)
    send = partial(work.sent, tmp_path, count, ACKS[acks], idempotent=idempotent)
    assert benchmark.pedantic(send, rounds=5, warmup_rounds=1).result == count


@pytest.mark.parametrize("records", [1, 100])
@pytest.mark.parametrize("acks", ACKS)
def test_commit(benchmark, tmp_path, acks, records):
    count = scaled(100, 5)
    commit = partial(work.committed, tmp_path, count, ACKS[acks], records)
    assert benchmark.pedantic(commit, rounds=3, warmup_rounds=1).result == count * records
