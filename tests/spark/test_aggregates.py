"""``kstore.spark.aggregate``: what Spark SQL says over the same frame, group by group."""

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore.errors import CorruptRecordError, InvalidConfigError
from kstore.spark import aggregate, read
from kstore.spark.source import aggregates, merge_partial_results
from oracle import writer
from oracle.plain import PlainRecord
from support.damage import write_damaged
from support.stores import QUIET

FIRST = 1_700_000_000_000


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("aggregates") / "data"
    draw = random.Random(7)
    with kstore.open(path, config=QUIET) as store:
        for name, codec in (("orders", "none"), ("clicks", "zstd")):
            settings = kstore.LogConfig(segment_bytes=30_000, batch_compression=codec)
            topic = store.create_topic(name, 2, config=settings)
            for partition, log in enumerate(topic):
                log.extend(
                    [
                        kstore.Record(
                            0,
                            FIRST + n * 250 + draw.randrange(-2000, 2000),
                            None if n % 11 == 0 else b"key %d" % draw.randrange(40) * (n % 4),
                            None if n % 13 == 0 else b"x" * draw.randrange(60),
                        )
                        for n in range(1500 + partition)
                    ]
                )
    return path


def expected(frame: Any, shape: Any) -> list[Any]:
    """The same by Spark SQL over records."""
    from pyspark.sql import functions

    by = [
        functions.window("timestamp", f"{shape.width} milliseconds") if name == "window" else name
        for name in shape.by
    ]
    known = {
        name: f"coalesce({sql}, 0)" if how == "sum" else sql
        for name, (sql, _, how) in aggregates.MEASURES.items()
    }
    known["distinct_keys"] = "count(distinct key)"
    measured = [functions.expr(known[name]).alias(name) for name in shape.measures]
    return in_order(frame.groupBy(*by).agg(*measured).select(*shape.by, *shape.measures))


