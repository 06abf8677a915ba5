"""Spark sources for the contests: a store of 100-byte records, and ready-made Arrow batches.

The ready-made batches are the ceiling: a Python source that only returns them. They are in mapped
Arrow files, so that every batch is in different memory, as in a real source. Everything is read
from page cache by ``local[2]``.
"""

import gc
import os
import random
import sys
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import kstore
from kstore.spark import plan, register
from kstore.spark.source.options import parse_source
from kstore.spark.source.read_task import run_task
from kstore.spark.source.schema import to_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SPARK_VERSION = pyspark.__version__
TOPIC, PARTITIONS, KEYS = "events", 2, 100_000
KEY_SIZE, VALUE_SIZE = 12, 88
_POOL = 1 << 22
_FIRST = 1_700_000_000_000  # milliseconds


def fill(path: Path, records: int, first_ms: int = _FIRST) -> int:
    """Write a store with one topic of two partitions; returns how many keys it has.

    In each partition every record is a millisecond later than the previous one.
    """
    pool = random.Random(0).randbytes(_POOL)

    def of(partition: int) -> Iterator[kstore.Record]:
        for n in range(records // PARTITIONS):
            at = n * 97 % (_POOL - VALUE_SIZE)
            key = b"key-%08d" % (n % KEYS * PARTITIONS + partition)
            yield kstore.Record(0, first_ms + n, key, pool[at : at + VALUE_SIZE])

    with kstore.open(path) as store:
        for partition, log in enumerate(store.create_topic(TOPIC, PARTITIONS)):
            log.extend(of(partition))
    return keys(records)


def keys(records: int) -> int:
    """How many keys a store of so many records has."""
    return PARTITIONS * min(records // PARTITIONS, KEYS)


def middle(records: int) -> tuple[int, int, int]:
    """The bounds in ms of the middle hundredth of the records, and its record count."""
    each = records // PARTITIONS
    since, count = _FIRST + each // 2, max(each // 100, 1)
    return since, since + count, count * PARTITIONS


def range_sizes(store: Path, since: int, until: int) -> tuple[int, int, int, int]:
    """Bytes of the batches of a time range: held, planned, read by tasks, and read by planning.

    Read bytes are those that the kernel counts for this process (``rchar``), of all files.
    """
    options = {"path": str(store), "subscribe": TOPIC}
    options |= {"startingTimestamp": str(since), "endingTimestamp": str(until)}
    wanted = parse_source(options)
    for _ in range(2):  # modules and other files that are read only once come first
        counted = [_bytes_read()]
        planned = plan(store, topics=TOPIC, since=since, until=until, parallelism=2)
        counted.append(_bytes_read())
        for task in planned.tasks:
            for _ in run_task(wanted, wanted.columns, task):
                pass
        counted.append(_bytes_read())
    start, stop = since - _FIRST, until - _FIRST  # a record a millisecond
    held = sum(
        size
        for partition in range(PARTITIONS)
        for path in (store / f"{TOPIC}-{partition}").glob("*.log")
        for size, first, last in _batches(path)
        if last >= start and first < stop
    )
    looked, read = counted[1] - counted[0], counted[2] - counted[1]
    return held, planned.size, read, looked


def index_interval(store: Path) -> int:
    """Bytes of log between two entries of an index: the setting's, or the largest batch."""
    with kstore.open(store, mode="r") as opened:
        least = opened[TOPIC].config.index_interval_bytes
    paths = (store / f"{TOPIC}-0").glob("*.log")
    return max(least, *(size for path in paths for size, _, _ in _batches(path)))


def _batches(path: Path) -> Iterator[tuple[int, int, int]]:
    """Size, first and last offset of each batch, by its header alone."""
    position, end = 0, path.stat().st_size
    with path.open("rb", buffering=0) as file:
        while position < end:
            file.seek(position)
            head = file.read(27)
            first, size = int.from_bytes(head[:8], "big"), 12 + int.from_bytes(head[8:12], "big")
            yield size, first, first + int.from_bytes(head[23:27], "big")
            position += size


def _bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def make_ready(store: Path, target: Path) -> None:
    """Write the batches of each task that reads the store into an Arrow file."""
    import pyarrow as pa

    target.mkdir(parents=True)
    wanted = parse_source({"path": str(store), "subscribe": TOPIC})
    for number, task in enumerate(plan(store, topics=TOPIC, parallelism=2).tasks):
        batches = run_task(wanted, wanted.columns, task)
        first = next(batches)
        with pa.ipc.new_file(str(target / f"{number:04}.arrow"), first.schema) as writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)


class ReadyFile(InputPartition):
    """One task's batches."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class ReadyReader(DataSourceReader):
    """Returns mapped Arrow batches with the selected columns."""

    def __init__(self, path: str, columns: Sequence[str]) -> None:
        self._path = path
        self._columns = list(columns)

    def partitions(self) -> list[InputPartition]:
        return [ReadyFile(str(path)) for path in sorted(Path(self._path).glob("*.arrow"))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        import pyarrow as pa

        gc.collect()
        gc.freeze()  # as in kstore's tasks
        assert isinstance(partition, ReadyFile)
        with pa.memory_map(partition.path) as source:
            file = pa.ipc.open_file(source)
            for number in range(file.num_record_batches):
                yield file.get_batch(number).select(self._columns)


class ReadyMade(DataSource):
    """``format("ready-made")``."""

    @classmethod
    def name(cls) -> str:
        return "ready-made"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    def schema(self) -> str:
        return to_ddl(parse_source({"path": "/", "subscribe": TOPIC}).columns)

    def reader(self, schema: "StructType") -> DataSourceReader:
        return ReadyReader(self.options["path"], schema.fieldNames())


@contextmanager
def session(jars: Sequence[Path] = ()) -> Iterator["SparkSession"]:
    """A session with two threads, without UI, and with both formats registered."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Python workers import kstore, and this module for its data source.
    paths = [str(Path(kstore.__file__).parents[1]), str(Path(__file__).parent)]
    if others := os.environ.get("PYTHONPATH"):
        paths.append(others)
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    builder = SparkSession.builder
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.jars": ",".join(map(str, jars)),
    }.items():
        builder = builder.config(name, value)
    spark = builder.master("local[2]").appName("kstore-bench").getOrCreate()
    try:
        spark.sparkContext.setLogLevel("ERROR")
        register(spark)
        spark.dataSource.register(ReadyMade)
        yield spark
    finally:
        spark.stop()


