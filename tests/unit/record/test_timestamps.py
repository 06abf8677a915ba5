"""A record's timestamp is milliseconds up to the year 9999, whichever way it is appended."""

import re
import struct
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kstore
from kstore import LogConfig, Record
from kstore.errors import InvalidTimestampError, TimestampUnitWarning
from kstore.record.timestamp import LAST_RECORD_TIMESTAMP, to_milliseconds, to_record_timestamp
from kstore.spark.session import to_options
from kstore.spark.sink.options import parse_sink
from kstore.spark.sink.stager import stage

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
MS = 1_780_315_200_000
NANOSECONDS, MICROSECONDS = MS * 1_000_000, MS * 1000


def append(store: kstore.Store, when: Any) -> None:
    store["t"][0].append(b"v", timestamp=when)


def append_to_topic(store: kstore.Store, when: Any) -> None:
    store["t"].append(b"v", timestamp=when)


def extend(store: kstore.Store, when: Any) -> None:
    store["t"][0].extend([b"v"], timestamp=when)


def extend_with_records(store: kstore.Store, when: Any) -> None:
    store["t"][0].extend([Record(0, when, None, b"v")])


def extend_beside_records(store: kstore.Store, when: Any) -> None:
    store["t"][0].extend([Record(0, -1, None, b"v")], timestamp=when)


def send(store: kstore.Store, when: Any) -> None:
    with store.producer("t") as producer:
        producer.send(b"v", timestamp=when)


def send_in_transaction(store: kstore.Store, when: Any) -> None:
    with store.transactional_producer("id") as producer:
        producer.begin_transaction()
        try:
            producer.send("t", b"v", timestamp=when)
        except BaseException:
            producer.abort_transaction()
            raise
        producer.commit_transaction()


def append_end_marker(store: kstore.Store, when: Any) -> None:
    store["t"][0].append_end_marker(1, 0, commit=True, timestamp=when)


ENTRIES = [
    append,
    append_to_topic,
    extend,
    extend_with_records,
    extend_beside_records,
    send,
    send_in_transaction,
]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with kstore.open(tmp_path) as opened:
        opened.create_topic("t")
        yield opened


@pytest.mark.parametrize("entry", [*ENTRIES, append_end_marker])
@pytest.mark.parametrize(
    ("when", "advice"),
    [
        (NANOSECONDS, r"look like nanoseconds \(2026-06-01\): divide by 1,000,000(\n|$)"),
        (MICROSECONDS, r"look like microseconds \(2026-06-01\): divide by 1,000(\n|$)"),
        (LAST_RECORD_TIMESTAMP + 1, "at most 253402300799999 .the year 9999"),
        (2**63 - 1, "nanoseconds"),
        (2**63, "int64"),
        (10**5000, "int64"),
    ],
    ids=lambda each: each if isinstance(each, str) else f"{each.bit_length()}-bits",
)
def test_a_timestamp_beyond_the_year_9999_is_refused(
    store: kstore.Store, entry: Callable[[kstore.Store, Any], None], when: int, advice: str
) -> None:
    with pytest.raises(InvalidTimestampError, match=advice):
        entry(store, when)
    assert store["t"][0].end_offset == 0


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("when", [0, 1, MS, LAST_RECORD_TIMESTAMP])
def test_every_timestamp_up_to_the_year_9999_is_kept(
    store: kstore.Store, entry: Callable[[kstore.Store, Any], None], when: int
) -> None:
    entry(store, when)
    (record,) = store["t"][0]
    assert record.timestamp == when


@pytest.mark.parametrize("entry", [each for each in ENTRIES if each is not extend_with_records])
@pytest.mark.parametrize(
    "when", [-1, -(2**63), -(2**63) - 1, -(10**5000)], ids=lambda each: f"{each.bit_length()}-bits"
)
def test_a_negative_timestamp_is_refused(
    store: kstore.Store, entry: Callable[[kstore.Store, Any], None], when: int
) -> None:
    with pytest.raises(InvalidTimestampError, match="1970"):
        entry(store, when)
    assert list(store["t"][0]) == []


