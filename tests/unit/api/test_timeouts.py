"""Times to wait: seconds or a timedelta, and nothing that would wait without end by mistake."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kstore
from kstore.errors import InvalidConfigError, SourceError
from kstore.integers import check_milliseconds, check_seconds
from kstore.mirror.copy import Mirror
from kstore.remote.store import RemoteStore

CALLS: dict[str, Callable[[kstore.Store, Any], object]] = {
    "poll": lambda store, timeout: store.consumer("orders").poll(timeout=timeout),
    "consumer": lambda store, timeout: list(store.consumer("orders", timeout=timeout)),
    "batches": lambda store, timeout: list(store.consumer("orders").batches(timeout)),
    "follow": lambda store, timeout: list(store["orders"][0].follow(timeout=timeout)),
    "wait_beyond": lambda store, timeout: store["orders"][0].wait_beyond(9, timeout),
    "result": lambda store, timeout: store.producer("orders").send(b"v").result(timeout),
    "exception": lambda store, timeout: store.producer("orders").send(b"v").exception(timeout),
    "flush": lambda store, timeout: store.producer("orders").flush(timeout),
    "transaction": lambda store, timeout: flush_transaction(store, timeout),
    "init": lambda store, timeout: store.transactional_producer("i").init_transactions(timeout),
}
MILLISECONDS: dict[str, Callable[[kstore.Store, Any], object]] = {
    "linger_ms": lambda store, time: store.producer("orders", linger_ms=time).close(),
    "max_block_ms": lambda store, time: store.producer(max_block_ms=time).close(),
}
WHOLE_MILLISECONDS: dict[str, Callable[[kstore.Store, Any], object]] = {
    "metadata_max_age_ms": lambda store, time: store.consumer(metadata_max_age_ms=time).close(),
    "max_poll_interval_ms": lambda store, time: store.consumer(max_poll_interval_ms=time).close(),
    "timeout_ms": lambda store, time: store.transactional_producer("i", timeout_ms=time).close(),
    "retention_ms": lambda store, time: kstore.LogConfig(retention_ms=time),
}


NO_SERVER = "localhost:1"


def flush_transaction(store: kstore.Store, timeout: Any) -> int:
    with store.transaction("flush") as transaction:
        transaction.send("orders", b"v")
        return transaction.flush(timeout)


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


@pytest.mark.parametrize("name", [name for name in CALLS if name not in {"result", "exception"}])
@pytest.mark.parametrize("timeout", [timedelta(milliseconds=1), 0, np.float64(0.001)])
def test_a_timedelta_is_a_time(store: kstore.Store, name: str, timeout: Any) -> None:
    assert not CALLS[name](store, timeout)


def test_an_infinite_timeout_becomes_the_longest_one() -> None:
    assert check_seconds("timeout", None) is None
    assert check_seconds("timeout", float("inf")) == check_seconds("timeout", 10**400) == 1e9
    assert check_seconds("timeout", timedelta(minutes=1)) == 60.0
    with pytest.raises(InvalidConfigError, match="or None: not a number of 1329 bits"):
        check_seconds("timeout", -(10**400))


@pytest.mark.parametrize("name", MILLISECONDS)
@pytest.mark.parametrize("time", [float("nan"), -1, "1", True, None, timedelta(seconds=-1)])
def test_a_setting_in_milliseconds_is_named(store: kstore.Store, name: str, time: Any) -> None:
    with pytest.raises(InvalidConfigError, match=f"^{name} is in milliseconds, at least 0, or a"):
        MILLISECONDS[name](store, time)


@pytest.mark.parametrize("call", [*MILLISECONDS.values(), *WHOLE_MILLISECONDS.values()])
def test_a_setting_in_milliseconds_is_a_timedelta(
    store: kstore.Store, call: Callable[[kstore.Store, Any], object]
) -> None:
    call(store, timedelta(seconds=2))


def test_the_unit_of_a_timedelta() -> None:
    assert check_milliseconds("linger_ms", timedelta(seconds=2)) == 2.0
    assert check_milliseconds("linger_ms", 2) == 0.002
    assert check_milliseconds("linger_ms", float("inf")) == 1e9
    hour: Any = timedelta(hours=1)
    assert kstore.LogConfig(retention_ms=hour).retention_ms == 3_600_000


@pytest.mark.parametrize("timeout", [float("nan"), -1, timedelta(seconds=-1)])
def test_a_remote_store_and_a_mirror_refuse_it_too(store: kstore.Store, timeout: Any) -> None:
    source: Any = None  # asked for nothing
    with pytest.raises(InvalidConfigError, match=r"^timeout is in seconds, at least 0"):
        RemoteStore(NO_SERVER, timeout=timeout)
    with pytest.raises(InvalidConfigError, match=r"^metadata_max_age is in seconds"):
        Mirror(store, source, metadata_max_age=timeout)


@pytest.mark.parametrize("timeout", [timedelta(seconds=1), 0, float("inf"), None])
def test_a_remote_store_has_a_timeout_that_a_socket_takes(timeout: Any) -> None:
    with pytest.raises(SourceError, match="cannot connect to localhost:1"):
        RemoteStore(NO_SERVER, timeout=timeout)
