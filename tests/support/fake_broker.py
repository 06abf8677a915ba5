"""A broker whose answers a test decides, request by request, behind a real socket."""

import socket
import socketserver
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kstore.protocol.headers import RequestHeader, encode_response_header
from kstore.protocol.messages import message_types
from kstore.protocol.messages.api_versions import ApiVersionsResponse
from kstore.protocol.messages.metadata import MetadataResponse
from kstore.protocol.wire import Reader, Writer

FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 1, 2, 3, 18
Answer = Callable[[Any], Any]


class CloseError(Exception):
    """Raised by an answer: the broker closes the connection."""


def close(_: Any) -> Any:
    """An answer: none."""
    raise CloseError


class FakeBroker(socketserver.ThreadingTCPServer):
    """``answers`` has a function from the request to the response, by API key.

    ``highest`` limits the versions that it supports; ``asked`` has (API key, version, request) of
    all requests but ApiVersions; ``connections`` counts; ``errors`` are those of its own threads.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, node_id: int = 1) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.node_id = node_id
        self.port = self.server_address[1]
        self.address = f"127.0.0.1:{self.port}"
        self.highest = {FETCH: 17, LIST_OFFSETS: 7, METADATA: 12, API_VERSIONS: 3}
        self.answers: dict[int, Answer] = {API_VERSIONS: self._versions}
        self.asked: list[tuple[int, int, Any]] = []
        self.connections = 0
        self.errors: list[Exception] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep the error for the test: an answer that cannot be made is none of a broker's."""
        error = sys.exception()
        if isinstance(error, Exception) and not isinstance(error, ConnectionError):
            self.errors.append(error)  # else the client has left

    def _versions(self, _: Any) -> ApiVersionsResponse:
        entries = [ApiVersionsResponse.ApiKeys(key, 0, top) for key, top in self.highest.items()]
        return ApiVersionsResponse(api_keys=entries)

    def of(self, api_key: int) -> list[tuple[int, Any]]:
        """Version and request of those of one kind."""
        return [(version, request) for key, version, request in self.asked if key == api_key]


class _Handler(socketserver.BaseRequestHandler):
    server: FakeBroker

    def handle(self) -> None:
        self.server.connections += 1
        while len(head := self.request.recv(4, socket.MSG_WAITALL)) == 4:
            (size,) = struct.unpack(">i", head)
            reader = Reader(self.request.recv(size, socket.MSG_WAITALL))
            header = RequestHeader.decode(reader)
            key, version = header.api_key, header.api_version
            request = message_types(key)[0].decode(reader, version)
            if key != API_VERSIONS:
                self.server.asked.append((key, version, request))
            try:
                response = self.server.answers[key](request)
            except CloseError:
                return
            writer = Writer()
            encode_response_header(writer, key, version, header.correlation_id)
            if isinstance(response, bytes):
                body = response
            else:
                response.encode(writer, version)
                body = b""
            body = b"".join(map(bytes, writer.chunks())) + body
            self.request.sendall(struct.pack(">i", len(body)) + body)


@contextmanager
def fake_brokers(count: int, *, topic: str = "t", topic_id: bytes = bytes(16)) -> Iterator[Any]:
    """A cluster of brokers 1 to ``count``; broker n leads partition n - 1 of the topic.

    What fails in one of them fails the test.
    """
    brokers = [FakeBroker(number + 1) for number in range(count)]

    def metadata(_: Any) -> MetadataResponse:
        Topics = MetadataResponse.Topics  # noqa: N806 (a class)
        partitions = [
            Topics.Partitions(partition_index=n, leader_id=n + 1, replica_nodes=[n + 1])
            for n in range(count)
        ]
        return MetadataResponse(
            brokers=[
                MetadataResponse.Brokers(node_id=each.node_id, host="127.0.0.1", port=each.port)
                for each in brokers
            ],
            topics=[Topics(name=topic, topic_id=topic_id, partitions=partitions)],
        )

    threads = []
    for broker in brokers:
        broker.answers[METADATA] = metadata
        thread = threading.Thread(target=broker.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        threads.append(thread)
    try:
        yield brokers
    finally:
        for broker, thread in zip(brokers, threads, strict=True):
            stop(broker)
            thread.join()
        errors = [error for broker in brokers for error in broker.errors]
        if errors:
            raise ExceptionGroup("the brokers failed", errors)


def stop(broker: FakeBroker) -> None:
    """Stop listening; again is harmless."""
    broker.shutdown()
    broker.server_close()
