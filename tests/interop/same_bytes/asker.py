"""Sends requests in any version to a broker, and notes each answer as lines of text.

What differs from run to run becomes a word: topic and session ids, producer ids, UUIDs of members,
ports, times of now, the cluster's id, and every text of an error but its being there.
"""

import dataclasses
import itertools
import re
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from kstore.errors import InvalidMessageError
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.headers import decode_response_header
from kstore.protocol.messages import message_types
from kstore.protocol.wire import ZERO_UUID, Reader
from oracle.reader import read_log
from support.wire_client import PATIENCE, Connection, encode, frame

SILENCE = 0.3  # seconds that a request without an answer is given
CLOSED = "closed"
NOW_MARGIN_MS = 3_600_000

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
        lines = [f"{path}={text}" for path, text in self._lines("", response)]
        if api_key == ApiKey.FETCH and version < 4:
            lines = [line.replace(_INCOMPLETE, "") for line in lines]  # Kafka fills up with it
        if reader.remaining:
            lines.append(f"{reader.remaining} bytes behind the answer")
        return response, lines

    def _lines(self, path: str, value: Any) -> Iterator[tuple[str, str]]:
        if dataclasses.is_dataclass(value):
            for each in dataclasses.fields(value):
                yield from self._lines(
                    f"{path}.{each.name}" if path else each.name, getattr(value, each.name)
                )
        elif isinstance(value, list) and value and dataclasses.is_dataclass(value[0]):
            # Brokers list topics and settings in any order.
            labels = sorted(
                ((self._label(each), _UUID.sub("UUID", repr(each)), each) for each in value),
                key=_first,
            )
            for label, _, each in labels:
                yield from self._lines(f"{path}[{label}]", each)
        else:
            yield path, self._word(path, value)

    def _label(self, value: Any) -> str:
        for name in _NAMES:
            found = getattr(value, name, None)
            if found not in (None, ""):
                return "DIR" if name == "log_dir" else "P" if name == "producer_id" else str(found)
        topic_id = getattr(value, "topic_id", None)
        return "" if topic_id is None else self._word("topic_id", topic_id)

    def _word(self, path: str, value: Any) -> str:
        name = path.rpartition(".")[2]
        if name == "high_watermark" and path.startswith("topics[__cluster_metadata]"):
            return "a number"
        if name in _TEXTS:
            return repr(value) if not value else "a text"
        if name in _NUMBERS_OF_A_RUN and value > 0:
            return "a number"
        if name in _TIMES and abs(value - time.time() * 1000) < NOW_MARGIN_MS:
            return "now"
        if name == "log_dir":
            return "a directory"
        if isinstance(value, bytes) and len(value) == 16:
            names = [known for known, each in self.topic_ids.items() if each == value]
            return names[0] if names else "zero" if value == ZERO_UUID else "an id"
        if isinstance(value, memoryview):
            return _records(bytes(value))
        return _UUID.sub("UUID", repr(value))


def _records(data: bytes) -> str:
    """Each batch: its bytes, or its records where it is compressed, as codecs differ."""
    log = read_log(data)
    found = []
    for batch in log.batches:
        raw = data[batch.position : batch.position + batch.size]
        if batch.codec:
            shown = [(each.offset, each.timestamp, each.key, each.value) for each in batch.records]
            fields = (batch.magic, batch.codec, batch.base_offset, batch.max_timestamp)
            found.append(f"{fields} {batch.timestamp_type} {shown}")
        else:
            found.append(raw.hex())
    return f"{found}" + _INCOMPLETE * (log.tail_position < len(data))


_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # in the id of a member
_INCOMPLETE = " and an incomplete one"
_TEXTS = {"error_message", "batch_index_error_message", "cluster_id"}
_NUMBERS_OF_A_RUN = {"session_id", "producer_id", "port", "throttle_time_ms"}
_NUMBERS_OF_A_RUN |= {"usable_bytes", "total_bytes", "log_end_offset", "finalized_features_epoch"}
_TIMES = {"log_append_time_ms", "last_timestamp", "last_fetch_timestamp"}
_TIMES |= {"last_caught_up_timestamp", "timestamp"}
_NAMES = ("key", "group_id", "group_instance_id")
_NAMES += ("name", "topic", "topic_name", "resource_name", "api_key", "partition_index", "index")
_NAMES += ("partition", "partition_id", "node_id", "broker_id", "replica_id", "producer_id")
_NAMES += ("log_dir", "batch_index")


def _first(labelled: tuple[str, str, Any]) -> tuple[str, str]:
    return labelled[:2]
