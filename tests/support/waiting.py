"""Waiting for what another thread, task or process does."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kstore.broker.loop import Loop

PATIENCE = 60.0  # seconds, which no test takes
_PAUSE = 0.005


def until(
    is_true: Callable[[], object],
    seconds: float = PATIENCE,
    said: Callable[[], object] = lambda: "never",
) -> None:
    """Return once it is true. AssertionError with what ``said`` has if that takes too long."""
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, said()
        time.sleep(_PAUSE)


async def until_in_loop(is_true: Callable[[], object], seconds: float = PATIENCE) -> None:
    """The same in a task, which lets the others of its loop continue."""
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "never"
        await asyncio.sleep(_PAUSE)


def on_loop(loop: "Loop", function: Callable[[], Any]) -> Any:
    """Call a function on the thread of a broker's loop, and return its result."""
    results: list[Any] = []
    done = threading.Event()

    def call() -> None:
        try:
            results.append(function())
        finally:
            done.set()

    loop.call_soon_threadsafe(call)
    assert done.wait(PATIENCE)
    return results[0]
