"""Every public call refuses an offset, timestamp, size, count or epoch that Kafka cannot store."""

import inspect
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kstore
from kstore import LogConfig, LogView, Record, StoreConfig
from kstore.errors import InvalidConfigError, KStoreError, OffsetOutOfRangeError
from kstore.integers import check_integer

API = Path(__file__).parents[2] / "tidy" / "public_api.txt"
INT32, INT64 = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
T0 = ("t", 0)


class Calls:
    """A store with one of everything that the calls below need."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = kstore.open(path, config=StoreConfig(background=False))
        self.topic = self.store.create_topic("t", partitions=2)
        self.log = self.topic[0]
        self.log.extend([b"a", b"b", b"c"])
        self.outside = kstore.open(path, mode="r")
        self.reader = self.outside["t"][0]
        self.consumer = self.store.consumer(group="g", assignment=[T0, ("t", 1)])
        self.producer = self.store.producer("t")
        self.any_producer = self.store.producer()
        self.transactional = self.store.transactional_producer("x")
        self.transactional.begin_transaction()
        self.committer = kstore.Committer(self.log)

    def close(self) -> None:
        self.committer.close()
        self.outside.close()
        self.store.close()


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Calls]:
    calls = Calls(tmp_path)
    yield calls
    calls.close()


def _record(**fields: Any) -> Record:
    return Record(**{"offset": 0, "timestamp": 0, "key": None, "value": b"", **fields})


def _delete_group_offset(at: Calls, partition: Any) -> None:
    at.store.alter_group_offsets("h", {T0: 1})
    at.store.delete_group_offsets("h", [("t", partition)])


# (public callable, parameter, call, bounds, a value it accepts); a reader and a writer differ.
Case = tuple[str, str, Callable[[Calls, Any], object], tuple[int, int], int]
MS = (0, 253_402_300_799_999)  # a record's timestamp; refused by InvalidTimestampError
WHEN = (0, 2**63 - 1)
EPOCH = (0, 2**31 - 1)
CALLS: list[Case] = [
    ("Committer.wait", "offset", lambda at, n: at.committer.wait(n, timeout=0.0), INT64, 0),
    ("Consumer.assign", "partitions", lambda at, n: at.consumer.assign([("t", n)]), INT32, 1),
    ("Consumer.commit", "offsets", lambda at, n: at.consumer.commit({T0: n}), INT64, 1),
    ("Consumer.committed", "partition", lambda at, n: at.consumer.committed(("t", n)), INT32, 1),
    ("Consumer.pause", "partitions", lambda at, n: at.consumer.pause(("t", n)), INT32, 1),
    ("Consumer.poll", "max_records", lambda at, n: at.consumer.poll(max_records=n),
     (1, INT64[1]), 1),
    ("Consumer.position", "partition", lambda at, n: at.consumer.position(("t", n)), INT32, 1),
    ("Consumer.resume", "partitions", lambda at, n: at.consumer.resume(("t", n)), INT32, 1),
    ("Consumer.seek", "offset", lambda at, n: at.consumer.seek(T0, n), INT64, 1),
    ("Consumer.seek", "partition", lambda at, n: at.consumer.seek(("t", n), 0), INT32, 1),
    ("Consumer.seek_to_beginning", "partitions",
     lambda at, n: at.consumer.seek_to_beginning(("t", n)), INT32, 1),
    ("Consumer.seek_to_committed", "partitions",
     lambda at, n: at.consumer.seek_to_committed(("t", n)), INT32, 1),
    ("Consumer.seek_to_end", "partitions", lambda at, n: at.consumer.seek_to_end(("t", n)),
     INT32, 1),
    ("Consumer.seek_to_time", "when", lambda at, n: at.consumer.seek_to_time(n, T0), WHEN, 1),
    ("Consumer.seek_to_time", "partitions",
     lambda at, n: at.consumer.seek_to_time(1, ("t", n)), INT32, 1),
    ("Log.__getitem__", "index", lambda at, n: at.log[n], INT64, 1),
    ("Log.head", "count", lambda at, n: at.log.head(n), (0, INT64[1]), 1),
    ("Log.tail", "count", lambda at, n: at.log.tail(n), (0, INT64[1]), 1),
    ("LogView.head", "count", lambda at, n: at.log.view().head(n), (0, INT64[1]), 1),
    ("LogView.tail", "count", lambda at, n: at.log.view().tail(n), (0, INT64[1]), 1),
    ("Log.__getitem__", "index", lambda at, n: list(at.log[n:]), INT64, 1),
    ("Log.__getitem__", "index", lambda at, n: list(at.log[:n]), INT64, 1),
    ("Log.aborted_transactions", "start", lambda at, n: at.log.aborted_transactions(n, 3),
     INT64, 1),
    ("Log.aborted_transactions", "stop", lambda at, n: at.log.aborted_transactions(0, n),
     INT64, 1),
    ("Log.append", "timestamp", lambda at, n: at.log.append(b"", timestamp=n), MS, 1),
    ("Log.append_end_marker", "producer_id",
     lambda at, n: at.log.append_end_marker(n, 0, commit=True), (0, INT64[1]), 1),
    ("Log.append_end_marker", "producer_epoch",
     lambda at, n: at.log.append_end_marker(1, n, commit=True), (0, 2**15 - 1), 1),
    ("Log.append_end_marker", "coordinator_epoch",
     lambda at, n: at.log.append_end_marker(1, 0, commit=True, coordinator_epoch=n),
     (0, INT32[1]), 1),
    ("Log.append_end_marker", "transaction_version",
     lambda at, n: at.log.append_end_marker(1, 0, commit=True, transaction_version=n),
     (0, 2**15 - 1), 1),
    ("Log.append_end_marker", "timestamp",
     lambda at, n: at.log.append_end_marker(1, 0, commit=True, timestamp=n), (-1, MS[1]), 1),
    ("Log.delete_records", "before_offset", lambda at, n: at.log.delete_records(n), INT64, 1),
    ("Log.extend", "timestamp", lambda at, n: at.log.extend([b""], timestamp=n), MS, 1),
    ("Log.begin_epoch", "epoch", lambda at, n: at.log.begin_epoch(n), EPOCH, 1),
    ("Log.epoch_at", "offset", lambda at, n: at.log.epoch_at(n), INT64, 1),
    ("Log.epoch_at", "offset", lambda at, n: at.reader.epoch_at(n), INT64, 1),
    ("Log.epoch_end", "epoch", lambda at, n: at.log.epoch_end(n), INT32, 1),
    ("Log.epoch_end", "epoch", lambda at, n: at.reader.epoch_end(n), INT32, 1),
    ("Log.find_time", "when", lambda at, n: at.log.find_time(n), WHEN, 1),
    ("Log.find_time", "up_to", lambda at, n: at.log.find_time(0, up_to=n), INT64, 1),
    ("Log.max_timestamp", "up_to", lambda at, n: at.log.max_timestamp(up_to=n), INT64, 1),
    ("Log.truncate_to_epoch", "epoch", lambda at, n: at.log.truncate_to_epoch(n), EPOCH, 1),
    ("Log.follow", "start", lambda at, n: list(at.log.follow(start=n, timeout=0.0)), INT64, 1),
    ("Log.offset_at", "when", lambda at, n: at.log.offset_at(n), WHEN, 1),
    ("Log.read", "offset", lambda at, n: at.log.read(n), INT64, 1),
    ("Log.recompress", "level", lambda at, n: at.log.recompress("zstd", level=n), (1, 22), 1),
    ("Log.convert", "level", lambda at, n: at.log.convert(compression="gzip", level=n), (1, 9), 1),
    ("Log.read", "offset", lambda at, n: at.reader.read(n), INT64, 1),
    ("Log.read", "max_bytes", lambda at, n: at.log.read(0, n), INT64, 1),
    ("Log.read", "up_to", lambda at, n: at.log.read(0, up_to=n), INT64, 1),
    ("Log.read", "up_to", lambda at, n: at.reader.read(0, up_to=n), INT64, 1),
    ("Log.set_high_watermark", "offset", lambda at, n: at.log.set_high_watermark(n),
     (0, INT64[1]), 1),
    ("Broker.__init__", "port", lambda at, n: kstore.Broker(at.store, port=n), (0, 65_535), 1),
    ("Broker.__init__", "node_id", lambda at, n: kstore.Broker(at.store, node_id=n),
     (0, INT32[1]), 1),
    ("Log.read", "max_bytes", lambda at, n: at.reader.read(0, n), INT64, 1),
    ("Log.settled", "start", lambda at, n: at.log.settled(n), INT64, 1),
    ("Log.since", "when", lambda at, n: at.log.since(n), WHEN, 1),
    ("Log.since", "until", lambda at, n: at.log.since(0, n), WHEN, 1),
    ("Topic.offsets_at", "when", lambda at, n: at.topic.offsets_at(n), WHEN, 1),
    ("Log.truncate_to", "offset", lambda at, n: at.log.truncate_to(n), INT64, 1),
    ("Log.view", "start", lambda at, n: list(at.log.view(n)), INT64, 1),
    ("Log.view", "stop", lambda at, n: list(at.log.view(0, n)), INT64, 1),
    ("Log.wait_beyond", "offset", lambda at, n: at.log.wait_beyond(n, 0.0), INT64, 1),
    ("Log.wait_beyond", "offset", lambda at, n: at.reader.wait_beyond(n, 0.0), INT64, 1),
    ("LogView.__init__", "start", lambda at, n: LogView(at.log, n, None), INT64, 1),
    ("LogView.__init__", "stop", lambda at, n: LogView(at.log, None, n), INT64, 1),
    ("LogView.__getitem__", "window", lambda at, n: at.log.view()[n:], INT64, 1),
    ("LogView.__getitem__", "window", lambda at, n: at.log.view()[:n], INT64, 1),
    ("Log.scan", "threads", lambda at, n: list(at.log.scan(threads=n)), (1, INT32[1]), 1),
    ("LogView.scan", "threads", lambda at, n: list(at.log.view().scan(threads=n)),
     (1, INT32[1]), 1),
    ("MultiTopicProducer.__init__", "batch_size", lambda at, n: at.store.producer(batch_size=n),
     (1, INT64[1]), 1),
    ("MultiTopicProducer.__init__", "buffer_memory",
     lambda at, n: at.store.producer(buffer_memory=n), (1, INT64[1]), 1),
    ("MultiTopicProducer.send", "timestamp",
     lambda at, n: at.any_producer.send("t", b"", timestamp=n), MS, 1),
    ("MultiTopicProducer.send", "partition",
     lambda at, n: at.any_producer.send("t", b"", partition=n), INT32, 1),
    ("Producer.__init__", "batch_size", lambda at, n: at.store.producer("t", batch_size=n),
     (1, INT64[1]), 1),
    ("Producer.__init__", "buffer_memory", lambda at, n: at.store.producer("t", buffer_memory=n),
     (1, INT64[1]), 1),
    ("Producer.send", "timestamp", lambda at, n: at.producer.send(b"", timestamp=n), MS, 1),
    ("Producer.send", "partition", lambda at, n: at.producer.send(b"", partition=n), INT32, 1),
    ("Record.__init__", "offset", lambda _, n: _record(offset=n), INT64, 1),
    ("Record.__init__", "timestamp", lambda _, n: _record(timestamp=n), INT64, 1),
    ("Record.__init__", "leader_epoch", lambda _, n: _record(leader_epoch=n), INT32, 1),
    ("Store.add_partitions", "partitions", lambda at, n: at.store.add_partitions("t", n),
     (3, 1_000_000), 3),
    ("Store.alter_group_offsets", "offsets",
     lambda at, n: at.store.alter_group_offsets("new", {T0: n}), INT64, 1),
    ("Store.alter_group_offsets", "offsets",
     lambda at, n: at.store.alter_group_offsets("new", {("t", n): 1}), INT32, 0),
    ("Store.consumer", "max_poll_records",
     lambda at, n: at.store.consumer("t", max_poll_records=n), (1, INT64[1]), 1),
    ("Store.consumer", "metadata_max_age_ms",
     lambda at, n: at.store.consumer("t", metadata_max_age_ms=n), (0, INT64[1]), 1),
    ("Store.consumer", "max_poll_interval_ms",
     lambda at, n: at.store.consumer("t", max_poll_interval_ms=n), (1, INT32[1]), 1),
    ("Store.consumer", "assignment", lambda at, n: at.store.consumer(assignment=[("t", n)]),
     INT32, 1),
    ("Store.create_partition", "partition",
     lambda at, n: at.store.create_partition("t", n, exist_ok=True), (0, 999_999), 1),
    ("Store.partition", "partition", lambda at, n: at.store.partition("t", n), INT32, 1),
    ("Store.delete_partition", "partition",
     lambda at, n: at.store.delete_partition("t", n, missing_ok=True), INT32, 1),
    ("Store.create_topic", "partitions", lambda at, n: at.store.create_topic("new", n),
     (1, 1_000_000), 2),
    ("Store.delete_group_offsets", "partitions",
     lambda at, n: _delete_group_offset(at, n), INT32, 1),
    ("Store.move", "partition", lambda at, n: at.store.move("t", n, at.path), INT32, 1),
    ("Store.move", "max_bytes_per_second",
     lambda at, n: at.store.move("t", 0, at.path, max_bytes_per_second=n), (1, INT64[1]), 1),
    ("Store.transactional_producer", "timeout_ms",
     lambda at, n: at.store.transactional_producer("y", timeout_ms=n), (1, 900_000), 1),
    ("Store.transactional_producer", "batch_size",
     lambda at, n: at.store.transactional_producer("y", batch_size=n), (1, INT64[1]), 1),
    ("Topic.add_partitions", "partitions", lambda at, n: at.topic.add_partitions(n),
     (3, 1_000_000), 3),
    ("Topic.delete_records", "before_offsets", lambda at, n: at.topic.delete_records(n),
     INT64, -1),
    ("Topic.extend", "timestamp", lambda at, n: at.topic.extend([b""], timestamp=n), MS, 1),
    ("Topic.__getitem__", "partition", lambda at, n: at.topic[n], INT32, 1),
    ("Topic.append", "timestamp", lambda at, n: at.topic.append(b"", timestamp=n), MS, 1),
    ("Topic.append", "partition", lambda at, n: at.topic.append(b"", partition=n), INT32, 1),
    ("TransactionalProducer.send", "timestamp",
     lambda at, n: at.transactional.send("t", b"", timestamp=n), MS, 1),
    ("TransactionalProducer.send", "partition",
     lambda at, n: at.transactional.send("t", b"", partition=n), INT32, 1),
    ("TransactionalProducer.send_offsets_to_transaction", "offsets",
     lambda at, n: at.transactional.send_offsets_to_transaction({T0: n}, "h"), INT64, 1),
]  # fmt: skip
# What takes a whole number that is none of offset, timestamp, size, count or epoch, or is made by
# kstore alone.
OTHERS = {
    "Columns.__init__": {"timestamp_type"},
    "Columns.__getitem__": {"rows"},  # NumPy's indexing
    "ConsumerBatch.__getitem__": {"index"},  # a list's
    "LogView.__init__": {"held"},  # the log's bounds when a slice was made
    "Ragged.__getitem__": {"rows"},
    "RetentionReport.merge": {"reports"},
    "RecordBatchInfo.__init__": {  # of a batch's header
        "base_offset",
        "last_offset",
        "count",
        "magic",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "leader_epoch",
        "first_timestamp",
        "delete_horizon",
        "max_timestamp",
        "crc",
        "position",
        "size",
    },
    "Consumer.__init__": {  # see Store.consumer
        "max_poll_records",
        "metadata_max_age_ms",
        "max_poll_interval_ms",
    },
    "ConsumerBatch.__init__": {"start_offset", "stop_offset"},
    "Delivery.__init__": {"index"},
    "Log.__init__": {"partition"},
    "MultiTopicProducer.__init__": {"acks"},
    "Producer.__init__": {"acks"},
    "Store.producer": {"batch_size", "buffer_memory", "acks", "retries"},  # see Producer.__init__
    "Store.transaction": {"timeout_ms", "batch_size", "acks"},  # see Store.transactional_producer
    "Store.transactional_producer": {"acks"},
    "Topic.__init__": {"partitions", "count"},
    "serve": {"port", "node_id"},  # Broker's
    "TransactionalProducer.__init__": {"timeout_ms", "batch_size", "acks"},
}
IDS = [f"{n}-{name}-{parameter}" for n, (name, parameter, *_) in enumerate(CALLS)]


def _integer_parameters() -> Iterator[tuple[str, str]]:
    """Parameters of the public API whose annotation has an int; of Record's, which has none."""
    for line in API.read_text().splitlines():
        found = re.match(r"def kstore\.([\w.]+)", line)
        if found is None:
            continue
        what: Any = kstore
        for part in found[1].split("."):
            what = getattr(what, part)
        if found[1] == "Record.__init__":
            yield from ((found[1], each) for each in ("offset", "timestamp", "leader_epoch"))
            continue
        for name, parameter in inspect.signature(what).parameters.items():
            kind = str(parameter.annotation)
            if "Callable" not in kind and re.search(r"\bint\b|\bslice\b", kind):
                yield found[1], name


