"""The sink in a real Spark: rows there and back, one publication, failed jobs, streams."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import kstore
import kstore.spark
from kstore._native.format.murmur2 import partition_for_key
from kstore.spark import read


def leftover_files(path: Path) -> list[str]:
    return sorted(each.name for each in path.rglob("kstore.*") if each.name != "kstore.topics")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    with kstore.open(tmp_path / "store") as store:
        store.create_topic("orders", 3)
    return tmp_path / "store"


def write(frame: Any, path: Path, **options: object) -> None:
    writer = frame.write.format("kstore").mode("append")
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save(str(path))


def test_rows_are_there_and_back(registered: Any, log_dir: Path) -> None:
    frame = registered.range(0, 5000, 1, 3).selectExpr(
        "cast(concat('key ', id % 50) as binary) key",
        "case when id % 10 = 0 then null else cast(concat('value ', id) as binary) end value",
        "case when id % 3 = 0 then array("
        "named_struct('key', 'n', 'value', cast(string(id) as binary)), "
        "named_struct('key', 'none', 'value', cast(null as binary))) else null end headers",
        "timestamp_millis(1400000000000 + id) timestamp",
        "id",
    )
    write(frame, log_dir, topic="orders", compression="lz4")
    rows = {row.id: row for row in frame.collect()}
    with kstore.open(log_dir, mode="r") as store:
        got = [record for log in store["orders"] for record in log]
        assert len(got) == 5000
        for number, log in enumerate(store["orders"]):
            assert {partition_for_key(each.key, 3) for each in log} == {number}
    for record in got:
        row = rows.pop(record.timestamp - 1400000000000)
        assert record.key == bytes(row.key)
        assert record.value == (None if row.value is None else bytes(row.value))
        assert len(record.headers) == (0 if row.headers is None else 2)
        if row.headers:
            assert record.headers[0] == ("n", bytes(row.headers[0].value))
            assert record.headers[1] == ("none", None)
    assert not rows
    assert leftover_files(log_dir) == []
    back = read(registered, log_dir, topics="orders", columns=["value", "timestamp"])
    assert back.count() == 5000


def test_a_bad_write_says_what_to_do(registered: Any, log_dir: Path) -> None:
    frame = registered.sql("select 'v' value")
    for options, message in (
        ({}, "option 'topic'"),
        ({"topic": "nowhere"}, "numPartitions"),
        ({"topic": "orders", "compresion": "lz4"}, "is 'compression' meant"),
        ({"topic": "orders", "compression": "rar"}, "none, gzip, snappy, lz4, zstd"),
    ):
        with pytest.raises(Exception, match=message):
            write(frame, log_dir, **options)
    with pytest.raises(Exception, match="'headers' meant"):
        write(registered.sql("select 'v' value, 1 headrs"), log_dir, topic="orders")
    with pytest.raises(Exception, match="append"):
        frame.write.format("kstore").option("topic", "orders").mode("overwrite").save(str(log_dir))
    with kstore.open(log_dir, mode="r") as store:
        assert sum(store["orders"].end_offsets().values()) == 0
    assert leftover_files(log_dir) == []


def test_a_thread_of_one_s_own_finds_the_format(registered: Any, log_dir: Path) -> None:
    frame = registered.sql("select 'v' value")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(kstore.spark.write, frame, log_dir, topic="orders").result()
        rows = pool.submit(lambda: read(registered, log_dir, topics="orders").count())
        assert rows.result() == 1


def test_topics_of_a_column_are_created(registered: Any, log_dir: Path) -> None:
    frame = registered.range(0, 100).selectExpr(
        "string(id) value", "concat('t', id % 3) topic", "int(id % 2) partition"
    )
    write(frame, log_dir, numPartitions=2)
    with kstore.open(log_dir, mode="r") as store:
        for n in range(3):
            got = {int(each.value) for log in store[f"t{n}"] for each in log}
            assert got == set(range(n, 100, 3))
            assert all(int(each.value) % 2 == 1 for each in store[f"t{n}"][1])


def test_failed_tasks_leave_nothing_and_retries_write_once(registered: Any, log_dir: Path) -> None:
    from pyspark.sql import functions as f

    def fail_at_first(n: int) -> str:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if n == 900 and context.attemptNumber() < 2:
            raise RuntimeError("planted")
        return str(n)

    fails_at_first = f.udf(fail_at_first, "string", useArrow=False)
    frame = registered.range(0, 1000, 1, 2).select(fails_at_first("id").alias("value"))
    write(frame, log_dir, topic="orders", batchSize=256)
    with kstore.open(log_dir, mode="r") as store:
        got = sorted(int(each.value) for log in store["orders"] for each in log)
    assert got == list(range(1000))
    assert leftover_files(log_dir) == []
    always = registered.range(0, 1000, 1, 2).selectExpr(
        "if(id = 900, string(raise_error('planted')), string(id)) value"
    )
    with pytest.raises(Exception, match="planted"):
        write(always, log_dir, topic="orders")
    with kstore.open(log_dir, mode="r") as store:
        assert sum(store["orders"].end_offsets().values()) == 1000


def test_a_held_store_is_waited_for_and_reported(registered: Any, log_dir: Path) -> None:
    frame = registered.sql("select 'v' value")
    with kstore.open(log_dir) as store:
        store["orders"].append(b"mine")
        with pytest.raises(Exception, match="lockTimeout"):
            write(frame, log_dir, topic="orders", lockTimeout="300ms")
        assert sum(store["orders"].end_offsets().values()) == 1
    assert leftover_files(log_dir) == []


def test_a_stream_is_written_once_however_often_it_runs(
    registered: Any, log_dir: Path, tmp_path: Path
) -> None:
    with kstore.open(tmp_path / "from") as store:
        store.create_topic("in")[0].extend([b"%d" % n for n in range(100)])
    checkpoint = tmp_path / "checkpoint"

    def run() -> None:
        frame = (
            registered.readStream.format("kstore")
            .option("subscribe", "in")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 40)
            .load(str(tmp_path / "from"))
        )
        query = (
            frame.select("value")
            .writeStream.format("kstore")
            .option("topic", "orders")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start(str(log_dir))
        )
        assert query.awaitTermination(120)

    def there() -> list[int]:
        with kstore.open(log_dir, mode="r") as store:
            return sorted(int(each.value) for log in store["orders"] for each in log)

    run()
    assert there() == list(range(100))
    last = max(checkpoint.glob("commits/[0-9]*"), key=lambda path: int(path.name))
    last.unlink()  # as if the driver had died behind the sink's commit
    for each in checkpoint.glob("commits/.*crc"):
        each.unlink()
    run()
    assert there() == list(range(100))
    assert [name.rsplit(".", 1)[0] for name in leftover_files(log_dir)] == ["kstore.published"]
    with kstore.open(tmp_path / "from") as store:
        store["in"][0].extend([b"%d" % n for n in range(100, 150)])
    run()
    assert there() == list(range(150))


def test_a_write_id_in_foreach_batch_is_that_of_one_query(
    registered: Any, log_dir: Path, tmp_path: Path
) -> None:
    """Its tasks know the query: a new checkpoint is refused, as is a thread that knows none."""
    with kstore.open(tmp_path / "from") as store:
        store.create_topic("in")[0].extend([b"%d" % n for n in range(15)])

    def run(write: Any, checkpoint: str) -> None:
        frame = (
            registered.readStream.format("kstore")
            .option("subscribe", "in")
            .option("startingOffsets", "earliest")
            .load(str(tmp_path / "from"))
        )
        query = (
            frame.select("value")
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    def write_batch(batch: Any, number: int) -> None:
        kstore.spark.write(batch, log_dir, topic="orders", writeId="w", writeBatch=number)

    def write_in_thread(batch: Any, number: int) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(write_batch, batch, number).result()

    def there() -> int:
        with kstore.open(log_dir, mode="r") as store:
            return sum(store["orders"].end_offsets().values())

    run(write_batch, "one")
    for commit in (tmp_path / "one").glob("commits/*0*"):
        commit.unlink()  # as if the driver had died behind the sink's commit
    run(write_batch, "one")
    assert there() == 15
    with pytest.raises(Exception, match="the writeId is that of the streaming query"):
        run(write_batch, "two")
    with pytest.raises(Exception, match="the query is unknown"):
        run(write_in_thread, "three")
    assert there() == 15


def test_rows_that_differ_under_a_write_id_are_refused(registered: Any, log_dir: Path) -> None:
    frame = registered.range(0, 15, 1, 3).selectExpr("string(id) value")
    for each in (frame, frame.repartition(2).orderBy("value")):
        kstore.spark.write(each, log_dir, topic="orders", writeId="w")
    with pytest.raises(Exception, match=r"has other rows.*rebindWriteId"):
        kstore.spark.write(frame.selectExpr("'x' value"), log_dir, topic="orders", writeId="w")
    with kstore.open(log_dir, mode="r") as store:
        assert sum(store["orders"].end_offsets().values()) == 15
