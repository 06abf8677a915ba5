"""Lookup by time finds what a scan of all records finds, and retention ages by records."""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import kstore
from kstore import Log, LogConfig
from kstore.cli import main
from kstore.errors import CorruptRecordError
from kstore.files.files import Files
from kstore.log.time_lookup import newest_offset
from kstore.spark import plan
from oracle import writer as oracle
from oracle.plain import PlainRecord
from oracle.reader import read_log as read_plain
from oracle.times import find_offset
from support.logs import log_bytes, open_log, read_log
from support.stores import QUIET
from support.timed_segments import Segment, of_times, write_segments

LATER = 2**31  # seconds: a file's age that no record reaches
Opener = Callable[..., Log]


def read_foreign(directory: Path, **options: object) -> Log:
    """As another process reads a topic of Kafka's own: nothing is mapped."""
    return read_log(directory, own=False, **options)


@pytest.fixture(params=[open_log, read_log, read_foreign], ids=lambda each: each.__name__)
def opened(request: pytest.FixtureRequest) -> Iterator[Opener]:
    logs: list[Log] = []

    def opener(directory: Path, **options: object) -> Log:
        logs.append(request.param(directory, **options))
        return logs[-1]

    yield opener
    for log in logs:
        log.close()


def sent(value: bytes, timestamp: int) -> bytes:
    """A transactional producer's batch."""
    row = PlainRecord(0, timestamp, None, value)
    return oracle.batch([row], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)


def first_offset(name: str) -> int:
    return int(name.partition(".")[0])


# --- what hid records -----------------------------------------------------------------------------


def test_an_empty_segment_does_not_hide_later_records(tmp_path: Path, opened: Opener) -> None:
    """However young its file is: a copy, or a restored archive, makes all files young."""
    empty = Segment([], age=LATER)
    write_segments(tmp_path, of_times(10, age=LATER), empty, empty, of_times(50), of_times(60))
    log = opened(tmp_path)
    assert log.offset_at(20) == 3
    assert [record.timestamp for record in log.since(20)] == [50, 60]
    assert log.offset_at(61) == log.end_offset


def test_a_consumer_finds_a_time_behind_emptied_segments(tmp_path: Path) -> None:
    config = LogConfig(cleanup_policy="compact", file_delete_delay_ms=0)
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t", config=config)[0]
        for time in (1000, 2000, 3000):
            log.append(b"x", key=b"k", timestamp=time)
            log.roll()
        log.append(b"x", key=b"other", timestamp=4000)
        log.roll()
        log.compact()
    emptied = [path for path in (tmp_path / "t-0").glob("*.log") if path.stat().st_size == 0]
    assert emptied
    for path in emptied:
        os.utime(path, (LATER, LATER))
    for mode in ("r", "a"):
        with kstore.open(tmp_path, mode=mode, config=QUIET) as store:
            assert store["t"][0].offset_at(2500) == 2
            with store.consumer("t", timeout=0) as consumer:
                consumer.seek_to_time(datetime.fromtimestamp(3.5, UTC))
                assert [record.offset for batch in consumer for record in batch] == [3]


def test_tools_and_spark_find_a_time_behind_emptied_segments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=1\n")
    empty = Segment([], age=LATER)
    emptied = Segment([("emptied", [900], 0)], age=LATER)
    write_segments(tmp_path / "t-0", of_times(10), empty, emptied, of_times(50, 70), of_times(60))
    for asked, line in (("20", "t:0:3"), ("max-timestamp", "t:0:4"), ("71", "")):
        assert main(["get-offsets", "--time", asked, "--log-dir", str(tmp_path)]) == 0
        assert capsys.readouterr().out.strip() == line
    for since, count in ((20, 3), (60, 2)):
        assert plan(tmp_path, topics="t", since=since).offsets == count
    assert plan(tmp_path, topics="t", since=20, until=70).offsets == 1


