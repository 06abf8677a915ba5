"""Many connections to one broker, in one thread: requests as frames out, answers as frames in."""

import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Any

from kstore.protocol.headers import RequestHeader, decode_response_header
from kstore.protocol.messages import message_types
from kstore.protocol.wire import Reader, Writer

PATIENCE = 60.0  # seconds
_RECEIVED = 1 << 16  # bytes at a time


def encode(request: Any, version: int) -> bytes:
    """A request as a frame."""
    writer = Writer()
    RequestHeader(request.API_KEY, version, 0, "load").encode(writer)
    request.encode(writer, version)
    body = writer.to_bytes()
    return struct.pack(">i", len(body)) + body


def decode(api_key: int, version: int, answer: bytes) -> Any:
    """An answer, without its size, as a message."""
    reader = Reader(answer)
    decode_response_header(reader, api_key, version)
    return message_types(api_key)[1].decode(reader, version)


class FrameConnections:
    """Connections by number. A context manager.

    One thread that polls keeps the client's share of two cores small: a thread for each connection
    would spend it on Python's interpreter lock.
    """

    def __init__(self, port: int, count: int) -> None:
        self._poll = select.epoll()
        self._sockets: list[socket.socket] = []
        self._buffers = [b""] * count
        self._numbers: dict[int, int] = {}
        for number in range(count):
            each = socket.create_connection(("127.0.0.1", port), PATIENCE)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets.append(each)
            self._numbers[each.fileno()] = number
            self._poll.register(each, select.EPOLLIN)

    def __enter__(self) -> "FrameConnections":
        return self

    def __exit__(self, *_: object) -> None:
        self._poll.close()
        for each in self._sockets:
            each.close()

    def send(self, number: int, frame: bytes) -> None:
        self._sockets[number].sendall(frame)

    def receive(self, seconds: float) -> Iterator[tuple[int, bytes]]:
        """The answers that arrive, each with its connection; none after that many seconds."""
        for descriptor, _ in self._poll.poll(max(0.0, seconds)):
            number = self._numbers[descriptor]
            more = self._sockets[number].recv(_RECEIVED)
            if not more:
                raise ConnectionError(f"the broker has closed connection {number}")
            buffer, at = self._buffers[number] + more, 0
            while len(buffer) - at >= 4:
                (size,) = struct.unpack_from(">i", buffer, at)
                if len(buffer) - at < 4 + size:
                    break
                yield number, buffer[at + 4 : at + 4 + size]
                at += 4 + size
            self._buffers[number] = buffer[at:]

    def ask(self, requests: Sequence[Any], version: int) -> list[Any]:
        """Send a request on each of the first connections; the answers in that order."""
        for number, request in enumerate(requests):
            self.send(number, encode(request, version))
        answers: dict[int, Any] = {}
        until = time.monotonic() + PATIENCE
        while len(answers) < len(requests):
            assert time.monotonic() < until, f"{len(answers)} of {len(requests)} were answered"
            for number, answer in self.receive(1.0):
                answers[number] = decode(requests[number].API_KEY, version, answer)
        return [answers[number] for number in range(len(requests))]
