"""Sends the chunks of answers: bytes by sendmsg, slices of segments from their files."""

import socket
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstore._native.read.segment_view import Slice
    from kstore.broker.tls_transport import TlsTransport
    from kstore.protocol.wire import Chunk

    Transport = socket.socket | TlsTransport

SEND_LIMIT = 1 << 20  # bytes of one call of send(), so that other connections get their turn
_JOINED_SIZE = 2048  # a chunk up to here takes the next short answer
_MOST_BUFFERS = 256  # of one sendmsg
_BYTES = (bytes, bytearray, memoryview)


class ShortFileError(OSError):
    """A segment's file ends before its slice does: the answer cannot be finished."""


class SendQueue:
    """Chunks that are to be sent in order. Loop's thread only.

    What is added has just been read, so the pages of its first MiB are in memory. Before later
    sends the queue asks for the pages: ``cold`` is then a slice, a position and a size that have
    to be loaded first, by another thread.
    """

    __slots__ = ("_chunks", "_sent", "cold", "is_fresh", "size")

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._sent = 0  # bytes of the first chunk
        self.size = 0  # bytes left
        self.is_fresh = False  # the next send need not ask for pages
        self.cold: tuple[Slice, int, int] | None = None

    def add(self, chunks: "Iterable[Chunk]", size: int) -> None:
        if not self.size:
            self.is_fresh = True
        self._chunks.extend(chunks)
        self.size += size

    def add_small(self, answer: bytes) -> None:
        """Add a short answer; several become one chunk."""
        if not answer:
            return
        self.size += len(answer)
        if self._chunks:
            last = self._chunks[-1]
            if isinstance(last, bytes) and len(last) < _JOINED_SIZE:
                self._chunks[-1] = last + answer
                return
        self._chunks.append(answer)

    def send(self, connection: "Transport") -> int:
        """Send what the socket takes, at most about 1 MiB; the number of bytes.

        Raises ShortFileError, and OSError for a connection that is lost.
        """
        total = 0
        self.cold = None
        is_fresh, self.is_fresh = self.is_fresh, False
        while self._chunks and total < SEND_LIMIT:
            first = self._chunks[0]
            try:
                if isinstance(first, _BYTES) or not hasattr(first, "send_to"):
                    count = self._send_bytes(connection)
                else:
                    left = min(len(first) - self._sent, SEND_LIMIT - total)
                    if not is_fresh and not first.is_resident(self._sent, left):
                        self.cold = first, self._sent, left
                        break
                    count = first.send_to(connection.fileno(), self._sent, left)
                    if count == 0:
                        raise ShortFileError(f"{first.path} ends within a slice of it")
            except (BlockingIOError, InterruptedError):
                break
            total += count
            self._consume(count)
        return total

    def _send_bytes(self, connection: "Transport") -> int:
        buffers: list[bytes | bytearray | memoryview] = []
        flags = 0
        for chunk in self._chunks:
            if len(buffers) == _MOST_BUFFERS:
                break
            if isinstance(chunk, _BYTES):
                buffers.append(chunk)
            elif hasattr(chunk, "send_to"):
                flags = socket.MSG_MORE  # the slice follows at once
                break
            else:
                buffers.append(memoryview(chunk))
        if self._sent:
            buffers[0] = memoryview(buffers[0])[self._sent :]
        if len(buffers) == 1:
            return connection.send(buffers[0], flags)
        return connection.sendmsg(buffers, (), flags)

    def _consume(self, count: int) -> None:
        self.size -= count
        count += self._sent
        while self._chunks and (size := _size(self._chunks[0])) <= count:
            count -= size
            self._chunks.popleft()
        self._sent = count


class MemorySendQueue(SendQueue):
    """Sends bytes only, which a transport encrypts: slices of segments as views of their map."""

    __slots__ = ()

    def add(self, chunks: "Iterable[Chunk]", size: int) -> None:
        super().add(
            [memoryview(each) if hasattr(each, "send_to") else each for each in chunks], size
        )


def _size(chunk: "Chunk") -> int:
    return chunk.nbytes if isinstance(chunk, memoryview) else len(chunk)
