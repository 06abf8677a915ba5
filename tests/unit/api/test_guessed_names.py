"""Names of Kafka's clients and of Python's containers, on stores, topics, logs and groups."""

import asyncio
import copy
import pickle
import pydoc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import LogConfig, Store, StoreConfig
from kstore.compaction.compaction_report import CompactionReport
from kstore.errors import (
    GroupConflictError,
    GroupIdNotFoundError,
    InvalidConfigError,
    KStoreError,
    UnknownSettingError,
)
from kstore.hints import kafka_names, missing_names

QUIET = StoreConfig(background=False)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=QUIET) as opened:
        opened.create_topic("orders", 2).extend([(b"a", b"1"), (b"b", b"2")])
        opened.alter_group_offsets("dashboards", {("orders", 0): 0})
        yield opened


def owners(store: Store) -> Iterator[tuple[Any, dict[str, str]]]:
    group = store.group("dashboards")
    yield store, kafka_names.OF_STORES
    yield store["orders"], kafka_names.OF_TOPICS
    yield store["orders"][0], kafka_names.OF_LOGS
    yield store["orders"].partitions[0], kafka_names.OF_PARTITION_NUMBERS
    yield store["orders"][0].view(), kafka_names.OF_VIEWS
    yield store["orders"].config, kafka_names.OF_CONFIGS
    yield group, kafka_names.OF_GROUPS
    yield store.verify(), kafka_names.OF_REPORTS
    yield store.topics, kafka_names.OF_TOPIC_NAMES
    yield CompactionReport(first_dirty_offset=0, end_offset=0), kafka_names.OF_COMPACTION_REPORTS
    yield group.offsets["orders", 0], kafka_names.OF_COMMITTED_OFFSETS


def test_a_name_of_kafkas_clients_is_an_error_with_kstores_name(store: Store) -> None:
    for owner, names in owners(store):
        members = {name: getattr(type(owner), name, None) for name in names}
        assert all(each is None or missing_names.is_answer(each) for each in members.values())
        for name, instead in names.items():
            with pytest.raises(AttributeError) as caught:
                getattr(owner, name)
            kind = type(owner).__name__
            assert str(caught.value) == f"{kind!r} object has no attribute {name!r}: {instead}"


def test_dir_lists_no_name_that_only_raises_an_error(store: Store) -> None:
    for owner, names in owners(store):
        listed = dir(owner)
        assert not [name for name in listed if name in names and not hasattr(owner, name)]
        assert "__class__" in listed
    assert {"append", "partitions", "latest"} <= set(dir(store["orders"]))


def test_help_shows_the_answer_behind_a_name() -> None:
    shown = pydoc.render_doc(kstore.Topic, renderer=pydoc.plaintext)
    assert "produce = <not in kstore: use append()>" in shown
    assert "_Answer" not in shown


def test_other_names_are_missing_as_usual(store: Store) -> None:
    for owner, _ in owners(store):
        assert not hasattr(owner, "nothing")
        assert getattr(owner, "_nothing", 3) == 3


def test_a_class_of_kafkas_clients_is_an_error_with_advice() -> None:
    assert not set(kafka_names.OF_MODULE) & set(kstore.__all__)
    for name, instead in kafka_names.OF_MODULE.items():
        with pytest.raises(ImportError) as caught:
            exec(f"from kstore import {name}")
        assert str(caught.value) == f"kstore has no {name!r}: {instead}"
        assert not hasattr(kstore, name)  # it raised the ImportError
        with pytest.raises(AttributeError) as missing:
            getattr(kstore, name)
        assert str(missing.value) == f"module 'kstore' has no attribute {name!r}: {instead}"
    assert not hasattr(kstore, "nothing")
    assert not hasattr(kstore, "NothingError")
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from kstore import nothing")


@pytest.mark.parametrize(
    "statement",
    ["import kstore.aio", "from kstore import aio", "from kstore.aio import AsyncProducer"],
)
def test_importing_a_guessed_module_for_asyncio_is_an_error_with_advice(statement: str) -> None:
    with pytest.raises(
        ImportError, match=r"use `import kstore`: `await producer\.send\("
    ) as caught:
        exec(statement)
    assert "aio" in str(caught.value)
    assert not hasattr(kstore, "aio")


