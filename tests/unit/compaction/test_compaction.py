"""Compaction of a log: against the oracle, with disks that fail, beside readers and appends."""

import os
import random
import shutil
import threading
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstore.checkpoint import offset_checkpoint as checkpoint
from kstore.compaction import cleaner
from kstore.compaction.throttler import Throttler
from kstore.errors import (
    CompactionAbandonedError,
    CorruptRecordError,
    InvalidConfigError,
    InvalidRecordError,
    PolicyViolationError,
)
from kstore.files.files import Files
from kstore.producer_state import replay
from kstore.record import Record
from oracle import cleaner as rules
from support.compaction import (
    NOW,
    RETENTION,
    Shape,
    batches_of,
    contents,
    fill,
    live_segments,
    open_compacted,
    random_segments,
    write_logs,
)
from support.damage import write_damaged
from support.disks import HastyDisk
from support.logs import log_bytes, open_log, read_log

SHAPES = (
    Shape(),
    Shape(transactions=False, magics=(0, 1, 2)),
    Shape(magics=(1, 2), null_keys=True),
    Shape(codecs=(0,)),
)
FIRST = f"{0:020}"


# --- what stays ---------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.integers(0, 1 << 40), st.sampled_from(SHAPES), st.sampled_from((75, 3000, 1 << 20)))
def test_the_oracle_agrees(tmp_path_factory, seed, shape, segment_bytes):
    rng = random.Random(seed)
    directory = tmp_path_factory.mktemp("oracle") / "t-0"
    write_logs(directory, random_segments(rng, shape))
    first_dirty = min(live_segments(directory))
    for number in range(2):
        now = NOW + number * RETENTION // 2
        before = live_segments(directory)
        log = open_compacted(directory, now=now, clean=number > 0, segment_bytes=segment_bytes)
        stable = rules.first_unstable(batches_of(before), log.end_offset)
        limit = min(stable, max(before))
        stop = max((base for base in before if base <= limit), default=first_dirty)
        wanted = batches_of(before)
        if stop > first_dirty:
            wanted = rules.clean(
                wanted,
                first_dirty=first_dirty,
                stop=stop,
                now=now,
                retention=RETENTION,
                producers=rules.producers_of(wanted),
            )
            first_dirty = stop
        report = log.compact()
        found = batches_of(live_segments(directory))
        assert all(batch.crc_ok for batch in found)
        assert [rules.same(each) for each in found] == [rules.same(each) for each in wanted]
        assert report.end_offset == first_dirty
        log.verify().raise_if_corrupt()
        log.extend([Record(-1, now, b"k%d" % n, None if n % 2 else b"x") for n in range(5)])
        log.roll()
        log.close()
    shutil.rmtree(directory.parent)


def test_tombstones_go_after_their_time(tmp_path):
    log = open_compacted(tmp_path / "t-0", now=NOW)
    log.extend([Record(-1, NOW, b"a", b"1"), Record(-1, NOW, b"b", b"1")])
    log.extend([Record(-1, NOW, b"a", None)])
    log.roll()
    report = log.compact()
    assert (report.records_kept, report.tombstones_kept) == (2, 1)
    assert f"for delete.retention.ms, {RETENTION}, after their first" in report.reason
    assert "for delete.retention.ms" in repr(report)
    assert contents(log) == [(1, b"b", b"1"), (2, b"a", None)]
    log.append(b"2", key=b"c", timestamp=NOW)
    log.roll()
    log.close()
    log = open_compacted(tmp_path / "t-0", now=NOW + RETENTION - 1)
    report = log.compact()
    assert (report.records_kept, report.tombstones_kept) == (3, 1)
    assert [offset for offset, _, _ in contents(log)] == [1, 2, 3]
    log.append(b"3", key=b"d", timestamp=NOW)
    log.roll()
    log.close()
    log = open_compacted(tmp_path / "t-0", now=NOW + RETENTION)
    report = log.compact()
    assert (report.records_kept, report.tombstones_kept, report.reason) == (3, 0, "")
    assert [offset for offset, _, _ in contents(log)] == [1, 3, 4]
    assert log.end_offset == 5
    log.close()


