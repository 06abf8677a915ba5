"""What people get wrong first: each mistake is answered by what to do instead."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore import LogConfig, StoreConfig
from kstore.errors import InvalidConfigError, InvalidPartitionsError, OffsetOutOfRangeError

QUIET = StoreConfig(background=False)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path / "data", config=QUIET) as opened:
        yield opened


@pytest.mark.parametrize("config", [3, LogConfig()])
def test_another_config_for_a_store_is_a_typeerror(tmp_path: Path, config: object) -> None:
    with pytest.raises(TypeError, match=r"kstore\.StoreConfig, not"):
        kstore.open(tmp_path / "data", config=config)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("path", [3, b"data", None])
def test_something_else_for_a_path_is_a_typeerror(path: object) -> None:
    with pytest.raises(TypeError, match="a path, or a sequence of paths, not"):
        kstore.open(path)


def test_another_config_for_a_topic_is_a_typeerror(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        with pytest.raises(TypeError, match="a mapping of settings"):
            store.create_topic("t", config=[("segment.bytes", 1000)])
        assert "t" not in store
        store.create_topic("t")
        with pytest.raises(TypeError, match="from_properties"):
            store.configure_topic("t", {"segment.bytes": 1000})


def test_text_for_bytes_is_a_typeerror_and_appends_nothing(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        topic = store.create_topic("t", partitions=2)
        for mistake in (
            lambda: topic.append("text"),
            lambda: topic.append(b"", key="text"),
            lambda: topic[0].append(b"", key="text"),
            lambda: topic[0].append(b"", headers=[("name", "text")]),
            lambda: topic[0].extend(["text"]),
        ):
            with pytest.raises(TypeError, match=r"is bytes, not str: encode it first"):
                mistake()
        assert [log.end_offset for log in topic] == [0, 0]


def test_an_offset_outside_the_log_is_an_error_that_names_the_range(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t")[0]
        with pytest.raises(OffsetOutOfRangeError, match="the log is empty; its next offset is 0"):
            log[-1]
        log.extend([b"a", b"b"])
        with pytest.raises(OffsetOutOfRangeError, match=r"offsets 0 to 1 .*offset 2"):
            log[2]
        with pytest.raises(OffsetOutOfRangeError, match="offset -3"):
            log[-3]
        with pytest.raises(TypeError, match="is read by its offset, not str"):
            log["a"]


def test_a_consumer_of_nothing_raises_until_it_is_assigned_partitions(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("t")
        consumer = store.consumer(group="g")
        with pytest.raises(InvalidConfigError, match="nothing to read"):
            next(iter(consumer))  # it would wait forever
        with pytest.raises(TypeError, match=r"a pair \(topic, number\), not 't'"):
            consumer.assign(["t"])
        consumer.assign([("t", 0)])
        assert repr(consumer) == "<kstore.Consumer 'g' of t-0>"
        assert consumer.poll() == {}


def test_a_new_store_that_was_closed_is_clean(tmp_path: Path, caplog) -> None:
    """Its partitions may never have been opened: nothing in them needs recovery."""
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("t", partitions=3)
    with kstore.open(tmp_path, config=QUIET) as store:
        store["t"][1].append(b"x")
    with kstore.open(tmp_path, mode="r") as store:
        assert store["t"][1][0].value == b"x"
    assert "recovery is due" not in caplog.text
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_reading_backwards_is_explained(store: kstore.Store) -> None:
    log = store.create_topic("backwards")[0]
    log.extend([b"a", b"b"])
    with pytest.raises(TypeError, match=r"reversed\(list\(log.tail\(10\)\)\)"):
        reversed(log)
    with pytest.raises(TypeError, match=r"reversed\(list\(view\)\)"):
        reversed(log[-2:])
    with pytest.raises(ValueError, match=r"list\(log\[90:95\]\)\[::-1\]"):
        log[::-1]
    assert [record.value for record in reversed(list(log.tail(2)))] == [b"b", b"a"]


def test_extend_of_a_table_names_its_rows(store: kstore.Store) -> None:
    log = store.create_topic("tables")[0]
    log.append(b"a")
    table = log.to_arrow().select(["offset"])
    for source in (table, table.to_pandas()):
        with pytest.raises(TypeError, match=r"not a table: .*to_pylist\(\)"):
            log.extend(source)
    assert log.end_offset == 1


@pytest.mark.parametrize("name", ["OffsetOutOfRange", "StoreLocked", "UnknownTopicOrPartition"])
def test_the_error_for_an_exception_of_kafkas_clients_names_ours(name: str) -> None:
    with pytest.raises(AttributeError, match=f"use {name}Error"):
        getattr(kstore, name)


@pytest.mark.parametrize("module", ["kstore", "kstore.errors"])
@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("RecordTooLargeError", "use MessageTooLargeError"),
        ("RecordTooLarge", "use MessageTooLargeError"),
        ("UnknownTopicError", "use UnknownTopicOrPartitionError"),
        ("UnknownTopic", "use UnknownTopicOrPartitionError"),
        ("NotFound", "use UnknownTopicOrPartitionError"),
        ("CorruptError", "use CorruptRecordError"),
        ("CorruptionError", "use CorruptRecordError"),
        ("Error", "use KStoreError"),
        ("OffsetRange", "errors are in kstore.errors: .*OffsetOutOfRangeError"),
        ("TopicExists", "use TopicExistsError"),
    ],
)
def test_an_import_of_an_exception_of_kafkas_clients_names_ours(
    module: str, name: str, advice: str
) -> None:
    with pytest.raises(ImportError, match=f"^{module} has no '{name}': {advice}"):
        exec(f"from {module} import {name}")
    found = importlib.import_module(module)
    with pytest.raises(AttributeError, match=advice):
        getattr(found, name)
    assert not hasattr(found, name)
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec(f"from {module} import nothing")


def test_python_adds_no_other_name_to_the_advice() -> None:
    program = "from kstore import errors\nerrors.RecordTooLargeError"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.endswith("use MessageTooLargeError\n")
    assert done.returncode == 1


def test_a_name_that_resembles_no_error_has_no_advice() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'Zebra'$"):
        getattr(kstore, "Zebra")  # noqa: B009


def test_a_number_of_partitions_that_a_topic_cannot_have(store: kstore.Store) -> None:
    topic = store.create_topic("numbered", 2)
    for wrong in (2, 1, 0):
        with pytest.raises(InvalidPartitionsError) as caught:
            topic.add_partitions(wrong)
        assert isinstance(caught.value, InvalidConfigError), "as it was before"
    with pytest.raises(InvalidPartitionsError, match="1 to 1000000 partitions, not 0"):
        store.create_topic("none", partitions=0)
    with pytest.raises(InvalidPartitionsError, match=r"new total, len\(topic\) \+ 2 to add 2"):
        topic.add_partitions(2)
    assert len(topic.add_partitions(len(topic) + 2)) == 4
    assert "none" not in store
