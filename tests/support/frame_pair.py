"""Sends the same frames to two brokers, one with the fast-path handlers and one without."""

import hashlib
import math
import random
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kstore.broker import connection
from kstore.broker.api_table import ApiTable
from kstore.broker.connection import Connection
from kstore.broker.metrics.counters import BrokerCounters
from kstore.broker.request import Pending
from kstore.broker.request_memory import RequestMemory
from kstore.kafka_uuid import uuid_to_text
from kstore.protocol.headers import RequestHeader
from kstore.protocol.wire import Writer
from kstore.store.store import Store
from support.handler_tester import HandlerTester


def request_frame(message: Any, version: int, *, client_id: str | None = "me", number: int = 7):
    """A request with its size prefix."""
    writer = Writer()
    RequestHeader(message.API_KEY, version, number, client_id).encode(writer)
    message.encode(writer, version)
    return with_size(writer.to_bytes())


def with_size(request: bytes) -> bytes:
    return struct.pack(">i", len(request)) + request


def topic_id(topic: str) -> str:
    """The id that both brokers give a topic."""
    return uuid_to_text(topic_id_bytes(topic))


def topic_id_bytes(topic: str) -> bytes:
    return hashlib.md5(topic.encode()).digest()


def damaged(frame: bytes, chance: random.Random) -> bytes:
    """A frame with changed, removed or added bytes and a correct size prefix."""
    data = bytearray(frame[4:])
    for _ in range(chance.choice([1, 1, 2, 5])):
        if not data:
            break
        at = chance.randrange(len(data))
        match chance.randrange(5):
            case 0:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                data[at] = chance.choice([0, 1, 2, 0x7F, 0x80, 0xFF])
            case 2:
                del data[at : at + chance.randrange(1, 9)]
            case 3:
                data[at:at] = chance.randbytes(chance.randrange(1, 5))
            case _:
                del data[max(8, at) :]
    return with_size(bytes(data))


class CountingTurn:
    """A ProduceTurn whose requests count in ``by_frame``; ``reads``: calls that read a socket."""

    def __init__(self, turn: Any, broker: "OneBroker") -> None:
        self._turn = turn
        self._broker = broker
        self.reads = 0

    def receive(self, *arguments: Any) -> Any:
        count = self._turn.receive(*arguments)
        self.reads += 1
        self._broker.by_frame += self._turn.handled
        return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._turn, name)


class OneBroker:
    """A store with handlers and one connection at a time, all on this thread."""

    def __init__(self, path: Path, *handlers: Any, by_frame: bool, **settings: Any) -> None:
        self.store = Store(path)
        self.tester = HandlerTester(self.store, *handlers, **settings)
        self.by_frame = 0  # requests that a fast-path handler responds to, at once or later
        services = self.tester.services
        if services.produce_turns is not None:
            services.produce_turns._turn = CountingTurn(services.produce_turns._turn, self)
        found = {key: self._counted(each) for key, each in services.apis.frame_handlers().items()}
        assert found
        table = ApiTable(services.apis)
        table.frame_handlers = lambda: found if by_frame else {}
        services.apis = table
        self.memory = RequestMemory(1 << 30)
        self._open()

    def count(self) -> None:
        """Count requests from now on, as a broker with metrics does."""
        counters = self.tester.services.counters = BrokerCounters()
        turns = self.tester.services.produce_turns
        if turns is not None:
            turns._counters = counters
        self.connection.close("")
        self.client.close()
        self._open()

    def _counted(self, handle: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any) -> Any:
            answer = handle(*arguments)
            self.by_frame += isinstance(answer, bytes | list | Pending)
            return answer

        return counting

    def _open(self) -> None:
        self.client, ours = socket.socketpair()
        self.client.setblocking(False)
        ours.setblocking(False)
        listener: Any = SimpleNamespace(
            name="PLAINTEXT",
            security=None,
            on_close=lambda _: None,
            reports=SimpleNamespace(report=lambda *_: None),
        )
        peer = ("127.0.0.1", 5)
        self.connection = Connection(ours, peer, listener, self.tester.services, self.memory)

    def ask(self, *frames: bytes) -> tuple[bytes, bool]:
        """Send frames together; return all response bytes, and whether the connection ended.

        The requests must not have to wait for more records.
        """
        data = b"".join(frames)
        answers = []
        while data:
            data = data[self.client.send(data) :]
            self._settle(answers)
        is_closed = self.connection.is_closed
        if is_closed:
            self.client.close()
            self._open()
        assert self.memory.used == self.connection._cutter.buffered
        return b"".join(answers), is_closed

    def park(self, frame: bytes) -> None:
        """Send a request that waits for more records."""
        assert self.client.send(frame) == len(frame)
        self.tester.turn()
        assert self.connection.is_waiting

    def answer(self) -> bytes:
        """The response to the parked request, after it has been completed."""
        answers: list[bytes] = []
        self._settle(answers)
        assert self.memory.used == 0
        assert self.tester.services.delayed_fetches.requests == 0
        return b"".join(answers)

    def _settle(self, answers: list[bytes]) -> None:
        quiet = 0
        while quiet < 2:
            self.tester.turn()
            try:
                answers.append(self.client.recv(1 << 22))
                is_quiet = not answers[-1]
            except BlockingIOError:
                is_quiet = True
            busy = self.connection.is_waiting or not self.tester.workers.is_idle
            quiet = quiet + 1 if is_quiet and not busy else 0

    def close(self) -> None:
        self.connection.close("")
        self.client.close()
        self.tester.close()
        self.store.close()


class FramePair:
    """The two brokers; ``ask`` asserts that their responses are identical."""

    def __init__(self, path: Path, *handlers: Any, **settings: Any) -> None:
        self.quick = OneBroker(path / "quick", *handlers, by_frame=True, **settings)
        self.plain = OneBroker(path / "plain", *handlers, by_frame=False, **settings)
        self.both = self.quick, self.plain
        # Otherwise the order of a request and of a failure on a worker would depend on whether the
        # machine is busy.
        self._long_request, connection._LONG_REQUEST = connection._LONG_REQUEST, math.inf

    def create(self, topic: str, partitions: int = 1, **config: Any) -> None:
        for each in self.both:
            each.tester.create(topic, partitions, topic_id(topic), **config)
            for number in range(partitions):
                assert each.store[topic][number].end_offset == 0  # opens the log

    def ask(self, *frames: bytes) -> tuple[bytes, bool]:
        found, expected = (each.ask(*frames) for each in self.both)
        assert found == expected
        return found

    def log_bytes(self, topic: str, partition: int = 0) -> bytes:
        """The bytes of a log, asserted to be identical in both."""
        found = []
        for each in self.both:
            log = each.store[topic][partition]
            records = log.read(log.start_offset, 1 << 30)
            found.append((log.end_offset, b"" if records is None else bytes(records)))
        assert found[0] == found[1]
        return found[0][1]

    def __enter__(self) -> "FramePair":
        return self

    def __exit__(self, *_: object) -> None:
        connection._LONG_REQUEST = self._long_request
        for each in self.both:
            each.close()
