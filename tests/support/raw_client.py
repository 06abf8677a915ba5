"""A connection to a broker that sends and receives generated messages, one at a time."""

import socket
import struct
from functools import partial
from typing import Any

from kstore.protocol.headers import RequestHeader, decode_response_header
from kstore.protocol.messages import message_types
from kstore.protocol.messages.find_coordinator import FindCoordinatorRequest
from kstore.protocol.messages.init_producer_id import InitProducerIdRequest
from kstore.protocol.messages.leave_group import LeaveGroupRequest
from kstore.protocol.wire import Reader, Writer
from support.waiting import until

WAIT = 60.0
_LOADING = (14, 15, 16)  # a coordinator that does not serve the id yet
_GROUP, _TRANSACTION = 0, 1  # kinds of coordinators


class RawClient:
    """Sends requests in any version. A context manager."""

    def __init__(self, port: int, client_id: str = "raw") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), WAIT)
        self._client_id = client_id

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
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

    def find_coordinators(self, key: str) -> None:
        """Wait for those of a group and of a transactional id, whose topics are then made."""
        for kind in (_GROUP, _TRANSACTION):
            until(partial(self._has_coordinator, FindCoordinatorRequest(key, kind)))

    def _has_coordinator(self, request: FindCoordinatorRequest) -> bool:
        return bool(self.ask(request, 3).error_code == 0)

    def begin_producer(self, transactional_id: str) -> tuple[int, int]:
        """The producer id and epoch of a transactional id, once its coordinator serves it."""
        request = InitProducerIdRequest(transactional_id, int(WAIT * 1000))
        codes: list[int] = []
        found: list[tuple[int, int]] = []

        def is_served() -> bool:
            answer = self.ask(request, 4)
            codes.append(answer.error_code)
            found.append((answer.producer_id, answer.producer_epoch))
            return answer.error_code not in _LOADING

        until(is_served, said=lambda: f"errors {set(codes)}")
        assert codes[-1] == 0
        return found[-1]

    def leave(self, group_id: str, member_id: str) -> None:
        answer = self.ask(LeaveGroupRequest(group_id=group_id, member_id=member_id), 2)
        assert answer.error_code == 0
