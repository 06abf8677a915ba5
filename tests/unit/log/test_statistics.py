"""Statistics of a log: the oracle's figures, in one pass or merged, whatever the bytes are."""

import os
import random
from copy import deepcopy
from pathlib import Path

import pytest

import kstore
from kstore.files.files import DISK
from kstore.log import statistics as module
from kstore.log.statistics import (
    DAY_MS,
    HOUR_MS,
    STANDARD_ERROR,
    PlannedSegment,
    Spread,
    Stats,
    estimate,
    segments_of,
    survey_segments,
)
from oracle import codec as codecs
from oracle import stats as oracle
from oracle.plain import LOG_APPEND_TIME, PlainRecord
from oracle.writer import batch, message, wrapper
from support.damage import cut, overwrite, write_damaged
from support.figures import as_oracle, compare, framed, slowly, survey_log
from support.jobs import make_store
from support.stores import QUIET

WHEN = 1_700_000_000_000


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Transactions and all codecs, headers, old formats, tombstones, what compaction leaves."""
    log_dir = tmp_path_factory.mktemp("made") / "data"
    make_store(log_dir)
    small = kstore.LogConfig(
        segment_bytes=2000, cleanup_policy="compact", file_delete_delay_ms=0, index_interval_bytes=0
    )
    with kstore.open(log_dir, config=QUIET) as store:
        old = store.create_topic("old", config=kstore.LogConfig(segment_bytes=3000))[0]
        for n in range(0, 240, 4):
            magic, codec = n // 4 % 2, n // 8 % 4
            records = [PlainRecord(n + i, WHEN + n, b"k%d" % i, b"v" * i) for i in range(1, 4)]
            old.append_as_follower(message(n, None, b"x", magic=magic, timestamp=WHEN + n))
            old.append_as_follower(wrapper(records, magic=magic, codec=codec or 1))
        stamped = [PlainRecord(240, WHEN, b"k", b"v", timestamp_type=LOG_APPEND_TIME)]
        old.append_as_follower(
            batch(stamped, timestamp_type=LOG_APPEND_TIME, max_timestamp=WHEN + 9)
        )
        accounts = store.create_topic("accounts", config=small)[0]
        for n in range(400):
            value = None if n % 9 == 4 else b"%d" % n * (n % 20)
            headers = [("größe", b"%d" % n), ("none", None)][: n % 3]
            when = WHEN + n * HOUR_MS // 7
            accounts.append(
                value,
                key=b"%d" % (n if n % 9 == 0 else n * 7 % 40),
                headers=headers,
                timestamp=when,
            )
        accounts.compact()
    return log_dir


def folders(log_dir: Path) -> list[str]:
    return sorted(path.name for path in log_dir.iterdir() if path.is_dir())


def opened(store: kstore.Store, name: str) -> kstore.Log:
    topic, _, partition = name.rpartition("-")
    return store[topic][int(partition)]


def test_the_figures_are_the_oracles(log_dir: Path) -> None:
    with kstore.open(log_dir, "r") as store:
        assert len(folders(log_dir)) == 6
        for name in folders(log_dir):
            log = opened(store, name)
            found = survey_log(log)
            logs = list((log_dir / name).glob("*.log"))
            compare(found, slowly(logs))
            assert found.ok
            assert found.segments == len(logs)
            assert found.bytes == sum(path.stat().st_size for path in logs) == log.size
            indexes = [p for p in (log_dir / name).iterdir() if p.suffix.endswith("index")]
            assert found.index_bytes == sum(path.stat().st_size for path in indexes)
            assert found.end_offset == log.end_offset
        accounts, orders, old = (
            survey_log(opened(store, name)) for name in ("accounts-0", "orders-0", "old-0")
        )
    assert accounts.gaps
    assert accounts.tombstones
    assert accounts.headers > accounts.records_with_headers > 0
    assert len(accounts.rates.windows) > 5
    assert orders.commit_markers
    assert orders.abort_markers
    assert set(orders.codecs) == set(codecs.NAMES)
    assert set(old.formats) == {"0", "1", "2"}
    assert old.without_timestamp
    assert old.log_append_time_batches == 1


def test_statistics_of_ranges_add_up_to_those_of_the_log(log_dir: Path) -> None:
    with kstore.open(log_dir, "r") as store:
        for name in folders(log_dir):
            log = opened(store, name)
            segments = segments_of(log)
            complete = survey_log(log)
            for cut in range(len(segments) + 1):
                first = survey_segments(DISK, log.path, segments[:cut])
                first.add(survey_segments(DISK, log.path, segments[cut:]))
                assert first == complete
            one_by_one = Stats()
            for segment in segments:
                one_by_one.add(survey_segments(DISK, log.path, [segment]))
            assert one_by_one == complete


def test_logs_add_up_to_a_topic(log_dir: Path) -> None:
    with kstore.open(log_dir, "r") as store:
        found = [survey_log(log) for log in store["orders"]]
    total = deepcopy(found[0])
    total.add_log(found[1])
    assert total.records == found[0].records + found[1].records
    assert total.missing_offsets == found[0].missing_offsets + found[1].missing_offsets
    assert total.codecs["zstd"].bytes == sum(each.codecs["zstd"].bytes for each in found)
    assert total.distinct_keys == found[0].distinct_keys == 4  # the same ones


@pytest.mark.parametrize("size", [100, 3 << 20])
def test_a_batch_larger_than_one_read_is_counted(tmp_path: Path, size: int) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        config = kstore.LogConfig(max_message_bytes=8 << 20)
        log = store.create_topic("a", config=config)[0]
        for _ in range(3):
            log.append(b"v" * size)
        compare(survey_log(log), slowly(Path(log.path).glob("*.log")))


def test_percentiles_are_at_most_twice_too_large() -> None:
    sizes = [int(random.Random(7).paretovariate(0.7) * 10) for _ in range(1000)]
    sizes = [size % (1 << 30) for size in sizes]
    of = Spread(**oracle.spread(sizes))
    ordered = sorted(sizes)
    for share in (0.001, 0.5, 0.99, 1.0):
        true = ordered[max(0, -(-int(share * 1000) // 1) - 1)]
        reported = of.at_most(share)
        assert reported is not None
        assert true <= reported < max(2 * true, 1)
    assert of.at_most(1.0) == max(sizes)
    assert of.count == 1000
    assert Spread().at_most(0.5) is None


# --- keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [0, 1, 2, 100, 5_000, 40_000])
def test_distinct_keys_are_estimated_within_four_standard_errors(tmp_path: Path, many: int) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        logs = list(store.create_topic("a", 2))
        for part, log in enumerate(logs):  # half of the keys are in both
            keys = range(many // 4 * part, many - many // 4 * (1 - part))
            for first in range(0, len(keys), 1000):
                some = keys[first : first + 1000]
                rows = [PlainRecord(first + i, WHEN, b"%d" % n, b"") for i, n in enumerate(some)]
                log.append_as_follower(batch(rows))
            log.append(b"no key")
        found = [survey_log(log) for log in logs]
    found[0].add_log(found[1])
    assert abs(found[0].distinct_keys - many) <= max(4 * STANDARD_ERROR * many, 1)
    if many:
        assert len(found[0].key_registers) == 1 << 14


def test_the_estimate_is_that_of_its_definition() -> None:
    """Registers of keys hashed by chance, by the first definition of HyperLogLog (raw estimate)."""
    chance = random.Random(3)
    many = 200_000
    registers = bytearray(1 << 14)
    for _ in range(many):
        bits = chance.getrandbits(50)
        rank = 51 - bits.bit_length()
        at = chance.randrange(1 << 14)
        registers[at] = max(registers[at], rank)
    m = 1 << 14
    raw = 0.7213 / (1 + 1.079 / m) * m * m / sum(2.0**-rank for rank in registers)
    assert abs(estimate(bytes(registers)) - raw) < 0.005 * raw
    assert abs(raw - many) < 4 * STANDARD_ERROR * many
    assert estimate(bytes([51]) * m) > 2**60  # full to the last: a number still
    assert estimate(bytes(m)) == 0
    assert estimate(b"") == 0


# --- times ----------------------------------------------------------------------------------------


def test_too_many_hours_become_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WINDOWS", 50)
    hours = random.Random(1).sample(range(1000), 400)
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("a", config=kstore.LogConfig(segment_bytes=2000))[0]
        for hour in hours:
            log.append(b"1234567", timestamp=hour * HOUR_MS)
        complete = survey_log(log)
        parts = Stats()
        for segment in segments_of(log):
            parts.add(survey_segments(DISK, log.path, [segment]))
    assert parts.rates == complete.rates
    assert complete.rates.width == DAY_MS
    expected: dict[int, int] = {}
    for hour in hours:
        expected[hour // 24] = expected.get(hour // 24, 0) + 1
    rows = [(day * DAY_MS, count, 7 * count) for day, count in sorted(expected.items())]
    assert complete.rates.rows() == rows


def test_statistics_of_times_of_any_size_stay_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WINDOWS", 5000)
    chance = random.Random(5)
    times = [0, 2**63 - 1, -1, -(2**62), *(chance.randrange(2**63) for _ in range(6000))]
    records = [PlainRecord(n, time, None, b"v") for n, time in enumerate(times)]
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("a")[0]
        log.append_as_follower(batch(records))
        found = survey_log(log)
    assert found.without_timestamp == 2
    assert (found.min_timestamp, found.max_timestamp) == (0, 2**63 - 1)
    assert found.rates.width == module.WIDTHS[-1]
    assert 2**63 // found.rates.width < 5000
    assert sum(records for _, records, _ in found.rates.rows()) == 6002


# --- damage ---------------------------------------------------------------------------------------


@pytest.fixture
def plain(tmp_path: Path) -> tuple[Path, list[PlannedSegment]]:
    """Two segments of batches of some records, the first closed, each batch in the index."""
    config = kstore.LogConfig(segment_bytes=3000, index_interval_bytes=0)
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("a", config=config)[0]
        for n in range(60):
            log.extend([b"value %d" % n, b"more"])
        segments = segments_of(log)[:2]
        assert len(segments) == 2
    return tmp_path / "a-0", segments


def without(
    directory: Path, segments: list[PlannedSegment], left_out: set[int]
) -> dict[str, object]:
    """The oracle's figures of all batches but those with these base offsets."""
    paths = [directory / f"{each.base_offset:020}.log" for each in segments]
    found = [each for path in paths for each in framed(path.read_bytes())]
    return oracle.of_batches([each for each in found if each[1].base_offset not in left_out])


