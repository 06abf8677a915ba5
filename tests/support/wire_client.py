"""A simple client of Kafka's protocol: requests from dicts, frames, one connection."""

import socket
import struct
from typing import Any

from kstore.protocol.headers import RequestHeader, decode_response_header
from kstore.protocol.messages import message_types
from kstore.protocol.wire import Reader, Writer

PATIENCE = 30.0  # seconds to wait for a response
CLIENT_ID = "same-bytes"


def build(kind: Any, values: dict[str, Any]) -> Any:
    """Build a message from dicts; the class of a nested struct is named after its field."""
    made = kind()
    for name, value in values.items():
        assert name in kind.__dataclass_fields__, f"{kind.__qualname__} has no {name}"
        nested = getattr(kind, "".join(word.capitalize() for word in name.split("_")), None)
        if isinstance(value, list) and nested is not None:
            value = [build(nested, each) for each in value]
        elif isinstance(value, dict):
            value = build(nested, value)
        setattr(made, name, value)
    return made


def encode(api_key: int, version: int, values: dict[str, Any]) -> bytes:
    """The body of a request."""
    writer = Writer()
    build(message_types(api_key)[0], values).encode(writer, version)
    return writer.to_bytes()


def frame(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """A request with header and size prefix."""
    writer = Writer()
    RequestHeader(api_key, version, correlation_id, CLIENT_ID).encode(writer)
    request = writer.to_bytes() + body
    return struct.pack(">i", len(request)) + request


class Connection:
    """One connection, which sends and receives frames."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.is_open = True

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, seconds: float = PATIENCE) -> bytes | None:
        """The next frame without its size prefix; None if the connection is closed or reset.

        Raises TimeoutError if nothing arrives.
        """
        self._socket.settimeout(seconds)
        size = self._exactly(4)
        return None if size is None else self._exactly(struct.unpack(">i", size)[0])

    def _exactly(self, count: int) -> bytes | None:
        found = bytearray()
        while len(found) < count:
            try:
                more = self._socket.recv(count - len(found))
            except ConnectionResetError:
                more = b""
            if not more:
                self.close()
                return None
            found += more
        return bytes(found)

    def close(self) -> None:
        self.is_open = False
        self._socket.close()

    def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """Send a request and return its response. Raises ConnectionError if the connection is
        closed."""
        self.send(frame(api_key, version, 0, encode(api_key, version, fields)))
        return self.answer(api_key, version)

    def answer(self, api_key: int, version: int) -> Any:
        """The response to the oldest outstanding request. Raises ConnectionError if it is
        closed."""
        received = self.receive()
        if received is None:
            raise ConnectionError("the broker closed the connection")
        reader = Reader(received)
        decode_response_header(reader, api_key, version)
        return message_types(api_key)[1].decode(reader, version)
