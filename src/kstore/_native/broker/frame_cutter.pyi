from typing import Protocol, final

class _Transport(Protocol):
    """A non-blocking socket, or what decrypts the bytes of one."""

    def recv(self, size: int, /) -> bytes: ...
    def recv_into(self, view: memoryview, /) -> int: ...

READ_SIZE: int
"""The size of one read, and of the longest frame that is a slice of the read buffer."""

class FrameError(Exception):
    """A frame has a size that Kafka would not accept."""

@final
class FrameCutter:
    """Buffers the unprocessed bytes of one connection. Loop's thread only.

    Small frames are slices of the read buffer. A larger frame has its own buffer, which doubles as
    bytes arrive; a frame's claimed size alone allocates nothing.
    """

    def __init__(self, max_size: int) -> None: ...
    def allow(self, max_size: int) -> None:
        """Set the maximum frame size for all later frames."""

    @property
    def has_partial_frame(self) -> bool:
        """Whether part of a frame is buffered. Valid only after ``next_frame`` returned None."""

    @property
    def buffered(self) -> int:
        """Number of buffered bytes that no returned frame contains."""

    @property
    def is_long(self) -> bool:
        """Whether a partial frame that is longer than one read is buffered."""

    def take(self) -> bytes:
        """Remove and return the buffered bytes, unless ``is_long``."""

    def put(self, data: bytes) -> None:
        """Buffer these bytes, after ``take``."""

    def receive(self, connection: _Transport) -> int:
        """Read once; return the byte count, 0 at end of stream. Raises BlockingIOError, OSError."""

    def next_frame(self) -> memoryview | None:
        """The next complete frame without its size, or None. Raises FrameError."""

    def next_api_key(self) -> int | None:
        """The API key of the next frame if that is complete, -1 if it has none; None otherwise."""
