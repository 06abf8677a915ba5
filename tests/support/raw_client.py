"""A connection to a broker that sends and receives generated messages, one at a time."""

import socket
import struct
from typing import Any

from kstore.protocol.headers import RequestHeader, decode_response_header
from kstore.protocol.messages import message_types
from kstore.protocol.messages.leave_group import LeaveGroupRequest
from kstore.protocol.wire import Reader, Writer

WAIT = 60.0


class RawClient:
    """Sends requests in any version. A context manager."""

    def __init__(self, port: int, client_id: str = "raw") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), WAIT)
        self._client_id = client_id

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, request: Any, version: int) -> None:
        writer = Writer()
        RequestHeader(request.API_KEY, version, 7, self._client_id).encode(writer)
        request.encode(writer, version)
        body = writer.to_bytes()
        self._socket.sendall(struct.pack(">i", len(body)) + body)

    def _receive_exactly(self, size: int) -> bytes:
        """Receive exactly ``size`` bytes; a socket with a timeout ignores MSG_WAITALL."""
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the broker has closed the connection")
            data += more
        return data

    def receive(self, api_key: int, version: int) -> Any:
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        reader = Reader(self._receive_exactly(size))
        assert decode_response_header(reader, api_key, version) == 7
        answer = message_types(api_key)[1].decode(reader, version)
        assert not reader.remaining
        return answer

    def ask(self, request: Any, version: int) -> Any:
        self.send(request, version)
        return self.receive(request.API_KEY, version)

    def leave(self, group_id: str, member_id: str) -> None:
        answer = self.ask(LeaveGroupRequest(group_id=group_id, member_id=member_id), 2)
        assert answer.error_code == 0
