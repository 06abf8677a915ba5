"""Rolled segments rewritten with another codec or format: the same records in every case."""

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import kstore
from kafka_files.data_sets import BrokerSet
from kstore.errors import CompactionAbandonedError, LogFailedError, StorageError
from kstore.files.files import DISK
from kstore.files.staging_area import StagingArea, remove_staged
from kstore.log.log import Log
from kstore.maintenance.rewrite import RewriteTarget, rewrite_log, rewrite_segment, swap_in
from oracle.plain import CREATE_TIME, NO_TIMESTAMP, PlainBatch, PlainRecord
from oracle.reader import read_log as read_bytes
from oracle.writer import message, wrapper
from support.damage import write_damaged
from support.disks import FaultyDisk
from support.jobs import batches, make_store, side_files
from support.logs import open_log, read_log
from support.stores import QUIET

WHEN = 1_700_000_000_000


def fields_of(batch: PlainBatch) -> tuple[Any, ...]:
    """All of a batch v2 but codec, size and position."""
    return (*batch[5:10], batch.attributes & ~7, *batch[11:])


def rewrite(log: Log, **target: Any) -> Any:
    return rewrite_log(log, RewriteTarget(**target), files=DISK)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_of_any_codec_are_rewritten_to_any_codec(tmp_path: Path, codec: str) -> None:
    store_dir = tmp_path / "data"
    make_store(store_dir, partitions=1)
    before = batches(store_dir)
    assert {each.codec for each in before["orders-0"]} == {0, 1, 2, 3, 4}
    snapshots = {name: data for name, data in side_files(store_dir).items() if "snapshot" in name}
    with kstore.open(store_dir, config=QUIET) as store:
        for name in store:
            for log in store[name]:
                aborted = log.aborted_transactions(0, log.end_offset)
                bases = [view.base_offset for view in log.segments.views]
                report = rewrite(log, compression=codec, force=True)
                assert report.damages == []
                assert report.segments == len(bases) - 1
                assert bases[-1] == log.segments.views[-1].base_offset
                assert log.aborted_transactions(0, log.end_offset) == aborted
                assert log.verify().ok
    after = batches(store_dir)
    for name, found in before.items():
        assert [fields_of(each) for each in after[name]] == [fields_of(each) for each in found]
    last = {folder: sorted((store_dir / folder).glob("*.log"))[-1].stem for folder in before}
    wanted = ["none", "gzip", "snappy", "lz4", "zstd"].index(codec)
    for folder, found in after.items():
        sealed = [each for each in found if each.base_offset < int(last[folder])]
        assert {each.codec for each in sealed if not each.control} == {wanted}
    now = side_files(store_dir)
    assert {name: data for name, data in now.items() if "snapshot" in name} == snapshots
    with kstore.open(store_dir, "r") as store:
        assert all(log.verify().ok for name in store for log in store[name])


def test_what_has_the_codec_is_not_touched(tmp_path: Path) -> None:
    store_dir = tmp_path / "data"
    make_store(store_dir, partitions=1)
    with kstore.open(store_dir, config=QUIET) as store:
        log = store["clicks"][0]
        before = {each: each.stat().st_ino for each in Path(log.path).glob("*.log")}
        report = rewrite(log, compression="none")
        assert (report.rewritten, report.segments) == (0, len(before) - 1)
        assert {each: each.stat().st_ino for each in Path(log.path).glob("*.log")} == before
        assert rewrite(log, magic=2).rewritten == 0


