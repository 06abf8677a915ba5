"""Arguments, and names of headers and columns, that are guessed: they work, or the error helps."""

import asyncio
import operator
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import kstore
from kstore import Store, StoreConfig
from kstore.record.guessed_names import OF_COLUMNS, OF_HEADERS, OF_RAGGED

QUIET = StoreConfig(background=False)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=QUIET) as opened:
        opened.create_topic("orders", 2)
        yield opened


_TOTAL = r"the new total, as in Kafka: add_partitions\(len\(topic\) \+ 2\) adds two"
_TIME = r"no argument 'timestamp_ms': use timestamp, an aware datetime or milliseconds"
_ON_DISK = r"use flush\(\) after it, or config={'flush.messages': 1}.* store\.producer\("


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda store: store["orders"][0].append(b"v", timestamp_ms=1), _TIME),
        (lambda store: store["orders"][0].append(b"v", fsync=True), _ON_DISK),
        (lambda store: store["orders"][0].append(b"v", partition=1), "a log is one partition: "),
        (lambda store: store["orders"][0].append(b"v", expected_offset=1), "log.end_offset is the"),
        (lambda store: store["orders"][0].append(b"v", shard=1), r"use append\(value, key=..."),
        (lambda store: store["orders"][0].append(b"k", b"v"), "other arguments are named: append"),
        (
            lambda store: store["orders"][0].extend([b"v"], key=b"k"),
            r"are pairs \(key, value",
        ),
        (lambda store: store["orders"][0].extend([b"v"], shard=1), "are named values, timestamp"),
        (lambda store: store["orders"][0].records(key=b"k"), "use scan.*condition in the loop"),
        (lambda store: store["orders"][0].records(shard=1), "named check_crc, .*isolation_level"),
        (lambda store: store["orders"][0].scan(since=0), r"since\(when, until\)"),
        (lambda store: store["orders"][0].view(end=0), "use stop"),
        (lambda store: store["orders"][0].since(0, stop=3), "use until"),
        (lambda store: store["orders"][0].since(start=5), r"use when, a time; .* view\(start\)"),
        (
            lambda store: operator.delitem(store["orders"].config, "retention.ms"),
            r"comes back by topic.alter\({'retention.ms': None}\)",
        ),
        (lambda store: store["orders"][0].follow(0), "are named start, timeout"),
        (lambda store: kstore.open("nothing", shard=1), "are named path, mode"),
        (lambda store: store["orders"].add_partitions(count=3), _TOTAL),
        (lambda store: store.groups("billing"), r"use group\('billing'\)"),
        (lambda store: store.consumer("orders", from_beginning=True), "auto_offset_reset='earl"),
        (lambda store: store.consumer("orders", partition=0), r"assignment=\[\('orders', 0\)\]"),
        (lambda store: kstore.Consumer("orders"), r"use store.consumer\('orders', group="),
        (lambda store: kstore.Log("orders-0"), r"kstore.open\('data'\)\['orders'\]\[0\]"),
        (lambda store: kstore.Topic("orders"), r"use kstore.open\('data'\)\['orders'\]"),
        (lambda store: b"v" in store["orders"][0], r"a log holds records, not bytes: any\("),
        (lambda store: 0 in store["orders"][0].view(), "a view holds records, not int"),
        (lambda store: b"k" in store["orders"], "a topic holds logs, not bytes: 0 in"),
        (lambda store: store["orders"].latest()["k"], r"keys are bytes, not str: b'k'"),
        (lambda store: store["orders"].latest().get("k"), "keys are bytes, not str"),
        (lambda store: "k" in store["orders"].latest(), "keys are bytes, not str"),
        (lambda store: store["orders"][0].since(timedelta(hours=1)), r"datetime.now\(UTC\) - time"),
        (lambda store: operator.delitem(store, "orders"), r"use store.delete_topic\('orders'\)"),
        (lambda store: operator.setitem(store, "new", 1), r"store.create_topic\('new'"),
        (
            lambda store: store.consumer("orders", timeout=0).seek_to_end("orders"),
            r"a partition is a pair, not 'orders': without arguments",
        ),
        (lambda store: store["orders"][0][datetime.now(UTC) :], r"log.since\(when, until\)"),
        (lambda store: store["orders"][0].head(n=3), "use count, or the number alone"),
        (lambda store: store["orders"][0].view().tail(n=3), "use count, or the number alone"),
        (lambda store: store["orders"][0].scan(batch_size=3), "up to some ten thousand records"),
        (
            lambda store: store["orders"].count(5),
            "where is a function of a row, .* int",
        ),
        (lambda store: list(store["orders"][0].scan("offset > 5")), "is a function of a row.* str"),
        (lambda store: store["orders"].to_pandas(isolation_level="read_committed"), "use view"),
        (lambda store: store["orders"][0].tail(isolation_level="read_committed"), "use view"),
        (lambda store: store.alter_group_offsets("g", "earliest", topic="orders"), "{.'orders', 0"),
        (lambda store: store["orders"].delete_records(), "or -1 for all records"),
        (lambda store: store["orders"].append(b"v", timestamp_ms=1), _TIME),
        (lambda store: store["orders"].append(b"v", b"k"), r"append\(value, key=...\)"),
        (lambda store: store["orders"].append(b"v", topic="x"), "has no argument 'topic'"),
        (lambda store: store["orders"].append(b"v", fsync=True), _ON_DISK),
        (lambda store: store["orders"].extend([b"v"], durable=True), _ON_DISK),
        (lambda store: store["orders"][0].extend([b"v"], acks="all"), _ON_DISK),
        (lambda store: kstore.open("no directory", durability="fsync"), _ON_DISK),
        (lambda store: store["orders"][0].records(skip_corrupt=True), "use on_damage='skip'"),
        (lambda store: store["orders"].records(start=5), r"use log\[start:stop\], a view"),
        (lambda store: store["orders"][0].view().records(limit=5), r"use head\(100\), a view"),
        (lambda store: store.topic("x", create=True), r"use create_topic\(name, partitions=4"),
        (lambda store: store.apply_retention(dry_run=True), "has no dry_run=: omit it"),
        (lambda store: store["orders"].apply_retention(dry_run=True), "omit it; log.segments"),
        (
            lambda store: store["orders"][0].offset_at("2024-01-01"),
            r"not str: datetime\.fromisoformat\(text\)",
        ),
    ],
)
def test_arguments_of_kafkas_clients_are_errors_with_advice(
    store: Store, call: Callable[[Any], object], advice: str
) -> None:
    with pytest.raises(TypeError, match=advice):
        call(store)
    assert store.end_offsets() == {("orders", 0): 0, ("orders", 1): 0}


