"""The batch source in a real Spark: columns, options, plans, damage."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kstore
from kafka_files.data_sets import BrokerSet
from kstore.spark import read
from support.damage import write_damaged


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two topics: orders with two partitions and headers, clicks with one."""
    path = tmp_path_factory.mktemp("store")
    with kstore.open(path) as store:
        orders = store.create_topic("orders", 2)
        for n in range(1000):
            orders.append(
                b"value %d" % n,
                key=b"key %d" % (n % 7),
                headers=[("n", b"%d" % n), ("none", None)] if n % 3 == 0 else None,
                timestamp=1_700_000_000_000 + n,
                partition=n % 2,
            )
        store.create_topic("clicks")[0].extend([None, b"", b"x" * 5000])
    return path


def test_a_table_is_refused_with_the_view_that_works(registered: Any, log_dir: Path) -> None:
    options = f"options (path '{log_dir}', subscribe 'orders')"
    for statement in (
        f"create table t using kstore {options}",
        f"create table t using kstore options (subscribe 'orders') location '{log_dir}'",
    ):
        with pytest.raises(Exception, match="Create a view instead"):
            registered.sql(statement)
    registered.sql(f"create table declared (value binary) using kstore {options}")
    try:
        with pytest.raises(Exception, match="Create a view instead"):
            registered.sql("select * from declared").collect()
    finally:
        registered.sql("drop table declared")
    registered.sql(f"create temporary view orders_view using kstore {options}")
    assert registered.sql("select count(*) from orders_view").collect()[0][0] == 1000


def test_the_latest_offset_of_a_view_is_that_of_its_making(registered: Any, tmp_path: Path) -> None:
    with kstore.open(tmp_path / "data") as store:
        log = store.create_topic("t")[0]
        log.append(b"before")
        path = tmp_path / "data"
        registered.sql(
            f"create temporary view frozen using kstore options (path '{path}', subscribe 't')"
        )
        log.append(b"after")
        assert registered.sql("select count(*) from frozen").collect()[0][0] == 1
        registered.sql(
            "create or replace temporary view frozen using kstore "
            f"options (path '{path}', subscribe 't')"
        )
        assert registered.sql("select count(*) from frozen").collect()[0][0] == 2


TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}


def load(spark: Any, path: Path, **options: object) -> Any:
    reader = spark.read.format("kstore")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(str(path))


def test_columns_are_those_of_the_connector(registered: Any, log_dir: Path) -> None:
    frame = load(registered, log_dir, subscribe="orders")
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int>"
    )
    rows = frame.orderBy("partition", "offset").collect()
    assert len(rows) == 1000
    first = rows[0]
    assert bytes(first.key) == b"key 0"
    assert bytes(first.value) == b"value 0"
    assert (first.topic, first.partition, first.offset) == ("orders", 0, 0)
    assert first.timestamp.timestamp() == 1_700_000_000
    assert first.timestampType == 0
    assert [row.offset for row in rows] == [*range(500), *range(500)]


def test_headers_when_included(registered: Any, log_dir: Path) -> None:
    frame = load(registered, log_dir, subscribe="orders", includeHeaders="true")
    rows = frame.where("partition = 0").orderBy("offset").limit(4).collect()
    assert rows[0].headers[0].key == "n"
    assert bytes(rows[0].headers[0].value) == b"0"
    assert rows[0].headers[1].value is None
    assert [row.headers is None for row in rows] == [False, True, True, False]


def test_columns_option_and_declared_schema_send_less(registered: Any, log_dir: Path) -> None:
    assert read(registered, log_dir, topics="orders", columns=["offset"]).columns == ["offset"]
    declared = (
        registered.read.format("kstore")
        .schema("offset bigint, key binary")
        .option("subscribe", "orders")
        .load(str(log_dir))
    )
    assert declared.columns == ["offset", "key"]
    assert declared.count() == 1000
    assert {row.key.decode() for row in declared.distinct().collect()} == {
        f"key {n}" for n in range(7)
    }


def test_null_and_empty_values(registered: Any, log_dir: Path) -> None:
    values = load(registered, log_dir, subscribe="clicks").orderBy("offset").collect()
    assert values[0].value is None
    assert bytes(values[1].value) == b""
    assert bytes(values[2].value) == b"x" * 5000
    assert {row.key for row in values} == {None}


