"""A test that needs what this system lacks is skipped with the reason, and fails in CI."""

import errno
import multiprocessing.context
import os
from collections.abc import Callable

import pytest

from support.system import processes, pseudo_terminal


def lacking(*_: object, **__: object) -> None:
    raise OSError(errno.ENODEV, "No such device")


def open_terminal() -> None:
    with pseudo_terminal():
        pass


def start_processes() -> None:
    processes("spawn")


@pytest.fixture(
    params=[
        (open_terminal, os, "openpty", "mount devpts on /dev/pts"),
        (start_processes, multiprocessing.context.BaseContext, "Lock", "mount tmpfs on /dev/shm"),
    ],
    ids=["terminal", "semaphores"],
)
def need(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[Callable[[], None], str]:
    """A need, which this system lacks from now on, and what the reason says to do."""
    call, owner, name, advice = request.param
    call()
    monkeypatch.setattr(owner, name, lacking)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("KSTORE_SYSTEM", raising=False)
    return call, advice


def test_a_test_is_skipped_and_says_what_to_mount(need: tuple[Callable[[], None], str]) -> None:
    call, advice = need
    with pytest.raises(pytest.skip.Exception, match=advice):
        call()


@pytest.mark.parametrize(("variable", "value"), [("CI", "true"), ("KSTORE_SYSTEM", "require")])
def test_a_test_fails_where_a_complete_system_is_required(
    need: tuple[Callable[[], None], str], monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    call, advice = need
    monkeypatch.setenv(variable, value)
    with pytest.raises(pytest.fail.Exception, match=advice):
        call()


def test_a_terminal_is_closed_after_its_block() -> None:
    with pseudo_terminal() as ends:
        assert all(map(os.isatty, ends))
    for end in ends:
        with pytest.raises(OSError):
            os.fstat(end)