@pytest.mark.parametrize(
    ("words", "named", "advice"),
    [
        ((), {"timestamp_ms": 1}, _TIME),
        ((), {"callback": print}, r"use on_delivery=f: f\(error, position\)"),
        ((), {"offset": 3}, "the log assigns the offset"),
        ((), {"compression": "lz4"}, "use one of key, headers, timestamp, partition"),
        ((b"key",), {}, "key, headers and the other arguments are named: send"),
    ],
)
def test_arguments_of_kafkas_producers_are_errors_with_advice(
    store: Store, words: tuple[Any, ...], named: dict[str, Any], advice: str
) -> None:
    with store.producer() as producer, pytest.raises(TypeError, match=advice):
        producer.send("orders", b"v", *words, **named)
    with store.producer("orders") as single, pytest.raises(TypeError, match=advice):
        single.send(b"v", *words, **named)
    with store.transaction("t") as transaction, pytest.raises(TypeError, match=advice):
        transaction.send("orders", b"v", *words, **named)
    assert store.end_offsets() == {("orders", 0): 0, ("orders", 1): 0}


def test_headers_and_columns_give_advice_for_names_that_they_lack(store: Store) -> None:
    log = store["orders"][0]
    log.append(b"v", key=b"k", headers=[("trace", b"1"), ("trace", b"2")])
    headers, columns = log[0].headers, next(log.scan())
    owners: tuple[tuple[Any, dict[str, str]], ...] = (
        (headers, OF_HEADERS), (columns, OF_COLUMNS), (columns.values, OF_RAGGED),
    )  # fmt: skip
    for owner, names in owners:
        for name, instead in names.items():
            with pytest.raises(AttributeError, match=f"has no attribute '{name}': ") as caught:
                getattr(owner, name)
            assert str(caught.value).endswith(instead)
    with pytest.raises(TypeError, match="take one row, not a Ragged: use scan"):
        kstore.jit.starts_with(columns.values, b"v")
    assert dict(headers) == {"trace": b"2"}  # dict() looks for keys()
    assert [value for name, value in headers if name == "trace"] == [b"1", b"2"]


