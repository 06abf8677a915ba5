"""A web server for tests: answers by path, and keeps the requests."""

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

Response = tuple[int, bytes]


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class WebServer:
    """``answers`` has a response, or a function that returns one, for each path."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.answers: dict[str, Response | Callable[[], Response]] = {}
        self.asked: list[Asked] = []
        answers, requests = self.answers, self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self._answer()

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                assert self.command is not None
                requests.append(Asked(self.command, self.path, dict(self.headers), body))
                found = answers.get(self.path, (404, b""))
                status, data = found() if callable(found) else found
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", data.decode())
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                with contextlib.suppress(OSError):  # the client reads no more than it wants
                    self.wfile.write(data)

            def log_request(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextlib.contextmanager
def web_server(context: ssl.SSLContext | None = None) -> Iterator[WebServer]:
    server = WebServer(context)
    try:
        yield server
    finally:
        server.close()
