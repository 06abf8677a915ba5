"""Opens http and https URLs with a deadline for the entire response.

Imported late: ``http.client`` and ``urllib.request`` are slow to import.
"""

import socket
import ssl
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any
from urllib import request


def open_url(
    asked: request.Request, timeout_seconds: float, context: ssl.SSLContext | None
) -> HTTPResponse:
    """Send a request and return the response, whose headers have been read.

    Follows no redirect. The response, body included, raises TimeoutError ``timeout_seconds`` after
    this call, also if its bytes come one by one.
    """
    deadline = time.monotonic() + timeout_seconds

    class Response(HTTPResponse):
        def __init__(self, sock: socket.socket, *arguments: Any, **keywords: Any) -> None:
            super().__init__(sock, *arguments, **keywords)
            received: Any = self.fp.raw  # of a BufferedReader
            receive = received.readinto

            def receive_in_time(buffer: memoryview) -> int | None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError("timed out")
                sock.settimeout(left)
                count: int | None = receive(buffer)
                return count

            received.readinto = receive_in_time

    def connect(kind: Callable[..., HTTPConnection]) -> Callable[..., HTTPConnection]:
        def create(host: str, **keywords: Any) -> HTTPConnection:
            connection = kind(host, **keywords)
            connection.response_class = Response
            return connection

        return create

    class Http(request.HTTPHandler):
        def http_open(self, asked: request.Request) -> Any:
            return self.do_open(connect(HTTPConnection), asked)

    class Https(request.HTTPSHandler):
        def https_open(self, asked: request.Request) -> Any:
            return self.do_open(connect(HTTPSConnection), asked, context=context)

    opener = request.OpenerDirector()
    for handler in (
        Http(), Https(), request.HTTPErrorProcessor(), request.HTTPDefaultErrorHandler(),
    ):  # fmt: skip
        opener.add_handler(handler)
    response: HTTPResponse = opener.open(asked, timeout=timeout_seconds)
    return response
