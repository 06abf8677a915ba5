"""``Log.recompress`` and ``Log.convert``: what a user calls on a store that is open."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.errors import (
    InvalidConfigError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
)
from kstore.log.log import Log
from oracle.reader import read_log as read_bytes
from oracle.writer import message
from support.jobs import make_store
from support.logs import open_log, read_log
from support.stores import QUIET

WHEN = 1_700_000_000_000


def compressed(directory: Path, rounds: int = 20) -> Log:
    log = open_log(directory, segment_bytes=1500, batch_size=900, file_delete_delay_ms=0)
    for n in range(rounds):
        log.extend([b"%d " % (n * 20 + m) * 10 for m in range(20)], timestamp=WHEN + n)
    return log


def of_version_1(directory: Path) -> Log:
    log = open_log(directory, segment_bytes=600, file_delete_delay_ms=0)
    for n in range(60):
        log.append_as_follower(message(n, b"k", b"value %d" % n, magic=1, timestamp=WHEN + n))
    return log


def codecs(directory: Path) -> list[set[int]]:
    """Of each segment."""
    files = sorted(directory.glob("*.log"))
    return [{each.codec for each in read_bytes(file.read_bytes()).batches} for file in files]


def contents(log: Log) -> list[tuple[int, int, bytes | None, bytes | None, Any]]:
    return [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in log]


def names_and_bytes(directory: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in directory.iterdir()}


def test_sealed_segments_get_the_codec(tmp_path: Path) -> None:
    log = compressed(tmp_path / "t-0")
    before = contents(log)
    seen: list[tuple[int, int]] = []
    report = log.recompress(
        "zstd", level=5, progress=lambda done, total: seen.append((done, total))
    )
    assert report.ok
    assert report.rewritten == report.segments == len(log.segments.views) - 1 > 5
    assert report.bytes_after < report.bytes_before
    assert codecs(tmp_path / "t-0") == [{4}] * report.segments + [{0}]
    assert contents(log) == before
    assert seen[-1] == (report.bytes_before, report.bytes_before)
    assert all(one <= other for one, other in pairwise(seen))
    assert log.append(b"more", timestamp=WHEN) == before[-1][0] + 1
    log.verify().raise_if_corrupt()
    log.close()


def test_the_active_segment_too_if_it_is_rolled(tmp_path: Path) -> None:
    log = compressed(tmp_path / "t-0")
    report = log.recompress("gzip", roll=True)
    assert report.rewritten == report.segments == len(log.segments.views) - 1
    assert codecs(tmp_path / "t-0") == [{1}] * report.segments + [set()]
    log.close()


def test_producers_transactions_and_their_markers_stay(tmp_path: Path) -> None:
    make_store(tmp_path / "data", partitions=1)
    with kstore.open(tmp_path / "data", config=QUIET) as store:
        log = store["orders"][0]
        producers = sorted(log.producers())
        aborted = log.aborted_transactions(0, log.end_offset)
        ends = log.last_stable_offset, log.end_offset
        committed = [record.offset for record in log.view(isolation="read_committed")]
        assert log.recompress("none").ok
        assert log.recompress("lz4", force=True, roll=True).rewritten > 3
        assert sorted(log.producers()) == producers
        assert log.aborted_transactions(0, log.end_offset) == aborted
        assert (log.last_stable_offset, log.end_offset) == ends
        assert [r.offset for r in log.view(isolation="read_committed")] == committed
    with kstore.open(tmp_path / "data", config=QUIET) as store:
        assert sorted(store["orders"][0].producers()) == producers


def test_a_reader_elsewhere_continues(tmp_path: Path) -> None:
    log = compressed(tmp_path / "t-0")
    log.flush()
    reader = read_log(tmp_path / "t-0")
    records = iter(reader)
    offsets = [next(records).offset for _ in range(3)]
    assert log.recompress("zstd", force=True, roll=True).rewritten > 5
    offsets += [record.offset for record in records]
    assert offsets == list(range(log.end_offset))
    assert [record.offset for record in reader] == offsets
    reader.close()
    log.close()


def test_messages_become_record_batches(tmp_path: Path) -> None:
    log = of_version_1(tmp_path / "t-0")
    before = contents(log)
    report = log.convert("2.8", compression="zstd", roll=True)
    assert report.ok
    assert report.rewritten == report.segments > 1
    found = [read_bytes(each.read_bytes()) for each in sorted((tmp_path / "t-0").glob("*.log"))]
    assert {batch.magic for each in found for batch in each.batches} == {2}
    assert contents(log) == before
    assert log.convert().rewritten == 0
    log.verify().raise_if_corrupt()
    log.close()


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda log: log.recompress("zstd"), UnsupportedCompressionTypeError, "Log.convert"),
        (lambda log: log.recompress("brotli"), UnsupportedCompressionTypeError, "known are: none"),
        (lambda log: log.recompress("gzip", level=12), InvalidConfigError, "from 1 to 9"),
        (lambda log: log.recompress("lz4", level=1), InvalidConfigError, "a codec that has one"),
        (lambda log: log.convert(level=1), InvalidConfigError, "a codec that has one"),
        (
            lambda log: log.convert("0.10.2"),
            UnsupportedForMessageFormatError,
            "hold headers",
        ),
        (lambda log: log.convert("ten"), InvalidConfigError, "0.8.0"),
    ],
)
def test_a_refused_recompression_changes_nothing(
    tmp_path: Path, call: Any, error: type[Exception], words: str
) -> None:
    log = of_version_1(tmp_path / "t-0")
    log.flush()
    before = names_and_bytes(tmp_path / "t-0")
    with pytest.raises(error, match=words):
        call(log)
    assert names_and_bytes(tmp_path / "t-0") == before
    log.close()


def test_only_zstd_is_refused_for_messages(tmp_path: Path) -> None:
    log = of_version_1(tmp_path / "t-0")
    report = log.recompress("gzip", force=True)
    assert report.rewritten == report.segments > 1
    log.close()