def test_replace_gives_a_record_with_another_value(store: Store) -> None:
    log = store["orders"][0]
    log.append(b"v", key=b"k", headers={"trace": b"1"}, timestamp=7)
    changed = log[0].replace(value=b"V", offset=-1)
    assert (changed.key, changed.value, changed.timestamp) == (b"k", b"V", 7)
    assert changed.headers["trace"] == b"1"
    assert log[0].replace() == log[0]
    log.extend(record.replace(value=b"again") for record in log.head(1))
    assert log[1].value == b"again"
    with pytest.raises(TypeError, match=r"replace\(\) takes offset, .*, not 'topic'"):
        log[0].replace(topic="x")
    with pytest.raises(TypeError, match="a value is bytes"):
        log[0].replace(value="text")


def test_a_block_of_columns_is_an_arrow_batch_and_a_data_frame(store: Store) -> None:
    log = store["orders"][0]
    log.extend([b"%d" % number for number in range(100)])
    tables = [pyarrow.Table.from_batches([columns.to_arrow()]) for columns in log.scan()]
    assert pyarrow.concat_tables(tables).equals(log.to_arrow())
    (frame,) = [columns.to_pandas() for columns in log.scan()]
    assert frame.equals(log.to_pandas())


def test_topics_are_listed_without_kafkas_internal_topics(store: Store) -> None:
    store.alter_group_offsets("billing", {("orders", 0): 0})
    with store.transaction("t") as transaction:
        transaction.send("orders", b"v")
    assert store.topics == ["orders"]
    assert store.internal_topics == ["__consumer_offsets", "__transaction_state"]
    assert sorted([*store.topics, *store.internal_topics]) == list(store)
    with kstore.open(store.paths[0], "r") as reader:
        assert (reader.topics, reader.internal_topics) == (store.topics, store.internal_topics)


def test_a_commit_may_be_awaited(store: Store) -> None:
    async def read() -> None:
        async with store.consumer("orders", group="billing", timeout=0) as consumer:
            async for _ in consumer.records():
                await consumer.commit()

    store["orders"].extend([b"1", b"2"])
    asyncio.run(read())
    assert store.group("billing").lag == 0


def test_an_append_to_a_topic_may_be_awaited_and_a_poll_names_asyncio_s_call(store: Store) -> None:
    consumer: Any = store.consumer("orders")

    async def program() -> None:
        assert await store["orders"].append(b"v", partition=1) == (1, 0)
        with pytest.raises(TypeError, match=r"poll\(\) is for threads: .*to_thread\("):
            await consumer.poll()

    asyncio.run(program())
    assert store.end_offsets() == {("orders", 0): 0, ("orders", 1): 1}


def test_retention_of_a_store_counts_the_segments_that_it_drops(store: Store) -> None:
    topic = store.create_topic("old", config={"retention.ms": 1000})
    for _ in range(3):
        topic[0].append(b"v", timestamp=1)
        topic[0].roll()
    report = store.apply_retention()
    assert report == 3
    assert sum(report.start_offsets.values()) > 0
    starts = ", ".join(f"{tp[0]}-{tp[1]} starts at {n}" for tp, n in report.start_offsets.items())
    assert report.summary == f"deleted 3 segments, {report.size:,} bytes: {starts}"
    assert report.size > 0
    assert repr(report) == f"<kstore.RetentionReport: {report.summary}>"
    assert (f"{report} segments", str(report), f"{report:d}") == ("3 segments", "3", "3")
    assert (store.apply_retention(), store.apply_retention().summary) == (0, "nothing was deleted")


def test_kstore_spark_needs_no_import_of_its_own() -> None:
    assert kstore.spark.__name__ == "kstore.spark"
    assert "spark" in dir(kstore)