@pytest.mark.parametrize(
    ("place_in_batch", "data", "reason"),
    [
        (70, b"\xff", "checksum"),
        (16, b"\x07", "magic"),
        (8, b"\x00\x00\x00\x03", "size"),
        (8, b"\x00\x0f\xff\xff", "incomplete"),
        (8, b"\x00\x00\x02\x00", "checksum"),  # reaches over the next ones
        (0, b"\x7f", "offset"),
        (0, b"\xff", "offset"),
    ],
)
@pytest.mark.parametrize("with_index", [True, False])
def test_a_damaged_batch_is_named_and_skipped(
    plain: tuple[Path, list[PlannedSegment]], place_in_batch: int, data: bytes, reason: str,
    with_index: bool,
) -> None:  # fmt: skip
    directory, segments = plain
    path = directory / f"{segments[0].base_offset:020}.log"
    bad = framed(path.read_bytes())[3][1]
    expected = without(directory, segments, {bad.base_offset})
    overwrite(path, bad.position + place_in_batch, data)
    if not with_index:
        for each in (*directory.glob("*.index"), *directory.glob("kstore.seal.*")):
            each.unlink()
    found = survey_segments(DISK, str(directory), segments)
    first = found.damages[0]
    assert (first.path, first.position) == (str(path), bad.position)
    assert reason in first.reason
    assert not found.ok
    if with_index:
        assert found.damage_count == 1
        assert found.damaged_bytes == bad.size
        ours = as_oracle(found)
        assert ours == {name: expected[name] for name in ours}
    else:  # behind it nothing shows where a batch begins, but the next segment is read
        complete = without(directory, segments[1:], set())
        assert found.records >= complete["records"] + 6
    assert found.segments == 2
    assert found.batch_sizes.total + found.damaged_bytes == found.bytes


