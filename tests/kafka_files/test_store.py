"""kstore opens complete directories of real brokers: records, offsets, offsets by time."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest

import kstore
from kafka_files.data_sets import ExpectedRecord
from kafka_files.offsets_for_times import DIFFERENT, check_times
from oracle.reader import read_log

NOT_TOPICS = {"__cluster_metadata"}  # KRaft's own log: in the directory, but not a topic


def folders(log_dir: Path) -> set[str]:
    return {path.name for path in log_dir.iterdir() if path.is_dir()}


def contents(root: Path, pattern: str = "**/*") -> dict[str, str]:
    """The hash of every file, by its path."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.glob(pattern))
        if path.is_file()
    }


@pytest.fixture
def copy(broker_set, tmp_path) -> Path:
    target = tmp_path / "log-dir"
    shutil.copytree(broker_set.log_dir, target)
    return target


def as_expected(record, *, epochs: bool) -> ExpectedRecord:
    epoch = record.leader_epoch if epochs and record.leader_epoch >= 0 else None
    return ExpectedRecord(
        record.offset,
        record.timestamp,
        record.timestamp_type,
        epoch,
        record.key,
        record.value,
        record.headers,
    )


@pytest.mark.parametrize("mode", ["r", "a"])
def test_partitions_read_as_kafka_s_consumer_read_them(broker_set, copy, mode):
    with kstore.open(copy, mode=mode) as store:
        assert {f"{name}-{log.partition}" for name in store for log in store[name]} == {
            folder for folder in folders(copy) if folder.rpartition("-")[0] not in NOT_TOPICS
        }
        for partition in broker_set.partitions:
            log = store[partition.topic][partition.partition]
            assert log.start_offset == partition.beginning_offset, partition.name
            assert log.end_offset == partition.end_offset, partition.name
            epochs = broker_set.name != "zk-0.8.2.2"
            found = tuple(as_expected(record, epochs=epochs) for record in log)
            assert found == partition.records, partition.name


@pytest.mark.parametrize("aged", ["old", "young"])
@pytest.mark.parametrize("mode", ["r", "a"])
def test_offsets_by_time(broker_set, copy, mode, aged):
    """What a scan finds, whatever the ages of the files; Kafka's answer but where it is listed."""
    for path in copy.rglob("*.log"):
        os.utime(path, (2**31, 2**31) if aged == "young" else (0, 0))
    different, asked = set(), 0
    with kstore.open(copy, mode=mode) as store:
        for partition in broker_set.partitions:
            log = store[partition.topic][partition.partition]
            answers = partition.offsets_for_times
            asked += len(answers)
            if check_times(log, copy / partition.name, answers):
                different.add((broker_set.name, partition.name))
    assert different == {each for each in DIFFERENT if each[0] == broker_set.name}
    assert asked > 190 or broker_set.name == "zk-0.8.2.2"


def test_single_records_ranges_and_columns_agree(broker_set, copy):
    with kstore.open(copy, mode="r") as store:
        for partition in broker_set.partitions:
            log = store[partition.topic][partition.partition]
            records = partition.records
            for record in records[:: max(1, len(records) // 20)]:
                assert log[record.offset].value == record.value, (partition.name, record.offset)
            if records:
                middle = records[len(records) // 2].offset
                window = [record.offset for record in log[middle : log.end_offset]]
                assert window == [r.offset for r in records if r.offset >= middle]
            columns = list(log.view().scan())
            offsets = [int(offset) for each in columns for offset in each.offsets]
            assert offsets == [record.offset for record in records], partition.name
            times = [int(time) for each in columns for time in each.timestamps]
            assert times == [record.timestamp for record in records], partition.name


def test_reading_changes_no_byte(broker_set, copy):
    before = contents(copy)
    with kstore.open(copy, mode="r") as store:
        assert sum(1 for name in store for log in store[name] for _ in log) > 0
    assert contents(copy) == before


def test_opening_for_writing_keeps_every_log_and_identity(broker_set, copy):
    """No segment is cut, cleaned or aged, however old its records are; ids stay as found."""
    kept = ("**/*.log", "**/partition.metadata", "meta.properties")
    before = {pattern: contents(copy, pattern) for pattern in kept}
    with kstore.open(copy) as store:
        for name in store:
            for log in store[name]:
                assert log.end_offset >= log.start_offset
        store.apply_retention()
    for pattern in kept:
        assert contents(copy, pattern) == before[pattern], pattern


def test_every_partition_verifies(broker_set, copy):
    with kstore.open(copy, mode="r") as store:
        for name in store:
            for log in store[name]:
                log.verify().raise_if_corrupt()


# ---- public sets: brokers that were running when they were copied ------------------------------


def restored(source: Path, target: Path, expected: dict[str, dict]) -> Path:
    """Copy a set and give its active indexes their preallocated sizes back."""
    shutil.copytree(source, target)
    for path in list(target.rglob("*.trimmed")):
        name = str(source.parent.name + "/" + source.name + "/" + str(path.relative_to(target)))
        path = path.rename(path.with_suffix(""))
        with path.open("r+b") as file:
            file.truncate(expected[name]["original_size"])
    inside = (source.parent.name, source.name)
    for name, about in expected.items():
        parts = Path(name).parts
        if about["kind"] == "not-kept" and about["all_zero"] and parts[:2] == inside:
            with target.joinpath(*parts[2:]).open("wb") as file:
                file.truncate(about["size"])
    return target


def partitions_of(root: Path) -> dict[Path, list]:
    """What the oracle reads from each partition's segments, without control records."""
    found: dict[Path, list] = {}
    for path in sorted(root.rglob("*.log")):
        records = found.setdefault(path.parent, [])
        records += [r for r in read_log(path.read_bytes()).records if not r.control]
    return found


@pytest.mark.parametrize("mode", ["r", "a"])
def test_public_sets_open_and_read_as_listed(fixtures, tmp_path, mode):
    """Unclean and clean, one broker after another; the log start may hide records."""
    count = 0
    for source in sorted((fixtures.root / "segments").iterdir()):
        if "interrupted-cleaning" in source.name:
            continue  # what a cleaner left half way is finished by the writer that can clean
        copy = restored(source, tmp_path / source.name, fixtures.expected)
        for root in sorted({folder.parent for folder in partitions_of(copy)}):
            expected = partitions_of(root)
            with kstore.open(root, mode=mode) as store:
                for folder, records in expected.items():
                    topic, _, number = folder.name.rpartition("-")
                    if topic in NOT_TOPICS:
                        continue
                    log = store[topic][int(number)]
                    found = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in log]
                    wanted = [tuple(r[:5]) for r in records if r.offset >= log.start_offset]
                    assert found == wanted, folder
                    count += len(found)
    assert count > 10_000
