"""Rounds of syncs: which logs sync together, and when a request is complete."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kstore.broker import durable_commits
from kstore.broker.durable_commits import DurableCommits
from kstore.log.flush_together import SkippedError


class Workers:
    """The loop, whose turn ends where a test looks, and workers that a test runs."""

    def __init__(self) -> None:
        self._ready: list[Callable[[], object]] = []
        self._ready_when_idle: list[Callable[[], object]] = []
        self.now = 0.0
        self._held: dict[Any, tuple[Callable[[], Any], Callable[..., object]]] = {}

    def call_soon(self, function: Callable[..., object], *arguments: Any) -> None:
        self._ready.append(partial(function, *arguments))

    def time(self) -> float:
        return self.now

    def when_idle(self, callback: Callable[[], object]) -> None:
        """Call it now, or once no round is held."""
        if self._held:
            self._ready_when_idle.append(callback)
        else:
            callback()

    def submit(self, key: Any, work: Callable[[], Any], done: Callable[..., object]) -> None:
        assert key not in self._held, "a round of the same name runs"
        self._held[key] = work, done

    @property
    def held(self) -> dict[Any, tuple[Callable[[], Any], Callable[..., object]]]:
        """The rounds that have begun at the end of the turn."""
        while self._ready:
            self._ready.pop(0)()
        return self._held

    def run(self) -> None:
        """Finish the round that began first."""
        key = next(iter(self.held))
        work, done = self._held.pop(key)
        done(work(), None)
        while self._ready_when_idle and not self._held:
            self._ready_when_idle.pop(0)()


class FakeLog:
    """Nothing is on disk; a sync makes all durable."""

    def __init__(self, directory: str, name: str) -> None:
        self.path, self.name = f"{directory}/{name}", name
        self.recovery_point, self.end_offset = 0, 10
        self.gap = 0  # between the last batch and the end

    def flush(self) -> None:
        self.recovery_point = self._data_end

    @property
    def _data_end(self) -> int:
        return self.end_offset - self.gap


class Syncs:
    def __init__(self) -> None:
        self.rounds: list[list[str]] = []
        self.errors: dict[str, BaseException] = {}

    def sync(self, logs: list[Any]) -> dict[Any, BaseException]:
        self.rounds.append([each.name for each in logs])
        for each in logs:
            if each.name not in self.errors:
                each.recovery_point = each._data_end
        return {each: self.errors[each.name] for each in logs if each.name in self.errors}


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    found = Syncs()
    monkeypatch.setattr(durable_commits, "flush_together", found.sync)
    return found


@pytest.fixture
def workers() -> Workers:
    return Workers()


@pytest.fixture
def commits(workers: Any, syncs: Syncs) -> DurableCommits:
    return DurableCommits(workers, workers)


def logs(*names: str, directory: str = "/d") -> list[Any]:
    return [FakeLog(directory, name) for name in names]


def test_logs_that_wait_for_a_round_sync_in_the_next(
    commits: DurableCommits, workers: Workers, syncs: Syncs
) -> None:
    done: list[object] = []
    for count, each in enumerate(logs("a", "b", "c", "d"), 1):
        commits.wait(each, 10, done.append)
        assert len(workers.held) == min(count, 2)  # rounds at a time
    assert done == []
    workers.run()
    assert done == [None]
    while workers.held:
        workers.run()
    assert syncs.rounds == [["a"], ["b"], ["c", "d"]]
    assert done == [None] * 4


def test_logs_of_one_turn_of_the_loop_share_a_round(
    commits: DurableCommits, workers: Workers, syncs: Syncs
) -> None:
    done: list[object] = []
    for each in logs("a", "b", "c"):
        commits.wait(each, 10, done.append)
    workers.run()
    assert syncs.rounds == [["a", "b", "c"]]
    assert done == [None] * 3
    assert workers.held == {}


def test_requests_of_a_log_share_its_sync_and_it_has_one_at_a_time(
    commits: DurableCommits, workers: Workers, syncs: Syncs
) -> None:
    done: list[object] = []
    (each,) = logs("a")
    commits.wait(each, 10, lambda error: done.append("first"))
    commits.wait(each, 5, lambda error: done.append("second"))

    def appended_after_the_sync(logs: list[Any]) -> dict[Any, BaseException]:
        syncs.sync(logs)
        each.end_offset = 12
        return {}

    ((_, finish),) = workers.held.values()
    commits.wait(each, 12, lambda error: done.append("third"))
    assert len(workers.held) == 1
    workers.held.clear()
    finish(appended_after_the_sync([each]), None)
    assert done == ["first", "second"]
    workers.run()
    assert done == ["first", "second", "third"]
    assert syncs.rounds == [["a"], ["a"]]


def test_log_directories_do_not_wait_for_each_other(
    commits: DurableCommits, workers: Workers
) -> None:
    for directory in ("/slow", "/fast"):
        for each in logs("a", "b", directory=directory):
            commits.wait(each, 10, lambda error: None)
            assert workers.held
    assert len(workers.held) == 4


def test_a_failed_sync_concerns_its_log_only(
    commits: DurableCommits, workers: Workers, syncs: Syncs
) -> None:
    syncs.errors["b"] = OSError("injected")
    done: dict[str, object] = {}
    for each in logs("a", "b", "c", "d"):  # in one round
        commits.wait(each, 10, lambda error, name=each.name: done.update({name: error}))
    while workers.held:
        workers.run()
    assert done == {"a": None, "b": syncs.errors["b"], "c": None, "d": None}


def test_a_round_that_fails_fails_its_requests(commits: DurableCommits, workers: Workers) -> None:
    done: list[object] = []
    error = OSError("no memory")
    first, second = logs("a", "b")
    commits.wait(first, 10, done.append)
    ((_, finish),) = workers.held.values()
    workers.held.clear()
    finish(None, error)
    assert done == [error]
    commits.wait(second, 10, done.append)
    workers.run()
    assert done == [error, None]


def test_a_request_beyond_a_truncation_is_complete(
    commits: DurableCommits, workers: Workers
) -> None:
    done: list[object] = []
    (each,) = logs("a")
    commits.wait(each, 10, done.append)
    each.end_offset = 4
    workers.run()
    assert done == [None]
    assert workers.held == {}


def test_a_request_may_wait_again_when_it_is_complete(
    commits: DurableCommits, workers: Workers, syncs: Syncs
) -> None:
    done: list[object] = []
    (each,) = logs("a")

    def again(error: BaseException | None) -> None:
        each.end_offset = 20
        commits.wait(each, 20, done.append)

    commits.wait(each, 10, again)
    workers.run()
    assert done == []
    workers.run()
    assert done == [None]
    assert syncs.rounds == [["a"], ["a"]]


def test_a_request_that_fails_holds_up_no_other(
    commits: DurableCommits, workers: Workers, syncs: Syncs, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(error: BaseException | None) -> None:
        raise ValueError("injected")

    done: list[object] = []
    first, second, third, fourth = logs("a", "b", "c", "d")
    commits.wait(first, 10, done.append)
    commits.wait(second, 10, done.append)
    commits.wait(third, 10, fail)  # all in one round
    commits.wait(third, 10, done.append)
    commits.wait(fourth, 10, done.append)
    while workers.held:
        workers.run()
    assert done == [None] * 4
    assert "injected" in caplog.text
    for each in (third, fourth):
        each.end_offset = 20
        commits.wait(each, 20, done.append)
    while workers.held:
        workers.run()
    assert done == [None] * 6


def test_a_log_that_is_skipped_is_synced_alone(
    commits: DurableCommits, workers: Workers, syncs: Syncs
) -> None:
    """However long it is locked, the next rounds of the directory are for the other logs."""
    done: list[str] = []
    a, b, c = logs("a", "b", "c")
    syncs.errors["b"] = SkippedError()
    for each in (a, b, c):
        commits.wait(each, 10, lambda error, each=each: done.append(f"{each.name}: {error}"))
    b.recovery_point = 5
    commits.wait(b, 5, lambda error: done.append(f"b below 5: {error}"))
    workers.run()
    assert done == ["a: None", "b below 5: None", "c: None"]
    ((key, (flush, finish)),) = workers.held.items()
    del workers.held[key]
    for each in (a, c):
        each.end_offset = 20
        commits.wait(each, 20, lambda error, each=each: done.append(f"{each.name}: {error}"))
        assert workers.held
    commits.wait(b, 10, lambda error: done.append(f"b again: {error}"))
    while workers.held:
        workers.run()
    assert done[3:] == ["a: None", "c: None"]
    assert syncs.rounds == [["a", "b", "c"], ["a"], ["c"]]
    finish(flush(), None)
    assert done[5:] == ["b: None", "b again: None"]
    assert workers.held == {}


def test_a_sync_alone_that_fails_is_its_requests_error(
    commits: DurableCommits, workers: Workers, syncs: Syncs
) -> None:
    done: list[object] = []
    (each,) = logs("a")
    syncs.errors["a"] = SkippedError()
    commits.wait(each, 10, done.append)
    workers.run()
    assert done == []
    ((_, finish),) = workers.held.values()
    workers.held.clear()
    error = OSError("injected")
    finish(None, error)
    assert done == [error]


def test_a_request_beyond_the_last_batch_is_complete_when_that_is_on_disk(
    commits: DurableCommits, workers: Workers, syncs: Syncs
) -> None:
    """A log may end with a gap, which no sync reaches."""
    done: list[object] = []
    (each,) = logs("a")
    each.gap = 3
    commits.wait(each, 10, done.append)
    workers.run()
    assert done == [None]
    assert workers.held == {}


def test_what_is_on_disk_is_complete_though_the_log_has_failed(
    commits: DurableCommits, workers: Workers, syncs: Syncs
) -> None:
    """A log that another thread syncs and closes refuses the sync of the round."""
    done: dict[int, object] = {}
    (each,) = logs("a")
    syncs.errors["a"] = OSError("closed")
    for offset in (4, 5):
        commits.wait(each, offset, lambda error, offset=offset: done.update({offset: error}))
    each.recovery_point = 4
    workers.run()
    assert done == {4: None, 5: syncs.errors["a"]}


def test_the_end_waits_for_rounds_that_have_not_begun(
    commits: DurableCommits, workers: Workers, syncs: Syncs
) -> None:
    done: list[object] = []
    first, second = logs("a", "b")
    commits.wait(first, 10, lambda error: commits.wait(second, 10, done.append))
    workers.when_idle(partial(commits.finish, 1.0, partial(done.append, "end")))
    workers.run()
    workers.run()
    assert done == [None, "end"]
    assert syncs.rounds == [["a"], ["b"]]


def test_the_end_waits_for_no_longer_than_it_may(commits: DurableCommits, workers: Workers) -> None:
    done: list[object] = []
    (each,) = logs("a")
    commits.wait(each, 10, done.append)
    workers.now = 1.0
    commits.finish(1.0, partial(done.append, "end"))
    assert done == ["end"]
