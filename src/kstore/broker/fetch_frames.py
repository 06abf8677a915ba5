"""The fast path for Fetch requests of one partition, without a session or with one of its own.

Native code parses such a request, and encodes the response once enough records are available. Until
then a request without a session is parked (:mod:`kstore.broker.delayed_fetch_frame`). All other
cases (errors, aborted transactions, sessions without news, and requests that must wait for the
disk) are left to :mod:`kstore.broker.handlers.fetch`, which reads again. Both give the same
responses.
"""

from typing import TYPE_CHECKING

from kstore._native.broker.fetch_frame import parse
from kstore.broker.delayed_fetch_frame import DelayedFetchFrame
from kstore.broker.fetch_frame_reader import FetchFrameReader, NoAnswer

if TYPE_CHECKING:
    from kstore.broker.fetch_session import FetchSessions
    from kstore.broker.request import Pending
    from kstore.broker.services import Services
    from kstore.protocol.wire import Chunk


class FetchFrames:
    """Handles Fetch requests of one partition. Loop's thread only."""

    __slots__ = ("_loop", "_max_bytes", "_purgatory", "_reader")

    def __init__(self, services: "Services", sessions: "FetchSessions") -> None:
        self._loop = services.loop
        self._purgatory = services.delayed_fetches
        self._reader = FetchFrameReader(services, sessions)
        self._max_bytes = services.settings.fetch_max_bytes

    def handle_frame(self, frame: memoryview) -> "bytes | list[Chunk] | Pending | None":
        """The response; pending if it waits for records; None if the request needs the general
        handler."""
        wanted = parse(frame, self._max_bytes)
        if wanted is None:
            return None
        hosted = self._reader.hosted(wanted)
        if hosted is None:
            return None
        answer = self._reader.read(wanted, hosted, wanted.max_wait_ms <= 0)
        if answer is NoAnswer.UNUSUAL:
            return None
        if answer is NoAnswer.TOO_FEW_BYTES:
            if wanted.session_id:
                return None
            delayed = DelayedFetchFrame(wanted, hosted, self._reader, self._loop, self._purgatory)
            return delayed.start(wanted.max_wait_ms / 1000)
        return answer