def old_log(directory: Path, magic: int) -> Log:
    """Messages v0 or v1, plain and in sets, with gaps; then batches v2."""
    log = open_log(directory, segment_bytes=1500, index_interval_bytes=200)
    offset, kind = 0, CREATE_TIME if magic else NO_TIMESTAMP
    for n in range(60):
        if n == 45:
            for _ in range(10):
                log.append(b"of v2", key=b"new", timestamp=WHEN)
            offset = log.end_offset
        records = []
        for _ in range(n % 4 + 1):
            when = WHEN + offset if magic else -1
            records.append(PlainRecord(offset, when, b"k%d" % n, b"v%d" % offset * 9, (), kind))
            offset += 1 + n % 2
        if n % 3:
            data = wrapper(records, magic=magic, codec=1 + n % 3, timestamp_type=CREATE_TIME)
        else:
            data = b"".join(
                message(each.offset, each.key, each.value, magic=magic, timestamp=each.timestamp)
                for each in records
            )
        log.append_as_follower(data)
        offset = max(offset, log.end_offset)
    log.roll()
    return log


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [None, "zstd"])
def test_old_messages_become_batches(tmp_path: Path, magic: int, codec: str | None) -> None:
    log = old_log(tmp_path / "t-0", magic)
    before = read_bytes(log_data(tmp_path / "t-0")).records
    report = rewrite(log, magic=2, compression=codec, force=True)
    assert report.rewritten > 3
    log.verify().raise_if_corrupt()
    log.close()
    found = read_bytes(log_data(tmp_path / "t-0"))
    assert {each.magic for each in found.batches} == {2}
    expected = [
        each if each.timestamp_type != NO_TIMESTAMP else each._replace(timestamp_type=CREATE_TIME)
        for each in before
    ]
    assert list(found.records) == expected
    if codec:
        assert {each.codec for each in found.batches} == {4}


def log_data(directory: Path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(directory.glob("*.log")))


def test_formats_stay_where_only_the_codec_changes(tmp_path: Path) -> None:
    log = old_log(tmp_path / "t-0", 1)
    before = read_bytes(log_data(tmp_path / "t-0"))
    assert rewrite(log, compression="gzip", force=True).rewritten > 3
    log.close()
    after = read_bytes(log_data(tmp_path / "t-0"))
    assert after.records == before.records
    assert {(each.magic, each.codec) for each in after.batches} == {(1, 1), (2, 1)}


def test_logs_of_recorded_brokers_keep_every_record(broker_set: BrokerSet, tmp_path: Path) -> None:
    store_dir = tmp_path / "log-dir"
    shutil.copytree(broker_set.log_dir, store_dir)
    for each in broker_set.partitions:
        log = open_log(store_dir / each.name)
        log.roll()
        report = rewrite(log, compression="lz4", magic=2)
        assert report.damages == []
        log.verify().raise_if_corrupt()
        log.close()
        found = [
            one for one in read_bytes(log_data(store_dir / each.name)).records if not one.control
        ]
        start = each.beginning_offset
        assert [(r.offset, r.key, r.value, r.headers) for r in found if r.offset >= start] == [
            (r.offset, r.key, r.value, r.headers) for r in each.records
        ]


def compressed(directory: Path, rounds: int = 10) -> None:
    """Segments that grow ten times when they lose their codec."""
    log = open_log(directory, segment_bytes=2500, batch_size=900, batch_compression="zstd")
    for n in range(rounds):
        log.extend([b"%d " % (n * 20 + m) * 30 for m in range(20)], timestamp=WHEN + n)
    log.close()


def test_a_segment_that_grows_becomes_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kstore.maintenance.rewrite._COMPRESSED_CHUNK", 1200)
    compressed(tmp_path / "t-0", 24)
    before = [fields_of(each) for each in read_bytes(log_data(tmp_path / "t-0")).batches]
    log = open_log(tmp_path / "t-0", segment_bytes=2500, file_delete_delay_ms=0)
    count = len(log.segments.views)
    report = rewrite(log, compression="none")
    assert report.bytes_after > 4 * report.bytes_before
    assert len(log.segments.views) > 2 * count
    log.verify().raise_if_corrupt()
    log.close()
    assert [fields_of(each) for each in read_bytes(log_data(tmp_path / "t-0")).batches] == before
    again = open_log(tmp_path / "t-0", clean=False)
    again.verify().raise_if_corrupt()
    again.close()


def test_one_segment_that_grows_is_cut_between_batches(tmp_path: Path) -> None:
    """A segment that is read at once becomes segments of the size that is set."""
    compressed(tmp_path / "t-0", 24)
    before = [fields_of(each) for each in read_bytes(log_data(tmp_path / "t-0")).batches]
    log = open_log(tmp_path / "t-0", segment_bytes=2500, file_delete_delay_ms=0)
    end = log.end_offset
    rewrite(log, compression="none")
    sizes = [each.size for each in log.segments.views]
    assert max(sizes) <= 2500
    assert len(sizes) > 10
    log.verify().raise_if_corrupt()
    assert [record.offset for record in log] == list(range(end))
    log.close()
    assert [fields_of(each) for each in read_bytes(log_data(tmp_path / "t-0")).batches] == before


