"""The fast path for Fetch requests of one partition without a session.

Native code parses such a request, and encodes the response once enough records are available. Until
then the request is parked (:mod:`kstore.broker.delayed_fetch_frame`). All other cases (errors, and
requests that must wait for the disk) are left to :mod:`kstore.broker.handlers.fetch`, which reads
again. Both give the same responses.
"""

from typing import TYPE_CHECKING

from kstore._native.broker import fetch_frame
from kstore.broker.delayed_fetch_frame import DelayedFetchFrame
from kstore.broker.fetch_frame_reader import FetchFrameReader, NoAnswer, WantedFrame

if TYPE_CHECKING:
    from kstore.broker.request import Pending
    from kstore.broker.services import Services
    from kstore.protocol.wire import Chunk


class FetchFrames:
    """Handles Fetch requests of one partition. Loop's thread only."""

    __slots__ = ("_loop", "_max_bytes", "_purgatory", "_reader")

    def __init__(self, services: "Services") -> None:
        self._loop = services.loop
        self._purgatory = services.delayed_fetches
        self._reader = FetchFrameReader(services)
        self._max_bytes = services.settings.fetch_max_bytes

    def handle_frame(
        self, frame: memoryview, version: int, correlation_id: int
    ) -> "bytes | list[Chunk] | Pending | None":
        """The response; pending if it waits for records; None if the request needs the general
        handler."""
        found = fetch_frame.parse(frame)
        if found is None:
            return None
        topic, partition, epoch, offset, partition_max, max_bytes, min_bytes, max_wait_ms = found
        max_bytes = max(0, min(max_bytes, self._max_bytes))
        limit = max(0, min(partition_max, max_bytes))
        least = min(min_bytes, max_bytes)
        wanted = WantedFrame(version, correlation_id, topic, partition, epoch, offset, limit, least)
        hosted = self._reader.hosted(wanted)
        answer = self._reader.read(wanted, hosted, is_due=max_wait_ms <= 0)
        if answer is NoAnswer.UNUSUAL:
            return None
        if answer is NoAnswer.TOO_FEW_BYTES:
            delayed = DelayedFetchFrame(wanted, hosted, self._reader, self._loop, self._purgatory)
            return delayed.start(max_wait_ms / 1000)
        return answer
