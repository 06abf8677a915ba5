"""A codec whose aim is size makes no batch larger; small neighbours may become one."""

import argparse
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kstore.errors import CorruptRecordError
from kstore.files.files import DISK
from kstore.log.log import Log
from kstore.maintenance import rewrite as rewriting
from kstore.maintenance.rewrite import RewriteReport, RewriteTarget, rewrite_log
from kstore.record.format_conversion import merge
from kstore.spark.jobs.recompress import describe
from oracle.plain import CREATE_TIME, LOG_APPEND_TIME, PlainBatch, PlainRecord
from oracle.reader import read_log
from oracle.writer import batch, marker, message
from support.logs import open_log

WHEN = 1_700_000_000_000
MOST = 1_048_588
CODECS = ["gzip", "snappy", "lz4", "zstd"]


def read(directory: Path) -> Any:
    return read_log(b"".join(each.read_bytes() for each in sorted(directory.glob("*.log"))))


def rewrite(log: Log, **target: Any) -> RewriteReport:
    return rewrite_log(log, RewriteTarget(**target), files=DISK)


@pytest.fixture
def small(tmp_path: Path) -> Log:
    """Batches of one random record, with one of 50 alike among them; the last segment is empty."""
    log = open_log(tmp_path / "t-0", file_delete_delay_ms=0)
    randoms = random.Random(4)
    for n in range(100):
        log.append(randoms.randbytes(30), key=b"%d" % n, timestamp=WHEN + n)
        if n == 50:
            log.extend([b"alike" * 9] * 50, timestamp=WHEN + n)
    log.roll()
    return log


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_would_grow_stays(small: Log, codec: str) -> None:
    before = read(Path(small.path))
    report = rewrite(small, compression=codec)
    after = read(Path(small.path))
    assert report.bytes_after < report.bytes_before
    assert report.kept_batches == 100
    wanted = 1 + CODECS.index(codec)
    assert [each.codec for each in after.batches] == [0] * 51 + [wanted] + [0] * 49
    assert after.records == before.records
    assert rewrite(small, compression=codec).rewritten == 0


def test_a_codec_that_is_forced_and_none_are_always_applied(small: Log) -> None:
    before = read(Path(small.path))
    report = rewrite(small, compression="gzip", force=True)
    assert report.kept_batches == 0
    after = read(Path(small.path)).batches
    assert {each.codec for each in after} == {1}
    grown = [now.size > then.size for now, then in zip(after, before.batches, strict=True)]
    assert grown.count(True) == 100
    report = rewrite(small, compression="none")
    assert (report.kept_batches, report.bytes_after > report.bytes_before) == (0, True)
    assert read(Path(small.path)) == before


