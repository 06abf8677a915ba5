"""A cluster whose answers are not what they should be, byte by byte, behind a real socket."""

import socketserver
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from kstore.errors import SourceError
from kstore.mirror.source import KafkaSource
from kstore.mirror.source_types import LATEST, Position

METADATA, LIST_OFFSETS, FETCH = 3, 2, 1


class Broker(socketserver.ThreadingTCPServer):
    """Answers by a function of the request's kind; as a broker of 0.9, metadata are right."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server_address[1]}"
        self.answers: dict[int, Callable[[], bytes]] = {METADATA: self.metadata}
        self.asked: list[int] = []

    def metadata(self) -> bytes:
        host = b"\0\x09127.0.0.1"
        brokers = struct.pack(">ii", 1, 1) + host + struct.pack(">i", self.server_address[1])
        partition = struct.pack(">hiiiiii", 0, 0, 1, 1, 1, 1, 1)
        topic = struct.pack(">ih", 1, 0) + b"\0\x01t" + struct.pack(">i", 1) + partition
        return brokers + topic


class Handler(socketserver.BaseRequestHandler):
    server: Broker

    def handle(self) -> None:
        while len(head := self.request.recv(4, 0x100)) == 4:  # MSG_WAITALL
            (size,) = struct.unpack(">i", head)
            data = self.request.recv(size, 0x100)
            kind, _, correlation = struct.unpack(">hhi", data[:8])
            self.server.asked.append(kind)
            body = struct.pack(">i", correlation) + self.server.answers[kind]()
            self.request.sendall(struct.pack(">i", len(body)) + body)


@pytest.fixture
def broker() -> Iterator[Broker]:
    server = Broker()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def source(broker: Broker, patience: float = 1) -> KafkaSource:
    settings = {"api_version": "0.9.0", "request_timeout_ms": "1000", "metadata_max_age_ms": "900"}
    return KafkaSource(broker.address, "t", settings=settings, patience=patience)


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\xff" * 100,
        b"\0\0\0\1\0\1t\0\0\0\1",
        b"\x7f\xff\xff\xff" * 9,
        struct.pack(">i", 1) + b"\0\2\xff\xfe" + bytes(40),
        struct.pack(">i", -1),
        struct.pack(">i", 0),
    ],
    ids=["empty", "minus one", "cut", "huge", "no text", "null", "none"],
)
@pytest.mark.parametrize("kind", [LIST_OFFSETS, FETCH, METADATA])
def test_answers_that_cannot_be_taken_apart(broker: Broker, kind: int, garbage: bytes) -> None:
    with source(broker) as here:
        assert here.describe().partition_count == 1
        broker.answers[kind] = lambda: garbage
        before = len(broker.asked)
        try:
            if kind == LIST_OFFSETS:
                here.offsets([0], LATEST)
            elif kind == FETCH:
                room = {"max_bytes": 1000, "partition_max_bytes": 1000}
                answered = here.fetch({0: Position(0)}, max_wait_ms=0, **room)
            else:
                here.describe()
        except SourceError as error:
            message = str(error)
        else:
            assert (kind, answered) == (FETCH, {})  # no answer: the mirror asks again
            message = broker.address
        assert broker.address in message
        assert kind in broker.asked[before:]


def test_an_answer_to_nothing_asked(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever kafka-python raises of its own accord, too."""
    with source(broker) as here:

        def broken(*_: object) -> None:
            raise KeyError("a field")

        monkeypatch.setattr(here._network, "run", broken)
        with pytest.raises(SourceError, match="KeyError"):
            here.describe()


def test_a_cluster_that_does_not_answer_is_reported_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not only when patience is at its end, half a minute later."""
    with pytest.raises(SourceError) as caught:
        KafkaSource("nowhere.invalid:9092", "t", patience=0.2)
    messages = [each.getMessage() for each in caplog.records if each.name == "kstore"]
    assert len(messages) == 1
    assert messages[0].startswith("no answer from Kafka at nowhere.invalid:9092: ")
    assert messages[0].endswith("; trying again for up to 0.2 s")
    assert "cannot talk to Kafka at nowhere.invalid:9092" in str(caught.value)
