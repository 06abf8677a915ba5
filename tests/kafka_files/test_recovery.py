"""kstore opens what brokers left unclean, and reaches the state that each broker reached itself.

Not compared is what a broker adds after its recovery: the leader epoch that it
begins, and the markers by which its coordinator ends transactions. Where kstore does better on
purpose, the difference has a name here (`BETTER`), and is listed in docs/compatibility.md.
"""

import shutil
from pathlib import Path

import pytest

import kstore
from kafka_files.data_sets import digest
from kafka_files.offsets_for_times import DIFFERENT_AFTER_RECOVERY, check_times
from kafka_files.test_store import as_expected, contents
from kstore.errors import CorruptRecordError, RecoveryNeededError
from kstore.segment import transaction_index
from oracle.reader import read_log

# Cases whose `after` Kafka's consumer described, in full.
DESCRIBED = ("killed", "cut", "derived", "swap-cleaned", "swap-swap", "swap-deleted", "dirs")
MODES = ("careful", "kafka")

# (case, partition): what kstore does better there than the broker did.
BETTER = {
    ("derived", "plain-gzip-0"): "a lost time index is made from the log; Kafka leaves it empty",
    ("derived", "transactions-0"): "a lost abort index is made; Kafka shows aborted records",
    ("derived", "plain-zstd-0"): "a doubled index entry is seen and goes; Kafka keeps it",
    ("derived", "epochs-0"): "lost leader epochs are made from the batches; Kafka forgets them",
}


def restored(recovered, case: str, target: Path) -> list[Path]:
    """A copy of what the broker left, as the log.dirs of a store."""
    shutil.copytree(recovered.before(case), target)
    return [target / "d1", target / "d2"] if case == "dirs" else [target]


def find(roots: list[Path], name: str) -> Path:
    (found,) = (root / name for root in roots if (root / name).is_dir())
    return found


def opened(roots: list[Path], mode: str = "careful", interval: int = 4096) -> kstore.Store:
    # The producers in these sets were written a while ago: no producer may expire.
    log = kstore.LogConfig(index_interval_bytes=interval, producer_id_expiration_ms=2**62)
    return kstore.open(roots, config=kstore.StoreConfig(background=False, recovery=mode, log=log))


def logs_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.log"))}