def test_messages_v1_that_would_grow_stay(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", file_delete_delay_ms=0)
    for n in range(20):
        value = b"alike" * 99 if n == 7 else b"v"
        log.append_as_follower(message(n, b"k", value, magic=1, timestamp=WHEN))
    log.roll()
    before = read(Path(log.path)).records
    report = rewrite(log, compression="lz4")
    found = read(Path(log.path))
    assert report.kept_batches == 19
    assert report.bytes_after < report.bytes_before
    assert [each.codec for each in found.batches] == [0] * 7 + [3] + [0] * 12
    assert found.records == before
    assert rewrite(log, compression="lz4", magic=2).damages == []
    found = read(Path(log.path))
    assert {each.magic for each in found.batches} == {2}
    assert [each.codec for each in found.batches] == [0] * 7 + [3] + [0] * 12
    assert [each.value for each in found.records] == [each.value for each in before]


# --- merging --------------------------------------------------------------------------------------


def records(first: int, count: int, *, gap: int = 0, kind: str = CREATE_TIME) -> list[PlainRecord]:
    return [
        PlainRecord(
            first + n + (gap if n == count - 1 else 0),
            WHEN + (first if kind == LOG_APPEND_TIME else first + n * (-1) ** n),
            None if n % 5 == 3 else b"key %d" % n,
            None if n % 7 == 5 else b"value %d" % first * (n % 9),
            (("name", b"%d" % n), ("none", None)) if n % 3 == 1 else (),
            kind,
        )
        for n in range(count)
    ]


def mergeable(one: PlainBatch, most: int = MOST) -> bool:
    return (
        one.magic == 2
        and one.producer_id < 0
        and not one.attributes & 0x70
        and len(one.records) == one.last_offset - one.base_offset + 1
        and bool(one.records)
    )


def neighbours(one: PlainBatch, other: PlainBatch) -> bool:
    return (
        mergeable(one)
        and mergeable(other)
        and other.base_offset == one.last_offset + 1
        and one.leader_epoch == other.leader_epoch
        and one.timestamp_type == other.timestamp_type
        and (one.timestamp_type == CREATE_TIME or one.max_timestamp == other.max_timestamp)
    )


def mixed(rounds: int, seed: int) -> bytes:
    """Runs of small batches, and between them each kind that must not be merged."""
    rng, data, offset = random.Random(seed), b"", 0
    for n in range(rounds):
        epoch = n // 3
        for _ in range(rng.randrange(1, 7)):
            found = records(offset, rng.randrange(1, 6))
            data += batch(found, codec=rng.randrange(5), leader_epoch=epoch)
            offset += len(found)
        kind = n % 8
        if kind == 0:
            found = records(offset, 3, gap=2)  # within
            data += batch(found, leader_epoch=epoch)
            offset = found[-1].offset + 1
        elif kind == 1:
            offset += 3  # between
        elif kind in (2, 3):
            data += batch(
                records(offset, 2), leader_epoch=epoch, producer_id=5, producer_epoch=0,
                base_sequence=n, transactional=kind == 3,
            )  # fmt: skip
            offset += 2
        elif kind == 4:
            data += marker(
                offset, 1, timestamp=WHEN, producer_id=5, producer_epoch=0, leader_epoch=epoch
            )
            offset += 1
        elif kind == 5:
            found = records(offset, 2, kind=LOG_APPEND_TIME)
            data += batch(found, leader_epoch=epoch)
            data += batch(records(offset + 2, 2, kind=LOG_APPEND_TIME), leader_epoch=epoch)
            offset += 4
        elif kind == 6:
            data += message(offset, b"k", b"v", magic=1, timestamp=WHEN)
            offset += 1
    return data


def judge(before: Sequence[PlainBatch], after: Sequence[PlainBatch]) -> int:
    """Each batch is one of those before, byte for byte, or a run of neighbours; how many are."""
    left, runs = list(before), 0
    for one in after:
        run = [left.pop(0)]
        while run[-1].last_offset < one.last_offset:
            run.append(left.pop(0))
            assert neighbours(run[-2], run[-1])
        assert one.records == tuple(record for each in run for record in each.records)
        assert (one.base_offset, one.last_offset) == (run[0].base_offset, run[-1].last_offset)
        assert one.leader_epoch == run[0].leader_epoch
        assert one.base_timestamp == one.records[0].timestamp if len(run) > 1 else True
        assert one.max_timestamp == max(each.max_timestamp for each in run)
        assert one.crc_ok
        if len(run) == 1:
            assert one._replace(position=0) == run[0]._replace(position=0)
        runs += len(run) > 1
    assert not left
    return runs


@pytest.mark.parametrize("codec", ["none", *CODECS])
@pytest.mark.parametrize("keep_smaller", [True, False])
def test_only_neighbours_become_one_batch(codec: str, keep_smaller: bool) -> None:
    data = mixed(40, 1)
    merged, used, count = merge(data, MOST, compression=codec, keep_smaller=keep_smaller)
    before, after = read_log(data).batches, read_log(merged).batches
    assert used == len(data)
    assert judge(before, after) > 10
    assert len(before) - len(after) == count
    assert len(merged) < len(data) or not keep_smaller
    if not keep_smaller or codec == "none":  # nothing that may be merged was left
        assert not any(map(neighbours, after, after[1:]))
    assert merge(merged, MOST, compression=codec, keep_smaller=keep_smaller)[0] == merged


@pytest.mark.parametrize("most", [61, 200, 1000])
def test_no_merged_batch_is_larger_than_it_may_be(most: int) -> None:
    data = mixed(20, 2)
    merged = merge(data, most, compression="none")[0]
    before, after = read_log(data).batches, read_log(merged).batches
    assert (judge(before, after) > 0) == (most > 61)
    known = {each.base_offset: each.size for each in before}
    assert all(each.size <= most for each in after if each.size != known[each.base_offset])
    for one, other in pairwise(after):
        if neighbours(one, other) and not one.codec and not other.codec:
            assert one.size + other.size - 61 > most - 20  # their deltas grow a little


def test_a_batch_that_may_grow_is_given_again() -> None:
    """Chunk by chunk it writes the same as at once."""
    data = mixed(30, 3)
    at_once = merge(data, 2000, compression="lz4")[0]
    starts = [each.position for each in read_log(data).batches]
    for step in (1, 2, 7):
        out, rest, given = b"", b"", 0
        for stop in [*starts[step::step], len(data)]:
            rest, given = rest + data[given:stop], stop
            merged, used, _ = merge(rest, 2000, compression="lz4", final=stop == len(data))
            out, rest = out + merged, rest[used:]
        assert rest == b""
        assert out == at_once


def test_a_damaged_batch_is_named() -> None:
    data = bytearray(mixed(5, 4))
    second = read_log(bytes(data)).batches[1].position
    data[second + 62] ^= 1
    with pytest.raises(CorruptRecordError) as error:
        merge(bytes(data), MOST, compression="zstd")
    assert error.value.position == second


@pytest.mark.parametrize("chunk", [300, 4 << 20])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_log_of_small_batches_is_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, codec: str
) -> None:
    monkeypatch.setattr(rewriting, "_CHUNK", chunk)
    monkeypatch.setattr(rewriting, "_COMPRESSED_CHUNK", chunk)
    log = open_log(
        tmp_path / "t-0", file_delete_delay_ms=0, segment_bytes=6000, index_interval_bytes=200,
        max_message_bytes=2000,
    )  # fmt: skip
    data = mixed(60, 5)
    for each in read_log(data).batches:
        log.append_as_follower(data[each.position : each.position + each.size])
    log.roll()
    before = read(Path(log.path))
    report = rewrite(log, compression=codec, merge=True)
    assert report.damages == []
    after = read(Path(log.path))
    assert after.records == before.records
    assert len(before.batches) - len(after.batches) == report.merged_batches > 50
    assert max(each.size for each in after.batches if each.codec == 0) <= 2000
    log.verify().raise_if_corrupt()
    for record in before.records:
        if not record.control:
            assert log.read(record.offset, 1) is not None
    again = rewrite(log, compression=codec, merge=True)
    assert (again.rewritten, again.merged_batches) == (0, 0)
    log.close()


def test_small_batches_that_a_codec_makes_larger_become_smaller_together(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", file_delete_delay_ms=0)
    for n in range(500):
        log.append(b"value %d" % n, key=b"key", timestamp=WHEN + n)
    log.roll()
    size = rewrite(log, compression="zstd").bytes_after
    report = rewrite(log, compression="zstd", merge=True)
    assert report.merged_batches == 499
    assert report.bytes_after < size // 5
    assert [each.codec for each in read(Path(log.path)).batches] == [4]


def test_merge_and_force_are_options_of_the_job() -> None:
    parser = argparse.ArgumentParser()
    describe(parser)
    words = ["--compression", "zstd", "--log-dir", "data"]
    assert (parser.parse_args(words).force, parser.parse_args(words).merge) == (False, False)
    given = parser.parse_args([*words, "--force", "--merge"])
    assert (given.force, given.merge) == (True, True)
