"""``kstore bench page-cache``: what is timed of reads, and readers that fail."""

import os
import threading

import pytest

from kstore.bench.machine import page_cache
from kstore.bench.workload import Setting


@pytest.fixture
def setting(tmp_path):
    return Setting(tmp_path, 1 << 20, "quick")


@pytest.mark.parametrize("make", [page_cache.warm_reads, page_cache.tails])
def test_buffers_are_made_outside_the_timed_section(setting, monkeypatch, make):
    for contest in make(setting):
        contest.check()
        with monkeypatch.context() as patch:
            patch.setattr(page_cache, "block_of", lambda size: pytest.fail("made a buffer"))
            contest.check()


def test_a_reader_of_the_tail_ends_with_a_writer_that_fails(setting, monkeypatch):
    def full(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(page_cache.disk_loops, "write_at", full)
    threads = threading.active_count()
    with pytest.raises(OSError, match="No space left"):
        page_cache.Tail(setting, 4096).written(read=True)
    assert threading.active_count() == threads


def test_the_error_of_a_reader_of_the_tail_is_raised(setting, monkeypatch):
    def failing(*given, **options):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(page_cache.disk_loops, "read_at", failing)
    with pytest.raises(OSError, match="Input/output error"):
        page_cache.Tail(setting, 4096).written(read=True)
    assert os.listdir(setting.directory) == []
