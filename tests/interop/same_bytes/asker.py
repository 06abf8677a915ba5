"""Sends requests in any version to a broker, and notes each answer as lines of text."""

import itertools
import time
from typing import Any, NamedTuple

from interop.same_bytes.lines import lines_of
from kstore.errors import InvalidMessageError
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.headers import decode_response_header
from kstore.protocol.messages import message_types
from kstore.protocol.wire import Reader
from support.wire_client import PATIENCE, Connection, encode, frame

SILENCE = 0.3  # seconds that a request without an answer is given
CLOSED = "closed"

Answers = dict[str, list[str]]


class Waiting(NamedTuple):
    """A request whose answer is awaited on its own connection."""

    api_key: ApiKey
    version: int
    number: int
    connection: Connection


class Asker:
    """Asks one broker; ``answers`` has a list of lines for each question, by its title."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.answers: Answers = {}
        self.topic_ids: dict[str, bytes] = {}
        self._connection: Connection | None = None
        self._numbers = itertools.count(1)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def ask(self, title: str, api_key: ApiKey, version: int, **fields: Any) -> Any:
        """The answer as a message, None if there was none; the question is noted by its title."""
        return self.ask_body(title, api_key, version, encode(api_key, version, fields))

    def ask_body(
        self, title: str, api_key: ApiKey, version: int, body: bytes, *, is_silent: bool = False
    ) -> Any:
        """The same of bytes. ``is_silent``: no answer is expected, a closed connection may come."""
        response, outcome = self._exchange(api_key, version, body, is_silent)
        self.note(f"{api_key.name} {version} {title}", outcome)
        return response

    def begin(self, api_key: ApiKey, version: int, **fields: Any) -> Waiting:
        """Send a request on a connection of its own, to which the answer may come much later."""
        connection = Connection(self.address)
        number = next(self._numbers)
        connection.send(frame(api_key, version, number, encode(api_key, version, fields)))
        return Waiting(api_key, version, number, connection)

    def end(self, title: str, waiting: Waiting) -> Any:
        """The answer to a request that was begun; it is noted by its title."""
        answer = waiting.connection.receive()
        waiting.connection.close()
        name = f"{waiting.api_key.name} {waiting.version} {title}"
        if answer is None:
            self.note(name, [CLOSED])
            return None
        response, outcome = self._decode(waiting.api_key, waiting.version, waiting.number, answer)
        self.note(name, outcome)
        return response

    def look(self, api_key: ApiKey, version: int, **fields: Any) -> Any:
        """An answer that is not noted."""
        return self._exchange(api_key, version, encode(api_key, version, fields), False)[0]

    def note(self, title: str, lines: list[str]) -> None:
        assert title not in self.answers, f"asked twice: {title}"
        self.answers[title] = lines

    def _exchange(
        self, api_key: ApiKey, version: int, body: bytes, is_silent: bool
    ) -> tuple[Any, list[str]]:
        if self._connection is None or not self._connection.is_open:
            self._connection = Connection(self.address)
        number = next(self._numbers)
        try:
            self._connection.send(frame(api_key, version, number, body))
            answer = self._connection.receive(SILENCE if is_silent else PATIENCE)
        except TimeoutError:
            if not is_silent:
                self._connection.close()
            return None, ["silence"]
        except (BrokenPipeError, ConnectionResetError):
            self._connection.close()
            return None, [CLOSED]
        if answer is None:
            return None, [CLOSED]
        return self._decode(api_key, version, number, answer)

    def barrier(self) -> None:
        """Wait until the broker applied all changes of topics that it acknowledged."""
        topic = f"barrier-{next(self._numbers)}"
        wanted = {"name": topic, "num_partitions": 1, "replication_factor": 1}
        self.look(ApiKey.CREATE_TOPICS, 7, topics=[wanted], timeout_ms=30_000)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            fields = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
            found = self.look(ApiKey.METADATA, 12, **fields)
            if found.topics[0].error_code == 0:
                return
            time.sleep(0.005)
        raise AssertionError(f"{self.address}: {topic} is not listed")

    def _decode(
        self, api_key: ApiKey, version: int, number: int, answer: bytes
    ) -> tuple[Any, list[str]]:
        if api_key == ApiKey.API_VERSIONS and answer[4:6] == b"\x00\x23":
            version = 0  # to an unsupported version
        reader = Reader(answer)
        try:
            assert decode_response_header(reader, api_key, version) == number
            response = message_types(api_key)[1].decode(reader, version)
        except InvalidMessageError as error:
            self._connection.close() if self._connection else None
            return None, [f"not decoded: {error} in {answer.hex()[:400]}"]
        lines = lines_of(response, api_key, version, self.topic_ids)
        if reader.remaining:
            lines.append(f"{reader.remaining} bytes behind the answer")
        return response, lines
