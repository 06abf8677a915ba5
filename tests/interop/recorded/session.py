"""What one client and the broker said to each other, frame by frame."""

from collections.abc import Iterator
from typing import NamedTuple

from kstore.protocol.api_keys import ApiKey
from kstore.protocol.headers import RequestHeader
from kstore.protocol.wire import Reader

REQUEST, ANSWER, CLOSE = "request", "answer", "close"


class Frame(NamedTuple):
    """A frame without its size prefix; CLOSE, of either side, has no bytes."""

    connection: int
    kind: str
    data: bytes


class Session(NamedTuple):
    """The frames of all connections of one client, in the order in which they were seen.

    The topics, of one partition each, existed before. ``time``: milliseconds, when it ended.
    """

    name: str
    time: int
    topics: tuple[str, ...]
    frames: tuple[Frame, ...]


class Exchange(NamedTuple):
    """A request and its answer, None where none came (acks 0, a closed connection)."""

    connection: int
    number: int  # of the request among the session's
    header: RequestHeader
    request: bytes
    answer: bytes | None

    @property
    def api(self) -> ApiKey:
        return ApiKey(self.header.api_key)

    @property
    def pair(self) -> tuple[ApiKey, int]:
        return self.api, self.header.api_version


def header_of(request: bytes) -> RequestHeader:
    return RequestHeader.decode(Reader(request))


def exchanges(session: Session) -> Iterator[Exchange]:
    """Each request of a session with its answer, in the order of the requests."""
    answers: dict[int, bytes] = {}
    waiting: dict[int, list[tuple[int, bytes]]] = {}  # by connection
    requests: list[tuple[int, bytes]] = []
    for frame in session.frames:
        outstanding = waiting.setdefault(frame.connection, [])
        if frame.kind == REQUEST:
            outstanding.append((len(requests), frame.data))
            requests.append((frame.connection, frame.data))
        elif frame.kind == ANSWER:
            number = next_answered(outstanding, frame.data)
            if number is not None:  # the request was before the session
                answers[number] = frame.data
    for number, (connection, request) in enumerate(requests):
        yield Exchange(connection, number, header_of(request), request, answers.get(number))


def next_answered(outstanding: list[tuple[int, bytes]], answer: bytes) -> int | None:
    """The number of the request that an answer is for, the oldest one with its correlation id.

    It and the older ones, which have no answer, are removed. Old clients use one id throughout.
    """
    while outstanding:
        number, request = outstanding.pop(0)
        if request[4:8] == answer[:4]:
            return number
    return None