def load(
    spark: "SparkSession", kind: str, source: Path | str, columns: str = "", **options: object
) -> "DataFrame":
    """A frame of all records, with the named columns or all of them.

    ``kind`` is kstore, ready-made or kafka; ``source`` a directory, or a broker's address.
    """
    texts = {name: str(value) for name, value in options.items()}
    reader = spark.read.format(kind).option("subscribe", TOPIC).options(**texts)
    if columns and kind != "kafka":
        reader = reader.schema(to_ddl(tuple(columns.split(","))))
    if kind == "kafka":
        return reader.option("kafka.bootstrap.servers", str(source)).load()
    return reader.load(str(source))


def scan(frame: "DataFrame") -> None:
    """Bring every row into the JVM and drop it."""
    frame.write.format("noop").mode("overwrite").save()


def count(frame: "DataFrame") -> int:
    """Count the rows by ``count()``, for which Spark reads all columns."""
    return int(frame.count())


def groups(frame: "DataFrame") -> int:
    """Count the records by key; returns how many keys there are."""
    return int(frame.groupBy("key").count().count())


def fingerprint(frame: "DataFrame") -> tuple[int, int]:
    """The row count and the sum of a hash over all columns of each row."""
    from pyspark.sql.functions import col, count, hash, sum

    names = [col(name) for name in frame.columns]
    row = frame.agg(count("*"), sum(hash(*names).cast("bigint"))).collect()[0]
    return int(row[0]), int(row[1])
