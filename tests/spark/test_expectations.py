"""Files of real brokers and clients, read by a Spark job and compared with what others found."""

import hashlib
from pathlib import Path
from typing import Any

from kafka_files.data_sets import BrokerSet, Fixture, Fixtures
from kafka_files.test_spark_tasks import as_expected
from spark.compare_connectors import Row, rows

# Each of its batches has offset 0, one in front of it as well: no log that anything could read.
NO_LOG = "record-sets/kafka-python/record_batch_data_v2.bin"


def read(spark: Any, path: Path, topics: list[str]) -> dict[tuple[str, int], list[Row]]:
    """All rows by partition, in the order of their offsets."""
    reader = spark.read.format("kstore").option("includeHeaders", "true")
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows(reader.option("subscribe", ",".join(topics)).load(str(path))):
        found.setdefault(row[:2], []).append(row[2:])
    return found


def test_directories_of_brokers(registered: Any, broker_set: BrokerSet) -> None:
    found = read(
        registered, broker_set.log_dir, sorted({each.topic for each in broker_set.partitions})
    )
    for partition in broker_set.partitions:
        rows_of = found.pop((partition.topic, partition.partition), [])
        assert rows_of == [as_expected(each) for each in partition.records], partition.name
    assert found == {}


def test_files_of_public_origin(registered: Any, fixtures: Fixtures, tmp_path: Path) -> None:
    """Every log and record set, each as a topic of one segment."""
    topics = {}
    for fixture in fixtures.of_kind("log", "record-set"):
        first = fixture.base_offset if fixture.kind == "log" else fixture.expected["base_offset"]
        if first is None or first < 0 or fixture.name == NO_LOG:
            continue  # no complete batch in it; or as a client sends it, before it has an offset
        topic = f"file-{len(topics)}"
        (tmp_path / f"{topic}-0").mkdir()
        (tmp_path / f"{topic}-0" / f"{first:020}.log").write_bytes(fixture.data)
        topics[topic] = fixture
    assert len(topics) > 85
    found = read(registered, tmp_path, list(topics))
    for topic, fixture in topics.items():
        assert_as_listed(fixture, found.get((topic, 0), []))
    assert sum(map(len, found.values())) > 25_000


def assert_as_listed(fixture: Fixture, found: list[Row]) -> None:
    """By every word of an expectation that describes records and does not count control records."""
    expected = fixture.expected
    markers = {
        batch["base_offset"]
        for batch in expected.get("batches_listed", ())
        if "control_type" in batch
    }
    listed = [each for each in expected.get("records_listed", ()) if each["offset"] not in markers]
    if "records_listed" in expected:
        assert [
            (each["offset"], each["key"], each["value"], each.get("headers")) for each in listed
        ] == [
            (
                offset,
                key if key is None else key.hex(),
                value if value is None else value.hex(),
                headers
                and [[name, data if data is None else data.hex()] for name, data in headers],
            )
            for offset, _, _, key, value, headers in found
        ], fixture.name
    assert len(found) == expected["records"] - expected["control_batches"], fixture.name
    assert sum(row[3] is None for row in found) == expected["null_keys"], fixture.name
    assert sum(bool(row[5]) for row in found) == expected["records_with_headers"], fixture.name
    if expected["control_batches"]:
        return
    fields = [row[0] for row in found]
    assert fields[:1] == [expected["first_record_offset"]][: len(fields)], fixture.name
    assert fields[-1:] == [expected["last_record_offset"]][: len(fields)], fixture.name
    assert digest(row[3] for row in found) == expected["keys_sha256"], fixture.name
    assert digest(row[4] for row in found) == expected["values_sha256"], fixture.name
    assert sum(row[4] is None for row in found) == expected["null_values"], fixture.name
    times = [row[1] // 1000 for row in found if row[2] >= 0 and row[1] >= 0]
    assert (min(times, default=None), max(times, default=None)) == (
        expected["min_timestamp"],
        expected["max_timestamp"],
    ), fixture.name


def digest(fields: Any) -> str:
    return hashlib.sha256(b"".join(each for each in fields if each is not None)).hexdigest()