def test_the_cases_cover_every_public_integer_parameter() -> None:
    known = {(name, parameter) for name, parameter, *_ in CALLS}
    known |= {(name, each) for name, parameters in OTHERS.items() for each in parameters}
    missing = {
        each
        for each in _integer_parameters()
        if each not in known and not each[0].startswith(("LogConfig.", "StoreConfig."))
    }
    assert missing == set()


@pytest.mark.parametrize(("name", "parameter", "call", "bounds", "good"), CALLS, ids=IDS)
def test_a_number_out_of_bounds_is_refused_by_the_arguments_name(
    at: Calls, name: str, parameter: str, call: Callable[[Calls, Any], object],
    bounds: tuple[int, int], good: int,
) -> None:  # fmt: skip
    low, high = bounds
    for number in (low - 1, high + 1, -(2**63) - 1, 2**63, 10**5000, -(10**5000)):
        with pytest.raises(KStoreError) as caught:
            call(at, number)
        assert isinstance(caught.value, ValueError), (name, number.bit_length())
        text = str(caught.value)
        assert re.search(r"\d", text), text  # a bound
    call(at, good)


@pytest.mark.parametrize(("name", "parameter", "call", "bounds", "good"), CALLS, ids=IDS)
@pytest.mark.parametrize("value", [True, 1.0, 1.5, float("nan"), "1", np.True_, np.float64(1)])
def test_an_argument_that_is_no_integer_is_refused(
    at: Calls, name: str, parameter: str, call: Callable[[Calls, Any], object],
    bounds: tuple[int, int], good: int, value: object,
) -> None:  # fmt: skip
    with pytest.raises((TypeError, InvalidConfigError)):
        call(at, value)


