"""The TLS layer between a connection and its socket.

A Connection uses the transport both as its socket and as its event loop. OpenSSL works on memory
buffers, so no call blocks on the peer. Handshakes, each of which costs milliseconds of CPU time,
are limited to a few steps per turn of the loop.
"""

import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kstore.broker.loop import HANG_UP, READABLE, WRITABLE, Loop

if TYPE_CHECKING:
    Bytes = bytes | bytearray | memoryview

_LOGGER = logging.getLogger("kstore.broker")
_READ_SIZE = 65_536
_WRITE_SIZE = 65_536  # bytes encrypted per send
_STEPS_OF_A_TURN = 2


class HandshakeTurns:
    """Limits handshake steps to a few per turn of the loop, so that requests are not delayed."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._steps: deque[Callable[[], object]] = deque()

    def add(self, step: Callable[[], object]) -> None:
        if not self._steps:
            self._loop.call_soon(self._run)
        self._steps.append(step)

    def _run(self) -> None:
        for _ in range(min(_STEPS_OF_A_TURN, len(self._steps))):
            step = self._steps[0]
            try:
                step()
            finally:
                self._steps.popleft()
        if self._steps:
            self._loop.call_soon(self._run)


class TlsTransport:
    """The server side of TLS on a non-blocking socket. Loop's thread only.

    ``on_secured(certificate)`` is called after the handshake with the result of ``getpeercert``; it
    may close the transport.
    """

    def __init__(
        self,
        connection: socket.socket,
        context: ssl.SSLContext,
        loop: Loop,
        turns: HandshakeTurns,
    ) -> None:
        self._socket = connection
        self._fd = connection.fileno()
        self._loop = loop
        self._turns = turns
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.on_secured: Callable[[Mapping[str, object]], object] | None = None
        self._callback: Callable[[int], object] | None = None
        self._wanted = 0  # events that the connection requested
        self._events = 0  # events of the socket
        self._ciphertext = b""  # encrypted, not sent yet
        # plaintext bytes already encrypted; they count as sent once all ciphertext is sent
        self._held = 0
        self._is_secured = False
        self._is_stepping = False  # a step of the handshake is due
        self._is_closed = False
        self._is_at_end = False
        # decrypted bytes are waiting, for which the socket reports no event
        self._has_unread = False
        self._is_firing = False

    # --- event loop interface -------------------------------------------------------------

    def register(self, fd: int, events: int, callback: Callable[[int], object]) -> None:
        self._callback, self._wanted = callback, events
        self._events = READABLE
        self._loop.register(fd, READABLE, self._on_events)

    def modify(self, fd: int, events: int) -> None:
        self._wanted = events
        if self._is_secured:
            self._listen()
            if self._has_unread and events & READABLE:
                self._fire_soon()

    def unregister(self, fd: int) -> None:
        self._is_closed = True
        self._loop.unregister(fd)

    def _listen(self) -> None:
        events = self._wanted if self._is_secured else READABLE
        if self._is_stepping:
            events = 0
        if self._ciphertext:
            events |= WRITABLE
        if events != self._events and not self._is_closed:
            self._events = events
            self._loop.modify(self._fd, events)

    def _on_events(self, events: int) -> None:
        if self._ciphertext and events & WRITABLE:
            try:
                self._flush()
            except OSError:
                events |= HANG_UP
            self._listen()
        if not self._is_secured:
            if events & HANG_UP:
                self._report(HANG_UP)
            elif events & READABLE and not self._is_stepping:
                self._receive_handshake()
            return
        found = events & (self._wanted | HANG_UP)
        if found:
            self._report(found)

    def _report(self, events: int) -> None:
        if self._callback is not None and not self._is_closed:
            self._callback(events)

    def _fire_soon(self) -> None:
        if not self._is_firing:
            self._is_firing = True
            self._loop.call_soon(self._fire)

    def _fire(self) -> None:
        """Report decrypted bytes in every turn until they are read, as epoll does."""
        self._is_firing = False
        if self._has_unread and self._wanted & READABLE and not self._is_closed:
            self._report(READABLE)
            if self._has_unread and self._wanted & READABLE and not self._is_closed:
                self._fire_soon()

    # --- handshake ------------------------------------------------------------------------

    def _receive_handshake(self) -> None:
        try:
            data = self._socket.recv(_READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._report(HANG_UP)
            return
        self._incoming.write(data)
        self._is_stepping = True
        self._listen()
        self._turns.add(self._step)

    def _step(self) -> None:
        self._is_stepping = False
        if self._is_closed:
            return
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush_or_end()
            return
        except ssl.SSLError as error:
            _LOGGER.info(
                "TLS handshake failed: %s", error.reason or "the data is not a TLS handshake"
            )
            self._flush_or_end()  # the alert
            self._report(HANG_UP)
            return
        self._is_secured = True
        self._has_unread = True  # requests may have followed the handshake in the same read
        self._flush_or_end()
        if self.on_secured is not None:
            self.on_secured(self._tls.getpeercert() or {})
        if not self._is_closed:
            self.modify(self._fd, self._wanted)

    def _flush_or_end(self) -> None:
        try:
            self._flush()
        except OSError:
            self._report(HANG_UP)
            return
        self._listen()

    # --- socket interface -----------------------------------------------------------------

    def fileno(self) -> int:
        return self._fd

    def recv(self, size: int) -> bytes:
        """Decrypted bytes; b"" at the end. Raises BlockingIOError, OSError."""
        buffer = bytearray(size)
        with memoryview(buffer) as view:
            count = self.recv_into(view)
        return bytes(buffer[:count])

    def recv_into(self, view: memoryview) -> int:
        filled = 0
        self._has_unread = False
        while filled < len(view):
            try:
                count = self._read(view[filled:])
            except ssl.SSLWantReadError:
                if self._feed():
                    continue
                break
            except ssl.SSLZeroReturnError:  # the client sent close_notify
                count = 0
            if not count:
                self._is_at_end = True
                self._has_unread = filled > 0  # the end is reported next
                break
            filled += count
        else:
            self._has_unread = True
        try:
            self._flush()  # a response of TLS itself, such as to a key update
            self._listen()
        except OSError:
            self._is_at_end = True
        if self._has_unread:
            self._fire_soon()
        if not filled and not self._is_at_end:
            raise BlockingIOError
        return filled

    def _read(self, view: memoryview) -> int:
        # The type stubs of ssl describe only the result of a read without a buffer.
        return int(self._tls.read(len(view), view))

    def _feed(self) -> bool:
        """Read ciphertext from the socket; False if there is none."""
        try:
            data = self._socket.recv(_READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return False
        if not data:
            self._is_at_end = True
            return False
        self._incoming.write(data)
        return True

    def send(self, data: "Bytes", flags: int = 0) -> int:
        """Encrypt and send; return the number of bytes whose ciphertext is completely sent.

        Raises BlockingIOError while the socket does not accept all ciphertext; the caller must then
        repeat the call with the same bytes, to which it may append more.
        """
        if not self._held:
            with memoryview(data) as view:
                size = min(len(view), _WRITE_SIZE)
                while self._held < size:
                    self._held += self._tls.write(view[self._held : size])
        self._flush()
        if self._ciphertext:
            self._listen()
            raise BlockingIOError
        count, self._held = self._held, 0
        return count

    def sendmsg(self, buffers: "Sequence[Bytes]", ancillary: object = (), flags: int = 0) -> int:
        if self._held:
            return self.send(b"")
        chunks, size = [], 0
        for each in buffers:
            chunks.append(each)
            size += len(each)
            if size >= _WRITE_SIZE:
                break
        return self.send(b"".join(chunks))

    def _flush(self) -> None:
        """Send as much ciphertext as the socket accepts. Raises OSError."""
        if self._outgoing.pending:
            self._ciphertext += self._outgoing.read()
        while self._ciphertext:
            try:
                count = self._socket.send(self._ciphertext)
            except (BlockingIOError, InterruptedError):
                return
            self._ciphertext = self._ciphertext[count:]

    def shutdown(self, how: int) -> None:
        """Send close_notify, if the socket accepts it, and shut down the socket."""
        if self._is_secured and not self._held:
            # SSLError (an OSError): the client's close_notify is still missing
            with suppress(OSError, ValueError):
                self._tls.unwrap()
            with suppress(OSError):
                self._flush()
        self._socket.shutdown(how)

    def close(self) -> None:
        self._is_closed = True
        self.on_secured = self._callback = None  # references in a circle
        self._socket.close()
