"""A time leads to the offset that a scan of every record finds, whatever the segments are.

Messages v0 and v1, batches v2, markers, what compaction leaves, records without a timestamp, at
0 and from before 1970, in any order; time indexes that are lost or damaged; any log start; files
of any age. Through a writer, readers beside it, and stores that are opened again.
"""

import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kstore.log.log import Log
from kstore.log.time_lookup import newest_offset
from oracle.reader import read_log as read_plain
from oracle.times import find_newest, find_offset
from support.disks import HastyDisk
from support.logs import log_bytes, open_log, read_log
from support.timed_segments import Segment, write_segment

EXAMPLES = 3000 if os.environ.get("KSTORE_TORTURE") else 150
TIMES = (-7, -1, 0, 1, 2, 3, 50, 51, 900)
ASKED = (0, 1, 2, 3, 4, 50, 51, 52, 900, 901)
KINDS = ("v0", "v1", "v1 wrapper", "v2", "v2", "v2", "append time", "marker", "emptied")
DAMAGE = ("none", "none", "lost", "empty", "cut", "bit", "zeros behind", "begun late", "garbage")

items = st.tuples(
    st.sampled_from(KINDS),
    st.lists(st.sampled_from(TIMES), min_size=1, max_size=3),
    st.sampled_from((0, 0, 0, 1, 4)),  # a gap in front
)
segments = st.builds(
    Segment,
    st.lists(items, max_size=8),
    st.sampled_from((1, 1, 2, 3)),  # batches between index entries
    st.sampled_from(DAMAGE),
    st.integers(0, 10_000),  # where the damage is
    st.sampled_from((0, 40, 2**31)),  # the age of the file, in seconds since 1970
)


def check(log: Log, directory: Path, start: int) -> None:
    records = read_plain(log_bytes(directory)).records
    assert log.start_offset == start
    end = log.end_offset
    for when in ASKED:
        assert log.offset_at(when) == find_offset(records, when, start, end), when
    assert newest_offset(log) == find_newest(records, start, end)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.lists(segments, min_size=1, max_size=5),
    st.floats(0, 1),
    st.lists(st.sampled_from((0, 2, 50, 2000)), max_size=3),
)
def test_a_time_leads_to_the_first_record_that_a_scan_finds(
    made: list[Segment], share: float, appended: list[int]
) -> None:
    with tempfile.TemporaryDirectory(prefix="kstore-times-") as name:
        directory = Path(name) / "t-0"
        directory.mkdir()
        base = 0
        for segment in made:
            base = max(write_segment(directory, base, segment), base + 1)
        end = base
        with_readers(directory, 0)
        start = int(share * end)
        with_readers(directory, start)
        settings = {"segment_bytes": 400, "index_interval_bytes": 100}
        log = open_log(directory, files=HastyDisk(), log_start_offset=start, **settings)
        start = log.start_offset
        check(log, directory, start)
        for when in appended:
            log.append(b"x" * 60, timestamp=when)
            check(log, directory, start)
        with_readers(directory, start)
        log.delete_records(min(start + 1, log.end_offset))
        start = log.start_offset
        check(log, directory, start)
        log.close()
        for clean in (True, False):
            log = open_log(directory, files=HastyDisk(), clean=clean, log_start_offset=start)
            check(log, directory, start)
            log.close()


def with_readers(directory: Path, start: int) -> None:
    for own in (True, False):
        log = read_log(directory, own=own, log_start_offset=start)
        check(log, directory, log.start_offset)
        check(log, directory, log.start_offset)  # what was learned leads to the same
        log.close()
