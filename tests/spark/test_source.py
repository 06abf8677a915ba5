"""The batch source in a real Spark: columns, options, plans, damage."""

from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.spark import read


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def load(spark: Any, path: Path, **options: object) -> Any:
    reader = spark.read.format("kstore")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(str(path))


def test_columns_are_those_of_the_connector(registered: Any, place: Path) -> None:
    frame = load(registered, place, subscribe="orders")
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


def test_headers_when_included(registered: Any, place: Path) -> None:
    frame = load(registered, place, subscribe="orders", includeHeaders="true")
    rows = frame.where("partition = 0").orderBy("offset").limit(4).collect()
    assert rows[0].headers[0].key == "n"
    assert bytes(rows[0].headers[0].value) == b"0"
    assert rows[0].headers[1].value is None
    assert [row.headers is None for row in rows] == [False, True, True, False]


def test_columns_option_and_declared_schema_send_less(registered: Any, place: Path) -> None:
    assert read(registered, place, topics="orders", columns=["offset"]).columns == ["offset"]
    declared = (
        registered.read.format("kstore")
        .schema("offset bigint, key binary")
        .option("subscribe", "orders")
        .load(str(place))
    )
    assert declared.columns == ["offset", "key"]
    assert declared.count() == 1000
    assert {row.key.decode() for row in declared.distinct().collect()} == {
        f"key {n}" for n in range(7)
    }


def test_null_and_empty_values(registered: Any, place: Path) -> None:
    values = load(registered, place, subscribe="clicks").orderBy("offset").collect()
    assert values[0].value is None
    assert bytes(values[1].value) == b""
    assert bytes(values[2].value) == b"x" * 5000
    assert {row.key for row in values} == {None}