def in_order(frame: Any) -> list[Any]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.mark.parametrize(
    ("by", "window"),
    [
        (("topic", "partition"), None),
        ((), None),
        ("partition", None),
        (("window",), "1 minute"),
        (("window", "topic"), timedelta(seconds=7)),
        ("key", None),
        (("topic", "key"), None),
        (("key", "window", "partition"), 30_000),
    ],
)
@pytest.mark.parametrize("most", [1 << 20, 0])
def test_as_spark_says(
    registered: Any,
    log_dir: Path,
    by: Any,
    window: Any,
    most: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Merged by the driver, and by Spark where that would be too much for it."""
    monkeypatch.setattr(merge_partial_results, "_MAX_BYTES", most)
    names = (by,) if isinstance(by, str) else by
    width = aggregates.to_width(window) if window is not None else 0
    shape = aggregates._Shape(names, width, tuple(aggregates.MEASURES))
    found = aggregate(registered, log_dir, topics="orders,clicks", by=by, window=window)
    assert found.columns == [*names, *aggregates.MEASURES]
    frame = read(registered, log_dir, topics="orders,clicks")
    assert in_order(found) == expected(frame, shape)
    assert found.count() > (1 if names else 0)
    plan = found._jdf.queryExecution().toString()
    assert ("LocalTableScan" in plan) == (most > 0)


@pytest.mark.parametrize("most", [1 << 20, 0])
def test_distinct_keys(
    registered: Any, log_dir: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_partial_results, "_MAX_BYTES", most)
    frame = read(registered, log_dir, topics="orders")
    for by, window, measures in (
        (("window",), 60_000, ("distinct_keys", "count", "min_key_size")),
        (("topic", "partition"), None, ("distinct_keys",)),
        ((), None, ("max_timestamp", "distinct_keys")),
    ):
        shape = aggregates._Shape(by, window or 0, measures)
        found = aggregate(
            registered, log_dir, topics="orders", by=by, window=window, measures=measures
        )
        assert in_order(found) == expected(frame, shape)


class WithoutContext:
    """A session as Spark Connect has it: no ``sparkContext``."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        if name in ("sparkContext", "_sc"):
            raise AttributeError(name)
        return getattr(self._session, name)


def test_a_session_without_a_context_has_the_same_numbers(registered: Any, log_dir: Path) -> None:
    of = {"topics": "orders", "by": "key", "measures": ["count"]}
    found = aggregate(WithoutContext(registered), log_dir, **of)
    assert in_order(found) == in_order(aggregate(registered, log_dir, **of))


def recording(method: Any, session: Any, changed: list[str]) -> Any:
    """A RuntimeConfig.set that notes what is set in this session, and not in another one."""

    def set_and_note(conf: Any, name: str, value: Any) -> None:
        if conf._jconf.equals(session._jsparkSession.conf()):
            changed.append(name)
        method(conf, name, value)

    return set_and_note


def test_many_rows_are_no_part_of_a_plan(
    registered: Any, log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no setting of the session changes, at no time: other threads use it."""
    expected_rows = in_order(aggregate(registered, log_dir, topics="orders", by="key"))
    monkeypatch.setattr(merge_partial_results, "_MAX_PLAN_ROWS", 10)
    changed: list[str] = []
    monkeypatch.setattr(
        type(registered.conf), "set", recording(type(registered.conf).set, registered, changed)
    )
    found = aggregate(registered, log_dir, topics="orders", by="key")
    assert changed == []
    found.createOrReplaceTempView("keys_of_orders")
    assert registered.sql("select * from keys_of_orders").count() == len(expected_rows)
    assert in_order(found) == expected_rows
    assert found.rdd.getNumPartitions() == registered.sparkContext.defaultParallelism
    assert len(expected_rows) > 10


def test_many_keys_are_sent_in_several_requests(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = aggregates._Shape(("key",), 0, ("count",))
    source = aggregates.parse_source({"path": str(log_dir), "subscribe": "orders"})
    work, tasks = aggregates._Work(source, shape), aggregates._plan(source, shape, 2)

    def rows() -> list[tuple[bytes, int]]:
        found = [batch.to_pydict() for task in tasks for batch in work(task)]
        pairs = [zip(each["key"], each["count"], strict=True) for each in found]
        return [pair for each in pairs for pair in each]

    grouped = rows()
    monkeypatch.setattr(aggregates, "_MAX_MEMORY", 1)
    spilled = rows()
    assert len(spilled) > len(grouped)
    assert sum(count for _, count in spilled) == sum(count for _, count in grouped) == 3001


def test_times_and_offsets_prune(registered: Any, log_dir: Path) -> None:
    options: dict[str, Any] = {
        "topics": "orders",
        "since": FIRST + 100_000,
        "until": FIRST + 200_000,
    }
    shape = aggregates._Shape(("partition",), 0, ("count", "min_offset", "max_offset"))
    found = aggregate(registered, log_dir, by=shape.by, measures=shape.measures, **options)
    frame = read(registered, log_dir, **options)
    assert in_order(found) == expected(frame, shape)
    assert 300 < found.agg({"count": "sum"}).collect()[0][0] < 1500
    nothing = aggregate(registered, log_dir, topics="orders", since=FIRST * 2)
    assert nothing.collect() == []
    one = aggregate(registered, log_dir, topics="orders", since=FIRST * 2, by=()).collect()[0]
    assert (one["count"], one["key_bytes"], one["max_offset"]) == (0, 0, None)


def test_times_outside_sparks_range(registered: Any, tmp_path: Path) -> None:
    times = [FIRST, 2**62, 2**63 - 1]
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("far", 1)[0]
        for time in times:  # a client may send such ones
            log.append_as_leader(writer.batch([PlainRecord(0, time, None, b"x")]))
    found = aggregate(registered, tmp_path, topics="far", by="window", window="1 hour")
    in_us = [f"unix_micros({name}) {name}" for name in ("min_timestamp", "max_timestamp")]
    rows = found.selectExpr(
        "unix_micros(window.start) low", "unix_micros(window.end) high", "count", *in_us
    )
    most, hour = (2**63 - 1) // 1000, 3_600_000
    start = FIRST // hour * hour
    ends = most // hour * hour
    assert [tuple(row) for row in rows.orderBy("low").collect()] == [
        (start * 1000, (start + hour) * 1000, 1, FIRST * 1000, FIRST * 1000),
        (ends * 1000, most * 1000, 2, most * 1000, most * 1000),
    ]


def test_in_a_thread_of_ones_own(spark: Any, log_dir: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        counted = aggregate(spark, log_dir, topics="orders", by=(), measures="count")
        rows = pool.submit(lambda: aggregate(spark, log_dir, topics="orders", by=()).collect())
        assert rows.result()[0]["count"] == counted.collect()[0]["count"] == 3001


def test_damage_fails_or_is_skipped(registered: Any, log_dir: Path, tmp_path: Path) -> None:
    with kstore.open(tmp_path / "data", config=QUIET) as store:
        log = store.create_topic("orders", 1)[0]
        for n in range(3):
            log.extend([b"value %d" % n] * 10)
        segment = Path(log.path) / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    write_damaged(segment, data)
    with pytest.raises(Exception, match=CorruptRecordError.__name__):
        aggregate(registered, tmp_path / "data", topics="orders").collect()
    bad = tmp_path / "bad"
    kept = aggregate(
        registered, tmp_path / "data", topics="orders", mode="PERMISSIVE", badRecordsPath=str(bad)
    )
    assert kept.collect()[0]["count"] == 20
    assert len(list(bad.iterdir())) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"by": "keys"}, "there are topic, partition, window, key"),
        ({"by": ("key", "key")}, "twice"),
        ({"measures": "size"}, "min_value_size"),
        ({"measures": ()}, "empty"),
        ({"by": "window"}, "require each other"),
        ({"window": "1 hour"}, "require each other"),
        ({"by": "window", "window": "1 fortnight"}, "10 minutes"),
        ({"by": "window", "window": 0}, "10 minutes"),
        ({"by": "key", "measures": "distinct_keys"}, "omit it"),
        ({"startingOfset": 1}, "startingOffsets"),
    ],
)
def test_invalid_arguments_of_an_aggregate_are_errors(
    wrong: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        aggregate(None, tmp_path, topics="orders", **wrong)


def test_windows_in_words() -> None:
    hour = 3_600_000
    for text in ("1 hour", "60 minutes", "1h", "60 min", "3600s", " 3600000 ms ", "3600 Seconds"):
        assert aggregates.to_width(text) == hour
    assert aggregates.to_width(timedelta(days=1)) == aggregates.to_width("1 day") == 24 * hour
