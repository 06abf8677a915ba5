"""A log converted to another format and codec: DumpLogSegments walks it, brokers serve it."""

from itertools import pairwise
from pathlib import Path

import pytest

from interop.dump import dump_log
from interop.node import Node
from kstore.cli import main
from oracle.plain import PlainRecord
from oracle.writer import message, wrapper
from support.logs import open_log

WHEN = 1_700_000_000_000


def old_messages(directory: Path) -> list[tuple[int, int, str, str]]:
    """A log of messages v1, plain and in sets; what is in it."""
    log = open_log(directory, segment_bytes=1500, file_delete_delay_ms=0)
    rows = []
    for n in range(50):
        records = [
            PlainRecord(n * 3 + m, WHEN + n * 3 + m, b"key %d" % n, b"value %d" % m * 9)
            for m in range(3)
        ]
        rows += [(r.offset, r.timestamp, r.key.decode(), r.value.decode()) for r in records]
        log.append_as_follower(
            wrapper(records, magic=1, codec=1 + n % 3)
            if n % 2
            else b"".join(
                message(r.offset, r.key, r.value, magic=1, timestamp=r.timestamp) for r in records
            )
        )
    log.roll()
    assert len(log.segments.views) > 5
    log.close()
    return rows


@pytest.mark.parametrize("codec", ["zstd"])
def test_a_broker_serves_what_it_could_not_read(kafka: str, tmp_path: Path, codec: str) -> None:
    node = Node(kafka, tmp_path)
    try:
        node.start()
        node.create_topic("old", 1)
        node.stop()
        folder = node.log_dir / "old-0"
        for each in folder.glob("0*"):
            each.unlink()
        rows = old_messages(folder)
        log = open_log(folder, segment_bytes=1500, file_delete_delay_ms=0)
        report = log.convert(compression=codec, force=True)
        assert report.rewritten == report.segments > 4
        log.close()
        dump = dump_log(kafka, sorted(folder.glob("*.log")), "--deep-iteration")
        found = [batch for file in dump.files.values() for batch in file.batches]
        assert all(each.valid and each.magic == 2 for each in found)
        assert {each.codec.lower() for each in found} == {codec}
        indexes = sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")])
        assert dump_log(kafka, indexes, "--index-sanity-check").complaints == ""
        node.start()
        node.produce("old", [("new", "the broker's")])
        served = node.consume("old", len(rows) + 1)
        node.stop()
    finally:
        node.kill()
    assert [(r.offset, r.timestamp, r.key, r.value) for r in served[:-1]] == rows
    assert (served[-1].offset, served[-1].value) == (len(rows), "the broker's")


def test_kafkas_tool_accepts_merged_batches(kafka: str, tmp_path: Path) -> None:
    """Small batches become few: it finds each valid, each record, and the indexes sane."""
    log = open_log(
        tmp_path / "merged-0", segment_bytes=20_000, file_delete_delay_ms=0,
        index_interval_bytes=400, max_message_bytes=3000,
    )  # fmt: skip
    for n in range(1500):
        headers = [("name", b"%d" % n), ("none", None)] if n % 3 == 0 else None
        key = None if n % 7 == 0 else b"key %d" % (n % 9)
        log.append(b"value %d" % n * 3, key=key, headers=headers, timestamp=WHEN + n * (-1) ** n)
    log.roll()
    segments = sorted(Path(log.path).glob("*.log"))[:-1]
    assert len(segments) > 5
    before = dump_log(kafka, segments, "--deep-iteration")
    report = log.recompress("zstd", merge=True)
    assert report.damages == []
    assert report.bytes_after < report.bytes_before
    log.close()
    after = dump_log(kafka, segments, "--deep-iteration")
    old, new = [
        [each for file in dump.files.values() for each in file.batches] for dump in (before, after)
    ]
    assert len(new) == len(old) - report.merged_batches < len(old) // 10
    assert all(each.valid and each.codec.lower() == "zstd" for each in new)
    assert all(one.last_offset + 1 == other.base_offset for one, other in pairwise(new))
    records = [
        [each for file in dump.files.values() for each in file.records] for dump in (before, after)
    ]
    assert len(records[0]) == 1500
    assert records[1] == records[0]
    indexes = sorted([*tmp_path.rglob("*.index"), *tmp_path.rglob("*.timeindex")])
    assert dump_log(kafka, indexes, "--index-sanity-check").complaints == ""


def test_a_broker_continues_behind_the_tools(kafka: str, tmp_path: Path) -> None:
    """Its own topic, recompressed and reindexed: DumpLogSegments finds all valid, it serves all."""
    pairs = [(f"key {n}", f"value {n} " * 100) for n in range(3000)]
    node = Node(kafka, tmp_path)
    try:
        node.start()
        node.create_topic("orders", 1, segment_bytes=1 << 20)
        node.produce("orders", pairs)
        node.stop()
        folder = node.log_dir / "orders-0"
        before = dump_log(kafka, sorted(folder.glob("*.log")), "--deep-iteration")
        words = ["--topic", "orders", "--log-dir", str(node.log_dir)]
        assert main(["recompress", "--compression", "zstd", "--roll", *words]) == 0
        for each in [*folder.glob("*.index"), *folder.glob("*.timeindex")]:
            each.unlink()
        assert main(["reindex", *words]) == 0
        segments = sorted(folder.glob("*.log"))
        after = dump_log(kafka, segments, "--deep-iteration")
        indexes = sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")])
        assert len(indexes) == 2 * len(segments) > 4
        assert dump_log(kafka, indexes, "--index-sanity-check").complaints == ""
        node.start()
        node.produce("orders", [("new", "of the broker")])
        served = node.consume("orders", len(pairs) + 1)
        node.stop()
    finally:
        node.kill()
    found = [batch for file in after.files.values() for batch in file.batches]
    assert all(each.valid and each.codec.lower() == "zstd" for each in found)
    records = [
        [each for file in dump.files.values() for each in file.records] for dump in (before, after)
    ]
    assert records[1] == records[0]
    assert [(each.key, each.value) for each in served] == [*pairs, ("new", "of the broker")]
