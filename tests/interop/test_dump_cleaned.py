"""DumpLogSegments over logs that kstore cleaned: it finds nothing wrong but the gaps."""

import random
import re

import pytest

from interop.dump import assert_sane_indexes, dump_log
from support.compaction import NOW, RETENTION, Shape, batches_of, random_segments, write_logs
from support.compaction import live_segments as segments_of
from support.logs import open_log

SEED = 4  # one that leaves emptied batches too
GAP = re.compile(r"Non-consecutive offsets in .*\.log|  -?\d+ is followed by \d+")


def clean(folder, *, rounds):
    """A random log, cleaned; from the second round on the tombstones of the first may go."""
    shape = Shape(batches=500, segments=12, keys=60)
    write_logs(folder, random_segments(random.Random(SEED), shape))
    for number in range(rounds):
        log = open_at(folder, NOW + number * 2 * RETENTION, clean=number > 0)
        (folder.parent / "cleaner-offset-checkpoint").unlink(missing_ok=True)
        log.roll()
        report = log.compact()
        assert report.passes > 0
        assert report.records_kept < report.records_read
        log.close()
    return report


def open_at(folder, now, *, clean):
    return open_log(
        folder,
        clean=clean,
        clock=lambda: now,
        cleanup_policy="compact",
        delete_retention_ms=RETENTION,
        segment_bytes=4_000,
        index_interval_bytes=64,
        file_delete_delay_ms=0,
        producer_id_expiration_ms=2_000_000_000,
    )


def remove_expired(folder):
    """Compact a log of which nothing is dirty, after the horizon of its tombstones."""
    log = open_at(folder, NOW + 2 * RETENTION, clean=True)
    report = log.compact()
    assert (report.passes, report.keys) == (1, 0)
    assert report.records_kept < report.records_read
    log.close()


@pytest.fixture(params=["two rounds", "a round, then what expired"])
def cleaned(tmp_path, request):
    folder = tmp_path / "t-0"
    if request.param == "two rounds":
        clean(folder, rounds=2)
    else:
        clean(folder, rounds=1)
        remove_expired(folder)
    after = batches_of(segments_of(folder))
    assert {batch.codec for batch in after} == {0, 1, 2, 3, 4}
    assert any(batch.control for batch in after)
    assert any(batch.transactional and not batch.control for batch in after)
    assert any(batch.delete_horizon is not None for batch in after)
    assert any(not batch.records for batch in after)
    return folder


def test_kafkas_dump_of_cleaned_logs_has_no_complaint(kafka, cleaned):
    logs = sorted(cleaned.glob("*.log"))
    assert len(logs) > 2
    dump = dump_log(kafka, logs, "--deep-iteration", "--print-data-log")
    said = [line for line in dump.complaints.splitlines() if not GAP.fullmatch(line)]
    assert said == []
    expected = batches_of(segments_of(cleaned))
    dumped = [batch for path in logs for batch in dump.files[str(path)].batches]
    assert all(batch.valid for batch in dumped)
    assert [(b.base_offset, b.last_offset, b.count, b.size) for b in dumped] == [
        (b.base_offset, b.last_offset, len(b.records), b.size) for b in expected
    ]
    shown = [record for path in logs for record in dump.files[str(path)].records]
    assert [(r.offset, r.timestamp, r.key_size, r.value_size) for r in shown] == [
        (r.offset, r.timestamp, size(r.key), size(r.value)) for b in expected for r in b.records
    ]


def test_indexes(kafka, cleaned):
    indexes = sorted([*cleaned.glob("*.index"), *cleaned.glob("*.timeindex")])
    assert_sane_indexes(kafka, indexes)
    shown = dump_log(kafka, indexes)
    assert shown.complaints == ""
    assert sum(len(shown.files[str(path)].entries) for path in indexes) > 20


def test_transaction_indexes_and_snapshots(kafka, tmp_path):
    folder = tmp_path / "t-0"
    end = clean(folder, rounds=1).end_offset
    paths = [path for path in sorted(folder.glob("*.txnindex")) if path.stat().st_size]
    assert any(int(path.stem) < end for path in paths), "none of a cleaned segment"
    paths += sorted(folder.glob("*.snapshot"))
    assert {path.suffix for path in paths} == {".txnindex", ".snapshot"}
    dump = dump_log(kafka, paths)
    assert dump.complaints == ""
    assert all(dump.files[str(path)].lines for path in paths)


def size(data):
    return -1 if data is None else len(data)
