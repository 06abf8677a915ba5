"""Repair of what brokers left: every record but the damaged batch's, and a log that opens."""

import shutil

import pytest

import kstore
from oracle.reader import read_log


def state(directory):
    return {
        path: (about.st_ino, about.st_mtime_ns, about.st_ctime_ns, about.st_size)
        for path in [directory, *sorted(directory.rglob("*"))]
        if (about := path.lstat())
    }


def data_of(directory):
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def test_repair_copies_clean_directories_of_kafka(broker_set, tmp_path):
    before = state(broker_set.log_dir)
    report = kstore.repair(broker_set.log_dir, tmp_path / "out")
    assert state(broker_set.log_dir) == before
    for partition in report.partitions:
        assert partition.ok, partition
        copied = data_of(tmp_path / "out" / partition.name)
        assert copied == data_of(broker_set.log_dir / partition.name), partition.name


def test_repair_loses_only_the_damaged_batch(recovered, tmp_path):
    source = recovered.before("middle")
    before = state(source)
    report = kstore.repair(source, tmp_path / "out")
    assert state(source) == before
    found = {partition.name: partition for partition in report.partitions}
    damages = recovered.damage["middle"]
    assert {name for name, each in found.items() if each.damages} == {
        damage["file"].partition("/")[0] for damage in damages
    }
    with kstore.open(tmp_path / "out") as store:
        for damage in damages:
            name = damage["file"].partition("/")[0]
            (reported,) = found[name].damages
            assert (reported.kind, reported.position) == ("batch", damage["batch_at"])
            assert reported.first_offset == damage["base_offset"]
            sound = read_log((recovered.before("killed") / damage["file"]).read_bytes())
            (batch,) = (each for each in sound.batches if each.position == reported.position)
            data = data_of(recovered.before("killed") / name)
            lost = data.index((recovered.before("killed") / damage["file"]).read_bytes())
            start = lost + reported.position
            assert data_of(tmp_path / "out" / name) == data[:start] + data[start + reported.size :]
            topic, _, number = name.rpartition("-")
            offsets = [record.offset for record in store[topic][int(number)]]
            expected = recovered.expected["killed"][name].records
            gone = {record.offset for record in batch.records if not record.control}
            assert offsets == [offset for offset, _ in expected if offset not in gone], name


@pytest.mark.parametrize("case", ["killed", "cut", "derived"])
def test_repair_saves_all_records_up_to_the_cut(recovered, case, tmp_path):
    """Everything up to the cut; lost or corrupted side files do not matter."""
    source = recovered.before(case)
    before = state(source)
    report = kstore.repair(source, tmp_path / "out")
    assert state(source) == before
    cut = {each["file"] for each in recovered.damage["cut"]} if case == "cut" else set()
    damaged_files = {
        damage.path.removeprefix(f"{source}/")
        for partition in report.partitions
        for damage in partition.damages
    }
    assert damaged_files == cut
    assert not any(partition.findings for partition in report.partitions)
    with kstore.open(tmp_path / "out") as store:
        for name, expected in recovered.expected[case].items():
            topic, _, number = name.rpartition("-")
            found = [r.offset for r in store[topic][int(number)] if r.offset < 1 << 60]
            theirs = [offset for offset, _ in expected.records]
            assert found == theirs[: len(found)], name
            assert len(found) > 0 or not theirs


def test_a_second_repair_finds_no_damage(recovered, tmp_path):
    kstore.repair(recovered.before("middle"), tmp_path / "out")
    again = kstore.plan_repair(tmp_path / "out")
    assert not any(partition.damages for partition in again.partitions)
    shutil.rmtree(tmp_path / "out")
