"""Complete directories of real brokers in figures: Kafka's dumps, its consumer, and the oracle."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kstore
from kafka_files import data_sets, dump_log_segments
from kstore.log.statistics import Stats
from support.figures import compare, slowly, survey_log

NEWEST = ("kraft-4.3.0-clean", "kraft-3.9.2-clean")
BATCH = re.compile(r"(?:baseOffset|offset): .* size: (\d+) magic: (\d) compresscodec: (\w+) ")
RECORD = re.compile(r"\| offset: (\d+) (\w+): (-?\d+) keySize: (-?\d+) valueSize: (-?\d+) ?(.*)")


@pytest.fixture(scope="module")
def figures(broker_set: data_sets.BrokerSet) -> tuple[data_sets.BrokerSet, dict[str, Stats]]:
    with kstore.open(broker_set.log_dir, "r") as store:
        logs = [log for name in store for log in store[name]]
        return broker_set, {Path(log.path).name: survey_log(log) for log in logs}


def dumped(name: str) -> dict[str, list[str]]:
    """Lines of DumpLogSegments on the log files of each partition, each file once."""
    runs = (
        dump_log_segments.by_own_version(name)
        if name in NEWEST
        else dump_log_segments.by_newest(name)
    )
    found: dict[str, dict[str, list[str]]] = {}
    for run in runs:
        if "--deep-iteration" not in run.flags:
            continue
        lines: list[str] = []
        for line in run.lines:
            if line.startswith("Dumping "):
                lines = []
                if line.endswith(".log"):
                    folder, _, file = line[8:].rpartition("/")
                    found.setdefault(folder, {})[file] = lines
            lines.append(line)
    return {name: [line for f in files.values() for line in f] for name, files in found.items()}


def of_dump(lines: list[str]) -> dict[str, Any]:
    """Figures that Kafka's lines give."""
    batches = [found for line in lines if (found := BATCH.match(line))]
    records = [f for line in lines if (f := RECORD.match(line)) and "endTxnMarker" not in f[6]]
    return {
        "bytes": sum(int(found[1]) for found in batches),
        "formats": dict(Counter(found[2] for found in batches)),
        "codecs": dict(Counter(found[3].lower() for found in batches)),
        "codec_bytes": sum(int(found[1]) for found in batches if found[3].lower() != "none"),
        "records": len(records),
        "null_keys": sum(found[4] == "-1" for found in records),
        "null_values": sum(found[5] == "-1" for found in records),
        "key_bytes": sum(max(int(found[4]), 0) for found in records),
        "value_bytes": sum(max(int(found[5]), 0) for found in records),
        "largest_value": max((int(found[5]) for found in records), default=-1),
    }


def of_stats(stats: Stats) -> dict[str, Any]:
    packed = [kind.bytes for name, kind in stats.codecs.items() if name != "none"]
    return {
        "bytes": stats.batch_sizes.total,
        "formats": {name: kind.batches for name, kind in stats.formats.items()},
        "codecs": {name: kind.batches for name, kind in stats.codecs.items()},
        "codec_bytes": sum(packed),
        "records": stats.records,
        "null_keys": stats.null_keys,
        "null_values": stats.null_values,
        "key_bytes": stats.key_sizes.total,
        "value_bytes": stats.value_sizes.total,
        "largest_value": -1 if stats.value_sizes.most is None else stats.value_sizes.most,
    }


def test_kafkas_own_dump_gives_the_same_figures(figures: Any) -> None:
    broker_set, found = figures
    lines = dumped(broker_set.name)
    compared = 0
    for name, stats in found.items():
        if name in lines:
            assert of_stats(stats) == of_dump(lines[name]), name
            compared += stats.records
    assert compared > 100


def test_kafkas_consumer_read_as_many_records(figures: Any) -> None:
    broker_set, found = figures
    compared = 0
    for each in broker_set.partitions:
        stats = found[each.name]
        if each.beginning_offset > (stats.first_offset or 0):
            continue  # the files still have records that no consumer reads
        times = [record.timestamp for record in each.records if record.timestamp >= 0]
        assert stats.records == len(each.records), each.name
        assert stats.ok
        assert (stats.min_timestamp, stats.max_timestamp) == (
            min(times, default=None), max(times, default=None),
        )  # fmt: skip
        assert stats.records_with_headers == sum(bool(record.headers) for record in each.records)
        compared += 1
    assert compared > 5


def test_the_oracle_agrees(figures: Any) -> None:
    broker_set, found = figures
    for name, stats in found.items():
        compare(stats, slowly((broker_set.log_dir / name).glob("*.log")))
