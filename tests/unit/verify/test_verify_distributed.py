"""An audit in ranges finds what one audit finds, wherever the ranges are cut."""

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.files import filenames
from kstore.files.files import DISK
from kstore.verify.distributed import SegmentRange, merge_reports, plan_ranges, verify_range
from kstore.verify.log_dir_state import StateReader
from kstore.verify.partition import VerifyReport, verify_partition
from support.damage import write_damaged
from support.disks import CountingDisk
from support.stores import QUIET


def segments_of(path: Path) -> list[tuple[int, int]]:
    return sorted(
        (int(each.name.split(".")[0]), each.stat().st_size) for each in path.glob("*.log")
    )


def in_parts(path: Path, target: int) -> VerifyReport | None:
    parts = plan_ranges(segments_of(path), target)
    return merge_reports([verify_range(DISK, path, part) for part in parts])


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    with kstore.open(tmp_path / "data", config=QUIET) as store:
        log = store.create_topic("t", config=kstore.LogConfig(segment_bytes=2000))[0]
        for n in range(300):
            log.append(b"v%d" % n * 5, key=b"k%d" % (n % 9), timestamp=1_700_000_000_000 + n)
    return tmp_path / "data" / "t-0"


@pytest.fixture
def transactional(tmp_path: Path) -> Path:
    """Transactions, every third aborted, that reach from segment to segment."""
    with kstore.open(tmp_path / "data", config=QUIET) as store:
        store.create_topic("t", config=kstore.LogConfig(segment_bytes=250))
        for n in range(5):
            with store.transactional_producer("p") as producer:
                producer.begin_transaction()
                for k in range(3):
                    producer.send("t", b"value %d %d" % (n, k))
                    producer.flush()
                end = producer.abort_transaction if n % 3 == 0 else producer.commit_transaction
                end()
    return tmp_path / "data" / "t-0"


def test_parts_that_one_reader_audits_share_a_listing(plain: Path) -> None:
    """Listed again where a name came since; the folder's last change is long ago."""
    parts = plan_ranges(segments_of(plain), 1)
    assert len(parts) > 5
    long_ago = 1_600_000_000
    os.utime(plain, (long_ago, long_ago))
    disk = CountingDisk()
    states = StateReader(disk)
    complete = merge_reports([verify_range(disk, plain, part, states=states) for part in parts])
    assert complete == verify_partition(DISK, plain)
    assert disk.names_listed == len(list(plain.iterdir()))
    (plain / filenames.index_name(1)).write_bytes(b"")  # its log does not exist
    again = merge_reports([verify_range(disk, plain, part, states=states) for part in parts])
    assert again is None  # a loss: the audit of the partition checks again


def test_parts_cover_everything_once() -> None:
    parts = plan_ranges([(0, 10), (5, 10), (9, 100), (20, 0), (21, 3)], 25)
    assert [(part.start, part.stop, part.size) for part in parts] == [
        (None, 9, 20), (9, 20, 100), (20, None, 3),
    ]  # fmt: skip
    assert plan_ranges([], 25) == [SegmentRange()]


@pytest.mark.parametrize("target", [1, 3000, 5000, 1 << 30])
def test_the_parts_of_a_sound_log_add_up_to_one_report(plain: Path, target: int) -> None:
    complete = verify_partition(DISK, plain)
    assert complete.ok
    assert complete.segments > 5
    assert in_parts(plain, target) == complete


@pytest.mark.parametrize("target", [1, 600])
def test_transactions_that_reach_over_parts(transactional: Path, target: int) -> None:
    complete = verify_partition(DISK, transactional)
    assert complete.ok
    assert complete.segments > 5
    assert in_parts(transactional, target) == complete


def damages(path: Path) -> Iterator[tuple[str, Any]]:
    """What to do to a partition, by name."""
    bases = [base for base, _ in segments_of(path)]
    middle = path / filenames.log_name(bases[2])

    def flip() -> None:
        data = bytearray(middle.read_bytes())
        data[len(data) // 2] ^= 4
        write_damaged(middle, data)

    def cut() -> None:
        write_damaged(middle, middle.read_bytes()[:-5])

    def repeat() -> None:
        (path / filenames.log_name(bases[3])).write_bytes(middle.read_bytes())

    def overlap() -> None:
        following = path / filenames.log_name(bases[3])
        write_damaged(middle, middle.read_bytes() + following.read_bytes())

    def no_index() -> None:
        (path / filenames.index_name(bases[4])).write_bytes(b"\1" * 16)

    def epochs() -> None:
        (path / filenames.LEADER_EPOCHS).write_bytes(b"what?")

    def snapshots() -> None:
        for each in path.glob("*.snapshot"):
            each.write_bytes(b"no snapshot")

    def no_snapshots() -> None:
        for each in path.glob("*.snapshot"):
            each.unlink()

    def no_transactions() -> None:
        for each in path.glob("*.txnindex"):
            each.unlink()

    for each in (
        flip,
        cut,
        repeat,
        overlap,
        no_index,
        epochs,
        snapshots,
        no_snapshots,
        no_transactions,
    ):
        yield each.__name__, each


NAMES = ["flip", "cut", "repeat", "overlap", "no_index", "epochs", "snapshots", "no_snapshots",
         "no_transactions"]  # fmt: skip


@pytest.mark.parametrize("damage", NAMES)
@pytest.mark.parametrize("kind", ["plain", "transactional"])
def test_ranges_of_a_damaged_log_merge_to_the_report_of_the_complete_log(
    kind: str, damage: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(kind)
    dict(damages(path))[damage]()
    complete = verify_partition(DISK, path)
    for target in (1, 600):
        found = in_parts(path, target)
        if found is None:  # said so, instead of something else
            assert kind == "transactional" or damage == "overlap"
            found = merge_reports([verify_range(DISK, path, SegmentRange())])
        assert found is not None
        assert asdict(found) == asdict(complete)


def test_an_open_transaction_that_no_snapshot_has_is_noticed(transactional: Path) -> None:
    for each in transactional.glob("*.snapshot"):
        each.unlink()
    assert in_parts(transactional, 1) is None


def test_findings_are_counted_beyond_those_kept(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in sorted(plain.glob("*.log"))[:4]:
        data = bytearray(each.read_bytes())
        data[70] ^= 1
        write_damaged(each, data)
    monkeypatch.setattr("kstore.verify.partition.MAX_FINDINGS", 3)
    monkeypatch.setattr("kstore.verify.distributed.MAX_FINDINGS", 3)
    complete = verify_partition(DISK, plain)
    assert complete.finding_count > 3
    assert in_parts(plain, 1) == complete
