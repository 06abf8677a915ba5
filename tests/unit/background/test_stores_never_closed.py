"""What is dropped without being closed: a finalizer takes no lock and waits for nothing."""

import gc
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import LogConfig, StoreConfig
from kstore._native.files.owned_descriptor import OwnedDescriptor
from kstore.background.scheduler import Scheduler
from kstore.files.files import Files
from kstore.record import Record
from kstore.store.log_manager import LogManager
from kstore.store.store import Store
from support.stores import MARKER, QUIET, drop, python

COMPACT = LogConfig(cleanup_policy="compact", segment_bytes=2000)


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def background_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("kstore-")]


def drop_wholly(kept: list[Store]) -> None:
    """Drop a store, and wait until no thread of its own works for it any more."""
    drop(kept)
    wait_until(lambda: gc.collect() >= 0 and background_threads() == [])


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


DEADLOCK = """
import faulthandler, gc, sys, threading, warnings, weakref
from concurrent.futures import thread
import kstore

faulthandler.dump_traceback_later(30, exit=True)
warnings.simplefilter("ignore", ResourceWarning)
store = kstore.open(sys.argv[1])
compact = kstore.LogConfig(cleanup_policy="compact", flush_ms=60_000)
for name in ("a", "b", "c"):
    store.create_topic(name, 4, config=compact)
    for log in store[name]:
        log.append(b"x", key=b"k")
store._manager.cleaner.wake()
consumer = store.consumer("a", group="group")
kept = weakref.ref(store)
"""


@pytest.mark.parametrize(
    "lock",
    [
        "thread._global_shutdown_lock",
        *["threading._shutdown_locks_lock"] * hasattr(threading, "_shutdown_locks_lock"),  # < 3.13
        "threading.Lock()",
    ],
)
def test_a_store_may_be_collected_during_any_code_that_holds_a_lock(
    tmp_path: Path, lock: str
) -> None:
    """ThreadPoolExecutor.submit, say: its lock is held where a collection may begin."""
    code = DEADLOCK + (
        f"with {lock}:\n"
        "    del store, log, consumer\n"
        "    while kept() is not None:  # a thread of its own may be at work for it\n"
        "        gc.collect()\n"
        "print('collected')\n"
    )
    assert python(code, tmp_path) == "collected\n"
    with kstore.open(tmp_path) as store:
        assert {name: [log.end_offset for log in store[name]] for name in "abc"} == {
            "a": [1] * 4, "b": [1] * 4, "c": [1] * 4,
        }  # fmt: skip


def test_a_store_may_be_collected_while_another_thread_holds_its_locks(tmp_path: Path) -> None:
    kept = [kstore.open(tmp_path, config=QUIET)]
    log = kept[0].create_topic("t")[0]
    log.append(b"x")
    held = [
        kept[0]._manager.lock,
        log._writer.state.lock,
        log._writer.state.flush_lock,
        log._writer.state.cleaning,
    ]
    release, holding, collected = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        for each in held:
            each.acquire()
        holding.set()
        release.wait(60)
        for each in held:
            each.release()

    def collect() -> None:
        with pytest.warns(ResourceWarning, match="was not closed"):
            drop(kept)
        collected.set()

    holder = threading.Thread(target=hold)
    holder.start()
    assert holding.wait(30)
    del log
    collector = threading.Thread(target=collect)
    collector.start()
    assert collected.wait(30)
    release.set()
    holder.join()
    collector.join()


def test_a_finalizer_does_not_access_the_disk(tmp_path: Path) -> None:
    calls: list[str] = []

    class Recording(Files):
        pass

    def recorded(name: str) -> Callable[..., Any]:
        def call(self: Files, *arguments: Any, **named: Any) -> Any:
            calls.append(name)
            return getattr(super(Recording, self), name)(*arguments, **named)

        return call

    for name, value in vars(Files).items():
        if callable(value) and not name.startswith("_"):
            setattr(Recording, name, recorded(name))
    kept = [Store(tmp_path, files=Recording())]
    kept[0].create_topic("t", config=LogConfig(flush_ms=60_000)).append(b"x")
    wait_until(lambda: "kstore-upkeep" in background_threads())
    calls.clear()
    with pytest.warns(ResourceWarning):
        drop_wholly(kept)
    assert calls == []


