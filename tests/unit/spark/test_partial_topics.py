"""The sink's tasks at a topic of which the store has partitions 1 and 4 only."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kstore
from kstore.errors import UnknownPartitionError, UnknownTopicOrPartitionError
from kstore.spark.sink.options import SinkOptions, parse_sink
from kstore.spark.sink.stager import stage
from support.stores import QUIET

KEYS = pa.array([b"alice", None] * 5, pa.binary())


@pytest.fixture
def given(tmp_path: Path) -> SinkOptions:
    with kstore.open(tmp_path, config=QUIET) as store:
        for number in (1, 4):
            store.create_partition("orders", number)
    return parse_sink({"paths": json.dumps([str(tmp_path)]), "topic": "orders"})


def rows(**columns: Any) -> Any:
    value = pa.array([b"v"] * 10, pa.binary())
    return pa.RecordBatch.from_pydict({"value": value} | columns)


def numbers(given: SinkOptions, batch: Any) -> set[int]:
    staged = stage(given, "job", [batch])
    assert staged is not None
    return {each.partition for each in staged.partitions}


def test_the_partition_of_a_key_is_not_guessed(given: SinkOptions) -> None:
    with pytest.raises(UnknownPartitionError, match="has only 1, 4: add the column 'partition'"):
        stage(given, "job", [rows(key=KEYS)])
    some = pa.array([None, 4] * 5, pa.int32())
    with pytest.raises(UnknownPartitionError):
        stage(given, "job", [rows(key=KEYS, partition=some)])
    named = pa.array([1, 4] * 5, pa.int32())
    assert numbers(given, rows(key=KEYS, partition=named)) == {1, 4}
    with pytest.raises(UnknownTopicOrPartitionError, match="no partition 2"):
        stage(given, "job", [rows(partition=pa.array([2] * 10, pa.int32()))])


def test_records_without_a_key_go_to_partitions_that_exist(given: SinkOptions) -> None:
    assert numbers(given, rows()) <= {1, 4}
    assert numbers(given, rows(key=pa.nulls(10, pa.binary()))) <= {1, 4}