def test_tombstones_go_after_their_time_without_new_records(tmp_path):
    log = open_compacted(tmp_path / "t-0")
    log.extend([Record(-1, NOW, b"a", b"1"), Record(-1, NOW, b"b", b"1")])
    log.extend([Record(-1, NOW, b"a", None), Record(-1, NOW, b"c", b"1")])
    log.roll()
    log.compact()
    log.close()
    for now in (NOW, NOW + RETENTION - 1):
        with closing(open_compacted(tmp_path / "t-0", now=now)) as log:
            assert log.compact().passes == 0
            assert [offset for offset, _, _ in contents(log)] == [1, 2, 3]
    with closing(open_compacted(tmp_path / "t-0", now=NOW + RETENTION)) as log:
        log.append(b"2", key=b"b")  # in the active segment, which is never compacted
        report = log.compact()
        assert (report.passes, report.records_read, report.records_kept) == (1, 3, 2)
        assert [offset for offset, _, _ in contents(log)] == [1, 3, 4]
        log.verify().raise_if_corrupt()
        report = log.compact()
        assert (report.passes, report.reason[:17]) == (0, "the active segmen")


def test_a_search_for_expired_tombstones_ends_when_it_is_stopped(tmp_path):
    log = fill(tmp_path / "t-0", rounds=2)
    log.compact()

    def check():
        raise CompactionAbandonedError("enough")

    with pytest.raises(CompactionAbandonedError, match="enough"):
        log.compact(check=check)
    log.close()


def test_records_that_are_deleted_while_tombstones_are_searched_abandon_it(tmp_path):
    log = open_log(
        tmp_path / "t-0", cleanup_policy="compact,delete", delete_retention_ms=0, segment_bytes=75
    )
    for key in (b"a", b"b"):
        log.append(b"1", key=key)
        log.append(None, key=key)
        log.roll()
    log.compact()
    assert [offset for offset, _, _ in contents(log)] == [1, 3]
    with pytest.raises(CompactionAbandonedError, match="records were deleted"):
        log.compact(check=lambda: log.delete_records(4))
    assert log.compact().passes == 0
    log.close()


@settings(max_examples=40)
@given(st.integers(0, 1 << 40), st.sampled_from(SHAPES), st.sampled_from((75, 3000, 1 << 20)))
def test_the_oracle_agrees_about_what_has_expired(tmp_path_factory, seed, shape, segment_bytes):
    directory = tmp_path_factory.mktemp("expired") / "t-0"
    write_logs(directory, random_segments(random.Random(seed), shape))
    with closing(open_compacted(directory, clean=False, segment_bytes=segment_bytes)) as log:
        stop = log.compact().end_offset
    now = NOW + RETENTION
    wanted = batches_of(live_segments(directory))
    if any(
        record.value is None and each.delete_horizon is not None
        for each in wanted
        for record in each.records
        if each.last_offset < stop and not each.control
    ):
        wanted = rules.clean(
            wanted,
            first_dirty=stop,
            stop=stop,
            now=now,
            retention=RETENTION,
            producers=rules.producers_of(wanted),
        )
    named = {"segment_bytes": segment_bytes, "producer_id_expiration_ms": 2 * RETENTION}
    with closing(open_compacted(directory, now=now, **named)) as log:
        log.compact()
        log.verify().raise_if_corrupt()
    found = batches_of(live_segments(directory))
    assert [rules.same(each) for each in found] == [rules.same(each) for each in wanted]
    shutil.rmtree(directory.parent)


def test_a_key_that_is_not_dirty_is_hashed_and_looked_up(tmp_path):
    """The second round: older segments are clean, and lose what newer ones have again."""
    log = fill(tmp_path / "t-0", rounds=2)
    log.compact()
    log.extend([Record(-1, NOW, b"k%02d" % n, b"new") for n in range(0, 20, 2)])
    log.roll()
    report = log.compact()
    assert report.records_read == 30
    assert {key: value for _, key, value in contents(log)} == {
        b"k%02d" % n: b"1-%d" % n if n % 2 else b"new" for n in range(20)
    }
    assert len(contents(log)) == 20
    log.close()


def test_a_map_too_small_takes_several_rounds(tmp_path):
    log = open_compacted(tmp_path / "t-0")
    for number in range(4):  # half of each segment's keys are repeated in the next
        keys = range(number * 50, number * 50 + 100)
        log.extend([Record(-1, NOW, b"%d" % key, b"%d" % number) for key in keys])
        log.roll()
    wanted = {record.key: record.value for record in log}
    before = sum(path.stat().st_size for path in (tmp_path / "t-0").glob("*.log"))
    report = log.compact(dedupe_buffer_size=24 * 130)
    assert report.passes == 4
    assert report.keys == 117
    assert (report.records_read, report.records_kept) == (400, 250)
    assert (report.bytes_before, report.segments_before) == (before, 4)
    assert {record.key: record.value for record in log} == wanted
    assert len(contents(log)) == len(wanted) == 250
    assert report.end_offset == 400
    assert log.compact().passes == 0, "nothing is dirty any more"
    log.close()