def test_a_dropped_store_releases_its_resources(tmp_path: Path) -> None:
    before = descriptors()
    kept = [kstore.open(tmp_path)]
    topic = kept[0].create_topic("t", 3, config=COMPACT)
    for log in topic:
        log.extend([Record(-1, 1, b"k%d" % n, b"v") for n in range(100)])
    kept[0]._manager.cleaner.wake()
    consumer = kept[0].consumer("t", group="group")
    assert descriptors() > before
    assert background_threads()
    with pytest.warns(ResourceWarning, match="Consumer 'group' of t-0, t-1, t-2> was not closed"):
        del topic, log, consumer
    with pytest.warns(ResourceWarning, match="was not closed"):
        drop_wholly(kept)
    assert descriptors() == before
    assert not (tmp_path / MARKER).exists()
    with kstore.open(tmp_path, config=QUIET) as store:
        assert [log.end_offset for log in store["t"]] == [100] * 3
        store.consumer("t", group="group").close()


def test_a_dropped_store_is_released_even_if_warnings_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under ``python -W error``: the warning is raised, and reported by the interpreter."""
    raised: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda about: raised.append(about.exc_type))
    kept = [kstore.open(tmp_path)]
    kept[0].create_topic("t", config=LogConfig(flush_ms=60_000)).append(b"x")
    wait_until(lambda: "kstore-upkeep" in background_threads())
    request_stop, calls = LogManager.request_stop, []
    monkeypatch.setattr(
        LogManager, "request_stop", lambda manager: calls.append(request_stop(manager))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drop_wholly(kept)
    assert raised == [ResourceWarning]
    assert len(calls) == 1


def test_a_dropped_reader_releases_its_resources(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        store.create_topic("t").append(b"x")
    before = descriptors()
    kept = [kstore.open(tmp_path, "r")]
    assert [record.value for record in kept[0]["t"][0]] == [b"x"]
    assert descriptors() > before
    drop(kept)
    assert descriptors() == before


def test_a_log_keeps_its_store_from_being_collected(tmp_path: Path) -> None:
    kept = [kstore.open(tmp_path, config=QUIET)]
    logs = [kept[0].create_topic("t")[0]]
    drop(kept)
    assert logs[0].append(b"x") == 0
    with pytest.warns(ResourceWarning):
        drop(logs)


SCAN = """
for _ in range(40):
    store["a"][0].extend([kstore.Record(-1, 1, b"k", b"x" * 1000)] * 1000)
from kstore.log.parallel_scan import _Range
gate, begun, work = threading.Event(), [], _Range.work

def gated(part):
    begun.append(part)
    if len(begun) > 1:
        gate.wait()
    return work(part)

_Range.work = gated
found = store["a"][0].view().scan(threads=2)
next(found)
ring = [found]
ring.append(ring)
with thread._global_shutdown_lock:
    del found, ring
    gc.collect()
gate.set()
print("collected")
store.close()
"""


def test_a_scan_that_is_collected_waits_for_no_thread_of_its_own(tmp_path: Path) -> None:
    assert python(DEADLOCK + SCAN, tmp_path) == "collected\n"


def test_a_scan_that_is_closed_leaves_no_thread_behind(tmp_path: Path) -> None:
    with kstore.open(tmp_path, config=QUIET) as store:
        log = store.create_topic("t")[0]
        for _ in range(40):
            log.extend([b"x" * 1000] * 1000)
        found = log.view().scan(threads=2)
        next(found)
        found.close()
        wait_until(lambda: background_threads() == [])
        assert sum(len(columns) for columns in log.view().scan(threads=2)) == 40_000
        assert background_threads() == []


def test_an_owned_descriptor_is_closed_when_nothing_refers_to_it() -> None:
    fd = os.open("/dev/null", os.O_RDONLY)
    owned = OwnedDescriptor(fd)
    os.fstat(fd)
    del owned
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    again = OwnedDescriptor(os.open("/dev/null", os.O_RDONLY))
    fd = again.take()
    assert again.fd == -1
    del again
    os.close(fd)


def test_many_wakes_are_one() -> None:
    calls: list[int] = []
    done = threading.Event()

    def work() -> float | None:
        calls.append(1)
        done.set()
        return None if len(calls) == 2 else 3600.0

    upkeep = Scheduler(work, calls.append)
    for _ in range(100):
        upkeep.wake()
    upkeep.start()
    assert done.wait(30)
    upkeep.wake()
    upkeep.stop()
    assert 1 <= len(calls) <= 2


def test_a_store_without_background_work_is_dropped_all_the_same(tmp_path: Path) -> None:
    kept = [kstore.open(tmp_path, config=StoreConfig(background=False))]
    kept[0].create_topic("t")
    with pytest.warns(ResourceWarning, match="the next opening recovers it"):
        drop(kept)
    kstore.open(tmp_path).close()
