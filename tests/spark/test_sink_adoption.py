"""Large staged files become segments by a rename; others are copied. Without a Spark session."""

import errno
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kstore
from kstore._native.format.crc import crc32c
from kstore.errors import CorruptRecordError, StorageError
from kstore.files.files import Files
from kstore.log.import_segment import assign_file_offsets
from kstore.segment.scan import scan_segment
from kstore.spark.sink.commit import publish
from kstore.spark.sink.stager import stage
from support.publications import OLD, Watched, batch, create_store, ends, leftovers, options, staged
from support.segments import batches

BATCH = batches(0, 1)[0]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return create_store(tmp_path / "store")


def test_large_files_become_segments(log_dir: Path) -> None:
    """By a rename: the inode stays; with the bytes and indexes that appending would have made."""
    messages = staged(log_dir)
    inodes = {path.stat().st_ino for path in log_dir.glob("kstore.staged.*")}
    assert publish(options(log_dir), "job", messages, None)
    logs = list(log_dir.rglob("*.log"))
    assert len(inodes & {path.stat().st_ino for path in logs}) >= 3  # one of each partition
    assert all(path.stat().st_size <= 4096 for path in logs)
    with kstore.open(log_dir) as store:
        for log in store["orders"]:
            log.append(b"behind", timestamp=OLD)
            report = log.verify()
            assert report.ok
            assert not report.findings
            assert [record.offset for record in log] == list(range(302))
    for path in logs:
        scan = scan_segment(Files(), path, int(path.stem), kstore.LogConfig(segment_bytes=4096))
        assert path.with_suffix(".index").read_bytes() == scan.index


def stricter(path: Path) -> None:
    path.chmod(0o600)


def named_twice(path: Path) -> None:
    os.link(path, path.with_name("of a backup"))


@pytest.mark.parametrize("change", [stricter, named_twice])
def test_a_file_that_is_not_like_a_log_s_is_copied(log_dir: Path, change: Any) -> None:
    """Who may read a log does not change by what executors made; no other name has its file."""
    messages = staged(log_dir)
    modes = {path.stat().st_mode for path in log_dir.rglob("*.log")}
    own = [path for path in log_dir.glob("kstore.staged.*") if path.stat().st_size > 4000]
    before = {path.stat().st_ino for path in own}
    for path in own:
        if change is stricter or path == own[0]:
            change(path)
    assert publish(options(log_dir), "job", messages, None)
    logs = [path.stat() for path in log_dir.rglob("*.log")]
    left_out = before if change is stricter else {own_inode(log_dir)}
    assert left_out
    assert not left_out & {each.st_ino for each in logs}
    assert {each.st_mode for each in logs} == modes
    assert ends(log_dir) == [301] * 3


def own_inode(log_dir: Path) -> int:
    return (log_dir / "of a backup").stat().st_ino


def test_indexes_of_adopted_segments_are_written_at_once(log_dir: Path, tmp_path: Path) -> None:
    """A reader of another process that comes before the writer has closed uses them."""
    messages = staged(log_dir)
    seen: list[Path] = []

    def on_step(what: str, path: str | None) -> None:
        if what == "remove" and "kstore.fence" in str(path) and not seen:
            seen.extend(log_dir.rglob("*.log"))
            for log in seen:
                scan = scan_segment(
                    Files(), log, int(log.stem), kstore.LogConfig(segment_bytes=4096)
                )
                written = log.with_suffix(".index").read_bytes()
                assert written[: len(scan.index)] == scan.index

    assert publish(options(log_dir), "job", messages, None, files=Watched(on_step))
    assert len(seen) > 6


@pytest.mark.parametrize("what", ["marker", "transaction", "producer"])
def test_only_batches_of_tasks_are_adopted(tmp_path: Path, what: str) -> None:
    """Adopted files are not read record by record: no marker comes in with them."""
    batch = bytearray(BATCH)
    if what == "producer":
        batch[43:51] = (7).to_bytes(8, "big")
    else:
        batch[22] |= 0x20 if what == "marker" else 0x10
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    path = tmp_path / "staged"
    path.write_bytes(BATCH + batch)
    with pytest.raises(CorruptRecordError, match="transactional, control or idempotent") as raised:
        assign_file_offsets(Files(), str(path), 5, 0, kstore.LogConfig())
    assert raised.value.position == len(BATCH)
    path.write_bytes(BATCH * 2)
    assert assign_file_offsets(Files(), str(path), 5, 0, kstore.LogConfig()).next_offset == 7


def test_files_of_executors_are_not_mapped(log_dir: Path) -> None:
    """Another machine may cut it: that is an error then, not the end of the process."""
    mapped: list[str] = []

    class Mapping(Files):
        def map(self, fd: int, size: int) -> Any:
            mapped.append(os.readlink(f"/proc/self/fd/{fd}"))
            return super().map(fd, size)

    assert publish(options(log_dir), "job", staged(log_dir), None, files=Mapping())
    assert [path for path in mapped if "kstore.staged" in path] == []


@pytest.mark.parametrize(
    "config",
    [
        {"message_timestamp_type": "LogAppendTime"},
        {"segment_ms": 10},  # the rows span 900 ms
        {"segment_index_bytes": 16},
    ],
)
def test_a_file_unfit_for_a_segment_is_copied(tmp_path: Path, config: dict[str, Any]) -> None:
    with kstore.open(tmp_path) as store:
        store.create_topic("orders", 1, config=kstore.LogConfig(segment_bytes=4096, **config))
    times = pa.array([(OLD + n) * 1000 for n in range(900)], pa.timestamp("us", "UTC"))
    rows = batch(partition=pa.array([0] * 900, pa.int32()), timestamp=times)
    given = options(tmp_path, batchSize=500)
    messages = [stage(given, "job", [rows])]
    inodes = {path.stat().st_ino for path in tmp_path.glob("kstore.staged.*")}
    assert (len(inodes) > 1) == ("segment_ms" in config or "segment_index_bytes" in config)
    assert publish(given, "job", messages, None)
    assert leftovers(tmp_path) == []
    logs = list(tmp_path.rglob("*.log"))
    assert not inodes & {path.stat().st_ino for path in logs}
    with kstore.open(tmp_path, mode="r") as store:
        log = store["orders"][0]
        assert [record.value for record in log] == [b"value %d" % n for n in range(900)]
        assert log.verify().ok


def test_another_file_system_is_copied_to(log_dir: Path) -> None:
    class Elsewhere(Files):
        native = False

        def rename(self, source: Any, target: Any) -> None:
            if "kstore.staged." in str(source):
                raise StorageError("planted", errno=errno.EXDEV)
            super().rename(source, target)

    assert publish(options(log_dir), "job", staged(log_dir), None, files=Elsewhere())
    assert ends(log_dir) == [301] * 3
    assert leftovers(log_dir) == []
    with kstore.open(log_dir) as store:
        assert all(log.verify().ok for log in store["orders"])