def test_a_frame_is_a_snapshot_and_a_new_load_sees_growth(registered: Any, tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        log = store.create_topic("t")[0]
        log.extend([b"x"] * 10)
        frame = load(registered, tmp_path, subscribe="t")
        log.extend([b"x"] * 10)
        assert frame.count() == 10
        assert load(registered, tmp_path, subscribe="t").count() == 20
        assert frame.where("offset >= 5").count() == 5


@pytest.mark.parametrize("setting", ["false", "true"])
def test_queries_over_one_frame_do_not_leak_into_each_other(
    registered: Any, log_dir: Path, setting: str
) -> None:
    """Where a source prunes in pushFilters, Spark gives wrong counts here, without an error."""
    name = "spark.sql.python.filterPushdown.enabled"
    registered.conf.set(name, setting)
    try:
        frame = load(registered, log_dir, subscribe="orders")
        assert frame.where("partition = 1").count() == 500
        assert frame.count() == 1000
        both = frame.where("partition = 0").union(frame.where("partition = 1"))
        counts = {
            row.partition: row["count"] for row in both.groupBy("partition").count().collect()
        }
        assert counts == {0: 500, 1: 500}
        ones = frame.where("partition = 1").select("offset")
        assert frame.where("partition = 0").select("offset").join(ones, "offset").count() == 500
    finally:
        registered.conf.unset(name)


def test_the_short_way_prunes_by_options(registered: Any, log_dir: Path) -> None:
    frame = read(
        registered,
        log_dir,
        partitions={"orders": [1]},
        since=datetime.fromtimestamp(1_700_000_000.5, UTC),
        until=1_700_000_000_600,
        columns=["partition", "offset"],
    )
    rows = frame.orderBy("offset").collect()
    assert [(row.partition, row.offset) for row in rows] == [(1, n) for n in range(250, 300)]
    assert read(registered, [log_dir], topics=["orders", "clicks"]).count() == 1003


def test_an_empty_range_is_an_empty_frame(registered: Any, log_dir: Path) -> None:
    assert read(registered, log_dir, topics="orders", since=1_800_000_000_000).count() == 0


def test_min_partitions_are_spark_s_partitions(registered: Any, log_dir: Path) -> None:
    frame = load(registered, log_dir, subscribe="orders", minPartitions=5)
    assert frame.rdd.getNumPartitions() >= 5
    assert frame.count() == 1000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "set one of subscribe, subscribePattern, assign"),
        ({"subscribe": "nothing"}, "not in this store: nothing"),
        ({"subscribe": "orders", "startingOffset": "earliest"}, "is 'startingOffsets' meant"),
        ({"subscribe": "orders", "endingOffsets": '{"orders": {"0": 9999}}'}, "lacks orders-1"),
    ],
)
def test_mistakes_come_back_as_sentences(
    registered: Any, log_dir: Path, options: dict[str, str], message: str
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match=message):
        load(registered, log_dir, **options).count()


def test_a_missing_path_is_refused(registered: Any, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="every executor have to see it"):
        load(registered, tmp_path / "nowhere", subscribe="t").count()


def test_a_damaged_batch_fails_the_task_with_its_position_or_is_skipped(
    registered: Any, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    with kstore.open(tmp_path / "store") as store:
        log = store.create_topic("t")[0]
        for n in range(20):
            log.append(b"value %d" % n)
        hurt = log.read(7, 1)
    path = tmp_path / "store" / "t-0" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[hurt.position + 70] ^= 1
    write_damaged(path, data)
    with pytest.raises(PySparkException) as error:
        load(registered, tmp_path / "store", subscribe="t").collect()
    assert f"file {path}, position {hurt.position}, offset 7" in str(error.value)
    bad = tmp_path / "bad"
    frame = load(
        registered, tmp_path / "store", subscribe="t", mode="PERMISSIVE", badRecordsPath=bad
    )
    for _ in range(2):  # reported once, however often it is read
        rows = frame.collect()
        assert sorted(row.offset for row in rows) == [n for n in range(20) if n != 7]
    (line,) = registered.read.json(str(bad)).collect()
    assert (line.topic, line.partition, line.offset, line.path) == ("t", 0, 7, str(path))


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_directories_of_brokers_as_kafka_s_consumer_read_them(
    registered: Any, broker_set: BrokerSet, isolation: str
) -> None:
    """All topics of a broker in one frame; values too long to be listed compare by their hash."""
    expected = {}
    for partition in broker_set.partitions:
        committed = set(partition.committed_offsets)
        for each in partition.records:
            if isolation == "read_uncommitted" or each.offset in committed:
                expected[partition.topic, partition.partition, each.offset] = (
                    each.timestamp,
                    TYPES[each.timestamp_type],
                    each.key,
                    each.value,
                    [(name, value) for name, value in each.headers] or None,
                )
    topics = ",".join(sorted({partition.topic for partition in broker_set.partitions}))
    frame = load(
        registered, broker_set.log_dir, subscribe=topics, isolation=isolation, includeHeaders="true"
    )
    found = {}
    for row in frame.selectExpr("*", "unix_millis(timestamp) ms").collect():
        headers = row.headers and [(each.key, as_bytes(each.value)) for each in row.headers]
        position = (row.topic, row.partition, row.offset)
        assert position not in found
        found[position] = (
            row.ms,
            row.timestampType,
            as_bytes(row.key),
            as_bytes(row.value),
            headers,
        )
    assert found.keys() == expected.keys()
    assert [position for position in found if found[position] != expected[position]] == []


def as_bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
