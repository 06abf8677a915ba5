"""``kstore bench page-cache``: what the clock sees of reads, and readers that fail."""

import pytest

from kstore.bench import page_cache
from kstore.bench.workload import Setting


@pytest.fixture
def setting(tmp_path):
    return Setting(tmp_path, 2 << 20, "quick")


@pytest.mark.parametrize("make", [page_cache.warm_reads, page_cache.tails])
def test_buffers_are_made_outside_the_clock(setting, monkeypatch, make):
    for contest in make(setting):
        contest.check()
        with monkeypatch.context() as patch:
            patch.setattr(page_cache, "block_of", lambda size: pytest.fail("made a buffer"))
            contest.check()