def test_records_below_the_log_start_do_not_count(tmp_path: Path, opened: Opener) -> None:
    together = Segment([("v2", [800, 20, 30], 0)])  # one batch, whose first record is gone
    write_segments(tmp_path, of_times(900, 10), together, of_times(700, 5, 40))
    log = opened(tmp_path, log_start_offset=3)
    assert log.offset_at(700) == 5
    assert log.offset_at(25) == 4
    assert log.offset_at(701) == 8
    assert newest_offset(log) == 5


def test_messages_without_timestamps_hide_no_later_ones(tmp_path: Path, opened: Opener) -> None:
    old = of_times(-1, -1, kind="v0", how="lost", age=LATER)
    write_segments(tmp_path, old, of_times(-1, -1, age=LATER), of_times(-1, 30), of_times(40))
    log = opened(tmp_path)
    assert [log.offset_at(when) for when in (0, 30, 31, 41)] == [5, 5, 6, 7]


def test_compacted_records_do_not_count_where_their_batch_still_says_their_time(
    tmp_path: Path, opened: Opener
) -> None:
    write_segments(tmp_path, Segment([("emptied", [900], 0)]), of_times(10), of_times(20))
    log = opened(tmp_path)
    assert log.offset_at(15) == 2
    assert newest_offset(log) == 2


def test_a_time_index_that_began_late_hides_nothing(tmp_path: Path, opened: Opener) -> None:
    """A broker continues with an empty one where it was lost: entries follow, without the past."""
    begun_late = of_times(900, 10, 20, 30, 40, how="begun late", where=2)
    write_segments(tmp_path, begun_late, of_times(50))
    log = opened(tmp_path)
    assert [log.offset_at(when) for when in (10, 35, 45, 901)] == [0, 0, 0, 6]


def test_read_committed_finds_nothing_beyond_the_last_stable_offset(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t")[0]
        log.append(b"x", timestamp=1000)
        log.append_as_leader(sent(b"pending", timestamp=2000))
        assert log.offset_at(1500) == 1
        assert log.end_offset == 2
        assert log.offset_at(3000, isolation="read_committed") == log.last_stable_offset == 1
        assert log.offset_at(1500, isolation="read_committed") == 1
        log.append_end_marker(7, 0, commit=True, timestamp=3000)
        assert log.offset_at(2500, isolation="read_committed") == 2, "Kafka counts markers"


# --- one wrong thing in an index ------------------------------------------------------------------

# In the second, an entry may name a later batch of the same time, and seem right by itself.
TIMES = ((5, 9, 5, 5, 7, 12, 5, 12, 3, 30, 12, 2), (2, 3, 5, 9, 4, 4, 5))


def wrong_indexes(sound: bytes) -> Iterator[bytes]:
    for bit in range(8 * len(sound)):
        changed = bytearray(sound)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)
    yield from (sound[:size] for size in range(len(sound)))
    yield from (sound + bytes(size) for size in (1, 12, 500))


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("own", [True, False])
def test_no_single_wrong_thing_in_a_time_index_hides_a_record(
    tmp_path: Path, own: bool, times: tuple[int, ...]
) -> None:
    write_segments(tmp_path, of_times(*times), of_times(1))
    path = tmp_path / f"{0:020}.timeindex"
    sound = path.read_bytes()
    assert len(sound) == 3 * 12
    records = read_plain(log_bytes(tmp_path)).records
    expected = [find_offset(records, when, 0, len(records)) for when in range(32)]
    for wrong in wrong_indexes(sound):
        assert wrong != sound
        path.write_bytes(wrong)
        log = read_log(tmp_path, own=own)
        assert [log.offset_at(when) for when in range(32)] == expected, wrong.hex()
        log.close()


def test_a_writer_replaces_a_time_index_that_began_late(tmp_path: Path) -> None:
    write_segments(tmp_path, of_times(900, 10, 20, 30, how="begun late", where=2))
    log = open_log(tmp_path, index_interval_bytes=0)
    log.append(b"x", timestamp=40)
    log.append(b"x", timestamp=950)
    assert [log.offset_at(when) for when in (15, 35, 920)] == [0, 0, 5]
    log.close()
    times = (tmp_path / f"{0:020}.timeindex").read_bytes()
    assert int.from_bytes(times[:8], "big") == 900