def test_a_map_without_room_for_a_batch_says_so(tmp_path):
    log = fill(tmp_path / "t-0")
    before = contents(log)
    with pytest.raises(InvalidConfigError, match=r"dedupe\.buffer\.size"):
        log.compact(dedupe_buffer_size=24 * 15)
    assert contents(log) == before
    log.close()


def test_few_bits_of_a_hash_lose_records(tmp_path, monkeypatch):
    """The test's own check that a collision would be seen: with all bits nothing is lost."""
    real = cleaner.OffsetMap
    log = fill(tmp_path / "few", rounds=1, keys=200)
    monkeypatch.setattr(
        cleaner, "OffsetMap", lambda memory, factor, key: real(memory, factor, key, hash_bits=8)
    )
    log.compact()
    assert len(contents(log)) < 200
    log.close()
    monkeypatch.undo()
    log = fill(tmp_path / "all", rounds=1, keys=200)
    log.compact()
    assert len(contents(log)) == 200
    log.close()


def test_a_batch_larger_than_the_buffer(tmp_path):
    log = open_compacted(tmp_path / "t-0", max_message_bytes=4 << 20, batch_size=4 << 20)
    big = os.urandom(cleaner.BUFFER_SIZE)
    log.extend(
        [Record(-1, NOW, b"a", big), Record(-1, NOW, b"b", big), Record(-1, NOW, b"a", b"1")]
    )
    log.roll()
    log.compact()
    assert contents(log) == [(1, b"b", big), (2, b"a", b"1")]
    log.close()


def test_a_log_with_only_an_active_segment_is_not_compacted(tmp_path):
    log = open_compacted(tmp_path / "t-0")
    assert log.compact().passes == 0
    log.append(b"1", key=b"a")
    assert log.compact().passes == 0, "the active segment is never cleaned"
    log.close()


def test_records_that_are_too_young_stay(tmp_path):
    log = fill(tmp_path / "t-0", min_compaction_lag_ms=1000)
    assert log.compact().passes == 0
    log.close()
    log = open_compacted(tmp_path / "t-0", now=NOW + 1000, min_compaction_lag_ms=1000)
    assert log.compact().records_kept == 20
    log.close()


def test_a_record_without_a_key_is_refused(tmp_path):
    """Compaction would drop it (Kafka: INVALID_RECORD, from LogValidator)."""
    log = open_compacted(tmp_path / "t-0")
    log.append(b"v", key=b"")
    for values in ([b"v"], [Record(-1, NOW, None, b"v")], [Record(-1, NOW, b"k", b"v"), b"v"]):
        with pytest.raises(InvalidRecordError, match="without a key"):
            log.extend(values)
    with pytest.raises(InvalidRecordError, match="without a key") as caught:
        log.append(b"v")
    assert caught.value.code == 87
    assert log.end_offset == 1
    log.append(None, key=b"")
    assert [record.key for record in log] == [b"", b""]
    log.close()


def test_only_where_the_policy_says_so(tmp_path):
    log = open_log(tmp_path / "t-0")
    with pytest.raises(PolicyViolationError, match=r"cleanup\.policy"):
        log.compact()
    log.close()


# --- the report, the checkpoint, the rate ---------------------------------------------------


def test_the_report_and_the_checkpoint(tmp_path):
    log = fill(tmp_path / "t-0", rounds=3)
    size = log.size
    seen = []
    report = log.compact(progress=lambda done, total: seen.append((done, total)))
    assert (report.first_dirty_offset, report.end_offset, report.passes) == (0, 60, 1)
    assert (report.records_read, report.records_kept, report.keys) == (60, 20, 20)
    assert (report.bytes_before, report.bytes_after) == (size, log.size)
    assert (report.segments_before, report.segments_after) == (3, 1)
    assert report.seconds > 0
    assert seen[-1] == (2 * size, 2 * size)
    offsets = checkpoint.read_offsets(HastyDisk(), tmp_path / "cleaner-offset-checkpoint")
    assert offsets == {("t", 0): 60}
    log.truncate_to(30)
    offsets = checkpoint.read_offsets(HastyDisk(), tmp_path / "cleaner-offset-checkpoint")
    assert offsets[("t", 0)] <= 30
    log.close()