@pytest.mark.parametrize(("name", "parameter", "call", "bounds", "good"), CALLS, ids=IDS)
def test_a_numpy_integer_is_accepted(
    at: Calls, name: str, parameter: str, call: Callable[[Calls, Any], object],
    bounds: tuple[int, int], good: int,
) -> None:  # fmt: skip
    call(at, np.int64(good))


def test_a_setting_takes_numpys_integers_and_keeps_an_int() -> None:
    config = LogConfig(segment_bytes=np.int32(1000))
    assert type(config.segment_bytes) is int
    assert config == LogConfig(segment_bytes=1000)
    for wrong in (10**5000, True, 1000.0, 2**31):
        with pytest.raises(InvalidConfigError, match=r"segment\.bytes must be a whole number"):
            LogConfig(segment_bytes=wrong)
    with pytest.raises(InvalidConfigError, match=r"max\.open\.logs"):
        StoreConfig(max_open_logs=2**63)


def test_the_refusal_names_the_argument_and_its_bounds(at: Calls) -> None:
    for call, name in (
        (lambda: at.log.read(2**63), "offset"),
        (lambda: at.log.read(0, 2**63), "max_bytes"),
        (lambda: at.consumer.commit({T0: 2**63}), "offset"),
        (lambda: _record(offset=2**63), "offset"),
        (lambda: _record(timestamp=2**63), "timestamp"),
        (lambda: at.log.append_end_marker(2**63, 0, commit=True), "producer_id"),
    ):
        with pytest.raises(ValueError, match=rf"{name} must be a whole number from -?\d+ to \d+"):
            call()
    with pytest.raises(InvalidConfigError, match=r"size must be .*, not a number of 16610 bits"):
        check_integer("size", 10**5000, 0, 5)


