"""The oracle reads everything as expected: so the expectations are loaded right, too."""

import pytest

from kafka_files import summary
from kafka_files.data_sets import BrokerSet, as_expected
from oracle import files
from oracle.reader import read_log


def test_every_log_reads_as_listed(fixtures):
    for fixture in fixtures.logs:
        data = fixture.data
        found = summary.of_log(read_log(data), len(data))
        expected = {name: fixture.expected[name] for name in found if name in fixture.expected}
        assert {name: found[name] for name in expected} == expected, fixture.name
    assert sum(fixture.expected["records"] for fixture in fixtures.logs) > 25_000


def test_indexes_read_as_listed(fixtures):
    listed = 0
    for fixture in fixtures.of_kind("offset-index"):
        entries = files.read_offset_index(fixture.data)
        assert len(entries) == fixture.expected["entries"], fixture.name
        listed += len(entries)
        if "listed" in fixture.expected:
            assert entries == [tuple(entry) for entry in fixture.expected["listed"]], fixture.name
    for fixture in fixtures.of_kind("time-index"):
        entries = files.read_time_index(fixture.data)
        assert len(entries) == fixture.expected["entries"], fixture.name
        listed += len(entries)
        if "listed" in fixture.expected:
            assert entries == [tuple(entry) for entry in fixture.expected["listed"]], fixture.name
    assert listed > 500


def test_offset_index_names_batches_of_its_log(fixtures):
    checked = 0
    for fixture in fixtures.of_kind("offset-index"):
        log_path = fixture.path.with_name(f"{fixture.path.name.partition('.')[0]}.log")
        log = read_log(log_path.read_bytes(), decode=False)
        batches = {batch.position: batch for batch in log.batches}
        for offset, position in files.read_offset_index(fixture.data, fixture.base_offset):
            assert batches[position].last_offset == offset, (fixture.name, offset)
            checked += 1
    assert checked > 300


def test_snapshots_and_checkpoints_read_as_listed(fixtures):
    for fixture in fixtures.of_kind("producer-snapshot"):
        entries = files.read_producer_snapshot(fixture.data)
        assert len(entries) == fixture.expected["producers"], fixture.name
        for entry, expected in zip(entries, fixture.expected["entries"], strict=True):
            assert list(entry) == list(expected.values()), fixture.name
    for fixture in fixtures.of_kind("checkpoint"):
        text = fixture.data.decode()
        lines = fixture.expected.get("entries", [])
        head = lines.index("...") if "..." in lines else len(lines)  # long ones are cut there
        read = (
            files.read_leader_epochs(text)
            if fixture.path.name == "leader-epoch-checkpoint"
            else [(*key, offset) for key, offset in files.read_offset_checkpoint(text).items()]
        )
        assert [" ".join(map(str, entry)) for entry in read][:head] == lines[:head], fixture.name
        assert len(read) == fixture.expected.get("count", 0), fixture.name
    for fixture in fixtures.of_kind("partition.metadata"):
        topic_id = files.read_partition_metadata(fixture.data.decode())
        assert fixture.expected["text"].endswith(topic_id)
        assert len(topic_id) == 22
    for fixture in fixtures.of_kind("meta.properties"):
        assert {"version"} < files.read_properties(fixture.data.decode()).keys(), fixture.name


def read_partition(broker_set: BrokerSet, name: str):
    """All records of a partition's segments that a consumer is given, read by the oracle."""
    records = []
    for path in sorted((broker_set.log_dir / name).glob("*.log")):
        for batch in read_log(path.read_bytes()).batches:
            epoch = batch.leader_epoch if batch.magic == 2 else None
            records += [as_expected(r, epoch) for r in batch.records if not r.control]
    return records


def test_broker_directories_read_as_kafkas_consumer_read_them(broker_set):
    """Kafka's consumer saw exactly the oracle's records, from the log start on."""
    for partition in broker_set.partitions:
        records = read_partition(broker_set, partition.name)
        records = [record for record in records if record.offset >= partition.beginning_offset]
        if broker_set.name == "zk-0.8.2.2":  # its consumer does not name an epoch
            assert all(record.leader_epoch is None for record in records)
        assert tuple(records) == partition.records, partition.name
    assert len(broker_set.partitions) >= 11


def test_broker_directories_list_their_partitions(broker_set):
    """Each folder is a partition whose end the expectations know, but for the internal ones."""
    folders = {path.name for path in broker_set.log_dir.iterdir() if path.is_dir()}
    assert {partition.name for partition in broker_set.partitions} <= folders


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint"])
def test_broker_checkpoints_name_partitions_of_the_directory(broker_set, name):
    folders = {path.name for path in broker_set.log_dir.iterdir() if path.is_dir()}
    points = files.read_offset_checkpoint((broker_set.log_dir / name).read_text())
    assert {f"{topic}-{n}" for topic, n in points} <= folders
    ends = {partition.name: partition.end_offset for partition in broker_set.partitions}
    for (topic, n), point in points.items():
        if f"{topic}-{n}" in ends:
            assert point == ends[f"{topic}-{n}"], (topic, n)
