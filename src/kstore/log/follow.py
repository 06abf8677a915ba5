"""Following a log as it grows: records as they come, by ``for`` or ``async for``."""

from collections.abc import AsyncIterator, Iterator
from time import monotonic
from typing import TYPE_CHECKING

from kstore.errors import OffsetOutOfRangeError
from kstore.log.transactions import UNCOMMITTED, Outcomes, check_isolation
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

    def __init__(
        self, log: "Log", start: int, timeout: float | None, isolation: str = UNCOMMITTED
    ) -> None:
        self.log = log
        self.next_offset = start
        self.timeout = timeout
        self.isolation = isolation
        self._outcomes = Outcomes(log) if check_isolation(isolation) else None
        self._seen = -1  # the log end at the last look
        self._stable = -1  # where reading ends: there, or at the last stable offset

    def __iter__(self) -> Iterator[Record]:
        last = monotonic()
        while True:
            for record in self._next_view():
                self.next_offset = record.offset + 1
                yield record
                last = monotonic()
            self.next_offset = max(self.next_offset, self._stable)
            # Only what is appended, if no more than a marker, moves the last stable offset.
            left = None if self.timeout is None else max(0.0, self.timeout - monotonic() + last)
            if not self.log.wait_beyond(max(self.next_offset, self._seen), left):
                if not self.log.closed:
                    self._look()
                return

    def _next_view(self) -> "LogView":
        from kstore.log.view import LogView

        self._look()  # fixed first: what comes meanwhile is the next view's
        return LogView(
            self.log,
            self.next_offset,
            self._stable,
            isolation=self.isolation,
            outcomes=self._outcomes,
        )

    def _look(self) -> None:
        end = self.log.end_offset
        self._stable = end if self._outcomes is None else min(end, self.log.last_stable_offset)
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
            self.next_offset = max(self.next_offset, self._stable)
            if self.timeout is not None and loop.time() - last > self.timeout:
                return
            await asyncio.sleep(_ASYNC_POLL)