def test_a_config_is_looked_up_by_name(store: Store) -> None:
    topic = store["orders"]
    topic.alter({"retention.ms": 7})
    assert topic.config["retention.ms"] == topic.config["retention_ms"] == 7
    assert "retention.ms" in topic.config
    assert "retention_ms" in topic.config
    assert "retention" not in topic.config
    assert 3 not in topic.config
    assert dict(topic.config)["retention.ms"] == 7
    assert LogConfig.from_properties(dict(topic.config)) == topic.config
    with pytest.raises(KeyError) as caught:
        topic.config["retention"]
    assert str(caught.value).startswith("unknown setting 'retention'; did you mean retention.ms")
    assert isinstance(caught.value, UnknownSettingError)
    assert isinstance(caught.value, InvalidConfigError)
    with pytest.raises(TypeError, match="named by text, not int"):
        topic.config[0]


def test_a_group_is_found_by_name(store: Store) -> None:
    group = store.group("dashboards")
    assert group == store.groups()["dashboards"]
    end = store["orders"][0].end_offset
    assert group.lags == {("orders", 0): end}
    assert group.uncommitted == {("orders", 1)}  # it has no lag, and repr() counts it
    assert f"lag {end}, that of 1 partition unknown" in repr(group)
    assert group.lag == sum(group.lags.values()) == end
    assert group.offsets["orders", 0].offset == 0
    assert group.offsets.get(("orders", 1)) is None
    with pytest.raises(TypeError, match="does not support item assignment"):
        group.offsets["orders", 0] = group.offsets["orders", 0]
    with pytest.raises(GroupIdNotFoundError, match="no group 'dashboard'; did you mean 'dashboa"):
        store.group("dashboard")
    with pytest.raises(KStoreError, match=r"no group 'x' \(file"):
        store.group("x")


