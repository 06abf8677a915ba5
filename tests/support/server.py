"""A listener with test handlers, and a client that writes raw frames."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

from kstore.broker.api_table import Api, ApiTable
from kstore.broker.disk_workers import DiskWorkers
from kstore.broker.listener import Listener
from kstore.broker.loop import Loop
from kstore.broker.request import Answer, CloseConnection, Pending, Request
from kstore.broker.request_memory import RequestMemory
from kstore.broker.services import Services
from kstore.broker.settings import BrokerSettings
from kstore.protocol.wire import Writer
from support.waiting import on_loop

PRODUCE, FETCH, METADATA = 0, 1, 3
WAIT = 30.0


class Raw:
    """A response whose body is a chunk from the test: bytes, or a slice."""

    API_KEY: ClassVar[int] = PRODUCE

    def __init__(self, body: Any) -> None:
        self.body = body

    def encode(self, writer: Writer, version: int) -> None:
        writer.records(self.body, False)


class Server:
    """Serves Produce, Fetch and Metadata in version 0; the body is a command, a STRING.

    ``echo...`` returns itself, ``park...`` waits until the test completes it, ``none...`` gets no
    response, ``close`` and ``fail`` close the connection, and ``big N`` returns N bytes.
    """

    def __init__(self, **settings: Any) -> None:
        self.seen: list[tuple[int, str]] = []
        self.parked: list[tuple[str, Pending]] = []
        self.cancelled: list[str] = []
        self.stopped: list[str] = []
        self.items_left: list[int] = []  # array elements that each request may have
        self._changed = threading.Condition()
        self.loop = Loop()
        self.settings = BrokerSettings(**settings)
        self.memory = RequestMemory(self.settings.queued_max_request_bytes)
        apis = ApiTable(Api(key, 0, 0, self._handle) for key in (PRODUCE, FETCH, METADATA))
        self.workers = DiskWorkers(self.loop, 1)
        services = Services(
            store=None,
            metadata=SimpleNamespace(image=None),
            partitions=None,
            loop=self.loop,
            workers=self.workers,
            settings=self.settings,
            apis=apis,
        )
        self.listener = Listener("PLAINTEXT", self.loop, self.settings, self.memory)
        self.listener.services = services
        self.answers: dict[str, Callable[[], Any]] = {}
        _, self.port = self.listener.open("127.0.0.1", 0)

    def _handle(self, request: Request) -> Answer:
        self.items_left.append(request.reader.items_left)
        command = request.reader.string(False)
        with self._changed:
            self.seen.append((request.api_key, command))
            self._changed.notify_all()
        if command in self.answers:
            return Raw(self.answers[command]())
        if command.startswith("park"):
            pending = Pending()
            pending.on_cancel = lambda: self._note(self.cancelled, command)
            pending.on_stop = lambda: self._note(self.stopped, command)
            with self._changed:
                self.parked.append((command, pending))
                self._changed.notify_all()
            return pending
        if command == "close":
            raise CloseConnection("the command says so")
        if command == "fail":
            raise ZeroDivisionError("planted")
        if command.startswith("big "):
            return Raw(bytes(int(command[4:])))
        return None if command.startswith("none") else Raw(command.encode())

    def _note(self, notes: list[str], command: str) -> None:
        with self._changed:
            notes.append(command)
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition that depends on ``seen``, ``parked`` or ``cancelled``."""
        with self._changed:
            assert self._changed.wait_for(condition, WAIT)

    def on_loop(self, function: Callable[[], Any]) -> Any:
        """Call a function on the event loop's thread and return its result."""
        return on_loop(self.loop, function)

    def wait_on_loop(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition, which is checked on the event loop's thread between turns."""
        done = threading.Event()

        def look() -> None:
            if condition():
                done.set()
            else:
                self.loop.call_later(0.002, look)

        self.loop.call_soon_threadsafe(look)
        assert done.wait(WAIT)

    def complete(self, command: str, response: Any = b"done") -> None:
        """Complete a parked request."""
        self.wait_for(lambda: any(name == command for name, _ in self.parked))
        pending = next(each for name, each in self.parked if name == command)
        answer = None if response is None else Raw(response)
        self.on_loop(lambda: pending.complete(answer))


@contextmanager
def serving(**settings: Any) -> Iterator[Server]:
    """A server on a thread."""
    server = Server(**settings)
    thread = threading.Thread(target=server.loop.run)
    server.loop.call_soon(server.listener.start)
    thread.start()
    try:
        yield server
    finally:

        def end() -> None:
            server.listener.close()
            for connection in list(server.listener.connections):
                connection.close("")
            server.loop.stop()

        server.loop.call_soon_threadsafe(end)
        thread.join(WAIT)
        server.workers.close()
        server.loop.close()
        assert server.memory.used == 0, "every received byte was released"


class Client:
    """A connection that writes frames and reads responses."""

    def __init__(self, server: Server, *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(WAIT)
        self.socket.connect(("127.0.0.1", server.port))
        self._correlation = 0

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *commands: str, key: int = FETCH) -> None:
        """Write requests with one send."""
        frames = []
        for command in commands:
            self._correlation += 1
            frames.append(frame(command, key, self._correlation))
        self.socket.sendall(b"".join(frames))

    def receive(self) -> tuple[int, bytes]:
        """Correlation id and body of the next response."""
        size, correlation, length = struct.unpack(">iii", self._exactly(12))
        assert size == 8 + length
        return correlation, self._exactly(length)

    def ask(self, command: str, key: int = FETCH) -> bytes:
        self.send(command, key=key)
        correlation, body = self.receive()
        assert correlation == self._correlation
        return body

    def is_closed(self) -> bool:
        """Wait for the end of the connection; False if data arrives first."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, size: int) -> bytes:
        found = bytearray(size)
        filled = 0
        with memoryview(found) as view:
            while filled < size:
                count = self.socket.recv_into(view[filled:])
                assert count, f"the connection ended after {filled} of {size} bytes"
                filled += count
        return bytes(found)


def frame(command: str, key: int = FETCH, correlation: int = 1, version: int = 0) -> bytes:
    """A request with its size prefix; the body is a STRING."""
    text = command.encode()
    body = struct.pack(">hhih", key, version, correlation, -1)
    body += struct.pack(">h", len(text)) + text
    return struct.pack(">i", len(body)) + body
