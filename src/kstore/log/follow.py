"""Follows a log as it grows, for ``for`` and ``async for``."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, suppress
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING

from kstore.errors import LogTruncationError, OffsetOutOfRangeError
from kstore.integers import check_integer, check_seconds
from kstore.log.read_committed import UNCOMMITTED, check_isolation, end_at
from kstore.log.view import LogView
from kstore.record import Record

if TYPE_CHECKING:
    from kstore._native.read.segment_view import SegmentList
    from kstore.integers import Seconds
    from kstore.log.readable_log import ReadableLog

_WINDOW = 1000  # offsets to read before the next check for a truncation


def first_to_follow(
    log: "ReadableLog", start: "int | datetime | str | None", isolation: str
) -> int:
    """The offset where following begins; see :meth:`kstore.Log.follow`."""
    if start is None or start == "latest":
        return end_at(log, isolation)
    if start == "earliest":
        return log.start_offset
    if isinstance(start, datetime):
        return log.offset_at(start)
    if isinstance(start, str):
        raise TypeError(f'start is an offset, a datetime, "earliest" or "latest", not {start!r}')
    offset = check_integer("start", start)
    if offset < 0:
        raise OffsetOutOfRangeError(
            f"start is an offset from 0 on, not {offset}: log.end_offset - {-offset} is that far "
            "before the end",
            path=log.path,
            offset=offset,
        )
    if offset > (end := log.end_offset):
        raise OffsetOutOfRangeError(
            f"offset {offset} is beyond the log's end, {end}: records up to there would be skipped",
            path=log.path,
            offset=offset,
        )
    return offset


class Follower:
    """Yields records as they are appended, by ``for`` or ``async for``. For one consumer at a time.

    Ends with its log or after its timeout. Raises OffsetOutOfRangeError where retention or
    ``delete_records`` removed records before they were read, and where the log was truncated
    below what was returned, even if it has grown beyond that again: when segments were replaced,
    the last record returned is read again and compared. At most a thousand records that were read
    before the truncation are returned after it.
    """

    def __init__(
        self, log: "ReadableLog", start: int, timeout: "Seconds", isolation: str = UNCOMMITTED
    ) -> None:
        self.log = log
        self.next_offset = start
        self.timeout = check_seconds("timeout", timeout)
        self.isolation = isolation
        self._outcomes = None
        if check_isolation(isolation):
            from kstore.log.transaction_outcomes import TransactionOutcomes  # few readers need it

            self._outcomes = TransactionOutcomes(log)
        self._seen = -1  # the log end at the last refresh
        self._window_end = start
        self._segments: SegmentList | None = None  # at the last refresh
        self._last: Record | None = None  # the last one returned
        self._stable = -1  # where reading ends: the log end, or the last stable offset

    def __iter__(self) -> Iterator[Record]:
        last = monotonic()
        while True:
            view = self._next_view()  # raises if records that were returned are gone
            try:
                for record in view:
                    self._advance(record)
                    yield record
                    last = monotonic()
            except LogTruncationError:  # of the window, above what was returned
                continue
            if self._is_behind():
                continue
            self._refresh()  # the caller may have taken long over the records
            if self.next_offset < self._stable:
                continue
            # The last stable offset moves only by an append, if only of a marker.
            left = None if self.timeout is None else max(0.0, self.timeout - monotonic() + last)
            if not self.log._wait_to_follow(max(self.next_offset, self._seen), left):
                if self.log.closed:
                    return
                self._refresh()  # raises if records that were returned are gone
                if self.timeout is not None and monotonic() - last >= self.timeout:
                    return

    def _advance(self, record: Record) -> None:
        if record.offset > self.next_offset:  # what is between was compacted away, or deleted
            self._check_start()
        self.next_offset = record.offset + 1
        self._last = record

    def _next_view(self) -> LogView:
        self._refresh()  # fixes the end: later appends belong to the next view
        self._check_start()
        self._window_end = min(self.next_offset + _WINDOW, self._stable)
        return LogView(
            self.log,
            self.next_offset,
            self._window_end,
            isolation=self.isolation,
            outcomes=self._outcomes,
        )

    def _is_behind(self) -> bool:
        """Advance to the end of the window; whether more records were appended behind it."""
        if self.next_offset < self._window_end:
            self._check_start()
        self.next_offset = max(self.next_offset, self._window_end)
        return self.next_offset < self._stable

    def _refresh(self) -> None:
        segments = self.log.segments
        end = segments.end_offset
        self._stable = end if self._outcomes is None else min(end, self.log.last_stable_offset)
        if end < self._seen and end < self.next_offset:
            raise OffsetOutOfRangeError(
                f"the log was truncated to offset {end} while it was followed: records that were "
                "returned are gone",
                path=self.log.path,
                offset=self.next_offset,
            )
        self._seen = end
        if segments is not self._segments:
            self._check_last(segments)
            self._segments = segments

    def _check_start(self) -> None:
        """Raise where the log starts behind the next offset: a view would begin there."""
        start = self.log.start_offset
        if start > self.next_offset:
            raise OffsetOutOfRangeError(
                f"the log starts at offset {start}: records from offset {self.next_offset} on were "
                "deleted before they were read; follow(start=log.start_offset) reads on from there",
                path=self.log.path,
                offset=self.next_offset,
            )

    def _check_last(self, segments: "SegmentList") -> None:
        """Raise where another record has the offset of the last one returned."""
        last = self._last
        if last is None or last.offset < segments.start_offset:
            return
        try:
            found = next(iter(LogView(self.log, last.offset, last.offset + 1)), None)
        except OffsetOutOfRangeError as error:
            if last.offset < self.log.start_offset:  # deleted meanwhile
                return
            raise OffsetOutOfRangeError(
                f"the log was truncated while it was followed: the record at offset {last.offset}, "
                "which was returned, is gone",
                path=self.log.path,
                offset=last.offset,
            ) from error
        if found is None:  # compaction may have removed it; a reader may not know the policy
            return
        is_same = (found.timestamp, found.key, found.value) == (
            last.timestamp,
            last.key,
            last.value,
        )
        if not is_same:
            raise OffsetOutOfRangeError(
                "the log was truncated while it was followed, and has grown again: records that "
                f"were returned are gone, among them the one at offset {last.offset}",
                path=self.log.path,
                offset=last.offset,
            )

    async def __aiter__(self) -> AsyncIterator[Record]:
        import asyncio  # here, as it takes tens of milliseconds

        from kstore.log.followed_files import FollowedFiles

        loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        last = loop.time()

        def wake(log: "ReadableLog", events: object) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(changed.set)

        with ExitStack() as opened:
            files = None
            reader = self.log._reader_of_files()
            if reader is not None:
                files = FollowedFiles(reader, loop, changed.set)
                opened.callback(files.close)
            elif not self.log.closed:
                opened.callback(self.log.watch(wake).close)
            while not self.log.closed:
                changed.clear()
                first = self.next_offset
                view = self._next_view()
                try:
                    for record in view:
                        self._advance(record)
                        yield record
                        last = loop.time()
                except LogTruncationError:
                    continue
                if files is not None and self.next_offset > first:
                    files.restart()
                if self._is_behind():
                    continue
                left = None if self.timeout is None else self.timeout - loop.time() + last
                if left is not None and left < 0:
                    return
                if files is not None:
                    if files.watch():
                        continue
                    left = files.longest(left)
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(changed.wait(), left)
