"""Sends the chunks of responses: bytes with sendmsg, slices of segments with sendfile; by TLS and
to clients on the same machine, slices too with sendmsg, from their mapped files.

The call of sendfile(2) is in ``_native/files/file_map.pyx``.
"""

import errno
import socket
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstore._native.read.segment_view import Slice
    from kstore.broker.tls_transport import TlsTransport
    from kstore.protocol.wire import Chunk

    Buffer = bytes | bytearray | memoryview
    Transport = socket.socket | TlsTransport

# Bytes that one call of send() takes from files, and as many from memory, so that other connections
# get their turn. One limit for both would cut the end of the answer to a Fetch of 1 MiB.
SEND_LIMIT = 1 << 20
_JOINED_SIZE = 2048  # a chunk up to this size is joined with the next short response
_MOST_BUFFERS = 256  # per sendmsg
_BYTES = (bytes, bytearray, memoryview)
_LOOPBACK = ("127.", "::1")
_MAPPED = "::ffff:"  # an IPv4 address as sockets of IPv6 show it: ::ffff:192.0.2.7


class ShortFileError(OSError):
    """A segment file is shorter than its slice, so the response cannot be completed."""


def send_queue_for(transport: "Transport", peer: str) -> "SendQueue":
    """The queue for a connection from the address ``peer``.

    On the loopback interface sendfile(2) saves no copy: the receiver copies the same pages, and is
    woken for every 64 KiB of them, which costs more than one copy at the sender (decision 37).
    """
    if isinstance(transport, socket.socket) and not is_local(transport, peer):
        return SendQueue()
    return CopyingSendQueue()


def is_local(connection: socket.socket, peer: str) -> bool:
    """Whether a connection from the address ``peer`` does not leave this machine."""
    return peer.startswith(_LOOPBACK) or peer == shown_address(connection.getsockname()[0])


def shown_address(address: str) -> str:
    """A socket's address as access rules and quotas name it: one of IPv4 without the prefix that it
    has at a listener on ``[::]``, as Java's InetAddress shows it."""
    return address.removeprefix(_MAPPED) if "." in address else address


class SendQueue:
    """Chunks to send in order. Loop's thread only.

    Added slices have just been read, so the pages of their first MiB are in the page cache. Before
    later sends the queue checks that the next pages are, too. If not, ``cold`` is the slice,
    position and size that another thread must load first.
    """

    __slots__ = ("_chunks", "_sent", "cold", "is_fresh", "size")

    def __init__(self) -> None:
        self._chunks: deque[Chunk] = deque()
        self._sent = 0  # bytes sent of the first chunk
        self.size = 0  # bytes left
        self.is_fresh = False  # the next send need not check the page cache
        self.cold: tuple[Slice, int, int] | None = None

    def add(self, chunks: "Iterable[Chunk]", size: int) -> None:
        if not self.size:
            self.is_fresh = True
        self._chunks.extend(chunks)
        self.size += size

    def add_frame(self, frame: "bytes | list[Chunk]") -> None:
        """Add a response that a fast-path handler has encoded."""
        if isinstance(frame, bytes):
            self.add_small(frame)
        else:
            self.add(frame, sum(len(chunk) for chunk in frame))

    def add_small(self, answer: bytes) -> None:
        """Add a short response; consecutive short responses share a chunk."""
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
        """Send what the socket accepts, at most 1 MiB from files; return the number of bytes.

        Raises ShortFileError, StorageError if the disk cannot read a slice, and OSError if the
        connection is lost.
        """
        chunks = self._chunks
        if len(chunks) != 1 or self._sent or not isinstance(chunks[0], bytes):
            return self._send_chunks(connection)
        # One short response, as for most requests.
        self.cold, self.is_fresh = None, False
        try:
            count = connection.send(chunks[0])
        except (BlockingIOError, InterruptedError):
            return 0
        if count == self.size:
            chunks.clear()
            self.size = 0
            return count
        self._consume(count)
        return count + self._send_chunks(connection)

    def _send_chunks(self, connection: "Transport") -> int:
        from_files = from_memory = 0
        self.cold = None
        is_fresh, self.is_fresh = self.is_fresh, False
        while self._chunks and from_files < SEND_LIMIT and from_memory < SEND_LIMIT:
            first = self._chunks[0]
            try:
                if isinstance(first, _BYTES) or not hasattr(first, "send_to"):
                    count = self._send_bytes(connection)
                    from_memory += count
                else:
                    left = min(len(first) - self._sent, SEND_LIMIT - from_files)
                    if not is_fresh and not first.is_resident(self._sent, left):
                        self.cold = first, self._sent, left
                        break
                    count = first.send_to(connection.fileno(), self._sent, left)
                    if count == 0:
                        raise ShortFileError(f"{first.path} is shorter than a slice of it")
                    from_files += count
            except (BlockingIOError, InterruptedError):
                break
            self._consume(count)
        return from_files + from_memory

    def _send_bytes(self, connection: "Transport") -> int:
        buffers: list[Buffer] = []
        flags = 0
        for chunk in self._chunks:
            if len(buffers) == _MOST_BUFFERS:
                break
            if isinstance(chunk, _BYTES):
                buffers.append(chunk)
            elif hasattr(chunk, "send_to"):
                flags = socket.MSG_MORE  # the slice follows immediately
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


class CopyingSendQueue(SendQueue):
    """Sends slices as memory of their mapped files, together with the bytes around them.

    If another process has cut a file, ShortFileError comes only from the next page on; the rest of
    the page before is zeros, which the client's check of the CRC finds.
    """

    __slots__ = ()

    def _send_chunks(self, connection: "Transport") -> int:
        from_files = from_memory = 0
        self.cold = None
        is_fresh, self.is_fresh = self.is_fresh, False
        while self._chunks and from_files < SEND_LIMIT and from_memory < SEND_LIMIT:
            buffers, of_files, before = self._gather(SEND_LIMIT - from_files, is_fresh)
            if not buffers:
                break
            try:
                if len(buffers) == 1:
                    count = connection.send(buffers[0])
                else:
                    count = connection.sendmsg(buffers)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                if error.errno == errno.EFAULT:
                    path = next(each.path for each in self._chunks if hasattr(each, "path"))
                    raise ShortFileError(f"{path} is shorter than a slice of it") from error
                raise
            self._consume(count)
            sent_of_files = min(max(count - before, 0), of_files)
            from_files += sent_of_files
            from_memory += count - sent_of_files
        return from_files + from_memory

    def _gather(self, most: int, is_fresh: bool) -> "tuple[list[Buffer], int, int]":
        """The next buffers to send, how many bytes of files are in them, at most ``most``, and how
        many other bytes precede these."""
        buffers: list[Buffer] = []
        of_files, before, start = 0, 0, self._sent
        for chunk in self._chunks:
            if len(buffers) == _MOST_BUFFERS:
                break
            if isinstance(chunk, _BYTES) or not hasattr(chunk, "send_to"):
                buffers.append(memoryview(chunk)[start:] if start else memoryview(chunk))
                if not of_files:
                    before += _size(chunk) - start
            else:
                left = min(len(chunk) - start, most - of_files)
                if not left:
                    break
                if not is_fresh and not chunk.is_resident(start, left):
                    if not buffers:
                        self.cold = chunk, start, left
                    break
                buffers.append(memoryview(chunk)[start : start + left])
                of_files += left
                if left < len(chunk) - start:
                    break
            start = 0
        return buffers, of_files, before


def _size(chunk: "Chunk") -> int:
    return chunk.nbytes if isinstance(chunk, memoryview) else len(chunk)