def test_a_record_without_a_timestamp_gets_one_when_it_is_copied(store: kstore.Store) -> None:
    extend_with_records(store, -1)
    (record,) = store["t"][0]
    assert 0 < record.timestamp < LAST_RECORD_TIMESTAMP


def test_a_topic_of_old_messages_has_the_same_bound(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as opened:
        opened.create_topic("t", config=LogConfig(message_format_version="0.10.0"))
        with pytest.raises(InvalidTimestampError, match="divide by"):
            append(opened, NANOSECONDS)
        append(opened, LAST_RECORD_TIMESTAMP)


def test_a_client_batch_is_bounded_by_the_topic_alone(store: kstore.Store) -> None:
    """Kafka's LogValidator: message.timestamp.after.max.ms, which has no bound here by default."""
    from oracle import writer
    from oracle.plain import PlainRecord

    log = store["t"][0]
    log.append_as_leader(writer.batch([PlainRecord(0, NANOSECONDS, None, b"v")]))
    store.alter_topic("t", config={"message.timestamp.after.max.ms": "3600000"})
    with pytest.raises(InvalidTimestampError):
        log.append_as_leader(writer.batch([PlainRecord(0, NANOSECONDS, None, b"v")]))
    assert [record.timestamp for record in log] == [NANOSECONDS]


def test_rows_of_spark_beyond_the_year_9999_are_refused(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as opened:
        opened.create_topic("t")
    given = parse_sink({"path": str(tmp_path), "topic": "t"})

    def rows(milliseconds: int) -> Any:
        times = pa.array([milliseconds * 1000], pa.timestamp("us", "UTC"))
        return pa.RecordBatch.from_pydict({"value": pa.array([b"v"]), "timestamp": times})

    with pytest.raises(InvalidTimestampError, match=r"look like microseconds .*divide by 1,000 "):
        stage(given, "job", [rows(MICROSECONDS)])
    assert stage(given, "job", [rows(LAST_RECORD_TIMESTAMP)])


@pytest.mark.parametrize("when", [np.int64(MS), np.uint64(MS)])
def test_a_number_of_numpy_is_a_time(store: kstore.Store, when: Any) -> None:
    append(store, when)
    assert [record.timestamp for record in store["t"][0].since(when)] == [MS]
    with pytest.raises(InvalidTimestampError, match="look like nanoseconds"):
        append(store, when * type(when)(1_000_000))


def test_a_datetime64_is_refused_with_what_to_write(store: kstore.Store) -> None:
    when = np.datetime64("2026-06-01T12:00:00.000000000")
    with pytest.raises(TypeError, match=r"int\(when\.astype") as refused:
        append(store, when)
    advice = str(refused.value).rpartition(": ")[2]
    assert eval(advice, {"when": when, "int": int}) == MS


@pytest.mark.parametrize("wrong", ["now", 1.5, True, None, b"1"])
def test_a_value_that_is_no_time_is_refused(wrong: Any) -> None:
    for convert in (to_milliseconds, to_record_timestamp):
        with pytest.raises(TypeError, match="aware datetime or milliseconds"):
            convert(wrong)


def test_the_advice_for_a_naive_datetime_is_right_for_local_time(
    store: kstore.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a zone that is not UTC, what the message says of local time gives the moment itself."""
    import time

    monkeypatch.setenv("TZ", "Europe/Berlin" if Path("/usr/share/zoneinfo").exists() else "X-2")
    time.tzset()
    try:
        naive = datetime.fromtimestamp(MS / 1000)  # as datetime.now() gives it
        for refuse in (lambda: append(store, naive), lambda: store["t"][0].since(naive)):
            with pytest.raises(InvalidTimestampError, match="time zone") as refused:
                refuse()
            advised = re.search(r"(when\S+) for local time", str(refused.value))[1]
            assert advised == "when.astimezone()"
            assert to_milliseconds(eval(advised, {"when": naive})) == MS
            assert naive.replace(tzinfo=UTC) != NOON
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("when", [NANOSECONDS, MICROSECONDS])
def test_a_lookup_in_another_unit_warns(store: kstore.Store, when: int) -> None:
    log = store["t"][0]
    append(store, MS)
    for look in (log.offset_at, log.since):
        with pytest.warns(UserWarning, match="no record is as late as .* divide by 1,000"):
            look(when)
    consumer = store.consumer("t")
    with pytest.warns(TimestampUnitWarning, match="divide by 1,000") as caught:
        consumer.seek_to_time(when)
    assert {each.filename for each in caught} == {__file__}


@pytest.mark.parametrize("when", [10**9, MS // 1000, np.int64(MS // 1000), 10**10 - 1])
def test_a_lookup_in_seconds_warns_of_the_program_s_line(store: kstore.Store, when: Any) -> None:
    topic = store["t"]
    append(store, MS)
    for look in (
        topic[0].offset_at,
        topic[0].since,
        lambda when: topic[0].since(MS, when),
        topic.offsets_at,
        store.consumer("t").seek_to_time,
        lambda when: to_options("data", since=when),
        lambda when: to_options("data", until=when),
    ):
        with pytest.warns(TimestampUnitWarning, match=r"like seconds, .* by 1000") as caught:
            look(when)
        assert {each.filename for each in caught} == {__file__}


def test_a_line_with_many_lookups_in_seconds_warns_once(store: kstore.Store) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for n in range(3):
            store["t"][0].since(MS // 1000 + n)
    assert len(caught) == 1


@pytest.mark.parametrize("when", [0, 10**9 - 1, 10**10, MS, datetime(1970, 1, 20, tzinfo=UTC)])
def test_a_lookup_in_milliseconds_does_not_warn(store: kstore.Store, when: Any) -> None:
    store["t"][0].since(when)  # a warning is an error in these tests


@pytest.mark.parametrize(
    "when", [2**63, 10**5000, -1, -(10**5000)], ids=["2^63", "digits", "-1", "negative-digits"]
)
def test_a_lookup_outside_kafka_s_times_is_refused(store: kstore.Store, when: int) -> None:
    for look in (store["t"][0].offset_at, store["t"][0].since):
        with pytest.raises(InvalidTimestampError):
            look(when)


def test_a_lookup_that_finds_a_record_does_not_warn(store: kstore.Store) -> None:
    from oracle import writer
    from oracle.plain import PlainRecord

    log = store["t"][0]
    log.append_as_leader(writer.batch([PlainRecord(0, NANOSECONDS, None, b"v")]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert log.offset_at(NANOSECONDS) == 0
        assert log.offset_at(MS + 1) == 0


def test_a_record_beyond_the_calendar_has_no_datetime() -> None:
    with pytest.raises(InvalidTimestampError, match="beyond the year 9999"):
        _ = Record(0, NANOSECONDS, None, b"v").datetime
    with pytest.raises(InvalidTimestampError, match="int64"):
        Record(0, 2**63, None, b"v")
    last = Record(0, LAST_RECORD_TIMESTAMP, None, b"v").datetime
    assert last == datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


def test_the_bound_lies_where_calendars_end() -> None:
    last = datetime.max.replace(tzinfo=UTC)
    assert to_record_timestamp(last) == LAST_RECORD_TIMESTAMP
    assert struct.pack(">q", LAST_RECORD_TIMESTAMP)[0] == 0
    assert to_record_timestamp((datetime(1979, 1, 1, tzinfo=UTC) - EPOCH) // MICRO // 1000)
    with pytest.raises(InvalidTimestampError, match="microseconds"):
        to_record_timestamp((datetime(1979, 1, 1, tzinfo=UTC) - EPOCH) // MICRO)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICRO = timedelta(microseconds=1)
