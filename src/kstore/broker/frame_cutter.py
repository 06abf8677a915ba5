"""Splits a connection's bytes into frames: an int32 size, then that many bytes."""

import socket
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstore.broker.tls_transport import TlsTransport

    Transport = socket.socket | TlsTransport

_SIZE = Struct(">i")
_API_KEY = Struct(">h")
# the size of one read, and the largest frame that is a slice of the read buffer
READ_SIZE = 65_536
_NOTHING = b""


class FrameError(Exception):
    """A frame has a size that Kafka would not accept."""


class FrameCutter:
    """Buffers the unprocessed bytes of one connection.

    Small frames are slices of the read buffer. A larger frame has its own buffer, which doubles as
    bytes arrive; a frame's claimed size alone allocates nothing.
    """

    __slots__ = ("_data", "_filled", "_frame_end", "_long", "_max_size", "_position")

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._data: bytes = _NOTHING
        self._position = 0
        self._long: bytearray | None = None  # the frame, including its size prefix
        self._filled = 0
        self._frame_end = 0

    def allow(self, max_size: int) -> None:
        """Set the maximum frame size for all later frames."""
        self._max_size = max_size

    @property
    def has_partial_frame(self) -> bool:
        """Whether part of a frame is buffered. Valid only after ``next_frame`` returned None."""
        return self.buffered > 0

    @property
    def buffered(self) -> int:
        """Number of buffered bytes that no returned frame contains."""
        return len(self._data) - self._position + (self._filled if self._long is not None else 0)

    @property
    def is_long(self) -> bool:
        """Whether a partial frame that is longer than one read is buffered."""
        return self._long is not None

    def take(self) -> bytes:
        """Remove and return the buffered bytes, unless ``is_long``."""
        data, position = self._data, self._position
        self._data, self._position = _NOTHING, 0
        return data[position:] if position else data

    def put(self, data: bytes) -> None:
        """Buffer these bytes, after ``take``."""
        self._data = data

    def receive(self, connection: "Transport") -> int:
        """Read once; return the byte count, 0 at end of stream. Raises BlockingIOError, OSError."""
        if self._long is not None:
            return self._receive_long(connection, self._long)
        data = connection.recv(READ_SIZE)
        left = self._data[self._position :] if self._position < len(self._data) else _NOTHING
        self._data = left + data if left else data
        self._position = 0
        return len(data)

    def _receive_long(self, connection: "Transport", buffer: bytearray) -> int:
        if self._filled == len(buffer):
            wanted = min(self._frame_end, self._filled + max(self._filled, READ_SIZE))
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
        if not self._data:
            return None
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
        if end - self._position > READ_SIZE:
            self._begin_long(end - self._position)
        return None

    def next_api_key(self) -> int | None:
        """The API key of the next frame if that is complete, -1 if it has none; None otherwise."""
        if self._long is not None:  # certainly long enough to have a key
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