def test_other_entries_of_the_cleaner_checkpoint_are_kept_and_a_corrupt_file_is_replaced(tmp_path):
    path = tmp_path / "cleaner-offset-checkpoint"
    (tmp_path / "other-3").mkdir()
    log = fill(tmp_path / "t-0")
    path.write_bytes(b"0\n2\nother 3 17\ngone 1 5\n")
    log.compact()
    assert path.read_bytes() == b"0\n2\nother 3 17\nt 0 120\n"
    path.write_bytes(b"what is this")
    log.append(b"1", key=b"k01", timestamp=NOW)
    log.roll()
    log.compact()
    assert path.read_bytes() == b"0\n1\nt 0 121\n"
    log.close()


def test_the_throttle_limits_bytes_per_second():
    now, slept = [0.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    throttle = Throttler(1000, clock=lambda: now[0], sleep=sleep)
    for _ in range(10):
        throttle.passed(500)
    assert now[0] == pytest.approx(5.0)
    assert max(slept) <= 0.1 + 1e-9
    free = Throttler(float("inf"), sleep=sleep)
    free.passed(1 << 40)
    assert now[0] == pytest.approx(5.0)


def test_another_rate_ends_the_sleeps_that_the_old_one_asks():
    now, slept = [0.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds
        assert len(slept) < 20
        if len(slept) in (3, 5):
            throttle.set_rate(1e-6 if len(slept) == 3 else 1000)  # at first no other rate

    throttle = Throttler(1e-6, clock=lambda: now[0], sleep=sleep)
    throttle.passed(500)
    assert slept == [0.1] * 5
    throttle.passed(500)
    assert now[0] == pytest.approx(1.0)


def test_a_slow_compaction_ends_when_it_is_stopped(tmp_path):
    log = fill(tmp_path / "t-0")
    before = log_bytes(tmp_path / "t-0")
    slept = []

    def check():
        if len(slept) >= 3:
            raise CompactionAbandonedError("enough")

    clock = iter(range(10**9))
    throttle = Throttler(1e-9, clock=lambda: next(clock), sleep=slept.append)
    with pytest.raises(CompactionAbandonedError, match="enough"):
        log.compact(throttle=throttle, check=check)
    assert slept == [0.1] * 3
    assert log_bytes(tmp_path / "t-0") == before


# --- files, readers, appends ---------------------------------------------------------------


def test_no_segment_is_read_again_for_aborted_transactions(tmp_path, monkeypatch):
    """Neither those that this log has rolled nor those that the cleaner has written."""
    read = []
    monkeypatch.setattr(replay, "replay_segment", lambda *names, **named: read.append(names))
    with closing(fill(tmp_path / "t-0")) as log:
        assert log.compact().records_kept == 20
        assert log.aborted_transactions(0, log.end_offset) == []
        log.extend([Record(-1, NOW, b"k01", b"new")])
        log.roll()
        assert log.compact().records_kept == 20
        assert log.aborted_transactions(0, log.end_offset) == []
    assert read == []


def test_a_compaction_leaves_kafkas_file_names_and_times(tmp_path):
    log = fill(tmp_path / "t-0", file_delete_delay_ms=1 << 40)
    modified = os.stat(tmp_path / "t-0" / f"{100:020}.log").st_mtime_ns
    log.compact()
    names = os.listdir(tmp_path / "t-0")
    assert sorted(name for name in names if name.endswith(".log")) == [
        f"{0:020}.log",
        f"{120:020}.log",
    ]
    assert {name for name in names if name.endswith(".log.deleted")} == {
        f"{base:020}.log.deleted" for base in range(0, 120, 20)
    }
    assert not [name for name in names if name.endswith((".swap", ".cleaned"))]
    assert os.stat(tmp_path / "t-0" / f"{FIRST}.log").st_mtime_ns == modified
    log.close()


def test_old_views_keep_what_they_saw(tmp_path):
    log = fill(tmp_path / "t-0")
    wanted = contents(log)
    segments, view = log.segments, log.view()
    slices = [each.all_published() for each in segments.views]
    bytes_before = [bytes(each) for each in slices]
    log.compact()
    log.append(b"1", key=b"k01", timestamp=NOW)
    log.roll()
    log.compact()
    assert [bytes(each) for each in slices] == bytes_before
    assert [bytes(each.all_published()) for each in segments.views[:-1]] == bytes_before[:-1]
    assert segments.read(30) is not None
    assert len(list(view)) < len(wanted)
    log.close()


def test_unmapped_old_views_are_still_read(tmp_path):
    log = fill(tmp_path / "t-0")
    log.park()
    segments = log.segments
    log.compact()
    assert [each.all_published().size for each in segments.views[:-1]] == [
        each.size for each in segments.views[:-1]
    ]
    assert bytes(segments.read(45).memory()[:8]) != b""
    log.close()


def test_a_separate_reader_sees_the_log_before_or_after_a_compaction(tmp_path):
    log = fill(tmp_path / "t-0")
    before = contents(log)
    reader = read_log(tmp_path / "t-0")
    assert contents(reader) == before
    log.compact()
    assert contents(reader) == contents(log)
    assert len(contents(log)) == 20
    reader.close()
    log.close()


def test_readers_and_appends_continue_meanwhile(tmp_path):
    log = fill(tmp_path / "t-0", rounds=12, keys=50, segment_bytes=3000)
    stop, problems = threading.Event(), []

    def read():
        while not stop.is_set():
            try:
                latest = {record.key: record.value for record in log}
            except Exception as error:
                problems.append(error)
                return
            if len(latest) != 50:
                problems.append(len(latest))

    def append():
        for n in range(200):
            log.append(b"%d" % n, key=b"k%02d" % (n % 50), timestamp=NOW)

    threads = [threading.Thread(target=read), threading.Thread(target=append)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        log.compact()
        log.roll()
    threads[1].join()
    stop.set()
    threads[0].join()
    assert problems == []
    log.roll()
    log.compact()
    assert len(contents(log)) == 50
    log.verify().raise_if_corrupt()
    log.close()


def test_a_truncation_meanwhile_abandons_it(tmp_path):
    log = fill(tmp_path / "t-0")
    calls = []

    def shorten(done, total):
        calls.append(done)
        if len(calls) == 8:
            log.truncate_to(50)

    with pytest.raises(CompactionAbandonedError):
        log.compact(progress=shorten)
    assert [offset for offset, _, _ in contents(log)][-1] < 50
    assert not list((tmp_path / "t-0").glob("*.cleaned"))
    log.compact()
    log.close()


class TruncatingDisk(Files):
    """Truncates the log, and lets it grow again, at one look at a file's modification time."""

    log = None
    looks = -1

    def modified_ns(self, path):
        self.looks -= 1
        if self.looks == 0:
            self.log.truncate_to(50)
            for n in range(200):
                self.log.append(b"new", key=b"k%02d" % (n % 50), timestamp=NOW)
                if n % 20 == 19:
                    self.log.roll()
        return super().modified_ns(path)


def test_a_truncation_while_a_compaction_is_planned_abandons_it(tmp_path):
    abandoned = 0
    for look in range(1, 40):
        directory = tmp_path / str(look) / "t-0"
        fill(directory).close()
        disk = TruncatingDisk()
        disk.log = log = open_compacted(directory, files=disk)
        disk.looks = look
        try:
            log.compact()
        except CompactionAbandonedError:
            abandoned += 1
        is_truncated = disk.looks <= 0
        disk.looks = -1
        kept = {bytes(key) for _, key, _ in contents(log)}
        assert kept == {b"k%02d" % n for n in range(50 if is_truncated else 20)}
        log.roll()
        log.compact()
        log.verify().raise_if_corrupt()
        log.close()
        if not is_truncated:
            break
    else:
        pytest.fail("planning reads more files than were tried")
    assert abandoned > 0


def test_a_damaged_batch_is_not_rebuilt(tmp_path):
    log = fill(tmp_path / "t-0")
    log.close()
    path = tmp_path / "t-0" / f"{40:020}.log"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    write_damaged(path, data)
    before = live_segments(tmp_path / "t-0")
    log = open_compacted(tmp_path / "t-0")
    with pytest.raises(CorruptRecordError) as caught:
        log.compact()
    assert caught.value.path == str(path)
    assert caught.value.position == 0
    assert live_segments(tmp_path / "t-0") == before
    assert not list((tmp_path / "t-0").glob("*.cleaned"))
    log.close()


def test_records_without_a_key_are_counted_wherever_they_are(tmp_path):
    """In a batch of which nothing stays, which is skipped unread, and beside the latest."""
    with closing(open_log(tmp_path / "t-0", clock=lambda: NOW)) as log:  # not compacted yet
        log.extend([Record(-1, NOW, b"k", b"1"), Record(-1, NOW, None, b"lost")])
        log.extend([Record(-1, NOW, None, b"lost"), Record(-1, NOW, b"k", b"2")])
        log.roll()
    with closing(open_compacted(tmp_path / "t-0")) as log:
        report = log.compact()
        assert (report.records_kept, report.records_without_key) == (1, 2)
