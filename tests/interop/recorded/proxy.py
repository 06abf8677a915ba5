"""A TCP proxy that notes each frame of Kafka's protocol before it passes it on."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from interop.recorded.messages import decode_answer, encode_answer, version_of_answer
from interop.recorded.session import (
    ANSWER,
    CLOSE,
    REQUEST,
    Frame,
    Session,
    exchanges,
    header_of,
)
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.headers import RequestHeader
from support.waiting import until


@dataclass
class _Passed:
    """A connection from a client, and the one to the broker."""

    number: int
    client_id: str = ""  # until its first request
    open_sides: int = 2
    asked: dict[bytes, RequestHeader] = field(default_factory=dict)  # by correlation id


class RecordingProxy:
    """Passes connections on to ``target``; ``ceiling`` lowers the versions that clients hear of.

    The broker must advertise the proxy's address, so that clients return to it. Port 0 is any.
    """

    def __init__(self, port: int, target: int) -> None:
        self.ceiling: Mapping[ApiKey, int] = {}
        self._target = target
        self._lock = threading.Lock()
        self._frames: list[Frame] = []
        self._connections: list[_Passed] = []
        self._server = socket.create_server(("127.0.0.1", port))
        self._port = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # which ends the waiting accept
        self._server.close()

    def wait_for(self, api: ApiKey) -> None:
        """Until a request of this kind is answered, from the last take on."""

        def is_answered() -> bool:
            with self._lock:
                frames = tuple(self._frames)
            found = exchanges(Session("", 0, (), frames))
            return any(each.api == api and each.answer is not None for each in found)

        until(is_answered)

    def wait_until_closed(self, is_meant: Callable[[str], bool] = lambda client_id: True) -> None:
        """Until every connection, or those of the clients that are meant, is noted as closed by
        both sides."""

        def is_closed() -> bool:
            with self._lock:
                left = [each.client_id for each in self._connections if each.open_sides]
            return not any(map(is_meant, left))

        until(is_closed)

    def take(self, name: str, topics: tuple[str, ...] = ()) -> Session:
        """What was noted since the last call."""
        with self._lock:
            frames = tuple(self._frames)
            self._frames.clear()
        numbers: dict[int, int] = {}  # from 0, in the order of their first frames
        for each in frames:
            numbers.setdefault(each.connection, len(numbers))
        renumbered = (each._replace(connection=numbers[each.connection]) for each in frames)
        return Session(name, int(time.time() * 1000), topics, tuple(renumbered))

    def _note(self, frame: Frame) -> None:
        with self._lock:
            self._frames.append(frame)

    def _accept(self) -> None:
        while True:
            try:
                client = self._server.accept()[0]
            except OSError:
                return
            broker = socket.create_connection(("127.0.0.1", self._target))
            with self._lock:
                passed = _Passed(len(self._connections))
                self._connections.append(passed)
            for kind, source, target in ((REQUEST, client, broker), (ANSWER, broker, client)):
                arguments = (passed, kind, source, target)
                threading.Thread(target=self._pass_on, args=arguments, daemon=True).start()

    def _pass_on(
        self, passed: "_Passed", kind: str, source: socket.socket, target: socket.socket
    ) -> None:
        with source:  # the other thread closes the target
            with contextlib.suppress(OSError):  # its peer may have gone
                while (size := _exactly(source, 4)) is not None:
                    data = _exactly(source, struct.unpack(">i", size)[0])
                    if data is None:
                        break
                    self._note(Frame(passed.number, kind, data))
                    if kind == REQUEST:
                        header = header_of(data)
                        passed.client_id = header.client_id or ""
                        passed.asked[data[4:8]] = header
                    elif (asked := passed.asked.get(data[:4])) is not None:
                        data = self._lowered(asked, data)
                    target.sendall(struct.pack(">i", len(data)) + data)
            self._note(Frame(passed.number, CLOSE, b""))
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)
            with self._lock:
                passed.open_sides -= 1

    def _lowered(self, asked: RequestHeader, answer: bytes) -> bytes:
        """ApiVersions with the ceiling; the recording has what the broker said."""
        version = version_of_answer(asked, answer)
        is_meant = asked.api_key == ApiKey.API_VERSIONS and version == asked.api_version
        if not (self.ceiling and is_meant):
            return answer
        said = decode_answer(asked, answer)
        for each in said.api_keys:
            ceiling = self.ceiling.get(ApiKey(each.api_key), each.max_version)
            each.max_version = min(each.max_version, ceiling)
        return encode_answer(asked, said, version)


def _exactly(source: socket.socket, count: int) -> bytes | None:
    found = bytearray()
    while len(found) < count:
        more = source.recv(count - len(found))
        if not more:
            return None
        found += more
    return bytes(found)