def test_damage_that_may_hide_the_answer_is_reported(tmp_path: Path, opened: Opener) -> None:
    write_segments(tmp_path, of_times(*range(10, 30), how="lost"), of_times(50))
    path = tmp_path / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    batches = read_plain(bytes(data)).batches
    at = batches[10].position
    assert data[at + 16] == 2
    data[at + 16] = 9  # a format that there is not
    path.write_bytes(data)
    os.utime(path, (0, 0))
    log = opened(tmp_path)
    assert log.offset_at(15) == 5
    with pytest.raises(CorruptRecordError) as caught:
        log.offset_at(40)
    assert (caught.value.path, caught.value.position) == (str(path), at)


# --- retention ------------------------------------------------------------------------------------


def test_a_segment_whose_largest_timestamp_is_0_ages_after_reopening(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(b"x", timestamp=0)
    log.roll()
    log.append(b"y", timestamp=0)
    log.close()
    assert (tmp_path / f"{0:020}.timeindex").read_bytes() == bytes(12)
    os.utime(tmp_path / f"{0:020}.log", (LATER, LATER))
    log = open_log(tmp_path, retention_ms=1000)
    assert log.recovery is not None
    assert str(log.recovery).endswith("nothing to recover")
    assert [log.offset_at(when) for when in (0, 1)] == [0, 2]
    assert log.apply_retention() == 2
    log.close()


def test_a_segment_without_timestamps_is_as_old_as_its_file(tmp_path: Path) -> None:
    old = of_times(-1, kind="v0", how="lost", age=1000)
    young = of_times(-1, kind="v0", how="lost", age=LATER)
    write_segments(tmp_path, old, young, of_times(10))
    log = open_log(tmp_path, retention_ms=1000)
    assert log.apply_retention() == 1
    assert log.start_offset == 1
    log.close()


# --- what it costs --------------------------------------------------------------------------------


class CountedFiles(Files):
    def __init__(self) -> None:
        self.opened = self.bytes_read = 0
        self.names: list[str] = []

    def open(self, path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
        self.opened += 1
        self.names.append(os.path.basename(path))
        return super().open(path, flags)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        data = super().pread(fd, size, position)
        self.bytes_read += len(data)
        return data


@pytest.mark.parametrize("opener", [open_log, read_log, read_foreign])
def test_segments_are_read_once_and_only_at_their_ends(tmp_path: Path, opener: Opener) -> None:
    log = open_log(tmp_path, segment_bytes=600_000)
    for batch in range(800):
        log.extend([b"x" * 1000] * 10, timestamp=1000 + batch)
    log.close()
    assert len(list(tmp_path.glob("*.log"))) == 14
    os.utime(tmp_path, (LATER, LATER))  # a reader lists a directory that just changed again
    files = CountedFiles()
    log = opener(tmp_path, files=files)
    files.opened = files.bytes_read = 0
    assert log.offset_at(1000 + 750) == 7500
    assert files.bytes_read < 14 * 3 * 40_000  # of 8 MB
    first = files.opened
    assert first <= 14 * 5
    files.opened = files.bytes_read = 0
    for n in range(740, 760):
        assert log.offset_at(1000 + n) == 10 * n
    assert files.opened <= 20 * 6  # in the segment that is looked into; writers have it mapped
    assert files.bytes_read < 20 * 100_000
    log.close()


def test_a_reader_keeps_what_it_knows_of_segments_when_the_log_rolls(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for n in range(5):
        log.append(b"x", timestamp=1000 + n)
        log.roll()
    files = CountedFiles()
    reader = read_log(tmp_path, files=files)
    assert reader.offset_at(2000) == 5
    before = reader.segments.views
    log.append(b"x", timestamp=1900)
    log.roll()
    files.names.clear()
    assert reader.offset_at(2000) == 6
    assert reader.segments.views[:5] == before[:5]
    assert {first_offset(name) for name in files.names if name[0] == "0"} == {5, 6}
    reader.close()
    log.close()