def test_a_refused_number_changes_nothing(at: Calls) -> None:
    before = at.log.end_offset, sorted(os.listdir(at.log.path)), at.consumer.positions()
    for wrong in (True, 1.5, 2**63):
        for call in (at.log.truncate_to, at.log.delete_records, at.log.read):
            with pytest.raises((TypeError, ValueError)):
                call(wrong)
        with pytest.raises((TypeError, ValueError)):
            at.consumer.seek(T0, wrong)
    assert before == (at.log.end_offset, sorted(os.listdir(at.log.path)), at.consumer.positions())
    assert at.log.start_offset == 0


def test_the_largest_offset_is_out_of_range_like_any_other(at: Calls) -> None:
    for log in (at.log, at.reader):
        for look in (lambda log=log: log[2**63 - 1], lambda log=log: log.read(2**63 - 1)):
            with pytest.raises(OffsetOutOfRangeError):
                look()
        assert list(log.view(2**63 - 1)) == []


def test_a_producer_does_not_send_to_a_negative_partition(at: Calls) -> None:
    """``topic[-1]`` is the last partition; a record goes to the one that it names."""
    for send in (
        lambda: at.producer.send(b"", partition=-1),
        lambda: at.transactional.send("t", b"", partition=-1),
    ):
        with pytest.raises(kstore.errors.UnknownTopicOrPartitionError, match="-1"):
            send()
