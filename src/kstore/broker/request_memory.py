"""Limits the request bytes that all connections of a broker hold in memory together."""

from time import monotonic
from typing import Protocol

STALL_SECONDS = 10.0
LEAST_RATE = 1 << 20  # bytes a second required of the one connection that reads above the limit
RESERVE = 64 << 10  # bytes of requests that each connection may hold above the limit


class Holder(Protocol):
    """A connection that holds request bytes."""

    @property
    def has_partial_frame(self) -> bool: ...
    @property
    def buffered(self) -> int: ...
    @property
    def held(self) -> int: ...
    def resume_reading(self) -> None: ...
    def close(self, reason: str) -> None: ...


class RequestMemory:
    """Counts the received bytes of requests without a response. Loop's thread only.

    At the limit, connections that hold more than ``RESERVE`` stop reading, except for one, which
    reads its partial frame to the end. Requests in progress release their memory by themselves, but
    partial frames would hold it forever. If that connection is too slow, it is closed. Clients with
    small requests are not affected. The limit is exceeded by at most one frame, plus ``RESERVE``
    and one read for each connection.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._in_work = 0  # bytes of complete frames without a response
        self._waiting: dict[Holder, None] = {}  # in the order in which they stopped reading
        self._favoured: Holder | None = None
        self._favoured_at = 0.0
        self._favoured_from = 0  # bytes that it had buffered then

    def add(self, size: int) -> None:
        """Count received bytes."""
        self.used += size

    def begin(self, holder: Holder, size: int) -> None:
        """Count a complete frame, whose request begins."""
        self._in_work += size
        if holder is self._favoured:
            self._favoured = None
            self._make_room()

    def end(self, size: int) -> None:
        """Release the bytes of a completed or dropped request."""
        self._in_work -= size
        self.drop(size)

    def drop(self, size: int) -> None:
        """Release bytes, and let connections read if that makes room."""
        self.used -= size
        if self._waiting:
            self._make_room()

    def handled_at_once(self, holder: Holder, buffered: int) -> None:
        """Account for frames that were handled on arrival: ``buffered`` more bytes are buffered, or
        fewer if it is negative."""
        self.used += buffered
        if holder is self._favoured:
            self._favoured = None
            self._make_room()
        elif self._waiting:
            self._make_room()

    def may_read(self, holder: Holder) -> bool:
        """Whether a connection may read now; if not, ``resume_reading`` is called later."""
        if self.used < self.limit or holder is self._favoured or holder.held < RESERVE:
            return True
        self._waiting[holder] = None
        self._make_room()
        return holder is self._favoured

    def forget(self, holder: Holder) -> None:
        """Remove a closed connection."""
        self._waiting.pop(holder, None)
        if holder is self._favoured:
            self._favoured = None
            self._make_room()

    def close_stalled(self, now: float) -> None:
        """Close the connection that keeps others waiting if it sends too slowly."""
        favoured = self._favoured
        if favoured is None or self.used < self.limit or not self._waiting:
            return
        came = favoured.buffered - self._favoured_from
        if now - self._favoured_at > STALL_SECONDS + came / LEAST_RATE:
            favoured.close("it sends too slowly while the broker is out of memory for requests")

    def _make_room(self) -> None:
        if self.used < self.limit:
            waiting, self._waiting = self._waiting, {}
            self._favoured = None
            for holder in waiting:
                holder.resume_reading()
        elif self._favoured is None and 2 * self._in_work < self.limit:
            self._favour_next()

    def _favour_next(self) -> None:
        for holder in self._waiting:
            if holder.has_partial_frame:
                self._favoured, self._favoured_at = holder, monotonic()
                self._favoured_from = holder.buffered
                del self._waiting[holder]
                holder.resume_reading()
                return
