"""Asks kstore what was recorded, in the recorded order, and shows the answers of both as lines.

A request is sent where it was recorded, and an answer awaited where one was: so a Fetch that waited
for records waits for the same ones.
"""

from typing import Any, NamedTuple

from interop.recorded.messages import decode_answer, decode_request, encode_request
from interop.recorded.session import (
    ANSWER,
    CLOSE,
    REQUEST,
    Frame,
    Session,
    header_of,
    next_answered,
)
from interop.recorded.translation import Translation, hide_producers
from interop.same_bytes.asker import CLOSED, Answers
from interop.same_bytes.lines import lines_of
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.headers import RequestHeader
from support.wire_client import Connection


class Both(NamedTuple):
    """The lines of the answers of the recorded broker and of kstore, by the request's title."""

    recorded: Answers
    ours: Answers


class Replay:
    """One session at a time at one broker, whose address it is."""

    def __init__(self, address: str, both: Both) -> None:
        self._address = address
        self._both = both
        self._translation = Translation()
        self._connections: dict[int, Connection] = {}
        self._outstanding: dict[int, list[tuple[int, bytes]]] = {}
        self._count = 0

    def run(self, session: Session) -> None:
        for frame in session.frames:
            if frame.kind == REQUEST:
                self._send(frame)
            elif frame.kind == ANSWER:
                self._receive(session, frame)
            elif frame.kind == CLOSE and frame.connection in self._connections:
                self._connections[frame.connection].close()
        for connection in self._connections.values():
            connection.close()

    def _send(self, frame: Frame) -> None:
        if frame.connection not in self._connections:
            self._connections[frame.connection] = Connection(self._address)
            self._outstanding[frame.connection] = []
        self._outstanding[frame.connection].append((self._count, frame.data))
        self._count += 1
        header, request = decode_request(frame.data)
        self._translation.apply(request)
        data = encode_request(header, request)
        self._connections[frame.connection].send(len(data).to_bytes(4, "big") + data)

    def _receive(self, session: Session, frame: Frame) -> None:
        outstanding = self._outstanding[frame.connection]
        requests = dict(outstanding)
        number = next_answered(outstanding, frame.data)
        assert number is not None, f"an answer to nothing: {frame}"
        header = header_of(requests[number])
        api, version = ApiKey(header.api_key), header.api_version
        title = f"{api.name} {version} {session.name} {number}"
        recorded = decode_answer(header, frame.data)
        ours = self._answer(frame.connection, header)
        if ours is not None:
            self._translation.learn(recorded, ours)
            hide_producers(ours)
        hide_producers(recorded)
        self._both.recorded[title] = lines_of(
            recorded, api, version, self._translation.recorded_topics, (session.time,)
        )
        self._both.ours[title] = (
            [CLOSED]
            if ours is None
            else lines_of(ours, api, version, self._translation.topics, (session.time,))
        )

    def _answer(self, number: int, header: RequestHeader) -> Any:
        """kstore's answer, None if it closed the connection."""
        received = self._connections[number].receive()
        return None if received is None else decode_answer(header, received)