def epochs_of(folder: Path) -> list[tuple[int, int]]:
    path = folder / "leader-epoch-checkpoint"
    lines = path.read_text().split("\n")[2:] if path.exists() else []
    return [(int(epoch), int(start)) for epoch, start in (line.split() for line in lines if line)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", DESCRIBED)
def test_recovery_reaches_the_state_of_the_broker(recovered, case, mode, tmp_path):
    """Start, end, every record, offsets by time: as Kafka's consumer said after the recovery."""
    roots = restored(recovered, case, tmp_path / "store")
    expected = recovered.expected[case]
    with opened(roots, mode) as store:
        for partition in expected.values():
            topic, number = partition.topic_partition
            log = store[topic][number]
            assert log.start_offset == partition.beginning_offset, partition.name
            assert log.end_offset == partition.end_offset, partition.name
            found = tuple(
                (record.offset, digest(as_expected(record, epochs=True))) for record in log
            )
            assert found == partition.records, partition.name
            folder = find(roots, partition.name)
            different = check_times(log, folder, partition.offsets_for_times)
            case_and_name = (case, partition.name)
            assert bool(different) == (case_and_name in DIFFERENT_AFTER_RECOVERY), (
                case_and_name,
                different,
            )
    assert len(expected) == {"derived": 9, "dirs": 8}.get(case, 1 if "swap" in case else 7)


def producers_of(log) -> list[tuple]:
    return sorted(
        (
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.timestamp,
            entry.coordinator_epoch,
            max(entry.current_transaction_first_offset, -1),
        )
        for entry in log.producers()
    )


def named(producers: tuple[dict, ...]) -> list[tuple]:
    return sorted(
        (
            each["producer_id"],
            each["epoch"],
            each["last_sequence"],
            each["last_timestamp"],
            each["coordinator_epoch"],
            -1 if each["current_txn_start_offset"] is None else each["current_txn_start_offset"],
        )
        for each in producers
    )


def committed_by_markers(folder: Path, stable: int) -> list[int]:
    """Offsets below the last stable one that no abort marker covers, by the log alone."""
    batches = [batch for data in logs_of(folder).values() for batch in read_log(data).batches]
    kept: list[int] = []
    pending: dict[int, list[int]] = {}
    for batch in batches:
        if batch.control:
            key = batch.records[0].key or b""
            found = pending.pop(batch.producer_id, [])
            kept += found if key[2:4] == b"\0\1" else []
        else:
            into = pending.setdefault(batch.producer_id, []) if batch.transactional else kept
            into += [record.offset for record in batch.records]
    return sorted(offset for offset in kept if offset < stable)


@pytest.mark.parametrize("case", DESCRIBED)
def test_producers_and_transactions_equal_those_of_the_broker(recovered, case, tmp_path):
    """Producer states, last stable offset, what read_committed gives, snapshots to the byte."""
    roots = restored(recovered, case, tmp_path / "store")
    theirs = sorted(recovered.after(case).glob("d?")) or [recovered.after(case)]
    producers = 0
    with opened(roots) as store:
        for partition in recovered.expected[case].values():
            topic, number = partition.topic_partition
            log = store[topic][number]
            assert log.last_stable_offset == partition.last_stable_offset, partition.name
            assert producers_of(log) == named(partition.producers), partition.name
            producers += len(partition.producers)
            found = [record.offset for record in log.view(isolation="read_committed")]
            folder = find(roots, partition.name)
            if (case, partition.name) == ("derived", "transactions-0"):
                assert found == committed_by_markers(folder, log.last_stable_offset)
                assert set(found) < set(partition.committed)
                index = folder / f"{0:020}.txnindex"
                rebuilt = transaction_index.parse(index.read_bytes())  # the broker left it lost
                entries = log.aborted_transactions(0, log.end_offset)
                assert rebuilt == entries[: len(rebuilt)]
                assert len(rebuilt) > 0
            else:
                assert found == list(partition.committed), partition.name
    for partition in recovered.expected[case].values():
        ours, after = find(roots, partition.name), find(theirs, partition.name)
        assert contents(ours, "*.snapshot") == contents(after, "*.snapshot"), partition.name
    assert (producers > 0) == ("swap" not in case)


# index.interval.bytes of the topics (the internal ones have 4096), which shapes what is rebuilt.
INTERVALS = {"killed": 1024, "cut": 1024, "derived": 512, "dirs": 4096}


@pytest.mark.parametrize("case", DESCRIBED)
def test_recovery_leaves_the_files_that_the_broker_left(recovered, case, tmp_path):
    """After our clean stop: the broker's segments, abort indexes, epochs, and index entries."""
    roots = restored(recovered, case, tmp_path / "store")
    with opened(roots, interval=INTERVALS.get(case, 256)) as store:
        for partition in recovered.expected[case].values():
            topic, number = partition.topic_partition
            assert store[topic][number].writable
    theirs = sorted(recovered.after(case).glob("d?")) or [recovered.after(case)]
    for partition in recovered.expected[case].values():
        ours, after = find(roots, partition.name), find(theirs, partition.name)
        assert logs_of(ours) == logs_of(after), partition.name
        if (case, partition.name) in BETTER:
            continue
        kinds = ("txnindex",) if partition.name.startswith("__") else ("txn", "", "time")
        for kind in kinds:
            pattern = f"*.{kind.removesuffix('index')}index"
            assert contents(ours, pattern) == contents(after, pattern), (partition.name, pattern)
        end = partition.end_offset
        assert [entry for entry in epochs_of(ours) if entry[1] < end] == [
            entry for entry in epochs_of(after) if entry[1] < end
        ], partition.name


def test_acknowledged_records_survive(recovered, tmp_path):
    roots = restored(recovered, "killed", tmp_path / "store")
    with opened(roots) as store:
        for name, offset in recovered.damage["acked"].items():
            topic, _, number = name.rpartition("-")
            assert store[topic][int(number)].end_offset > offset, name


def test_truncated_bytes_are_kept(recovered, tmp_path):
    """A batch cut in two, a header cut in two, a flipped bit, zeros, garbage: byte for byte."""
    roots = restored(recovered, "cut", tmp_path / "store")
    with opened(roots) as store:
        for damage in recovered.damage["cut"]:
            name, _, file = damage["file"].partition("/")
            topic, _, number = name.rpartition("-")
            before = (recovered.before("cut") / damage["file"]).read_bytes()
            report = store[topic][int(number)].recovery
            now = (roots[0] / damage["file"]).read_bytes()
            assert report.cut_size == len(before) - len(now) > 0
            assert file in str(report)
            assert "cut" in str(report)
            if damage["how"] == "zeros":
                assert (report.kept_in, before) == (None, now + bytes(report.cut_size))
            else:
                assert now + Path(report.kept_in).read_bytes() == before
    assert {damage["how"] for damage in recovered.damage["cut"]} == {
        "cut", "cut-header", "flip", "zeros", "garbage",
    }  # fmt: skip


# ---- a bad byte in the middle -----------------------------------------------------------------


def test_damage_in_the_middle_is_truncated_as_kafka_does_if_allowed(recovered, tmp_path):
    """``recovery="kafka"`` cuts where the broker did; every byte of it is kept."""
    roots = restored(recovered, "middle", tmp_path / "store")
    after = recovered.after("middle")
    with opened(roots, "kafka", 1024) as store:
        for damage in recovered.damage["middle"]:
            name = damage["file"].partition("/")[0]
            topic, _, number = name.rpartition("-")
            log = store[topic][int(number)]
            if damage["recovery_point_is"] == "after the segment":
                assert not log.recovery.cut_size
                continue
            assert log.end_offset == damage["base_offset"]
            assert log.recovery.cut_offset == damage["base_offset"]
            before = logs_of(recovered.before("middle") / name)
            kept = [path.read_bytes() for path in sorted((roots[0] / name).glob("kstore.cut.*"))]
            found = b"".join(logs_of(roots[0] / name).values()) + b"".join(kept)
            assert found == b"".join(before.values()), name
    for folder in sorted(path.name for path in after.iterdir() if path.is_dir()):
        ours, theirs = logs_of(roots[0] / folder), logs_of(after / folder)
        assert list(ours) == list(theirs), folder
        for name, data in ours.items():  # what their coordinator added are markers
            assert theirs[name].startswith(data), (folder, name)
            assert all(r.control for r in read_log(theirs[name][len(data) :]).records), folder


def test_damage_in_the_middle_truncates_nothing_by_default(recovered, tmp_path):
    """The damage is named; every other partition opens; a reader skips one batch."""
    roots = restored(recovered, "middle", tmp_path / "store")
    refused = 0
    with opened(roots) as store:
        for damage in recovered.damage["middle"]:
            name = damage["file"].partition("/")[0]
            topic, _, number = name.rpartition("-")
            if damage["recovery_point_is"] == "after the segment":
                # Kafka serves the batch as it is; kstore reports the damage to its reader.
                log = store[topic][int(number)]
                with pytest.raises(CorruptRecordError) as caught:
                    list(log)
                assert caught.value.position == damage["batch_at"]
                findings = log.verify().findings
                assert [finding.position for finding in findings] == [damage["batch_at"]]
                continue
            with pytest.raises(RecoveryNeededError) as needed:
                store[topic][int(number)]
            refused += 1
            assert needed.value.path == str(roots[0] / damage["file"])
            assert needed.value.position == damage["batch_at"]
            assert needed.value.offset == damage["base_offset"]
            assert "recovery='kafka'" in str(needed.value)
    assert refused >= 2
    for damage in recovered.damage["middle"]:
        name = damage["file"].partition("/")[0]
        assert logs_of(roots[0] / name) == logs_of(recovered.before("middle") / name)
    with kstore.open(roots, mode="r") as store:
        for damage in recovered.damage["middle"]:
            topic, _, number = damage["file"].partition("/")[0].rpartition("-")
            expected = recovered.expected["killed"][f"{topic}-{number}"].records
            records = store[topic][int(number)].view().records(on_damage="skip")
            found = [
                (record.offset, digest(as_expected(record, epochs=True))) for record in records
            ]
            sound = read_log((recovered.before("killed") / damage["file"]).read_bytes())
            (batch,) = (each for each in sound.batches if each.position == damage["batch_at"])
            lost = {record.offset for record in batch.records if not record.control}
            assert found == [entry for entry in expected if entry[0] not in lost], topic


EMPTY = {"plain-zstd-0/00000000000000000200.index"}  # its first entry could not be doubled
SILENT = {
    "plain-lz4-0/notes.txt",  # of no program
    "transactions-1/00000000000000000000.txnindex",  # ten bytes after the last complete entry
}


def test_every_loss_is_reported(recovered, tmp_path):
    """Side files that were lost or corrupted: what each report says was done about them."""
    roots = restored(recovered, "derived", tmp_path / "store")
    reports: dict[str, str] = {}
    with opened(roots, interval=512) as store:
        for damage in recovered.damage["derived"]:
            topic, _, number = damage["file"].partition("/")[0].rpartition("-")
            reports[damage["file"]] = str(store[topic][int(number)].recovery)
        assert not store.recovery.unclean
        assert "plain-gzip-0: " in str(store.recovery)
    silent = {file for file, report in reports.items() if file.partition("/")[2] not in report}
    assert {file for file in silent if not file.endswith(".snapshot")} - EMPTY == SILENT
    # A snapshot that is missing cannot be distinguished from one that never was.
    assert all(file.startswith("idempotent-0/") for file in silent if file.endswith(".snapshot"))
