"""A Fetch request of one partition that waits for records on the fast path.

As :class:`kstore.broker.delayed_fetch.DelayedFetch`, without the objects of the general handler: an
append wakes it, and it encodes its response natively. If it cannot respond because of an error, the
connection calls the general handler with the rest of the request's wait.
"""

from typing import TYPE_CHECKING

from kstore.broker.fetch_frame_reader import NoAnswer
from kstore.broker.request import Attempt, Pending

if TYPE_CHECKING:
    from kstore._native.broker.fetch_frame import WantedFrame
    from kstore.broker.fetch_frame_reader import FetchFrameReader
    from kstore.broker.loop import Loop, Timer
    from kstore.broker.partitions import HostedPartition
    from kstore.broker.purgatory_size import PurgatorySize
    from kstore.protocol.wire import Chunk


class DelayedFetchFrame:
    """One parked request. Loop's thread only."""

    __slots__ = ("_hosted", "_loop", "_pending", "_purgatory", "_reader", "_timer", "_wanted")

    def __init__(
        self,
        wanted: "WantedFrame",
        hosted: "HostedPartition",
        reader: "FetchFrameReader",
        loop: "Loop",
        purgatory: "PurgatorySize",
    ) -> None:
        self._wanted = wanted
        self._hosted = hosted
        self._reader = reader
        self._loop = loop
        self._purgatory = purgatory
        self._pending: Pending | None = None
        self._timer: Timer | None = None

    def start(self, max_wait_seconds: float) -> Pending:
        """Wait for enough bytes, an error, or the end of the request's wait."""
        pending = self._pending = Pending()
        pending.on_cancel = self._stop_waiting
        pending.on_stop = self._expire
        self._purgatory.requests += 1
        self._timer = self._loop.call_later(max_wait_seconds, self._expire)
        self._hosted.add_waiter(self)
        self.partition_changed(self._hosted)  # another thread may have appended since the read
        return pending

    def partition_changed(self, hosted: "HostedPartition") -> None:
        """Respond if there are enough records, or an error, by now."""
        self._answer(is_due=False)

    def _expire(self) -> None:
        """Respond with the records that are available."""
        self._answer(is_due=True)

    def _answer(self, *, is_due: bool) -> None:
        # May complete this request first, by partition_changed.
        hosted = self._reader.hosted(self._wanted)
        pending, timer = self._pending, self._timer
        if pending is None or timer is None:
            return
        is_same = hosted is self._hosted  # else the topic was deleted, and perhaps recreated
        answer: bytes | list[Chunk] | NoAnswer = NoAnswer.UNUSUAL
        if hosted is not None:
            answer = self._reader.read(self._wanted, hosted, is_due or not is_same, may_wait=True)
        if answer is NoAnswer.TOO_FEW_BYTES:
            return
        self._stop_waiting()
        if answer is NoAnswer.UNUSUAL:
            left = max(0.0, timer.when - self._loop.time())
            pending.complete(Attempt(left if is_same else 0.0))
        else:
            pending.complete(answer)

    def _stop_waiting(self) -> None:
        self._pending = None
        self._purgatory.requests -= 1
        if self._timer is not None:
            self._timer.cancel()
        self._hosted.remove_waiter(self)
