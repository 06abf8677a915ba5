"""What callers guess of records: pairs, Records, headers as a dict, first and last records."""

import builtins
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kstore
from kstore import Log, Record, Store, StoreConfig
from kstore.errors import InvalidTimestampError, MessageTooLargeError, OffsetOutOfRangeError

QUIET = StoreConfig(background=False)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=QUIET) as opened:
        yield opened


@pytest.fixture
def log(store: Store) -> Log:
    return store.create_topic("t")[0]


def trimmed(log: Log) -> Log:
    """A log that holds offsets 50 to 99."""
    for n in range(100):
        log.append(b"%d" % n)
    log.delete_records(50)
    return log


# --- records --------------------------------------------------------------------------------------


def test_a_record_to_append_needs_its_value_only() -> None:
    record = Record(value=b"12.50")
    assert (record.key, record.value, record.headers) == (None, b"12.50", ())
    assert (record.offset, record.timestamp, record.leader_epoch) == (-1, -1, -1)
    moment = datetime(2024, 5, 1, 12, tzinfo=UTC)
    full = Record(value=b"v", key=b"k", headers={"a": b"1", "b": None}, timestamp=moment)
    assert full.headers == (("a", b"1"), ("b", None))
    assert full.datetime == moment
    assert full == Record(-1, full.timestamp, b"k", b"v", [("a", b"1"), ("b", None)])
    assert "for a log" in (Record.__doc__ or "")


def test_a_record_of_wrong_types_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"kstore\.Record\(value=\.\.\., key="):
        Record(b"value", key=b"k")
    with pytest.raises(TypeError, match=r"a value is bytes, not str: encode it first, value\."):
        Record(value="text")
    with pytest.raises(TypeError, match="a key is bytes, not int"):
        Record(key=3)
    with pytest.raises(InvalidTimestampError, match="has no time zone"):
        Record(value=b"", timestamp=datetime(2024, 5, 1))


