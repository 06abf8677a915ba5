"""Spark's own Kafka connector at a real broker, and kstore at a copy of the broker's directory.

What the connector gives out is the expectation: the same query, but for the format's name.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from interop.clients import clients
from interop.kafka_jars import VERSIONS
from interop.node import Node
from interop.workload import PARTITIONS, prepare, work
from spark.compare_connectors import Sources, assert_same, readers, rows, streamed

pytestmark = [pytest.mark.connector, pytest.mark.timeout(280)]

TOPICS = ",".join(sorted({name.rpartition("-")[0] for name in PARTITIONS}))
# What the broker would clean or delete by itself is in the copy.
AT_REST = {"log.cleaner.enable": "false", "log.initial.task.delay.ms": 600_000}


@pytest.fixture(scope="module", params=VERSIONS)
def sources(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A broker that has every kind of batch, and its directory as it was at a clean stop."""
    root = tmp_path_factory.mktemp("connector")
    node = Node(request.param, root)
    node.settings = {"log.cleaner.backoff.ms": 200}
    try:
        with clients(request.param, root) as java:
            node.start()
            java.use(node)
            prepare(java)
            work(java, 1)
            work(java, 2)
        node.stop()
        shutil.copytree(node.log_dir, root / "copy")
        node.settings |= AT_REST
        node.start()
        yield Sources(node.address, root / "copy")
    finally:
        node.kill()


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_every_row_is_the_connector_s(registered: Any, sources: Sources, isolation: str) -> None:
    options: dict[str, object] = {"subscribe": TOPICS, "kafka.isolation.level": isolation}
    options["startingOffsets"] = "earliest"
    theirs, ours = readers(registered, sources, options, "read")
    assert ours.schema.simpleString() == theirs.schema.simpleString()
    expected = rows(theirs)
    assert len(expected) > 500
    assert {row[4] for row in expected} == {0, 1}
    assert any(row[7] for row in expected)
    assert {row[0] for row in expected} == set(TOPICS.split(","))
    assert_same(expected, rows(ours))


def test_rows_of_aborted_transactions_are_a_difference(registered: Any, sources: Sources) -> None:
    """The topics have the aborted records for which the two isolation levels are compared."""
    found = []
    for isolation in ("read_uncommitted", "read_committed"):
        options: dict[str, object] = {"subscribe": "transactions", "isolation": isolation}
        frame = registered.read.format("kstore").options(**options).load(str(sources.copy))
        found.append(frame.count())
    assert found[0] > found[1] > 0


CUTS: dict[str, dict[str, object]] = {
    "pattern": {"subscribePattern": "c.*"},
    "assigned": {"assign": json.dumps({"codecs": [1, 3], "transactions": [0]})},
    "offsets": {
        "assign": json.dumps({"codecs": [0, 4]}),
        "startingOffsets": json.dumps({"codecs": {"0": 17, "4": -2}}),
        "endingOffsets": json.dumps({"codecs": {"0": -1, "4": 40}}),
    },
    "split": {"subscribe": "codecs,compacted", "minPartitions": 13},
    "times": {
        "subscribe": "codecs,rolled,append-time",
        "startingTimestamp": 1_600_000_100_000,
        "startingOffsetsByTimestampStrategy": "latest",
        "endingTimestamp": 1_700_000_000_000,
    },
}


@pytest.mark.parametrize("name", CUTS)
def test_options_mean_the_same(registered: Any, sources: Sources, name: str) -> None:
    theirs, ours = map(rows, readers(registered, sources, CUTS[name], "read"))
    assert theirs
    assert_same(theirs, ours)


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_streams_over_all_available_records(
    registered: Any, sources: Sources, tmp_path: Path, isolation: str
) -> None:
    """AvailableNow in several batches: the same rows once each, and the same last offsets."""
    options: dict[str, object] = {"subscribe": TOPICS, "startingOffsets": "earliest"}
    options |= {"kafka.isolation.level": isolation, "maxOffsetsPerTrigger": 900}
    results = []
    for number, frame in enumerate(readers(registered, sources, options, "readStream")):
        found, batches, end = streamed(frame, tmp_path / f"checkpoint-{number}")
        assert batches > 1
        results.append((found, end))
    (theirs, their_end), (ours, our_end) = results
    assert_same(theirs, ours)
    assert {topic: ends for topic, ends in our_end.items() if "@" not in topic} == their_end
    # The topics' ids beside the offsets mean nothing to the connector.
    again = {topic: dict.fromkeys(ends, -2) for topic, ends in our_end.items()}
    options = {"subscribe": TOPICS, "startingOffsets": json.dumps(again)}
    theirs, ours = map(rows, readers(registered, sources, options, "read"))
    assert theirs
    assert_same(theirs, ours)
