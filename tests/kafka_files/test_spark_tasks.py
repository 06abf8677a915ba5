"""Every directory made by a broker, as Spark's tasks read it: plan, bytes, Arrow. No Java here."""

from collections.abc import Iterator

import pytest

import kstore
from kafka_files.data_sets import BrokerSet, ExpectedPartition, ExpectedRecord
from kstore.spark import Plan, plan
from kstore.spark.source.options import parse_source
from kstore.spark.source.read_task import run_task

TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
SMALL = 2000  # bytes of a task: many cuts


def as_expected(record: ExpectedRecord) -> tuple[object, ...]:
    headers = [(name, value) for name, value in record.headers]
    return (
        record.offset,
        record.timestamp * 1000,
        TYPES[record.timestamp_type],
        record.key,
        record.value,
        headers or None,
    )


def rows(
    broker_set: BrokerSet, partition: ExpectedPartition, **options: object
) -> Iterator[tuple[object, ...]]:
    """The rows of a partition, through a plan of small tasks, in the plan's order."""
    texts = {
        "path": str(broker_set.log_dir),
        "subscribe": partition.topic,
        "includeHeaders": "true",
    }
    texts |= {name: str(value) for name, value in options.items()}
    wanted = parse_source(texts)
    for task in plan(broker_set.log_dir, partitions=partition_of(partition), **options).tasks:
        for batch in run_task(wanted, wanted.columns, task):
            names = batch.schema.names
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                found = dict(zip(names, row, strict=True))
                assert (found["topic"], found["partition"]) == (
                    partition.topic,
                    partition.partition,
                )
                headers = found["headers"]
                yield (
                    found["offset"],
                    round(found["timestamp"].timestamp() * 1000) * 1000,
                    found["timestampType"],
                    found["key"],
                    found["value"],
                    [(each["key"], each["value"]) for each in headers] if headers else None,
                )


@pytest.mark.parametrize("size", [SMALL, 1 << 30])
def test_rows_are_those_of_kafkas_consumer(broker_set: BrokerSet, size: int) -> None:
    for partition in broker_set.partitions:
        found = list(rows(broker_set, partition, maxPartitionBytes=size))
        assert found == [as_expected(each) for each in partition.records], partition.name


@pytest.mark.parametrize("size", [SMALL, 1 << 30])
def test_read_committed_as_kafkas_consumer(broker_set: BrokerSet, size: int) -> None:
    for partition in broker_set.partitions:
        found = rows(broker_set, partition, isolation="read_committed", maxPartitionBytes=size)
        assert [row[0] for row in found] == list(partition.committed_offsets), partition.name


def test_a_starting_time_is_the_offset_that_the_engine_finds(broker_set: BrokerSet) -> None:
    """Which is where Kafka does: test_store_reads_all."""
    asked = 0
    with kstore.open(broker_set.log_dir, mode="r") as store:
        for partition in broker_set.partitions:
            log = store[partition.topic][partition.partition]
            for when, _, _ in partition.offsets_for_times:
                start = log.offset_at(when)
                late = plan(broker_set.log_dir, partitions=partition_of(partition), since=when)
                early = plan(broker_set.log_dir, partitions=partition_of(partition), until=when)
                wanted = [each.offset for each in partition.records]
                assert covered(late, wanted) == [each for each in wanted if each >= start]
                assert covered(early, wanted) == [each for each in wanted if each < start]
                asked += 1
    assert asked > 190 or broker_set.name == "zk-0.8.2.2"


def partition_of(partition: ExpectedPartition) -> dict[str, list[int]]:
    return {partition.topic: [partition.partition]}


def covered(found: Plan, offsets: list[int]) -> list[int]:
    """Which of the offsets a plan's tasks have."""
    ranges = [each for task in found.tasks for each in task]
    planned = [(span.start, span.stop) for each in ranges for span in each.spans]
    return [each for each in offsets if any(start <= each < stop for start, stop in planned)]