def test_a_group_has_the_lag_of_each_partition(store: Store) -> None:
    store["orders"].append(b"3", partition=0)
    store["orders"].append(b"4", partition=1)
    store.alter_group_offsets("dashboards", {("orders", 0): 0, ("orders", 1): 1})
    ends = store["orders"].end_offsets()
    group = store.group("dashboards")
    assert group.lags == {("orders", 0): ends[0], ("orders", 1): ends[1] - 1}
    assert group.lag == sum(ends.values()) - 1


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("CorruptedFileError", "CorruptFileError"),
        ("TopicExistError", "TopicExistsError"),
        ("ZzzError", "KStoreError is the base of all"),
    ],
)
def test_errors_are_in_their_module(name: str, answer: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(f"from kstore import {name}")
    found = str(caught.value)
    assert found.startswith(f"kstore has no {name!r}: errors are in kstore.errors: {answer}")
    assert kstore.KStoreError is kstore.errors.KStoreError
    assert kstore.TopicExistsError is kstore.errors.TopicExistsError


def test_a_report_stays_a_value(store: Store) -> None:
    report = store.verify()
    assert copy.deepcopy(report) == pickle.loads(pickle.dumps(report)) == report


def test_a_predicate_belongs_to_a_scan(store: Store) -> None:
    log: Any = store["orders"][0]
    view = log.view()
    for method in (view.records, view.to_arrow, view.to_pandas, view.follow):
        with pytest.raises(TypeError, match=r"has no where=: use scan\(where=\.\.\.\)"):
            method(where=lambda row: row.offset > 1)


def test_a_log_has_no_len_and_says_why(store: Store) -> None:
    log = store["orders"][0]
    with pytest.raises(TypeError, match=r"log.count\(\) .*end_offset - log.start_offset"):
        len(log)
    assert log
    assert [record.value for record in list(log)] == [record.value for record in log]


def test_an_isolation_level_has_the_consumers_name_too(store: Store) -> None:
    log = store["orders"][0]
    with store.transaction("t") as transaction:
        transaction.send("orders", b"open", partition=0)
        transaction.flush()
        options = {"isolation_level": "read_committed"}
        stable = log.last_stable_offset
        assert stable < log.end_offset
        assert log.view(**options).stop == stable
        assert log.since(0, **options).stop == stable
        assert log.offset_at(2**47, **options) == stable
        assert store["orders"].offsets_at(2**47, **options)[0] == stable
        assert [r.offset for r in log.follow(start=0, timeout=0, **options)] == list(range(stable))
        assert log.latest() == log.latest(**options)
    with pytest.raises(InvalidConfigError, match="pass one of them"):
        log.view(isolation="read_committed", isolation_level="read_uncommitted")
    with pytest.raises(InvalidConfigError, match="must be one of"):
        log.view(isolation_level="serializable")
    with pytest.raises(TypeError, match="has no level=: its arguments are named when, until"):
        log.since(0, level="read_committed")


def test_since_and_until_bound_a_view_by_time(store: Store) -> None:
    topic = store.create_topic("times", 2)
    for log in topic:
        for ms in (10, 20, 30, 40):
            log.append(b"x", timestamp=ms)
    log = topic[0]
    assert [record.timestamp for record in log.since(20, until=40)] == [20, 30]
    assert [record.timestamp for record in log.since(20, 30)] == [20]
    assert list(log.since(30, until=20)) == []
    open_ended = log.since(30, until=50)
    log.append(b"x", timestamp=60)
    assert [record.timestamp for record in open_ended] == [30, 40]
    assert topic.offsets_at(20) == {0: 1, 1: 1}
    assert topic.offsets_at(50) == {0: 4, 1: 4}


def test_the_latest_record_of_every_key(store: Store) -> None:
    users = store.create_topic("users", 2)
    log = users[0]
    log.extend([(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), b"no key", (b"b", None)], timestamp=10)
    assert {key: record.value for key, record in log.latest().items()} == {b"a": b"3"}
    assert {key: record.offset for key, record in log[:2].latest().items()} == {b"a": 0, b"b": 1}
    users[1].append(b"older", key=b"a", timestamp=5)
    users[1].append(b"newer", key=b"b", timestamp=20)
    assert {key: record.value for key, record in users.latest().items()} == {
        b"a": b"3",
        b"b": b"newer",
    }
    users[1].append(None, key=b"a", timestamp=20)
    assert set(users.latest()) == {b"b"}


def test_a_setting_of_none_is_unset(store: Store) -> None:
    topic = store["orders"]
    topic.alter({"retention.ms": 5, "segment.bytes": 2000})
    topic.alter({"retention.ms": None, "segment.bytes": 3000})
    assert (topic.config["retention.ms"], topic.config["segment.bytes"]) == (-1, 3000)


def test_arguments_that_do_not_fit_are_explained(store: Store) -> None:
    topic = store["orders"]
    with pytest.raises(TypeError, match=r"create_topic\(\) has no num_partitions=: use partitions"):
        store.create_topic("a", num_partitions=4)
    with pytest.raises(TypeError, match=r"positional arguments but 4 were given: settings are"):
        store.create_topic("a", 4, {"retention.ms": 5})
    for call in (lambda: topic.alter("retention.ms", 5), lambda: topic.alter(retention_ms=5)):
        with pytest.raises(TypeError, match=r"argument.*: use alter\({'retention.ms': 3600000}\)"):
            call()
    with store.consumer("orders", group="other", timeout=0) as consumer:
        for name in ("position", "committed", "seek"):
            with pytest.raises(TypeError, match=r"(is a pair|by a pair|seek\(\()"):
                getattr(consumer, name)("orders")
        with pytest.raises(TypeError, match="write it without"):
            consumer.assignment()
    with pytest.raises(TypeError, match="write it without"):
        store.group("dashboards").lags()
    for owner in (topic, topic[0]):
        with pytest.raises(TypeError, match=r"'now': it compares timestamps with the present time"):
            owner.apply_retention(now=5)


def test_a_type_error_of_a_method_itself_is_not_explained(store: Store) -> None:
    with pytest.raises(TypeError, match=r"^config is a mapping of settings, not int$"):
        store["orders"].alter(5)


def test_a_transaction_block_that_aborts_ends_without_an_error(store: Store) -> None:
    with store.transaction("t") as transaction:
        transaction.send("orders", b"3", partition=0)
        transaction.abort_transaction()
    with store.transaction("t") as transaction:
        transaction.send("orders", b"4", partition=0)
    committed = store["orders"][0].view(isolation_level="read_committed")
    assert [record.value for record in committed][-1] == b"4"
    assert b"3" not in [record.value for record in committed]


def test_options_of_scans_and_tables_are_explained(store: Store) -> None:
    topic = store["orders"]
    for owner in (topic, topic[0], topic[0].view()):
        with pytest.raises(TypeError, match=r"scan\(\) has no columns=: a scan gives every column"):
            owner.scan(columns=["key"])
        with pytest.raises(TypeError, match=r"to_pandas\(\) has no columns=: select afterwards"):
            owner.to_pandas(columns=["key"])
    for owner in (topic, topic[0]):
        with pytest.raises(TypeError, match=r"extend\(\) has no batch_size=: batches have batch.s"):
            owner.extend([b"1"], batch_size=10)
    with pytest.raises(TypeError, match=r"row\.value_length"):
        list(topic.scan(where=lambda row: row.value.length > 8))


def test_a_record_of_a_log_says_where_its_partition_is_known(store: Store) -> None:
    (record,) = store["orders"][0].tail(1)
    for name in ("topic", "partition"):
        assert not hasattr(record, name)
        with pytest.raises(AttributeError, match=r"log\.topic and log\.partition do"):
            getattr(record, name)


def test_a_topic_and_one_of_its_partitions_are_refused_together(store: Store) -> None:
    with pytest.raises(TypeError, match=r"consumer\(group='g', assignment=\[\('orders', 1\)\]\)"):
        store.consumer("orders", group="g", assignment=[("orders", 1)])
    with store.consumer(group="g", assignment=[("orders", 0)]) as first:
        with pytest.raises(GroupConflictError) as caught:
            store.consumer("orders", group="g")
        advice = str(caught.value).split("without the topic: ")[1].split(" (file")[0]
        with eval(advice) as second:
            assert first.assignment.isdisjoint(second.assignment)


def test_a_poll_explains_the_names_of_a_record(store: Store) -> None:
    settings: dict[str, Any] = {"enable_auto_commit": False}
    with store.consumer("orders", timeout=0, **settings) as consumer:
        for polled in (consumer.poll(), consumer.poll()):  # the second one is empty
            with pytest.raises(AttributeError, match=r"use \.values\(\), or consumer\.records\(\)"):
                polled.value  # noqa: B018
    with pytest.raises(TypeError, match=r"no setting 'enable_auto_commit': use `with batch:`"):
        store.consumer("orders", enable_auto_commit=True)


def test_the_segments_of_a_log_are_a_sequence(store: Store) -> None:
    segments = store["orders"][0].segments
    assert [each.base_offset for each in segments] == [0]
    assert segments[0] is segments[-1] is next(iter(segments))


def test_partitions_of_another_topic_are_refused_with_the_number(store: Store) -> None:
    with pytest.raises(InvalidConfigError, match=r"a number, len\(topic\)"):
        store.create_topic("copy", partitions=store["orders"])


def test_a_store_is_closed_by_async_with(store: Store) -> None:
    async def enter() -> None:
        async with store as entered:
            assert entered is store

    asyncio.run(enter())
    assert store.closed


def test_a_partition_is_a_number_that_names_its_log(store: Store) -> None:
    topic = store["orders"]
    assert topic.partitions == (0, 1)
    assert [f"{number:03d}" for number in topic.partitions] == ["000", "001"]
    assert topic[topic.partitions[1]] is topic[1]
    with pytest.raises(AttributeError, match=r"numbers: topic\[0\] is the log of partition 0"):
        topic.partitions[0].end_offset  # noqa: B018


def test_a_record_of_a_topic_is_one_of_its_logs(store: Store) -> None:
    with pytest.raises(AttributeError, match="for log in topic: for record in log"):
        [record.value for record in store["orders"]]


def test_end_offsets_of_a_store_are_those_of_its_users_topics(store: Store) -> None:
    assert "__consumer_offsets" in store  # a group has committed
    assert {tp.topic for tp in store.end_offsets()} == {"orders"}
    assert sum(store.end_offsets().values()) == 2
    assert len(store.end_offsets("__consumer_offsets")) == len(store["__consumer_offsets"])


def test_following_starts_at_an_offset_a_time_or_kafkas_words(store: Store) -> None:
    log = store.create_topic("t")[0]
    for moment in (1000, 2000, 3000):
        log.append(b"%d" % moment, timestamp=moment)
    when = datetime.fromtimestamp(1.5, UTC)
    starts: dict[Any, list[bytes]] = {
        "earliest": [b"1000", b"2000", b"3000"],
        when: [b"2000", b"3000"],
        2: [b"3000"],
        "latest": [],
        None: [],
    }
    for start, expected in starts.items():
        assert [record.value for record in log.follow(start=start, timeout=0)] == expected, start
    with pytest.raises(TypeError, match='a datetime, "earliest" or "latest", not \'end\''):
        log.follow(start="end")
    with pytest.raises(TypeError, match=r'has no from_beginning=: use start="earliest"'):
        log.follow(from_beginning=True)


def test_a_view_has_no_len_and_says_why(store: Store) -> None:
    view = store["orders"][0].view()
    with pytest.raises(TypeError, match=r"a view has no len\(\): view.count\(\) .* list\(view\)"):
        len(view)
    assert view  # it is not its number of records
    assert len(list(view)) + len(list(store["orders"][1].view())) == 2


def test_wrong_arguments_of_latest_settings_and_keys_are_explained(store: Store) -> None:
    topic = store["orders"]
    for owner in (topic, topic[0], topic[0].view()):
        with pytest.raises(TypeError, match=r"the last records of a log: log.tail\(10\)"):
            owner.latest(10)
    with pytest.raises(TypeError, match=r"topic.alter\({'retention.ms': 1000}\)"):
        topic.config["retention.ms"] = 1000
    with pytest.raises(TypeError, match=r"^a key is bytes, not int: encode it first, b'%d' % key"):
        topic.append(b"v", key=1)
