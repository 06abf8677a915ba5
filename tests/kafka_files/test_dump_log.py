"""``kstore dump-log`` prints what Kafka's DumpLogSegments prints, over complete directories."""

import pytest

from kafka_files import data_sets, dump_log_segments
from kstore.cli import main

NEWEST = "kraft-4.3.0-clean"
PREVIOUS = "kraft-3.9.2-clean"


@pytest.fixture
def dump(tmp_path, monkeypatch, capfdbinary):
    """Run dump-log in a set's directory, so that names read as in Kafka's dumps."""
    unpacked = {}

    def run(name: str, flags: tuple[str, ...], files: list[str]) -> tuple[list[str], list[str]]:
        if name not in unpacked:
            unpacked[name] = data_sets.BrokerSet(name, data_sets.unpack(f"made-{name}", tmp_path))
        with monkeypatch.context() as patch:
            patch.chdir(unpacked[name].log_dir)
            assert main(["dump-log", *flags, "--files", ",".join(files)]) == 0
        output, complaints = capfdbinary.readouterr()
        lines = output.decode().removesuffix("\n").split("\n")
        return lines, complaints.decode().splitlines()

    return run


def differences(ours: list[str], kafka: list[str]) -> list[tuple[str, str]]:
    assert len(ours) == len(kafka)
    return [pair for pair in zip(ours, kafka, strict=True) if pair[0] != pair[1]]


def test_every_set_is_compared():
    assert {NEWEST, PREVIOUS, *dump_log_segments.OLDER} == set(data_sets.BROKER_SETS)


@pytest.mark.parametrize("name", [NEWEST, *dump_log_segments.OLDER])
def test_lines_equal_those_of_kafka_4_3(name, dump):
    """Batches, records, indexes, snapshots of every format, and the complaints about them."""
    total = 0
    runs = (
        dump_log_segments.by_own_version(name)
        if name == NEWEST
        else dump_log_segments.by_newest(name)
    )
    for run in runs:
        ours, complaints = dump(name, run.flags, run.files)
        assert differences(ours, run.lines) == []
        assert dump_log_segments.complaints(complaints) == dump_log_segments.complaints(
            run.complaints
        )
        total += len(ours)
    assert total > 1000


def test_lines_equal_those_of_kafka_3_9_except_for_three_rules(dump):
    """Leader changes by name only, transactions as text, a blank after an idle producer."""
    total = 0
    for run in dump_log_segments.by_own_version(PREVIOUS):
        ours, complaints = dump(PREVIOUS, run.flags, run.files)
        kafka = run.lines
        ours = [dump_log_segments.as_in_3_9(line) for line in ours]
        if "--transaction-log-decoder" in run.flags:
            ours = [dump_log_segments.transaction_as_in_3_9(line) for line in ours]
            ours, kafka = (
                [dump_log_segments.partitions_sorted(line) for line in side]
                for side in (ours, kafka)
            )
        assert differences(ours, kafka) == []
        assert dump_log_segments.complaints(complaints) == dump_log_segments.complaints(
            run.complaints
        )
        total += len(ours)
    assert total > 5000
