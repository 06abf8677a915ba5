"""What callers guess of a topic's contents: columns and tables of all partitions, sizes, flush."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore import Store, StoreConfig
from kstore.errors import (
    CorruptRecordError,
    InvalidTxnStateError,
    OffsetOutOfRangeError,
    ReadOnlyError,
)
from support.damage import flip

QUIET = StoreConfig(background=False)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=QUIET) as opened:
        yield opened


def fill(store: Store, partitions: int = 3, count: int = 10) -> kstore.Topic:
    topic = store.create_topic("t", partitions)
    for log in topic:
        for n in range(count):
            log.append(b"%d" % n, key=b"%d" % log.partition, timestamp=1000 + n)
    return topic


def test_a_topic_has_a_size_and_a_number_of_partitions(store: Store) -> None:
    topic = fill(store)
    assert topic.num_partitions == len(topic) == 3
    assert topic.size == sum(log.size for log in topic) > 0


def test_columns_of_all_partitions_come_one_after_the_other(store: Store) -> None:
    topic = fill(store)
    blocks = list(topic.scan())
    assert [int(columns.keys[0] or b"") for columns in blocks] == [0, 1, 2]
    assert [columns.offsets.tolist() for columns in blocks] == [list(range(10))] * 3
    kept = list(topic.scan(where=lambda row: row.offset >= 8))
    assert [columns.values.tolist() for columns in kept] == [[b"8", b"9"]] * 3
    assert len(list(topic.scan(lambda row: row.offset >= 8, threads=2))) == 3
    with pytest.raises(TypeError, match="equals"):
        topic.scan(lambda row: row.key == b"1")


def test_a_scan_of_a_topic_raises_or_skips_corrupt_batches(store: Store, tmp_path: Path) -> None:
    topic = fill(store)
    flip(tmp_path / "t-1" / f"{0:020}.log", -1)
    with pytest.raises(CorruptRecordError):
        list(topic.scan())
    skipped: list[object] = []
    blocks = list(topic.scan(on_damage="skip", skipped=skipped))
    assert sum(map(len, blocks)) == 29
    assert len(skipped) == 1


def test_a_predicate_is_the_first_argument_of_a_scan(store: Store) -> None:
    log = fill(store, 1)[0]
    for source in (log, log.view()):
        (columns,) = source.scan(lambda row: row.offset < 2)
        assert columns.offsets.tolist() == [0, 1]


def test_columns_become_lists_as_arrays_do(store: Store) -> None:
    log = fill(store, 1, 2)[0]
    log.append(None, headers={"h": b"v"})
    values, headers = [], []
    for columns in log.scan():
        values += columns.values.tolist()
        headers += columns.headers.tolist()
        assert columns.keys.tolist() == columns.keys.to_list()
    assert values == [b"0", b"1", None]
    assert headers == [(), (), (("h", b"v"),)]


@pytest.mark.parametrize("count", [0, 10])
def test_a_table_of_a_topic_names_the_partition(store: Store, count: int) -> None:
    import pyarrow as pa

    topic = fill(store, 2, count)
    table = topic.to_arrow()
    assert table.column_names == ["partition", *topic[0].to_arrow().column_names]
    assert table.schema.field("partition").type == pa.int32()
    assert table["partition"].to_pylist() == [0] * count + [1] * count
    assert table["offset"].to_pylist() == list(range(count)) * 2
    assert table["value"].to_pylist() == [b"%d" % n for n in range(count)] * 2


@pytest.mark.parametrize("count", [0, 10])
def test_a_frame_of_a_topic_names_the_partition(store: Store, count: int) -> None:
    topic = fill(store, 2, count)
    frame = topic.to_pandas()
    assert list(frame.columns) == ["partition", *topic[0].to_pandas().columns]
    assert frame["partition"].dtype == "int32"
    assert frame["partition"].tolist() == [0] * count + [1] * count
    assert frame["value"].tolist() == [b"%d" % n for n in range(count)] * 2


def test_a_store_flushes_the_logs_of_all_topics(store: Store, tmp_path: Path) -> None:
    logs = [*fill(store, 2), store.create_topic("u")[0]]
    logs[2].append(b"v")
    assert [log.recovery_point for log in logs] == [0, 0, 0]
    store.flush()
    assert [log.recovery_point for log in logs] == [10, 10, 1]
    with kstore.open(tmp_path, "r") as reader, pytest.raises(ReadOnlyError):
        reader.flush()


def test_a_flush_of_a_store_continues_after_an_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = fill(store, 2)

    def fail() -> None:
        raise kstore.errors.StorageError("the disk failed")

    monkeypatch.setattr(first, "flush", fail)
    with pytest.raises(kstore.errors.StorageError, match="the disk failed"):
        store.flush()
    assert second.recovery_point == 10


def test_names_are_not_called(store: Store) -> None:
    with pytest.raises(TypeError, match=r"without \(\)"):
        store.topics()


def test_deletions_name_the_offset_they_take(store: Store) -> None:
    topic = fill(store, 1)
    with pytest.raises(TypeError, match="use before_offset"):
        topic[0].delete_records(before=6)
    with pytest.raises(TypeError, match=r"use before_offsets: delete_records\(\{0: 1000\}\)"):
        topic.delete_records(before=6)
    assert topic[0].start_offset == 0
    assert topic[0].delete_records(before_offset=6) == 6
    assert topic.delete_records(before_offsets={0: 7}) == {0: 7}


@pytest.mark.parametrize("mode", ["a", "r"])
def test_an_offset_outside_a_log_is_an_index_error(store: Store, tmp_path: Path, mode: str) -> None:
    fill(store, 1)[0].delete_records(4)
    store.checkpoint()  # the log start, for readers
    with kstore.open(tmp_path, "r", config=QUIET) as reader:
        log = (store if mode == "a" else reader)["t"][0]
        for offset in (3, 10, -11):
            with pytest.raises(IndexError) as caught:
                log[offset]
            assert isinstance(caught.value, OffsetOutOfRangeError)
        assert [record.offset for record in log] == list(range(4, 10))
        assert next(iter(log)) in log


def test_an_iteration_that_a_deletion_overtakes_raises(store: Store) -> None:
    """An IndexError would end an iteration without ``__iter__`` in silence."""
    log = fill(store, 1)[0]
    follower = log.follow(start=0, timeout=0)
    log.delete_records(4)
    with pytest.raises(IndexError):
        list(follower)
    with pytest.raises(IndexError):
        list(log[0:2])


def test_records_are_counted_by_reading_them(store: Store) -> None:
    topic = store.create_topic("counted", 2, config={"cleanup.policy": "compact"})
    topic[0].extend([(b"k%d" % (n % 3), b"%d" % n) for n in range(9)])
    topic[1].append(b"other", key=b"k")
    with store.transaction("counts") as transaction:
        transaction.send("counted", b"dropped", key=b"k", partition=0)
        transaction.flush()
        transaction.abort_transaction()
    topic[0].compact(roll=True)
    log = topic[0]
    assert log.end_offset - log.start_offset == 11, "9, an aborted one and its marker"
    assert log.count() == len(list(log)) == 3
    assert log[:8].count() == 2
    assert topic.count() == 4
    assert topic.count(lambda row: row.value_length > 1) == 1
    assert log.count(lambda row: row.offset == 8) == 1
    with pytest.raises(TypeError, match=r"count\(\) reads and counts its records"):
        len(log)


def test_count_includes_aborted_records_unless_isolation_is_read_committed(store: Store) -> None:
    log = store.create_topic("aborted")[0]
    log.append(b"kept")
    with store.transaction("counts") as transaction:
        transaction.send("aborted", b"dropped")
        transaction.flush()
        transaction.abort_transaction()
    assert log.count() == 2
    assert log.count(isolation_level="read_committed") == 1
    assert store["aborted"].count(isolation_level="read_committed") == 1


def test_a_copy_does_not_commit_what_was_aborted_or_is_still_open(store: Store) -> None:
    source, copy = store.create_topic("orders")[0], store.create_topic("copy")[0]
    copy.extend(source)
    source.append(b"plain")
    copy.extend(source)
    assert [record.value for record in copy] == [b"plain"]
    with store.transaction("t") as transaction:
        transaction.send("orders", b"aborted", partition=0)
        transaction.flush()
        with pytest.raises(InvalidTxnStateError, match="aborted or open"):
            copy.extend(source)
        transaction.abort_transaction()
    for uncommitted in (source, source.view(), source[0:2]):
        with pytest.raises(InvalidTxnStateError, match=r"isolation_level='read_committed'"):
            copy.extend(uncommitted)
    copy.extend(source.view(isolation_level="read_committed"))
    copy.extend(source[0:1])
    assert [record.value for record in copy] == [b"plain"] * 3


def test_a_report_prints_its_verdict_and_findings(store: Store) -> None:
    log = store.create_topic("orders")[0]
    log.extend([b"value"] * 3)
    assert str(log.verify()) == f"ok: 1 segment, 1 batch, {log.size} bytes"
    log.flush()
    flip(Path(log.path) / f"{0:020}.log", log.size - 1)
    first, second = str(log.verify()).splitlines()
    assert first.startswith("1 finding: 1 segment")
    assert "the checksum does not match" in second
