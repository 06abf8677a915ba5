"""Changes that free space on a full disk may use the space that the broker has reserved."""

import errno
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kstore
from kstore.broker.full_disk import FullDisk
from kstore.errors import StorageError

WAIT = 30.0


class Reserve:
    def __init__(self, chunks: int) -> None:
        self.chunks = chunks
        self.filled = 0

    def release(self) -> bool:
        self.chunks -= 1
        return self.chunks >= 0

    def fill(self) -> bool:
        self.filled += 1
        return True


class Change:
    """Fails a number of times, then returns."""

    def __init__(self, failures: int, code: int = errno.ENOSPC) -> None:
        self.left = failures
        self.calls = 0
        self._code = code

    def __call__(self) -> str:
        self.calls += 1
        self.left -= 1
        if self.left >= 0:
            raise StorageError("planted", errno=self._code)
        return "done"


def disk(reserve: Reserve) -> tuple[FullDisk, list[Callable[[], object]]]:
    """The full disk, and what is called on its loop."""
    called: list[Callable[[], object]] = []
    loop: Any = SimpleNamespace(call_soon_threadsafe=called.append)
    workers: Any = SimpleNamespace(submit=lambda key, work, done: done(work(), None))
    given: Any = reserve
    return FullDisk(given, loop, workers), called


@pytest.mark.parametrize(("failures", "released"), [(1, 1), (3, 3), (4, 4)])
def test_space_is_released_until_the_change_succeeds(failures: int, released: int) -> None:
    reserve, change = Reserve(4), Change(failures)
    full, called = disk(reserve)
    assert full.run(change) == "done"
    assert reserve.chunks == 4 - released
    for each in called:
        each()
    assert reserve.filled == 1


def test_the_reserve_of_a_full_disk_is_retried_by_one_timer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timers: list[str] = []

    def call_later(*_: object) -> Any:
        timers.append("set")
        return SimpleNamespace(cancel=timers.pop)

    reserve = Reserve(8)
    full, called = disk(reserve)
    monkeypatch.setattr(full._loop, "call_later", call_later, raising=False)
    monkeypatch.setattr(reserve, "fill", lambda: False)
    for _ in range(3):
        full.run(Change(1))
    for each in called:
        each()
    assert timers == ["set"]


def test_nothing_is_released_without_need() -> None:
    reserve = Reserve(4)
    full, called = disk(reserve)
    assert full.run(Change(0)) == "done"
    with pytest.raises(StorageError):
        full.run(Change(1, errno.EIO))
    assert reserve.chunks == 4
    assert not called


def test_the_error_is_raised_if_releasing_all_space_is_not_enough() -> None:
    reserve, change = Reserve(2), Change(100)
    full, called = disk(reserve)
    with pytest.raises(StorageError):
        full.run(change)
    assert change.calls == 4  # before, with each chunk, and once more
    assert len(called) == 1


def test_a_broker_reserves_space_while_it_runs(tmp_path: Path) -> None:
    path = tmp_path / "kstore.reserve"
    with kstore.serve(tmp_path, port=0) as broker:
        deadline = time.monotonic() + WAIT
        while not path.exists() or not path.stat().st_size:
            assert time.monotonic() < deadline
            assert not broker.closed
            time.sleep(0.01)
    assert not path.exists()
