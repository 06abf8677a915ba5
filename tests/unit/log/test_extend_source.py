"""What the source of an extend may do with the log that it extends."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import Delivery, Log, Producer, Store, StoreConfig


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    config = StoreConfig(background=False)
    with kstore.open(tmp_path, config=config) as opened:
        opened.create_topic("t", config={"segment.bytes": 4096})
        yield opened


def test_a_flush_does_not_wait_for_a_sync_of_rolled_segments(store: Store) -> None:
    """That thread has the flush lock and waits for the lock that the extend holds."""
    log = store["t"][0]
    state = log._require_writer().state
    holds_flush_lock = threading.Event()

    def sync_rolled() -> None:
        with state.flush_lock:
            holds_flush_lock.set()
            with state.lock:
                pass

    thread = threading.Thread(target=sync_rolled)
    durable: list[int] = []

    def lines() -> Iterator[bytes]:
        for n in range(20_000):
            if n == 19_000:
                thread.start()
                assert holds_flush_lock.wait(30)
                log.flush()
                durable.append(log.recovery_point)
            yield b"line %d" % n

    assert log.extend(lines()) == range(20_000)
    thread.join()
    assert 10_000 < durable[0] <= 19_000
    assert len(log.segments.views) > 2
    log.flush()
    assert log.recovery_point == 20_000
    log.verify().raise_if_corrupt()


@pytest.mark.parametrize(
    "change",
    [
        lambda store, log: log.truncate_to(1),
        lambda store, log: log.reindex(),
        lambda store, log: log.recompress("zstd"),
        lambda store, log: log.extend([b"nested"]),
        lambda store, log: store.delete_topic("t"),
    ],
    ids=["truncate", "reindex", "recompress", "extend", "delete the topic"],
)
def test_a_change_of_the_log_is_refused(
    store: Store, change: Callable[[Store, Log], object]
) -> None:
    log = store["t"][0]
    log.extend([b"1", b"2"])

    def lines() -> Iterator[bytes]:
        yield b"3"
        with pytest.raises(RuntimeError, match="the source of an extend must not"):
            change(store, log)
        yield b"4"

    assert log.extend(lines()) == range(2, 4)
    assert [record.value for record in store["t"][0]] == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("count", [0, 1, 5000])
def test_an_append_of_the_source_is_an_error_that_loses_nothing(store: Store, count: int) -> None:
    log = store["t"][0]

    def lines() -> Iterator[bytes]:
        yield from [b"line"] * count
        log.append(b"of the source")

    with pytest.raises(RuntimeError, match="must not append to the same log"):
        log.extend(lines())
    assert [record.value for record in log].count(b"of the source") == 1


@pytest.mark.parametrize(
    "wait",
    [
        lambda producer, delivery: producer.flush(),
        lambda producer, delivery: producer.close(),
        lambda producer, delivery: delivery.result(),
        lambda producer, delivery: producer.send(b"x" * 900, partition=0),
    ],
    ids=["flush", "close", "result", "a full buffer"],
)
def test_a_wait_for_a_producer_of_the_same_log_is_refused(
    store: Store, wait: Callable[[Producer, Delivery], object]
) -> None:
    """Its thread waits for the lock that the extend holds."""
    store.create_topic("other")
    log = store["t"][0]
    log.append(b"0")
    with store.producer("t", buffer_memory=1000) as producer, store.producer("other") as other:

        def lines() -> Iterator[bytes]:
            yield b"1"
            delivery = producer.send(b"2")
            with pytest.raises(RuntimeError, match="must not wait for a producer of the same log"):
                wait(producer, delivery)
            other.send(b"")
            other.flush()

        assert log.extend(lines()) == range(1, 2)
        producer.flush()
    assert [record.value for record in log] == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("items", "end", "appended"),
    [
        (["text"], 1, "nothing was"),
        ([b"v" * 60, b"v", "text"], 2, "the first item was appended, at offset 1"),
        (
            [b"v" * 60, (b"k", b"v" * 60), b"v", 3.5],
            3,
            "the first 2 items were appended, at offsets 1 to 2",
        ),
    ],
)
def test_an_item_that_is_no_value_does_not_hide_what_was_appended(
    store: Store, items: list[Any], end: int, appended: str
) -> None:
    log = store.create_topic("u", config={"batch.size": 50})[0]
    log.append(b"before")
    with pytest.raises(TypeError, match="is bytes") as caught:
        log.extend(items)
    (note,) = caught.value.__notes__
    assert note.startswith(f"before this error {appended}")
    assert log.end_offset == end


def test_an_error_of_the_source_does_not_hide_what_was_appended(store: Store) -> None:
    def lines() -> Iterator[bytes]:
        for n in range(2500):
            yield b"%d" % n
        raise ValueError("line 2501")

    with pytest.raises(ValueError, match="line 2501") as caught:
        store["t"][0].extend(lines())
    (note,) = caught.value.__notes__
    end = store["t"][0].end_offset
    assert note == (
        f"before this error the first {end} items were appended, at offsets 0 to {end - 1}"
    )
    assert end >= 2000
