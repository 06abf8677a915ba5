"""Cuts a connection's bytes into frames: an int32 size, then that many bytes."""

import socket
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstore.broker.tls_transport import TlsTransport

    Transport = socket.socket | TlsTransport

_SIZE = Struct(">i")
_API_KEY = Struct(">h")
_READ_SIZE = 65_536  # of one read, and the size up to which a frame is cut from what was read
_NOTHING = b""


class FrameError(Exception):
    """A frame whose size Kafka would not accept."""


class FrameCutter:
    """The bytes of one connection that are not handled yet.

    Small frames are slices of what was read. A longer one has a buffer of its own that grows
    with the bytes that come, by doubling, whatever size it claims.
    """

    __slots__ = ("_data", "_filled", "_frame_end", "_long", "_max_size", "_position")

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._data: bytes = _NOTHING
        self._position = 0
        self._long: bytearray | None = None  # the frame's bytes, its size before them
        self._filled = 0
        self._frame_end = 0

    def allow(self, max_size: int) -> None:
        """From now on a frame may have up to ``max_size`` bytes."""
        self._max_size = max_size

    @property
    def has_partial_frame(self) -> bool:
        """Whether a frame is begun; only meaningful after ``next_frame`` returned None."""
        return self.buffered > 0

    @property
    def buffered(self) -> int:
        """Number of bytes that belong to no frame that was cut."""
        return len(self._data) - self._position + (self._filled if self._long is not None else 0)

    def receive(self, connection: "Transport") -> int:
        """Read once; the number of bytes, 0 at the end. Raises BlockingIOError, OSError."""
        if self._long is not None:
            return self._receive_long(connection, self._long)
        data = connection.recv(_READ_SIZE)
        left = self._data[self._position :] if self._position < len(self._data) else _NOTHING
        self._data = left + data if left else data
        self._position = 0
        return len(data)

    def _receive_long(self, connection: "Transport", buffer: bytearray) -> int:
        if self._filled == len(buffer):
            wanted = min(self._frame_end, self._filled + max(self._filled, _READ_SIZE))
            buffer += bytes(wanted - self._filled)
        with memoryview(buffer) as view:
            count = connection.recv_into(view[self._filled :])
        self._filled += count
        return count

    def next_frame(self) -> memoryview | None:
        """The next complete frame without its size, or None. Raises FrameError."""
        if self._long is not None:
            if self._filled < self._frame_end:
                return None
            frame = memoryview(self._long)[_SIZE.size :]
            self._long, self._filled = None, 0
            return frame
        start = self._position + _SIZE.size
        if start > len(self._data):
            return None
        end = start + self._size()
        if end <= len(self._data):
            self._position = end
            frame = memoryview(self._data)[start:end]
            if end == len(self._data):
                self._data, self._position = _NOTHING, 0
            return frame
        if end - self._position > _READ_SIZE:
            self._begin_long(end - self._position)
        return None

    def next_api_key(self) -> int | None:
        """The API key of the next frame if that is complete, -1 if it has none; None otherwise."""
        if self._long is not None:  # far longer than its key
            is_complete = self._filled == self._frame_end
            return int(_API_KEY.unpack_from(self._long, _SIZE.size)[0]) if is_complete else None
        start = self._position + _SIZE.size
        if start > len(self._data):
            return None
        try:
            size = self._size()
        except FrameError:
            return -1
        if start + size > len(self._data):
            return None
        return -1 if size < _API_KEY.size else int(_API_KEY.unpack_from(self._data, start)[0])

    def _size(self) -> int:
        size: int = _SIZE.unpack_from(self._data, self._position)[0]
        if not 0 <= size <= self._max_size:
            raise FrameError(
                f"a request of {size} bytes; socket.request.max.bytes is {self._max_size}"
            )
        return size

    def _begin_long(self, frame_end: int) -> None:
        self._long = bytearray(self._data[self._position :])
        self._filled = len(self._long)
        self._frame_end = frame_end
        self._data, self._position = _NOTHING, 0