def test_extend_takes_values_pairs_and_records_mixed(log: Log) -> None:
    items: list[Any] = [
        b"value",
        (b"key", b"of a pair"),
        (None, None),
        Record(value=b"record", key=b"k", headers={"h": b"1"}, timestamp=77),
        Record(value=b"now"),
    ]
    assert log.extend(item for item in items) == range(5)
    assert [(r.key, r.value, r.headers) for r in log] == [
        (None, b"value", ()),
        (b"key", b"of a pair", ()),
        (None, None, ()),
        (b"k", b"record", (("h", b"1"),)),
        (None, b"now", ()),
    ]
    assert log[3].timestamp == 77
    assert log[4].timestamp == log[0].timestamp > 77  # the time of the append
    assert log.extend({b"k": b"v"}.items()) == range(5, 6)
    assert log.extend([(b"k", b"v")], timestamp=88) == range(6, 7)
    assert log[6].timestamp == 88


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ({b"k": b"v"}, r"extend\(mapping\.items\(\)\)"),
        (Record(value=b"v"), "put it in a list"),
        ([(b"k", b"v", b"h")], r"a pair \(key, value\), not 3 items.*kstore\.Record\("),
        ([("k", b"v")], r"key\.encode\(\)"),
        ([{"a": 1}], r"json\.dumps\(value\)\.encode\(\)"),
        ([3], "a value is bytes, not int"),
    ],
)
def test_what_extend_does_not_take_is_explained(log: Log, items: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        log.extend(items)
    assert log.end_offset == 0


def test_append_of_a_record_or_pair_names_extend(store: Store, log: Log) -> None:
    for wrong in (Record(value=b"v"), (b"k", b"v")):
        for append in (log.append, store["t"].append):
            with pytest.raises(TypeError, match="extend"):
                append(wrong)
    assert log.end_offset == 0


def test_a_compacted_topic_needs_the_keys_of_pairs(store: Store) -> None:
    log = store.create_topic("c", config={"cleanup.policy": "compact"})[0]
    assert log.extend([(b"k", None), (b"k", b"v")]) == range(2)
    with pytest.raises(kstore.errors.InvalidRecordError):
        log.extend([(b"k", b"v"), (None, b"v")])


def test_headers_are_a_dict_or_pairs_everywhere(store: Store, log: Log) -> None:
    headers = {"currency": b"EUR", "none": None}
    log.append(b"a", headers=headers)
    store["t"].append(b"b", headers=headers.items())
    with store.producer("t") as producer:
        producer.send(b"c", headers=headers)
    with store.transactional_producer("id") as transactions, transactions.transaction():
        transactions.send("t", b"d", headers=headers)
    assert [record.headers for record in log] == [tuple(headers.items())] * 4
    with pytest.raises(TypeError, match=r"header value is bytes, not str"):
        log.append(b"", headers={"a": "text"})
    with pytest.raises(TypeError, match="headers are a dict, or"):
        log.append(b"", headers="text")


# --- a topic's extend -----------------------------------------------------------------------------


def test_a_topics_extend_chooses_partitions_as_append_does(store: Store) -> None:
    topic = store.create_topic("p", 3, config={"batch.size": 500})
    pairs = [(b"key %d" % (n % 7), b"%d" % n) for n in range(1000)]
    offsets = topic.extend(iter(pairs))
    assert {p: [range(topic[p].end_offset)] for p in offsets} == offsets
    assert sum(len(each) for ranges in offsets.values() for each in ranges) == 1000
    found: dict[bytes | None, list[int]] = {}
    for log in topic:
        for record in log:
            assert topic.partition_for(record.key) == log.partition
            found.setdefault(record.key, []).append(int(record.value or b""))
    assert all(numbers == sorted(numbers) for numbers in found.values())
    assert sorted(n for numbers in found.values() for n in numbers) == list(range(1000))
    assert topic.extend([]) == {}
    assert topic.extend([Record(value=b"r", key=b"key 0")]) == {
        topic.partition_for(b"key 0"): [
            range(topic[topic.partition_for(b"key 0")].end_offset - 1,
                  topic[topic.partition_for(b"key 0")].end_offset)
        ]
    }  # fmt: skip


def test_a_topics_extend_keeps_values_without_key_together(store: Store) -> None:
    topic = store.create_topic("p", 8)
    (ranges,) = topic.extend([b"value"] * 100).values()
    assert ranges == [range(100)]


def test_offsets_of_other_threads_split_the_ranges_of_a_topics_extend(store: Store) -> None:
    topic = store.create_topic("p", 1, config={"batch.size": 1})

    def source() -> Iterator[bytes]:
        yield b"first"
        yield b"second"
        topic[0].append(b"of another caller")
        yield b"third"

    assert topic.extend(list(source())) == {0: [range(1, 4)]}
    assert topic.extend(source()) == {0: [range(4, 6), range(7, 8)]}


def test_an_item_that_a_topics_extend_refuses_is_named_by_its_number(store: Store) -> None:
    topic = store.create_topic("p", 4, config={"max.message.bytes": 1000, "batch.size": 400})
    items = [(b"k%d" % n, b"x" * (2000 if n == 17 else 100)) for n in range(30)]
    with pytest.raises(MessageTooLargeError, match="item 17 does not fit"):
        topic.extend(items)
    with pytest.raises(TypeError, match="put it in a list"):
        topic.extend(b"one")


# --- reading --------------------------------------------------------------------------------------


def test_a_slice_of_deleted_offsets_names_the_first_records(log: Log) -> None:
    trimmed(log)
    for wrong in (lambda: log[:10], lambda: log[0:10], lambda: log.view()[:10]):
        with pytest.raises(OffsetOutOfRangeError, match=r"start_offset is 50: log\.head\(10\)"):
            wrong()
    with pytest.raises(OffsetOutOfRangeError, match=r"start_offset is 50.*take \[50:100\]"):
        log[0:100]
    with pytest.raises(OffsetOutOfRangeError, match=r"start_offset is 50.*take \[50:\]"):
        log[49:]
    with pytest.raises(OffsetOutOfRangeError, match="end_offset is 100"):
        log[101:]
    with pytest.raises(OffsetOutOfRangeError, match="end_offset is 100"):
        log[101:102]


def test_slices_within_the_log_and_empty_ones_are_as_in_a_list(log: Log) -> None:
    trimmed(log)

    def bounds(view: kstore.LogView) -> tuple[int, int]:
        return view.start, view.stop

    assert bounds(log[:]) == (50, 100)
    assert bounds(log[:60]) == (50, 60)
    assert bounds(log[60:1000]) == (60, 100)
    assert bounds(log[-5:]) == (95, 100)
    assert bounds(log[-1000:]) == (50, 100)
    assert bounds(log[100:]) == (100, 100)
    for empty in (log[:50], log[20:20], log[30:10], log[70:60], log[5000:10]):
        assert list(empty) == []
    view = log.view(60, 80)
    assert bounds(view[0:65]) == (60, 65)  # within the view's own window
    assert bounds(view[70:90]) == (70, 80)


def test_a_slice_that_ends_before_the_log_is_empty_as_in_a_list(log: Log) -> None:
    """Its negative stop was taken for a deleted offset, and ``log.head(-3)`` recommended."""
    trimmed(log)
    empty = [log[:0], log[0:0], log[:-50], log[:-53], log[:-103], log[0:-60], log[10:-53]]
    empty += [log[-80:-60], log[70:-60], log.view()[:-53], log.tail(5)[:-60], log[:-53][:-1]]
    empty += [log.view(60, 80)[:-25], log.view(60, 80)[:-35], log.view(60, 80)[:-90]]
    for view in empty:
        assert list(view) == []
        assert list(view.scan()) == []
        assert view.stop - view.start <= 0
    assert [record.offset for record in log[:-48]] == [50, 51]
    assert [record.offset for record in log.view(60, 80)[:-18]] == [60, 61]
    assert repr(log[:-53]) == "<kstore.LogView t-0 [50, 50)>"
    for wrong in (lambda: log[0:-48], lambda: log[:10], lambda: log.view(60, 80)[:10]):
        with pytest.raises(OffsetOutOfRangeError, match="start_offset is 50"):
            wrong()


def test_an_empty_log_has_empty_slices(log: Log) -> None:
    assert list(log[:]) == list(log[:10]) == list(log[-3:]) == list(log[0:10]) == []
    with pytest.raises(OffsetOutOfRangeError):
        log[5:10]


def test_head_and_tail_count_records_not_offsets(store: Store, log: Log) -> None:
    trimmed(log)
    assert [record.offset for record in log.head(3)] == [50, 51, 52]
    assert [record.offset for record in log.tail(3)] == [97, 98, 99]
    assert len(list(log.head())) == len(list(log.tail())) == 5
    assert len(list(log.head(1000))) == len(list(log.tail(1000))) == 50
    assert list(log.head(0)) == list(log.tail(0)) == []
    assert [record.offset for record in log[60:70].tail(2)] == [68, 69]
    assert [record.offset for record in log.head(10).tail(2)] == [58, 59]
    compacted = store.create_topic("c", config={"cleanup.policy": "compact"})[0]
    compacted.extend((b"%d" % (n % 3 if n < 90 else n), b"%d" % n) for n in range(100))
    compacted.roll()
    compacted.compact()
    offsets = [record.offset for record in compacted]
    assert offsets == [*range(87, 100)]
    assert [record.offset for record in compacted.head(2)] == [87, 88]
    gaps = store.create_topic("g", config={"cleanup.policy": "compact"})[0]
    gaps.extend((b"last" if n else b"first", b"%d" % n) for n in range(500))
    gaps.roll()
    gaps.compact()
    assert [record.offset for record in gaps.tail(2)] == [0, 499]
    assert [record.offset for record in gaps.head(2)] == [0, 499]
    with pytest.raises(ValueError, match="count"):
        log.head(-1)


def test_a_view_names_how_to_get_one_record(log: Log) -> None:
    log.append(b"x")
    with pytest.raises(TypeError, match=r"next\(iter\(view\)\)"):
        log.head(1)[0]


def test_a_log_scans_and_becomes_tables_as_its_view_does(log: Log) -> None:
    log.extend(b"%d" % n for n in range(100))
    odd = log.scan(where=lambda row: row.offset % 2 == 1, threads=2)
    assert np.concatenate([columns.offsets for columns in odd]).tolist() == list(range(1, 100, 2))
    table = log.to_arrow()
    assert table.equals(log.view().to_arrow())
    assert table.num_rows == 100


def test_a_log_becomes_a_dataframe(log: Log) -> None:
    log.extend([Record(value=b"a", key=b"k", headers={"h": b"1"}, timestamp=1000), (None, None)])
    frame = log.to_pandas()
    assert frame.columns.tolist() == ["offset", "timestamp", "key", "value", "headers"]
    assert frame["offset"].tolist() == [0, 1]
    assert frame["key"].tolist() == [b"k", None]
    assert frame["value"].tolist() == [b"a", None]
    assert frame["headers"].tolist() == [(("h", b"1"),), ()]
    assert frame["timestamp"][0].isoformat() == "1970-01-01T00:00:01+00:00"
    assert str(frame["timestamp"].dtype) == "datetime64[ms, UTC]"
    assert log[1:].to_pandas()["offset"].tolist() == [1]
    empty = log[2:].to_pandas()
    assert len(empty) == 0
    assert empty.dtypes.tolist() == frame.dtypes.tolist()


def test_without_pandas_the_error_says_what_to_install(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = builtins.__import__

    def missing(name: str, *args: Any, **options: Any) -> Any:
        if name == "pandas":
            raise ImportError("no pandas")
        return load(name, *args, **options)

    monkeypatch.delitem(__import__("sys").modules, "kstore.record.dataframe", raising=False)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"pip install 'kstore\[pandas\]'"):
        log.to_pandas()


def test_a_header_is_found_by_its_name(log: Log) -> None:
    log.append(b"a", headers=[("trace", b"1"), ("none", None), ("trace", b"2")])
    log.append(b"b")
    headers = log[0].headers
    assert headers["trace"] == b"2"  # the last one of a name, as Kafka's lastHeader
    assert headers["none"] is None
    assert ("trace" in headers, "other" in headers) == (True, False)
    assert (headers.get("other"), headers.get("other", b"x"), headers.get("none")) == (
        None, b"x", None,
    )  # fmt: skip
    with pytest.raises(KeyError, match="other"):
        headers["other"]
    assert (headers[0], headers[-1], headers[1:]) == (
        ("trace", b"1"), ("trace", b"2"), (("none", None), ("trace", b"2")),
    )  # fmt: skip
    assert headers == (("trace", b"1"), ("none", None), ("trace", b"2"))
    assert ("none", None) in headers
    assert dict(headers) == {"trace": b"2", "none": None}
    assert pickle.loads(pickle.dumps(headers)) == headers
    (columns,) = log.scan()
    assert columns.headers[0]["trace"] == b"2"
    for empty in (log[1].headers, Record(value=b"").headers):
        assert (empty, empty.get("trace")) == ((), None)
        with pytest.raises(KeyError):
            empty["trace"]


def test_headers_of_a_record_are_appended_with_all_their_pairs(store: Store, log: Log) -> None:
    pairs = [("a", b"1"), ("b", None), ("a", b"2")]
    log.append(b"v", headers=pairs)
    log.append(b"w", headers=log[0].headers)
    log.extend([log[0], Record(value=b"x", headers=log[0].headers)])
    assert [list(record.headers.items()) for record in log] == [pairs] * 4


def test_a_batch_of_a_consumer_is_indexed(store: Store, log: Log) -> None:
    log.extend([b"a", b"b", b"c"])
    with store.consumer("t", group="g", timeout=0) as consumer:
        batch = next(iter(consumer))
        assert (batch[0].value, batch[-1].value, len(batch)) == (b"a", b"c", 3)
        assert [record.value for record in batch[1:]] == [b"b", b"c"]


def test_headers_unpack_as_a_mapping() -> None:
    record = kstore.Record(value=b"v", headers=[("a", b"1"), ("b", None), ("a", b"2")])
    assert list(record.headers.keys()) == ["a", "b"]
    assert {**record.headers, "c": b"3"} == {"a": b"2", "b": None, "c": b"3"}
    assert dict(record.headers) == {"a": b"2", "b": None}


def test_many_headers_unpack_in_one_pass() -> None:
    """By name, each searched by itself, 40,000 headers would take a minute."""
    several = [(f"h{n % 20_000}", b"%d" % n) for n in range(40_000)]
    headers = kstore.Record(value=b"v", headers=several).headers
    other = kstore.Record(value=b"v", headers=several[:100]).headers
    assert dict(headers) == dict(several)
    assert (headers["h7"], other["h7"], headers["h7"]) == (b"20007", b"7", b"20007")
    with pytest.raises(KeyError):
        other["h100"]
