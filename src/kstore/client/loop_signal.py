"""Wakes a task of an event loop, from any thread."""

from contextlib import suppress


class LoopSignal:
    """An event of the running loop. Only :meth:`set` may be called by other threads."""

    def __init__(self) -> None:
        import asyncio  # here, as it takes tens of milliseconds

        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def set(self) -> None:
        """End the wait, or the next one."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._event.set)

    def clear(self) -> None:
        """Forget what was set."""
        self._event.clear()

    async def wait(self, seconds: float | None) -> None:
        """Wait until it is set, at most this long."""
        import asyncio

        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._event.wait(), seconds)
