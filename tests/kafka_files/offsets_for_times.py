"""Where a time leads: kstore as a scan of all records, Kafka as its consumer was answered."""

from collections.abc import Iterable
from pathlib import Path

from kstore import Log
from oracle.reader import read_log
from oracle.times import find_offset

EMPTIED = (
    "Kafka takes a segment that compaction emptied to be as old as its file, finds nothing in it, "
    "and looks no further"
)
BELOW_START = (
    "Kafka finds a record below the log start that is old enough, answers nothing for it, and "
    "looks no further"
)

# (data set, partition): why Kafka's answers differ from a scan of the records there.
DIFFERENT = {
    ("kraft-3.9.2-clean", "compacted-0"): EMPTIED,
    ("kraft-3.9.2-clean", "compacted-idempotent-0"): EMPTIED,
    ("kraft-3.9.2-clean", "compacted-lz4-0"): EMPTIED,
    ("kraft-4.3.0-clean", "compacted-0"): EMPTIED,
    ("kraft-4.3.0-clean", "compacted-idempotent-0"): EMPTIED,
    ("kraft-4.3.0-clean", "compacted-lz4-0"): EMPTIED,
    ("kraft-4.3.0-clean", "compacted-tombstones-gone-0"): EMPTIED,
    ("zk-0.10.2.2", "compacted-none-0"): EMPTIED,
    ("zk-0.11.0.3", "compacted-idempotent-0"): EMPTIED,
    ("zk-2.8.2", "compacted-0.10.0-0"): EMPTIED,
    ("zk-2.8.2", "compacted-2.8-0"): EMPTIED,
}

# (case of a recovery, partition): the same.
DIFFERENT_AFTER_RECOVERY = {
    ("derived", "compacted-idempotent-0"): EMPTIED,
    ("derived", "plain-gzip-0"): "a lost time index is left empty by Kafka, which finds nothing",
}


def check_times(
    log: Log, folder: Path, answers: Iterable[tuple[int, int | None, int | None]]
) -> list[tuple[int, int | None, int]]:
    """Check that each time leads to the offset that a scan of the folder's records finds.

    Returns (time, Kafka's answer, the scan's) where Kafka said another thing.
    """
    paths = sorted(folder.glob("*.log"))
    records = [record for path in paths for record in read_log(path.read_bytes()).records]
    start, end = log.start_offset, log.end_offset
    different = []
    for when, offset, _ in answers:
        expected = find_offset(records, when, start, end)
        assert log.offset_at(when) == expected, (folder.name, when)
        if expected != (end if offset is None else offset):
            different.append((when, offset, expected))
    return different
