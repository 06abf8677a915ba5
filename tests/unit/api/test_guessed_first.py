"""What a programmer tries first, and now works: names and arguments of Kafka's clients."""

import asyncio
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import Position, Record, Store, StoreConfig
from kstore.client.partitioner import as_partitioner
from kstore.errors import (
    DirectoryNotFoundError,
    GroupIdNotFoundError,
    InvalidConfigError,
    ProducerFencedError,
    UnknownTopicOrPartitionError,
)

QUIET = StoreConfig(background=False)
T = 1_700_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path / "data", config=QUIET) as opened:
        opened.create_topic("orders", 2).extend([(b"a", b"1"), (b"b", b"2")])
        yield opened


def test_a_table_with_headers_is_written_as_parquet(store: Store, tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    topic = store.create_topic("headed", partitions=2)
    for n in range(4):
        topic.append(b"%d" % n, headers={"by": b"web", "empty": None}, partition=n % 2)
    for owner in (topic, topic[0], topic[0][-1:]):
        parquet.write_table(owner.to_arrow(), tmp_path / "written.parquet")
        read = parquet.read_table(tmp_path / "written.parquet")
        assert read.num_rows == owner.to_arrow().num_rows
        assert read.column("headers").to_pylist()[0] == [
            {"key": "by", "value": b"web"},
            {"key": "empty", "value": None},
        ]


def test_the_batches_of_a_log_by_their_headers(store: Store) -> None:
    log = store.create_topic("batched", config={"segment.ms": 1 << 42})[0]
    log.extend([Record(value=b"v" * 100, timestamp=T + n) for n in range(30)])
    with store.producer("batched", enable_idempotence=True, compression="lz4") as producer:
        for n in range(3):
            producer.send(b"%d" % n, timestamp=T + 100 + n)
    with store.transaction("t") as transaction:
        transaction.send("batched", b"in a transaction")
    batches = list(log.batches())
    assert sum(batch.count for batch in batches if not batch.is_control) == 34
    assert [batch.is_control for batch in batches][-2:] == [False, True]
    assert batches[-2].is_transactional
    plain, sent = batches[0], next(each for each in batches if each.compression == "lz4")
    assert (plain.base_offset, plain.compression, plain.producer_id) == (0, "none", -1)
    assert (plain.first_timestamp, plain.timestamp_type, plain.magic) == (T, "CreateTime", 2)
    assert sent.producer_id >= 0
    assert {batch.delete_horizon for batch in batches} == {-1}
    assert (sent.base_sequence, sent.producer_epoch) == (0, 0)
    assert sent.base_offset == 30
    assert [each.base_offset for each in batches[1:]] == [
        each.last_offset + 1 for each in batches[:-1]
    ]
    assert [each.position for each in batches[1:]] == [
        each.position + each.size for each in batches[:-1]
    ]
    assert batches[-1].position + batches[-1].size == log.size
    with pytest.raises(AttributeError, match="use compression"):
        _ = plain.codec


def test_batches_of_a_window_and_of_a_reader(store: Store) -> None:
    log = store.create_topic("batched", config={"segment.bytes": 2000})[0]
    for n in range(100):
        log.append(b"%d" % n)
    assert len(log.segments) > 1
    assert [batch.base_offset for batch in log[40:43].batches()] == [40, 41, 42]
    assert list(log[5:5].batches()) == []
    with kstore.open(store.paths, mode="r") as reader:
        found = [batch.base_offset for batch in reader["batched"][0].batches()]
    assert found == list(range(100))


def test_a_batch_larger_than_the_window_of_headers(store: Store) -> None:
    log = store.create_topic("large", config={"max.message.bytes": 8 << 20})[0]
    log.append(b"small")
    log.append(b"v" * (3 << 20))
    log.append(b"small")
    assert [batch.count for batch in log.batches()] == [1, 1, 1]
    assert max(batch.size for batch in log.batches()) > 3 << 20


def test_bytes_that_are_no_batch_are_reported(store: Store) -> None:
    log = store.create_topic("damaged")[0]
    log.append(b"first")
    log.append(b"second")
    first, second = log.batches()
    with open(first.path, "r+b") as file:
        file.seek(second.position + 8)  # its size
        file.write(b"\xff\xff\xff\xff")
    with pytest.raises(kstore.CorruptRecordError, match="no batch begins here") as caught:
        list(log.batches())
    assert caught.value.position == second.position


def test_a_delivery_is_kafkas_record_metadata(store: Store) -> None:
    with store.producer() as producer:
        metadata = producer.send("orders", b"3", partition=1, timestamp=T).result(30)
        assert (metadata.topic, metadata.partition, metadata.timestamp) == ("orders", 1, T)
        assert metadata == Position(1, metadata.offset)
        assert pickle.loads(pickle.dumps(metadata)) == metadata
        assert "topic='orders'" in repr(metadata)
    with store.producer("orders", acks=0) as producer:
        metadata = producer.send(b"4", partition=0).result()
        assert (metadata.topic, metadata.offset, metadata.timestamp) == ("orders", -1, -1)


def test_records_of_a_consumer_know_their_partition(store: Store) -> None:
    with store.consumer("orders", group_id="g", enable_auto_commit=False, timeout=0) as consumer:
        records = list(consumer.records())
        consumer.seek_to_beginning()
        polled = consumer.poll()
    assert {(record.topic, record.partition) for record in records} == {
        ("orders", log.partition) for log in store["orders"] if log.end_offset
    }
    for (topic, partition), batch in polled.items():
        assert {(record.topic, record.partition) for record in batch} == {(topic, partition)}
    twin = pickle.loads(pickle.dumps(records[0]))
    assert (twin, twin.topic) == (records[0], "orders")
    assert twin == store["orders"][records[0].partition][records[0].offset]


def test_a_partition_is_a_pair_or_two_arguments(store: Store) -> None:
    with store.consumer("orders", group="g", timeout=0) as consumer:
        consumer.seek("orders", 0, 1)
        assert consumer.position("orders", 0) == consumer.position(("orders", 0)) == 1
        consumer.seek(partition=("orders", 0), offset=0)
        assert consumer.position("orders", 0) == 0
        assert consumer.committed("orders", 0) is None
        consumer.commit()
        assert consumer.committed("orders", 0) == consumer.committed(("orders", 0)) == 0
        with pytest.raises(TypeError, match=r"seek\(\('orders', 0\), 1000\)"):
            consumer.seek("orders", 0, 1, offset=2)


def test_groups_move_to_kafkas_words_and_times(store: Store) -> None:
    log = store.create_topic("timed", config={})[0]
    for n in range(4):
        log.append(b"%d" % n, timestamp=T + 1000 * n)
    store.alter_group_offsets("g", {("timed", 0): 1})
    for target, offset in (
        ("latest", 4),
        ("earliest", 0),
        (datetime.fromtimestamp(T / 1000 + 2, UTC), 2),
    ):
        store.alter_group_offsets("g", target)
        assert store.group("g").offsets[kstore.TopicPartition("timed", 0)].offset == offset
    with pytest.raises(TypeError, match="'earliest', 'latest' or an aware datetime, not 'newest'"):
        store.alter_group_offsets("g", "newest")
    with pytest.raises(GroupIdNotFoundError, match=r"offsets\('unknown', {\('orders', 0\): 0}\)"):
        store.alter_group_offsets("unknown", "earliest")
    with pytest.raises(GroupIdNotFoundError, match="no group 'gg'; did you mean 'g'"):
        store.delete_group("gg")
    group = store.group("g")
    assert repr(group) == "<kstore.ConsumerGroup 'g' as it was read: 1 committed offset, lag 2>"
    with pytest.raises(AttributeError, match=r"a group is a snapshot: store\.alter_group_offsets"):
        group.reset("earliest")


def test_a_producer_takes_kafkas_settings(store: Store) -> None:
    with store.producer(
        "orders", acks="all", retries=5, compression_type="lz4", enable_idempotence=True
    ) as producer:
        assert producer.send(b"v", partition=0).result(30).partition == 0
    assert [batch.compression for batch in store["orders"][0].batches()][-1] == "lz4"
    with pytest.raises(TypeError, match="compression and compression_type are the same"):
        store.producer("orders", compression="gzip", compression_type="lz4")
    with pytest.raises(TypeError, match="group and group_id are the same"):
        store.consumer("orders", group="a", group_id="b")
    with pytest.raises(InvalidConfigError, match="retries"):
        store.producer("orders", retries=-1)


def test_a_transactional_id_makes_a_transactional_producer(store: Store) -> None:
    first = store.producer(transactional_id="x")
    first.init_transactions()
    second = store.producer(transactional_id="x")
    second.init_transactions()
    with pytest.raises(ProducerFencedError):
        first.init_transactions()
    with second.transaction():
        second.send("orders", b"in")
    with pytest.raises(TypeError, match=r"then send\(topic, value\)"):
        store.producer("orders", transactional_id="x")
    for name in ("linger_ms", "buffer_memory", "max_block_ms"):
        settings: dict[str, Any] = {name: 1}
        with pytest.raises(TypeError, match=f"has no {name}: it appends"):
            store.producer(transactional_id="x", **settings)


def test_partitioners_by_name_and_by_another_signature(store: Store) -> None:
    topic = store.create_topic("spread", 4)
    with store.producer("spread", partitioner="round_robin") as producer:
        for _ in range(8):
            producer.send(b"v", key=b"always the same")
    assert list(topic.end_offsets().values()) == [2, 2, 2, 2]
    assert list(topic.start_offsets().values()) == [0, 0, 0, 0]
    for name in ("default", "murmur2", None):
        assert as_partitioner(name) is None
    with pytest.raises(InvalidConfigError, match="not 'sticky'"):
        store.producer("spread", partitioner="sticky")
    wrong: list[Any] = [
        lambda key, partitions: 0,
        lambda key, all_partitions, available: all_partitions[0],
        lambda key, partitions, available: 0,
        dict,
        3,
    ]
    for each in wrong:
        with pytest.raises(TypeError, match="lambda key, value, count"):
            store.producer("spread", partitioner=each)
        with pytest.raises(TypeError, match="lambda key, value, count"):
            topic.partition_by(each)
    topic.partition_by("round_robin")
    assert {topic.partition_for(b"one key") for _ in range(4)} == {0, 1, 2, 3}


def test_records_of_a_level_in_one_call(store: Store) -> None:
    with store.producer(transactional_id="t") as producer:
        producer.begin_transaction()
        producer.send("orders", b"aborted", partition=0)
        producer.flush()
        producer.abort_transaction()
    log = store["orders"][0]
    shown = [record.value for record in log.records()]
    committed = [record.value for record in log.records(isolation_level="read_committed")]
    assert shown == [*committed, b"aborted"]
    assert len(list(store["orders"].records(isolation="read_committed"))) == 2


def test_deletion_of_a_missing_topic_is_an_error_unless_missing_ok(store: Store) -> None:
    store.delete_topic("nothing", missing_ok=True)
    store.delete_topic("orders", missing_ok=True)
    assert "orders" not in store
    with pytest.raises(UnknownTopicOrPartitionError):
        store.delete_topic("orders")
    with pytest.raises(TypeError, match="use missing_ok=True"):
        store.delete_topic("orders", if_exists=True)


def test_a_directory_is_opened_as_it_is_guessed(store: Store, tmp_path: Path) -> None:
    ways: list[dict[str, Any]] = [
        {"read_only": True},
        {"readonly": True},
        {"mode": "r", "create": False},
    ]
    for options in ways:
        with kstore.open(store.paths[0], **options) as reader:
            assert not reader.writable
    missing: list[dict[str, Any]] = [{"mode": "r"}, {"create": False}]
    for options in missing:
        with pytest.raises(DirectoryNotFoundError, match=r"no such directory: kstore\.open\("):
            kstore.open(tmp_path / "nowhere", **options)
        assert not (tmp_path / "nowhere").exists()
    with kstore.open(tmp_path / "new", create=True, config=QUIET) as created:
        assert created.writable
    with pytest.raises(InvalidConfigError, match="creates nothing"):
        kstore.open(tmp_path / "new", mode="r", create=True)
    with pytest.raises(InvalidConfigError, match="nothing is emptied"):
        kstore.open(tmp_path / "new", mode="w")


def test_verify_and_repair_of_a_directory(store: Store, tmp_path: Path) -> None:
    assert store.verify("orders").batches == store["orders"].verify().batches
    with pytest.raises(TypeError, match=r"verify\(\) has no topics=: topic= is one topic"):
        store.verify(topics=["orders"])
    store.close()
    report = kstore.verify(store.paths[0])
    assert report.ok
    assert report.bytes == sum(log.stat().st_size for log in Path(store.paths[0]).glob("*/*.log"))
    from kstore.verify.partition import VerifyReport

    assert isinstance(report, VerifyReport)
    with pytest.raises(TypeError, match=r"kstore.repair\('data', 'fixed'\)"):
        kstore.repair(store.paths[0])
    assert kstore.repair(store.paths[0], tmp_path / "fixed").ok
    report = kstore.verify(tmp_path / "fixed")
    assert (report.ok, report.warning_count, report.recovery_due) == (True, 0, [])
    assert (tmp_path / "fixed" / ".kafka_cleanshutdown").exists()
    with kstore.open(tmp_path / "fixed", config=QUIET) as fixed:
        assert len(list(fixed["orders"].records())) == 2


def test_settings_that_differ_from_the_default(store: Store) -> None:
    topic = store["orders"]
    topic.alter({"retention.ms": 5000})
    assert topic.config.overrides == {"retention.ms": 5000}


def test_a_consumer_is_iterated_in_asyncio(store: Store) -> None:
    async def read() -> list[bytes | None]:
        got: list[bytes | None] = []
        async with store.consumer("orders", group="g", timeout=5) as consumer:
            async for record in consumer.records():
                got.append(record.value)
                if len(got) == 2:
                    asyncio.get_running_loop().call_soon(store["orders"].append, b"3")
                if len(got) == 3:
                    consumer.commit()
                    return got
        return got

    assert sorted(asyncio.run(read()), key=str) == [b"1", b"2", b"3"]
    assert store.group("g").lag == 0

    async def wait_for_nothing() -> int:
        with store.consumer("orders", group="g", timeout=0) as consumer:
            return len([record async for record in consumer.records()])

    assert asyncio.run(wait_for_nothing()) == 0


def test_names_of_a_store_are_not_its_topics(store: Store) -> None:
    assert list(store) == ["orders"]
    with pytest.raises(AttributeError, match=r"for topic in store\.values\(\)"):
        [topic.partitions for topic in store]


def test_a_broker_for_a_block_of_a_test() -> None:
    from kstore.remote.store import RemoteStore

    with kstore.testing.broker({"orders": 2}) as broker:
        with RemoteStore(broker.bootstrap_servers) as cluster:
            assert {name: len(topic) for name, topic in cluster.items()} == {"orders": 2}
        path = Path(broker.store.paths[0])
    assert not path.exists()
    with kstore.testing.broker("orders") as broker:
        assert broker.store.topics == ["orders"]
    with pytest.raises(ImportError, match=r"with kstore\.testing\.broker\("):
        exec("from kstore.testing import KafkaBroker")
    assert not hasattr(kstore.testing, "nothing")
    assert {"testing", "verify", "RecordBatchInfo"} <= set(dir(kstore))


def test_a_compiled_function_under_another_name_is_named() -> None:
    with pytest.raises(AttributeError, match=r"use starts_with\(row\.value"):
        _ = kstore.jit.startswith
    assert not hasattr(kstore.jit, "nothing")


def test_a_brokers_setting_in_the_config_of_the_store_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match=r"a broker's settings: settings="):
        kstore.serve(tmp_path, port=0, config={"num.network.threads": 3})


def test_a_transaction_outside_of_its_block_names_the_calls(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        store.create_topic("t")
        begun = store.transaction("id")
        with pytest.raises(AttributeError, match=r"with store.transaction\('id'\) as transaction"):
            begun.send("t", b"x")
        with begun as transaction:
            transaction.send("t", b"x")
        assert [record.value for record in store["t"][0].head(1)] == [b"x"]


def test_a_broker_whose_arguments_are_refused_has_a_repr() -> None:
    broker = object.__new__(kstore.Broker)
    with pytest.raises(TypeError, match="a broker serves an open store"):
        broker.__init__("data")
    assert repr(broker) == "<Broker, not made>"
