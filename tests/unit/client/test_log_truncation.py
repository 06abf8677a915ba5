"""A log is truncated below a consumer's position, and grows beyond it again (KIP-320)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import kstore
from kstore import Log, Store
from kstore.errors import LogTruncationError, OffsetOutOfRangeError

TP = ("t", 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path) as opened:
        log = opened.create_topic("t")[0]
        for value in (b"a0", b"a1", b"a2", b"a3"):
            log.append(value)
        yield opened


@pytest.fixture
def log(store: Store) -> Log:
    return store["t"][0]


def values(consumer: kstore.Consumer) -> list[bytes | None]:
    return [record.value for records in consumer.poll().values() for record in records]


def truncate(log: Log, offset: int, *after: bytes) -> None:
    log.truncate_to(offset)
    for value in after:
        log.append(value)


@pytest.mark.parametrize("reset", ["earliest", "latest"])
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_consumer_reads_from_the_truncation_on(
    store: Store, log: Log, caplog: pytest.LogCaptureFixture, reset: str, isolation: str
) -> None:
    with store.consumer(
        "t", group="g", auto_offset_reset=reset, isolation_level=isolation,
        enable_auto_commit=False,
    ) as consumer:  # fmt: skip
        consumer.seek(TP, 0)
        assert values(consumer) == [b"a0", b"a1", b"a2", b"a3"]
        truncate(log, 2, b"b2", b"b3", b"b4")
        assert values(consumer) == [b"b2", b"b3", b"b4"]
        assert caplog.text.count("t-0 was truncated to offset 2, below the position 4") == 1
        assert values(consumer) == []
        truncate(log, 5, b"b5")  # removes nothing
        assert values(consumer) == [b"b5"]
        assert caplog.text.count("truncated") == 1


def test_the_lowest_of_several_truncations_counts(store: Store, log: Log) -> None:
    with store.consumer(assignment=[TP], auto_offset_reset="earliest") as consumer:
        assert len(values(consumer)) == 4
        truncate(log, 1, b"b1", b"b2", b"b3")
        truncate(log, 3, b"c3", b"c4")
        assert values(consumer) == [b"b1", b"b2", b"c3", b"c4"]


def test_a_log_that_has_not_grown_again_is_read_from_its_end_on(store: Store, log: Log) -> None:
    """As in Kafka, and not from the beginning, whatever auto.offset.reset says."""
    with store.consumer(assignment=[TP], auto_offset_reset="earliest") as consumer:
        assert len(values(consumer)) == 4
        log.truncate_to(2)
        assert values(consumer) == []
        assert consumer.position(TP) == 2
        log.append(b"b2")
        assert values(consumer) == [b"b2"]


def test_a_truncation_above_the_position_changes_nothing(
    store: Store, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    with store.consumer(assignment=[TP], auto_offset_reset="earliest") as consumer:
        assert len(consumer.poll(max_records=2)[TP]) == 2
        truncate(log, 2, b"b2")
        assert values(consumer) == [b"b2"]
        assert caplog.text == ""


def test_without_a_reset_it_is_an_error_until_the_consumer_seeks(store: Store, log: Log) -> None:
    with store.consumer(assignment=[TP], auto_offset_reset="none") as consumer:
        consumer.seek(TP, 0)
        assert len(values(consumer)) == 4
        truncate(log, 2, b"b2", b"b3", b"b4", b"b5")
        for _ in range(2):
            with pytest.raises(LogTruncationError, match="truncated to offset 2") as raised:
                consumer.poll()
            assert isinstance(raised.value, OffsetOutOfRangeError)
            assert (raised.value.offset, raised.value.path) == (2, log.path)
            assert consumer.position(TP) == 4
        consumer.seek(TP, 3)
        assert values(consumer) == [b"b3", b"b4", b"b5"]


def test_a_position_within_a_batch_that_was_read_is_checked_too(store: Store, log: Log) -> None:
    with store.consumer(assignment=[TP], auto_offset_reset="earliest", timeout=0.0) as consumer:
        for record in consumer.records():
            if record.offset == 2:
                break
        assert consumer.position(TP) == 3
        truncate(log, 1, b"b1", b"b2", b"b3")
        assert values(consumer) == [b"b1", b"b2", b"b3"]


def test_a_topic_that_is_created_again_was_not_truncated(store: Store, log: Log) -> None:
    with store.consumer(assignment=[TP], auto_offset_reset="none") as consumer:
        consumer.seek(TP, 0)
        assert len(values(consumer)) == 4
        truncate(log, 3)
        store.delete_topic("t")
        store.create_topic("t")[0].append(b"n0")
        with pytest.raises(OffsetOutOfRangeError) as raised:
            consumer.poll()
        assert not isinstance(raised.value, LogTruncationError)
