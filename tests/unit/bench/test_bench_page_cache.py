"""``kstore bench page-cache``: what is timed of reads."""

import pytest

from kstore.bench.machine import page_cache
from kstore.bench.workload import Setting


@pytest.fixture
def setting(tmp_path):
    return Setting(tmp_path, 1 << 20, "quick")


def test_buffers_are_made_outside_the_timed_section(setting, monkeypatch):
    for contest in page_cache.warm_reads(setting):
        contest.check()
        with monkeypatch.context() as patch:
            patch.setattr(page_cache, "block_of", lambda size: pytest.fail("made a buffer"))
            contest.check()
