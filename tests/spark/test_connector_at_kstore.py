"""Spark's own Kafka connector at kstore's broker: batch, stream and sink."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.kstore_node import KstoreNode, kstore_node
from spark.compare_connectors import Row, rows, streamed

pytestmark = [
    pytest.mark.connector,
    pytest.mark.connector_at_kstore,
    pytest.mark.timeout(280),
]

COUNT, PARTITIONS = 2000, 3


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KstoreNode]:
    root = tmp_path_factory.mktemp("served")
    with kstore_node(root, group_initial_rebalance_delay_ms=0) as broker:
        yield broker


def create(served: KstoreNode, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": served.address})
    for made in admin.create_topics([NewTopic(topic, PARTITIONS) for topic in topics]).values():
        made.result(30)


def read(spark: Any, served: KstoreNode, how: str = "read", **options: object) -> Any:
    reader = getattr(spark, how).format("kafka").option("includeHeaders", "true")
    reader = reader.option("kafka.bootstrap.servers", served.address)
    for name, value in {"startingOffsets": "earliest", **options}.items():
        reader = reader.option(name.replace("_", "."), value)
    return reader.load()


def records(spark: Any, topic: str) -> Any:
    """Rows as the connector's sink takes them: some keys and headers are null."""
    return spark.sql(
        f"""SELECT '{topic}' AS topic, CAST(id % {PARTITIONS} AS INT) AS partition,
        IF(id % 5 = 0, NULL, CAST(CONCAT('k', id) AS BINARY)) AS key,
        CAST(CONCAT('v', id) AS BINARY) AS value,
        IF(id % 4 = 0, NULL,
          ARRAY(NAMED_STRUCT('key', 'n', 'value', CAST(CONCAT('', id) AS BINARY)))) AS headers
          FROM RANGE({COUNT})"""
    )


def without_time(found: list[Row]) -> list[Row]:
    """Partition, key, value and headers, in the order of the values."""
    return sorted(((row[1], row[5], row[6], row[7]) for row in found), key=lambda row: row[2])


def expected() -> list[Row]:
    found = []
    for n in range(COUNT):
        key = None if n % 5 == 0 else b"k%d" % n
        headers = None if n % 4 == 0 else [("n", b"%d" % n)]
        found.append((n % PARTITIONS, key, b"v%d" % n, headers))
    return sorted(found, key=lambda row: row[2])


@pytest.fixture(scope="module")
def written(spark: Any, served: KstoreNode) -> str:
    """A topic that the connector's sink wrote."""
    create(served, "written")
    sink = records(spark, "written").write.format("kafka")
    sink.option("kafka.bootstrap.servers", served.address).save()
    return "written"


def test_a_batch_reads_what_the_sink_wrote(spark: Any, served: KstoreNode, written: str) -> None:
    found = rows(read(spark, served, subscribe=written))
    assert without_time(found) == expected()
    per_partition = [[row[2] for row in found if row[1] == n] for n in range(PARTITIONS)]
    assert per_partition == [list(range(len(each))) for each in per_partition]


def test_offsets_times_and_patterns_choose_rows(
    spark: Any, served: KstoreNode, written: str
) -> None:
    starts = json.dumps({written: {"0": 10, "1": -2, "2": 7}})
    ends = json.dumps({written: {"0": 20, "1": 5, "2": 7}})
    options = {"startingOffsets": starts, "endingOffsets": ends, "minPartitions": 7}
    found = rows(read(spark, served, subscribePattern="writ.*", **options))
    assert [row[1:3] for row in found] == [(0, n) for n in range(10, 20)] + [
        (1, n) for n in range(5)
    ]
    everything = rows(read(spark, served, subscribe=written))
    middle = sorted(row[3] for row in everything)[COUNT // 2] // 1000
    options = {"startingTimestamp": middle, "startingOffsetsByTimestampStrategy": "latest"}
    later = rows(read(spark, served, subscribe=written, **options))
    firsts: dict[int, int] = {}
    for row in everything:  # a partition begins with the first record that is late enough
        if row[3] >= middle * 1000:
            firsts.setdefault(row[1], row[2])
    assert later == [row for row in everything if row[2] >= firsts.get(row[1], COUNT)]


def test_a_stream_of_several_batches(
    spark: Any, served: KstoreNode, written: str, tmp_path: Path
) -> None:
    frame = read(spark, served, "readStream", subscribe=written, maxOffsetsPerTrigger=700)
    found, batches, end = streamed(frame, tmp_path / "checkpoint")
    assert batches > 1
    assert without_time(found) == expected()
    assert sum(end[written].values()) == COUNT


def test_a_stream_into_another_topic_continues_after_a_restart(
    spark: Any, served: KstoreNode, tmp_path: Path
) -> None:
    create(served, "from", "to")

    def copy() -> None:
        frame = read(spark, served, "readStream", subscribe="from", maxOffsetsPerTrigger=900)
        columns = ("partition", "key", "value", "headers")
        query = (
            frame.select(*columns).writeStream.format("kafka").option("topic", "to")
            .option("kafka.bootstrap.servers", served.address)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()

    sink = records(spark, "from").write.format("kafka")
    sink.option("kafka.bootstrap.servers", served.address).save()
    copy()
    assert without_time(rows(read(spark, served, subscribe="to"))) == expected()
    sink.option("kafka.bootstrap.servers", served.address).save()
    copy()
    found = without_time(rows(read(spark, served, subscribe="to")))
    assert found == sorted(expected() * 2, key=lambda row: row[2])


def test_aborted_records_are_read_in_read_uncommitted_only(spark: Any, served: KstoreNode) -> None:
    create(served, "transactions")
    producer = Producer({"bootstrap.servers": served.address, "transactional.id": "spark"})
    producer.init_transactions(30)
    for end in ("commit_transaction", "abort_transaction", "commit_transaction"):
        producer.begin_transaction()
        for n in range(30):
            producer.produce("transactions", f"{end} {n}", partition=n % PARTITIONS)
        producer.flush(30)
        getattr(producer, end)(30)
    found = {
        isolation: rows(
            read(spark, served, subscribe="transactions", kafka_isolation_level=isolation)
        )
        for isolation in ("read_committed", "read_uncommitted")
    }
    assert len(found["read_uncommitted"]) == 90
    assert len(found["read_committed"]) == 60
    assert not any(b"abort" in row[6] for row in found["read_committed"])