class Killed(BaseException):
    pass


@pytest.mark.parametrize("changes", [("rename",), ("rename", "remove", "write", "sync_directory")])
def test_a_kill_at_every_step_of_a_swap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: tuple[str, ...]
) -> None:
    """One segment becomes several: a loader finishes all of them, or undoes all of them."""
    monkeypatch.setattr("kstore.maintenance.rewrite._COMPRESSED_CHUNK", 1200)
    base = tmp_path / "base" / "t-0"
    compressed(base)
    records = read_bytes(log_data(base)).records
    seen = set()
    for at in range(400):
        directory = tmp_path / f"{at}" / "t-0"
        shutil.copytree(base, directory)
        disk = FaultyDisk()
        log = open_log(directory, files=disk, segment_bytes=2500, file_delete_delay_ms=0)
        done = 0

        def step(name: str, at: int = at, disk: FaultyDisk = disk) -> bool:
            nonlocal done
            disk.calls.append(name)
            done += name in changes
            return done > at and name in (*changes, "remove", "rename")

        disk._step = step
        disk.error = Killed
        with suppress(Killed, LogFailedError):
            rewrite_log(log, RewriteTarget("none"), files=disk)
        beside = read_log(directory)
        assert [record.offset for record in beside] == [each.offset for each in records]
        beside.close()
        again = open_log(directory, clean=False, segment_bytes=2500)
        again.verify().raise_if_corrupt()
        seen.add(len(again.segments.views))
        again.close()
        assert read_bytes(log_data(directory)).records == records
        shutil.rmtree(directory.parent)
        if done <= at:
            break
    assert done <= at
    assert at > 20
    assert len(seen) > 1


def test_a_failed_rewrite_loses_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kstore.maintenance.rewrite._COMPRESSED_CHUNK", 1200)
    base = tmp_path / "base" / "t-0"
    compressed(base)
    records = read_bytes(log_data(base)).records
    for at in range(0, 3000, 11):
        directory = tmp_path / f"{at}" / "t-0"
        shutil.copytree(base, directory)
        disk = FaultyDisk()
        log = open_log(directory, files=disk, segment_bytes=2500, file_delete_delay_ms=0)
        disk.arm(at, lambda: StorageError("injected", errno=28), sticky=at % 2 == 0)
        with suppress(StorageError, LogFailedError):
            rewrite_log(log, RewriteTarget("none"), files=disk)
        reached = len(disk.calls) > at
        disk.fail_at = -1
        if log._writer.state.failure is None:
            assert log.append(b"still writable", timestamp=WHEN) == records[-1].offset + 1
        with suppress(StorageError):
            log.close()
        again = open_log(directory, clean=False)
        again.verify().raise_if_corrupt()
        assert [one.offset for one in again][: len(records)] == [one.offset for one in records]
        again.close()
        shutil.rmtree(directory.parent)
        if not reached:
            break
    assert not reached
    assert at > 30


def test_damage_stays_and_is_named(tmp_path: Path) -> None:
    compressed(tmp_path / "t-0", 24)
    chosen = sorted((tmp_path / "t-0").glob("*.log"))[1]
    data = bytearray(chosen.read_bytes())
    second = 12 + int.from_bytes(data[8:12], "big")
    data[second + 70] ^= 1
    write_damaged(chosen, data)
    log = open_log(tmp_path / "t-0", segment_bytes=2500)
    report = rewrite(log, compression="none")
    log.close()
    assert [(each.path, each.position) for each in report.damages] == [(str(chosen), second)]
    assert chosen.read_bytes() == data
    assert report.rewritten == report.segments > 1


def test_a_wrong_offset_that_only_the_seal_knows(tmp_path: Path) -> None:
    compressed(tmp_path / "t-0")
    log = open_log(tmp_path / "t-0", segment_bytes=2500)
    view = log.segments.views[0]
    log.seal()
    chosen, seal = Path(view.path), tmp_path / "t-0" / f"kstore.seal.{view.base_offset:020d}"
    about = chosen.stat()
    data = bytearray(chosen.read_bytes())
    data[15] ^= 1  # the leader epoch
    with chosen.open("r+b") as file:
        file.write(data)
    old = seal.read_bytes()
    seal.write_bytes(restamped(old, about.st_ctime_ns, chosen.stat().st_ctime_ns))
    report = rewrite(log, compression="none")
    log.close()
    assert [
        "header checksums of the segment do not match" in each.reason for each in report.damages
    ] == [True]
    assert chosen.read_bytes() == data


