"""Following a log as it grows: records as they come, by ``for`` or ``async for``."""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from kstore.errors import OffsetOutOfRangeError
from kstore.record import Record

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.log.view import LogView

_ASYNC_POLL = 0.005  # seconds


class Follower:
    """Records as they come, by ``for`` or ``async for``. For one consumer at a time.

    Ends with its log or after its timeout; raises OffsetOutOfRangeError where the log is cut
    below what was handed out.
    """

    def __init__(self, log: "Log", start: int, timeout: float | None) -> None:
        self.log = log
        self.next_offset = start
        self.timeout = timeout
        self._seen = -1  # the log end at the last look

    def __iter__(self) -> Iterator[Record]:
        while True:
            for record in self._next_view():
                self.next_offset = record.offset + 1
                yield record
            self.next_offset = max(self.next_offset, self._seen)
            if not self.log.wait_beyond(self.next_offset, self.timeout):
                if not self.log.closed:
                    self._look()
                return

    def _next_view(self) -> "LogView":
        self._look()  # fixed first: what comes meanwhile is the next view's
        return self.log.view(self.next_offset, self._seen)

    def _look(self) -> None:
        end = self.log.end_offset
        if end < self._seen and end < self.next_offset:
            raise OffsetOutOfRangeError(
                f"the log was truncated to offset {end} while it was followed: records that were "
                "handed out are gone",
                path=self.log.path,
                offset=self.next_offset,
            )
        self._seen = end

    async def __aiter__(self) -> AsyncIterator[Record]:
        import asyncio  # costs tens of milliseconds, and only this needs it

        loop = asyncio.get_running_loop()
        last = loop.time()
        while not self.log.closed:
            for record in self._next_view():
                self.next_offset = record.offset + 1
                yield record
                last = loop.time()
            self.next_offset = max(self.next_offset, self._seen)
            if self.timeout is not None and loop.time() - last > self.timeout:
                return
            await asyncio.sleep(_ASYNC_POLL)