def test_statistics_of_a_cut_segment_report_the_damage(
    plain: tuple[Path, list[PlannedSegment]],
) -> None:
    directory, segments = plain
    path = directory / f"{segments[0].base_offset:020}.log"
    last = framed(path.read_bytes())[-1][1]
    expected = without(directory, segments, {last.base_offset})
    cut(path, last.position + 5)
    found = survey_segments(DISK, str(directory), segments)
    assert [(each.position, each.path) for each in found.damages] == [(last.position, str(path))]
    ours = as_oracle(found)
    assert ours == {name: expected[name] for name in ours}


def test_a_growing_and_a_removed_segment_are_no_damage(
    plain: tuple[Path, list[PlannedSegment]],
) -> None:
    directory, segments = plain
    first, second = segments
    before = survey_segments(DISK, str(directory), [PlannedSegment(*_fields(first), True)])
    path = directory / f"{first.base_offset:020}.log"
    write_damaged(path, path.read_bytes() + b"half a batch")
    assert survey_segments(DISK, str(directory), [PlannedSegment(*_fields(first), True)]) == before
    path.unlink()
    found = survey_segments(DISK, str(directory), segments)
    assert found.segments_gone == 1
    assert found.ok
    assert found.first_offset == second.base_offset


def _fields(segment: PlannedSegment) -> tuple[int, int, int]:
    return segment.base_offset, segment.size, segment.next_offset


