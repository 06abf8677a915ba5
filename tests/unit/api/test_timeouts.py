"""Times to wait: seconds or a timedelta, and nothing that would wait without end by mistake."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kstore
from kstore.errors import InvalidConfigError
from kstore.integers import check_seconds

CALLS: dict[str, Callable[[kstore.Store, Any], object]] = {
    "poll": lambda store, timeout: store.consumer("orders").poll(timeout=timeout),
    "consumer": lambda store, timeout: list(store.consumer("orders", timeout=timeout)),
    "batches": lambda store, timeout: list(store.consumer("orders").batches(timeout)),
    "follow": lambda store, timeout: list(store["orders"][0].follow(timeout=timeout)),
    "wait_beyond": lambda store, timeout: store["orders"][0].wait_beyond(9, timeout),
    "result": lambda store, timeout: store.producer("orders").send(b"v").result(timeout),
    "exception": lambda store, timeout: store.producer("orders").send(b"v").exception(timeout),
    "flush": lambda store, timeout: store.producer("orders").flush(timeout),
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kstore.Store]:
    with kstore.open(tmp_path) as opened:
        opened.create_topic("orders")
        yield opened


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("timeout", [float("nan"), -1, -0.1, timedelta(seconds=-1)])
def test_a_time_that_is_no_time_is_refused(
    store: kstore.Store, call: Callable[[kstore.Store, Any], object], timeout: Any
) -> None:
    with pytest.raises(InvalidConfigError, match="timeout is in seconds, at least 0, or None"):
        call(store, timeout)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("timeout", ["1", True, [1]])
def test_other_types_are_refused(
    store: kstore.Store, call: Callable[[kstore.Store, Any], object], timeout: Any
) -> None:
    with pytest.raises(TypeError, match="timeout is in seconds, a timedelta, or None: not"):
        call(store, timeout)


@pytest.mark.parametrize("name", ["poll", "consumer", "batches", "follow", "wait_beyond", "flush"])
@pytest.mark.parametrize("timeout", [timedelta(milliseconds=1), 0, np.float64(0.001)])
def test_a_timedelta_is_a_time(store: kstore.Store, name: str, timeout: Any) -> None:
    assert not CALLS[name](store, timeout)


def test_an_infinite_timeout_becomes_the_longest_one() -> None:
    assert check_seconds("timeout", None) is None
    assert check_seconds("timeout", float("inf")) == check_seconds("timeout", 10**30) == 1e9
    assert check_seconds("timeout", timedelta(minutes=1)) == 60.0
