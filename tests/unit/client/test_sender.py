"""The thread of a producer: callbacks that hang or fail, dropped producers, a thread that ends."""

import gc
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import Store, StoreConfig
from kstore.client import sender as sender_module
from kstore.errors import ClosedError, KStoreError, MessageTooLargeError
from kstore.files.files import Files

QUIET = StoreConfig(background=False)
WAIT = 30  # seconds; a limit for what should happen at once


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=QUIET) as opened:
        opened.create_topic("t", 4, config={"max.message.bytes": 500})
        yield opened


class HangingCallback:
    """A callback that waits until the test opens its gate."""

    def __init__(self) -> None:
        self.entered, self.gate, self.returned = (threading.Event() for _ in range(3))

    def __call__(self, *_: object) -> None:
        self.entered.set()
        assert self.gate.wait(WAIT)
        self.returned.set()


def flush_in_thread(producer: kstore.Producer) -> tuple[threading.Thread, list[int]]:
    left: list[int] = []
    thread = threading.Thread(target=lambda: left.append(producer.flush()))
    thread.start()
    return thread, left


def producer_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith("kstore-producer")]


def test_flush_counts_a_record_until_its_callback_returns(store: Store) -> None:
    callback = HangingCallback()
    with store.producer("t", linger_ms=0) as producer:
        delivery = producer.send(b"x", on_delivery=callback)
        assert callback.entered.wait(WAIT)
        assert delivery.done()
        assert producer.flush(0) == 1
        flushing, left = flush_in_thread(producer)
        flushing.join(0.05)
        assert flushing.is_alive()
        callback.gate.set()
        flushing.join(WAIT)
        assert left == [0]
        assert callback.returned.is_set()


def test_a_batch_is_done_while_the_callback_of_another_runs(store: Store) -> None:
    """A flush used to return 0 while a batch behind the callback was not done."""
    callback = HangingCallback()
    with store.producer("t", linger_ms=60_000) as producer:
        producer.send(b"a", partition=0, on_delivery=callback)
        other = producer.send(b"b", partition=1)
        flushing, _ = flush_in_thread(producer)
        assert callback.entered.wait(WAIT)
        assert other.result(WAIT).offset == 0
        assert producer.flush(0) == 1  # whose callback runs
        callback.gate.set()
        flushing.join(WAIT)
        assert producer.flush() == 0


def test_flush_does_not_raise_errors_that_callbacks_will_get(store: Store) -> None:
    first, second = HangingCallback(), HangingCallback()
    errors: list[BaseException | None] = []
    with store.producer("t", linger_ms=60_000) as producer:
        producer.send(b"a", partition=0, on_delivery=first)
        assert producer.flush(0) == 1
        assert first.entered.wait(WAIT)
        producer.send(b"b", partition=1, on_delivery=second)
        assert producer.flush(0) == 2
        producer.send(b"x" * 600, partition=2, on_delivery=lambda error, _: errors.append(error))
        first.gate.set()
        assert second.entered.wait(WAIT)  # the third batch was appended with the second
        assert producer.flush(0) == 2
        second.gate.set()
        assert producer.flush() == 0
    assert [type(error) for error in errors] == [MessageTooLargeError]


