"""When a segment rolls: the rules that chance or size keep from being judged by a real Kafka."""

from pathlib import Path

import pytest

from kstore.config import LogConfig
from kstore.files import files
from kstore.log import active_segment
from kstore.log.roll_jitter import draw_jitter
from kstore.producer_state import state
from kstore.record.builder import BatchBuilder
from kstore.segment import segment
from kstore.verify.partition import verify_partition
from support.disks import HastyDisk
from support.interrupts import Interrupt
from support.logs import open_log
from support.producers import sent

T = 1_700_000_000_000


def test_time_rolls_come_earlier_by_a_jitter_drawn_for_each_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", segment_ms=1000, segment_jitter_ms=900, clock=lambda: T)
    waited, begun = [], T
    for ms in range(0, 40_000, 20):
        before = len(log.segments.views)
        log.append(b"x", timestamp=T + ms)
        if len(log.segments.views) > before:
            waited.append(T + ms - begun)
            begun = T + ms
    assert min(waited) > 1000 - 900
    assert max(waited) <= 1000 + 20
    assert len(set(waited[1:])) > 5


@pytest.mark.parametrize(("jitter", "most"), [(0, 0), (1, 0), (500, 499), (5000, 999)])
def test_jitter_has_kafkas_bounds(jitter: int, most: int) -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=jitter)
    drawn = {draw_jitter(config) for _ in range(5000)}
    assert min(drawn) == 0
    assert most * 0.9 <= max(drawn) <= most


@pytest.mark.parametrize(("last", "segments"), [(2**31 - 1, 1), (2**31, 2)])
def test_an_offset_beyond_the_segments_reach_rolls(
    tmp_path: Path, last: int, segments: int
) -> None:
    log = open_log(tmp_path / "t-0")
    for offset in (0, last):
        builder = BatchBuilder(size_limit=1000, compression="none")
        builder.append(b"x", timestamp=T)
        log.append_as_follower(builder.build(base_offset=offset))
    assert len(log.segments.views) == segments
    assert log.end_offset == last + 1
    assert log[last].value == b"x"


def test_an_interrupted_roll_leaves_nothing_that_verify_reports(tmp_path: Path) -> None:
    """KeyboardInterrupt at every line: a producer snapshot is complete, or missing."""
    modules = [active_segment, state, segment, files]
    at = cut = 0
    while True:
        directory = tmp_path / f"{at}" / "t-0"
        log = open_log(directory, files=HastyDisk(), segment_index_bytes=4096)
        log.append_as_leader(sent(1, 0, 0))
        interrupt = Interrupt(modules, at)
        try:
            with interrupt:
                log.roll()
        except KeyboardInterrupt:
            cut += 1
        else:
            break
        report = verify_partition(HastyDisk(), directory)
        assert report.ok, (interrupt.where, report.findings)
        log.append_as_leader(sent(1, 0, 1))
        assert log.close()
        assert verify_partition(HastyDisk(), directory).ok, interrupt.where
        at += 1
    assert cut > 30