def test_statistics_count_what_compaction_merged_meanwhile(
    plain: tuple[Path, list[PlannedSegment]],
) -> None:
    """As compaction leaves it: the first file has what the second had, too."""
    directory, segments = plain
    first, second = (directory / f"{each.base_offset:020}.log" for each in segments)
    expected = without(directory, segments, set())
    write_damaged(first, first.read_bytes() + second.read_bytes())
    second.unlink()
    found = survey_segments(DISK, str(directory), segments)
    assert found.ok
    ours = as_oracle(found)
    assert ours == {name: expected[name] for name in ours}


def test_damage_without_end_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_DAMAGES", 3)
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("a")[0]
        for n in range(10):
            log.append(b"%d" % n)
        segments = segments_of(log)
    path = tmp_path / "a-0" / f"{0:020}.log"
    for _, each in framed(path.read_bytes()):
        overwrite(path, each.position + each.size - 2, b"?")
    found = survey_segments(DISK, str(path.parent), segments)
    assert found.damage_count == 10
    assert len(found.damages) == 3
    assert found.damaged_bytes == found.bytes


def test_bytes_flipped_at_random_are_in_a_valid_batch_or_skipped(
    plain: tuple[Path, list[PlannedSegment]],
) -> None:
    """Flipped at random: it ends, and every byte is either of a valid batch or skipped."""
    directory, segments = plain
    path = directory / f"{segments[0].base_offset:020}.log"
    data, total = path.read_bytes(), 0
    for seed in range(300):
        chance = random.Random(seed)
        changed = bytearray(data)
        for _ in range(chance.choice([1, 2, 5, 40, 400])):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        write_damaged(path, changed)
        found = survey_segments(DISK, str(directory), segments)
        assert found.batch_sizes.total + found.damaged_bytes == found.bytes
        assert found.damage_count == len(found.damages)
        total += found.damage_count
    assert total > 300


def test_another_file_of_the_same_size_has_no_limit(
    plain: tuple[Path, list[PlannedSegment]],
) -> None:
    directory, segments = plain
    path = directory / f"{segments[0].base_offset:020}.log"
    data = path.read_bytes()
    path.rename(path.with_suffix(".deleted"))
    path.write_bytes(data)
    assert survey_segments(DISK, str(directory), segments).segments_changed == 1


def test_indexes_of_an_open_segment_count_as_far_as_they_are_used(tmp_path: Path) -> None:
    config = kstore.LogConfig(index_interval_bytes=0, segment_index_bytes=1 << 20)
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("a", config=config)[0]
        for n in range(50):
            log.append(b"%d" % n, timestamp=WHEN + n)
        assert survey_log(log).index_bytes < 5000
    indexes = [p for p in (tmp_path / "a-0").iterdir() if p.suffix in (".index", ".timeindex")]
    used = sum(path.stat().st_size for path in indexes)
    for path in indexes:  # as they are while it is open, and after a kill
        os.truncate(path, 1200 * 1200)
    with kstore.open(tmp_path, "r") as store:
        assert survey_log(store["a"][0]).index_bytes == used > 500


def test_registers_of_another_length_are_refused() -> None:
    one, other = Stats(key_registers=bytes(1 << 14)), Stats(key_registers=bytes(100))
    with pytest.raises(ValueError, match="registers"):
        one.add_log(other)


def test_windows_of_a_partition_are_few() -> None:
    assert module.MOST_WINDOWS <= 1024


def test_a_log_without_a_file_has_no_segments(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("a")
    for path in (tmp_path / "a-0").glob("0*"):
        path.unlink()
    with kstore.open(tmp_path, "r") as store:
        assert survey_log(store["a"][0]) == Stats()