def restamped(seal: bytes, old: int, new: int) -> bytes:
    """A seal that counts for a file that was changed in place."""
    from kstore._native.format.crc import crc32c

    assert str(old).encode() in seal
    body = seal[:-4].replace(str(old).encode(), str(new).encode())
    return body + crc32c(body).to_bytes(4, "big")


def test_staged_elsewhere_is_the_same(tmp_path: Path) -> None:
    """What an executor stages is, byte for byte, what the log's own writer makes."""
    compressed(tmp_path / "t-0")
    log = open_log(tmp_path / "t-0", segment_bytes=2500)
    view, path = log.segments.views[0], tmp_path / "t-0"
    staged = StagingArea(DISK, path)
    rewritten = rewrite_segment(
        DISK, str(path), staged, staged.directory, view.base_offset, view.next_offset,
        RewriteTarget("lz4", force=True), log.config,
    )  # fmt: skip
    names = staged.listdir(staged.directory)
    assert names[:3] == [f"{0:020d}.{kind}.cleaned" for kind in ("index", "log", "timeindex")]
    data = {name: staged.read(f"{staged.directory}/{name}") for name in names}
    rewrite(log, compression="lz4", force=True)
    log.close()
    for name, found in data.items():
        assert (path / name.removesuffix(".cleaned")).read_bytes() == found
    assert rewritten.new_size == sum(len(data[name]) for name in names if ".log." in name)
    assert len(remove_staged(DISK, path)) == len(names)


def test_a_log_that_is_moved_or_shortened_meanwhile(tmp_path: Path) -> None:
    compressed(tmp_path / "t-0", 24)
    log = open_log(tmp_path / "t-0", segment_bytes=2500)
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            log.truncate_to(30)

    with pytest.raises(CompactionAbandonedError):
        rewrite_log(log, RewriteTarget("none"), files=DISK, check=check)
    assert log.end_offset <= 30
    log.verify().raise_if_corrupt()
    log.close()


def test_what_was_staged_elsewhere_replaces_nothing(tmp_path: Path) -> None:
    """A host with a directory of its own under the path: its files do not exist here."""
    compressed(tmp_path / "t-0")
    log = open_log(tmp_path / "t-0", segment_bytes=2500)
    view, path = log.segments.views[0], tmp_path / "t-0"
    before = {each.name: each.read_bytes() for each in path.iterdir()}
    for gone in ("log", "index", "timeindex", "short"):
        staged = StagingArea(DISK, path)
        rewritten = rewrite_segment(
            DISK, str(path), staged, staged.directory, view.base_offset, view.next_offset,
            RewriteTarget("lz4", force=True), log.config,
        )  # fmt: skip
        name = f"{staged.directory}/{0:020d}.{'log' if gone == 'short' else gone}.cleaned"
        if gone == "short":
            Path(staged.real(name)).write_bytes(b"short")
        else:
            staged.remove(name)
        with pytest.raises(StorageError, match="a staged file is missing"):
            swap_in(DISK, log, log._require_writer(), rewritten.new, view, staged.token)
        remove_staged(DISK, path)
        assert {each.name: each.read_bytes() for each in path.iterdir()} == before
        assert log.segments.views[0] is view
    log.verify().raise_if_corrupt()
    log.close()


def test_a_transaction_index_that_does_not_parse(tmp_path: Path) -> None:
    """Without it aborted records would show: the segment stays, until the index is rebuilt."""
    make_store(tmp_path / "data", partitions=1)
    with kstore.open(tmp_path / "data", config=QUIET) as store:
        log = store["orders"][0]
        base = log.segments.views[0].base_offset
        index = Path(log.path) / f"{base:020d}.txnindex"
        assert index.exists()
        index.write_bytes(b"?" * 34)
        report = rewrite(log, compression="lz4")
        assert [each.path for each in report.damages] == [str(index)]
        assert report.rewritten > 0
