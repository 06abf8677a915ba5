"""Spark's Kafka connector reads all of tests/data from one broker, and kstore from the directory.

Logs of Kafka 0.8.2 to 4.3.0 with all formats and codecs, some as their own broker recovered them,
and record sets that other clients kept.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from interop import broker_of_data_sets
from interop.node import Node
from spark.compare_connectors import Sources, assert_same, readers, rows, streamed

pytestmark = [pytest.mark.connector, pytest.mark.timeout(1800)]
AT_REST = {"log.cleaner.enable": "false", "log.initial.task.delay.ms": 600_000}


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> list[broker_of_data_sets.Served]:
    return broker_of_data_sets.folders(tmp_path_factory.mktemp("sets"))


@pytest.fixture(scope="module")
def sources(
    topics: list[broker_of_data_sets.Served], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sources]:
    root = tmp_path_factory.mktemp("served")
    node = Node("3.9.2", root)
    node.settings = dict(AT_REST)
    try:
        broker_of_data_sets.hand_over(node, topics)
        copy = broker_of_data_sets.copy(node.log_dir, root / "copy")
        node.start()
        yield Sources(node.address, copy)
    finally:
        node.kill()


def test_all_of_the_data_is_served(topics: list[broker_of_data_sets.Served]) -> None:
    """Of each archive a topic exists, and of each set of public origin."""
    begins = {each.topic.partition(".")[0] for each in topics}
    assert {"client-batches", "record-sets", "cluster-metadata", "made-zk-0"} <= begins
    assert len(topics) > 330


def test_every_row_is_the_connector_s(
    registered: object, topics: list[broker_of_data_sets.Served], sources: Sources
) -> None:
    names = ",".join(each.topic for each in topics)
    options: dict[str, object] = {"subscribe": names, "startingOffsets": "earliest"}
    theirs, ours = map(rows, readers(registered, sources, options, "read"))
    assert len(theirs) > 30_000
    assert len({row[0] for row in theirs}) > 250  # some have no record
    assert {row[4] for row in theirs} == {-1, 0, 1}
    assert any(row[7] for row in theirs)
    assert_same(theirs, ours)


def test_a_stream_takes_every_row_once(
    registered: object, topics: list[broker_of_data_sets.Served], sources: Sources, tmp_path: Path
) -> None:
    """AvailableNow over all of it, as the connector streams it: in some batches, to its ends.

    What was read without the connector, in one batch, is what both have to give.
    """
    options: dict[str, object] = {
        "subscribe": ",".join(each.topic for each in topics),
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": 40_000,
    }
    results = []
    for number, frame in enumerate(readers(registered, sources, options, "readStream")):
        found, batches, end = streamed(frame, tmp_path / f"checkpoint-{number}", 600)
        assert batches > 1
        results.append((found, end))
    (theirs, their_end), (ours, our_end) = results
    assert len(theirs) > 30_000
    assert_same(theirs, ours)
    assert our_end == their_end