def test_flush_and_close_in_a_callback_do_not_wait_for_it(store: Store) -> None:
    refused: list[str] = []

    def flush(*_: object) -> None:
        with pytest.raises(KStoreError, match="would wait for that callback") as caught:
            producer.flush()
        refused.append(str(caught.value))
        producer.close()

    producer = store.producer("t", linger_ms=0)
    producer.send(b"x", on_delivery=flush).result(WAIT)
    producer.close()
    assert len(refused) == 1


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, ValueError])
def test_a_callback_that_exits_does_not_end_the_thread(
    store: Store, caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    def fail(*_: object) -> None:
        raise error("of the callback")

    with store.producer("t", linger_ms=0) as producer:
        producer.send(b"1", partition=0, on_delivery=fail)
        assert producer.flush() == 0
        producer.send(b"2", partition=0).add_done_callback(fail)
        assert producer.send(b"3", partition=0).result(WAIT).offset == 2
    assert [record.value for record in store["t"][0]] == [b"1", b"2", b"3"]
    assert caplog.text.count("a delivery callback of topic 't' failed") == 1
    assert f"1 more delivery callback of topic 't' failed, the last one with {error.__name__}" in (
        caplog.text
    )


def test_a_callback_that_always_fails_has_one_traceback_and_counts(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(error: object, _: object) -> None:
        raise KeyError("the first kind") if error is None else ValueError("the other")

    with store.producer("t", linger_ms=0) as producer:
        for _ in range(25):
            producer.send(b"v", on_delivery=fail)
        producer.flush()
        producer.send(b"v").add_done_callback(lambda _: fail(object(), None))
    lines = [record.getMessage() for record in caplog.records]
    assert [(record.exc_info is not None) for record in caplog.records] == [
        True,
        False,
        True,
        False,
    ]
    assert lines[0] == "a delivery callback of topic 't' failed; more KeyError are counted"
    assert lines[1] == "10 more delivery callbacks of topic 't' failed, the last one with KeyError"
    assert lines[2] == "a delivery callback of topic 't' failed; more ValueError are counted"
    assert lines[3].startswith("24 more delivery callbacks of topic 't' failed")
    assert caplog.text.count("Traceback") == 2


def test_an_interrupt_of_the_caller_leaves_its_own_callback(store: Store) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with store.producer("t", linger_ms=0) as producer:
        delivery = producer.send(b"x")
        delivery.result(WAIT)
        with pytest.raises(KeyboardInterrupt):
            delivery.add_done_callback(interrupt)  # it is called here, in this thread


class Exiting(Files):
    """A disk whose sync raises what no producer catches."""

    failing = False

    def fdatasync(self, fd: int) -> None:
        if self.failing:
            raise SystemExit("of the sync")
        super().fdatasync(fd)


def test_a_thread_that_ends_gives_every_record_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = Exiting()
    reported: list[Any] = []
    with Store(tmp_path, config=QUIET, files=files) as store:
        store.create_topic("t", 3)
        producer = store.producer("t", linger_ms=60_000)
        producer.send(b"0", partition=0)
        producer.flush()
        files.failing = True
        sent = [
            producer.send(b"%d" % n, partition=n, on_delivery=lambda *got: reported.append(got))
            for n in range(2)
        ]
        sent.append(producer.send(b"2", partition=2))
        with pytest.raises(KStoreError, match=r"the producer's thread ended: SystemExit"):
            producer.flush()
        files.failing = False
        with pytest.raises(ClosedError):
            producer.send(b"3")
        for delivery in sent:
            with pytest.raises(KStoreError, match="thread ended"):
                delivery.result(WAIT)
        assert [(type(error), position) for error, position in reported] == [
            (KStoreError, None)
        ] * 2
        producer.close()
    assert "a producer's thread ended" in caplog.text


def test_close_raises_for_records_that_a_thread_left(store: Store) -> None:
    def exit_in_take() -> Any:
        raise SystemExit

    producer = store.producer("t", linger_ms=60_000)
    delivery = producer.send(b"x")
    producer._sender._take = exit_in_take
    with pytest.raises(KStoreError, match="the producer's thread ended: SystemExit"):
        producer.close()
    assert isinstance(delivery.exception(0), KStoreError)
    assert store["t"].end_offsets() == dict.fromkeys(range(4), 0)


# --- producers that are dropped ---------------------------------------------------------------


@pytest.mark.parametrize("names", [("t",), ()])
def test_a_dropped_producer_delivers_and_ends_its_thread(
    store: Store, names: tuple[str, ...]
) -> None:
    for n in range(5):
        store.producer(*names, linger_ms=60_000)  # which sends nothing
        producer: Any = store.producer(*names, linger_ms=60_000)
        delivery = producer.send(*("t", b"x")[len(names) :], partition=0)
        del producer
        gc.collect()
        assert delivery.result(WAIT).offset == n
    for thread in producer_threads():
        thread.join(WAIT)
    assert producer_threads() == []


def test_the_errors_of_a_dropped_producer_are_those_of_the_store(tmp_path: Path) -> None:
    store = kstore.open(tmp_path, config=QUIET)
    store.create_topic("t", config={"max.message.bytes": 500})
    store.producer("t", linger_ms=60_000).send(b"x" * 600)
    gc.collect()
    with pytest.raises(MessageTooLargeError):
        store.close()
    assert producer_threads() == []


def test_flush_never_raises_an_error_that_a_callback_got(store: Store) -> None:
    sys.setswitchinterval(1e-6)
    try:
        with store.producer("t", linger_ms=60_000) as producer:
            for _ in range(200):
                producer.send(b"x" * 600, on_delivery=lambda error, _: None)
                assert producer.flush() == 0
    finally:
        sys.setswitchinterval(0.005)


def test_the_list_of_errors_is_bounded(store: Store) -> None:
    with store.producer("t", linger_ms=0) as producer:
        for _ in range(sender_module._ERRORS_KEPT + 20):
            producer.send(b"x" * 600, partition=0)
        with pytest.raises(MessageTooLargeError):
            producer.flush()
        assert producer.flush() == 0
