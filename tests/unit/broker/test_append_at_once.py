"""Appends on the event loop's thread: only where they cannot block."""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import kstore
from kstore.broker.partitions import append_at_once

SIZE = 100


@pytest.fixture(params=["ready", "with closed files"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[kstore.Log]:
    with kstore.open(tmp_path) as store:
        [log] = store.create_topic("t", config={"segment.bytes": 4096})
        log.append(b"first")
        if request.param != "ready":
            assert log.park()
        assert log._require_writer().state.appender.ready == (request.param == "ready")
        yield log


def test_an_append_that_fits_is_made_with_the_lock_held(log: kstore.Log) -> None:
    lock = log._require_writer().state.lock

    def append() -> int:
        assert lock._is_owned()
        return log.append(b"x")

    assert append_at_once(log, SIZE, append) == 1
    assert not lock._is_owned()
    assert log.end_offset == 2


def test_an_error_releases_the_lock(log: kstore.Log) -> None:
    def fail() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        append_at_once(log, SIZE, fail)
    assert not log._require_writer().state.lock._is_owned()


def test_no_append_rolls_a_segment(log: kstore.Log) -> None:
    left = 4096 - log.segments.views[-1].size
    assert append_at_once(log, left + 1, partial(log.append, b"x")) is None
    assert log.end_offset == 1
    assert append_at_once(log, left, partial(log.append, b"x")) == 1


def test_no_append_waits_for_the_lock(log: kstore.Log) -> None:
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with log._require_writer().state.lock:
            is_held.set()
            may_end.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert is_held.wait(60)
        assert append_at_once(log, SIZE, partial(log.append, b"x")) is None
    finally:
        may_end.set()
        thread.join()
    assert log.end_offset == 1


def test_no_append_syncs(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        [log] = store.create_topic("t", config={"flush.messages": 5})
        log.append(b"first")
        assert append_at_once(log, SIZE, partial(log.append, b"x")) is None
        assert log.end_offset == 1


def test_a_closed_log_is_an_error(log: kstore.Log) -> None:
    log.close()
    with pytest.raises(kstore.ClosedError):
        append_at_once(log, SIZE, partial(log.append, b"x"))
