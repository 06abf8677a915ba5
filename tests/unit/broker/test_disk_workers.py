"""Work on disk workers: in order for each key, in parallel between keys."""

import threading
from collections.abc import Iterator

import pytest

from kstore.broker.disk_workers import DiskWorkers
from kstore.broker.loop import Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def workers(loop: Loop) -> Iterator[DiskWorkers]:
    workers = DiskWorkers(loop, 2)
    yield workers
    workers.close()


def test_the_work_of_a_key_runs_in_order(loop: Loop, workers: DiskWorkers) -> None:
    done: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    left = 300
    own = threading.get_ident()

    def finished(result: tuple[str, int], error: BaseException | None) -> None:
        nonlocal left
        assert threading.get_ident() == own
        done[result[0]].append(result[1])
        left -= 1
        if not left:
            loop.stop()

    def submit() -> None:
        for number in range(100):
            for key in done:
                workers.submit(key, lambda key=key, number=number: (key, number), finished)

    loop.call_soon(submit)
    loop.run()
    assert done == {key: list(range(100)) for key in "abc"}
    assert workers.is_idle


def test_keys_do_not_wait_for_each_other(loop: Loop, workers: DiskWorkers) -> None:
    """Two keys meet at a barrier, which one thread alone would never pass."""
    barrier = threading.Barrier(2, timeout=30)
    results: list[BaseException | None] = []

    def finished(result: object, error: BaseException | None) -> None:
        results.append(error)
        if len(results) == 2:
            loop.stop()

    loop.call_soon(workers.submit, "a", barrier.wait, finished)
    loop.call_soon(workers.submit, "b", barrier.wait, finished)
    loop.run()
    assert results == [None, None]


def test_an_error_reaches_done(loop: Loop, workers: DiskWorkers) -> None:
    seen: list[object] = []

    def fail() -> None:
        raise OSError(28, "planted")

    def finished(result: object, error: BaseException | None) -> None:
        seen.extend((result, error, workers.is_busy("k")))
        loop.call_soon(loop.stop)

    loop.call_soon(workers.submit, "k", fail, finished)
    loop.run()
    assert seen[0] is None
    assert isinstance(seen[1], OSError)
    assert seen[2] is True  # until done has returned
    assert not workers.is_busy("k")


def test_a_key_with_much_work_leaves_a_worker_to_others(loop: Loop) -> None:
    """One worker, a queue of one key that refills itself: the other key still gets its turn."""
    workers = DiskWorkers(loop, 1)
    order: list[str] = []

    def finished(result: str, error: BaseException | None) -> None:
        order.append(result)
        if len(order) == 11:
            loop.stop()

    gate = threading.Event()

    def submit() -> None:
        workers.submit("busy", lambda: gate.wait(30) and "busy", finished)
        for _ in range(9):
            workers.submit("busy", lambda: "busy", finished)
        workers.submit("other", lambda: "other", finished)
        gate.set()

    loop.call_soon(submit)
    loop.run()
    workers.close()
    assert order.index("other") < 3


def test_close_finishes_what_was_submitted(loop: Loop) -> None:
    workers = DiskWorkers(loop, 2)
    seen: list[int] = []
    for number in range(50):
        workers.submit(number % 3, lambda number=number: seen.append(number), lambda *_: None)
    workers.close()
    assert sorted(seen) == list(range(50))
    with pytest.raises(RuntimeError):
        workers.submit(1, print, print)


def test_waiting_keys_do_not_stop_the_others(loop: Loop, workers: DiskWorkers) -> None:
    """Five keys wait for the work of a sixth: two threads alone would never come to it."""
    released = threading.Event()
    finished: list[str] = []

    def note(result: str, error: BaseException | None) -> None:
        finished.append(result)
        if len(finished) == 6:
            loop.stop()

    def wait(key: str) -> str:
        assert released.wait(30)
        return key

    def submit() -> None:
        for key in "abcde":
            workers.submit(key, lambda key=key: wait(key), note)
        workers.submit("release", lambda: released.set() or "release", note)

    loop.call_soon(submit)
    loop.run()
    assert sorted(finished) == ["a", "b", "c", "d", "e", "release"]


def test_threads_are_bounded(loop: Loop) -> None:
    workers = DiskWorkers(loop, 1)
    released = threading.Event()

    def submit() -> None:
        for key in range(30):
            workers.submit(key, released.wait, lambda result, error: None)
        look()

    def look() -> None:
        if len(workers._threads) < 8:
            loop.call_later(0.01, look)
        else:
            loop.call_later(0.2, released.set)  # time for a ninth
            workers.when_idle(loop.stop)

    loop.call_soon(submit)
    loop.run()
    assert len(workers._threads) == 8
    workers.close()


def test_the_loop_works_while_no_thread_can_be_started(
    loop: Loop, workers: DiskWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[object, BaseException | None]] = []

    def finished(result: object, error: BaseException | None) -> None:
        done.append((result, error))
        if len(done) == 2:
            workers.when_idle(loop.stop)

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        loop.call_soon(workers.submit, "a", threading.get_ident, finished)
        loop.call_soon(workers.submit, "b", threading.get_ident, finished)
        loop.run()
    assert done == [(threading.get_ident(), None)] * 2
    workers.submit("a", threading.get_ident, finished)  # threads can be started again
    workers.close()
    loop.call_soon(loop.stop)
    loop._running = True
    loop.run()
    assert done[-1][0] not in (None, threading.get_ident())


def test_close_does_work_that_never_had_a_thread(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = DiskWorkers(loop, 2)
    done: list[int] = []

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    workers.submit("a", lambda: done.append(1), lambda result, error: None)
    workers.close()
    assert done == [1]
