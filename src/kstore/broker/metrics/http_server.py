"""The port for operators: ``/metrics`` for Prometheus, ``/health`` and ``/live`` as JSON."""

import json
import logging
import socket
import threading
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from kstore.errors import AddressError

if TYPE_CHECKING:
    from kstore.broker.metrics.health import Health

_LOGGER = logging.getLogger("kstore.broker")
_IDLE_SECONDS = 10.0  # of a client that neither sends nor receives
_MOST_REQUESTS = 16  # concurrent requests; a connection above the limit is closed
_TEXT = "text/plain; version=0.0.4; charset=utf-8"

Page = tuple[HTTPStatus, str, bytes]  # status, content type, body


class MetricsServer(ThreadingHTTPServer):
    """Serves requests on its own threads. Call ``start`` and ``close`` from one thread."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int) -> None:
        """Open the port. Raises AddressError."""
        self.pages: dict[str, Callable[[], Page]] = {}
        self._slots = threading.Semaphore(_MOST_REQUESTS)
        self._thread: threading.Thread | None = None
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            reason = error.strerror or str(error)
            raise AddressError(f"cannot show metrics on {host}:{port}: {reason}") from error

    def server_bind(self) -> None:
        # HTTPServer's method would look up the host's name.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        host, port = self.socket.getsockname()[:2]
        self.server_address = (host, port)
        self.server_name, self.server_port = str(host), int(port)

    @property
    def address(self) -> str:
        """``host:port``."""
        host = f"[{self.server_name}]" if ":" in self.server_name else self.server_name
        return f"{host}:{self.server_port}"

    def show_metrics(self, render: Callable[[], bytes]) -> None:
        """Serve the result of ``render`` as ``/metrics``; one scrape at a time."""
        lock = threading.Lock()

        def page() -> Page:
            with lock:
                return HTTPStatus.OK, _TEXT, render()

        self.pages["/metrics"] = page

    def show_health(self, health: "Health") -> None:
        """Serve ``/health`` and ``/live``."""
        self.pages["/health"] = partial(_json_page, health.ready)
        self.pages["/live"] = partial(_json_page, health.live)

    def start(self) -> None:
        thread = threading.Thread(
            target=self.serve_forever, name="kstore-broker-metrics", daemon=True
        )
        thread.start()
        self._thread = thread  # close waits for it: not where it could not be started

    def close(self) -> None:
        """Close the port; requests in progress may still complete."""
        if self._thread is not None:
            self.shutdown()
            self._thread.join()
        self.server_close()

    def abandon(self) -> None:
        """In a forked child: close its copy of the socket."""
        self.socket.close()

    # --- requests -------------------------------------------------------------------------

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._slots.acquire(blocking=False):
            try:
                super().process_request(request, client_address)
            except RuntimeError:  # the system cannot start a thread
                self._slots.release()
                self.shutdown_request(request)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        _LOGGER.debug("%s: a request for metrics failed", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: MetricsServer
    timeout = _IDLE_SECONDS
    server_version = "kstore"
    sys_version = ""

    def do_GET(self) -> None:
        self._respond(with_body=True)

    def do_HEAD(self) -> None:
        self._respond(with_body=False)

    def _respond(self, *, with_body: bool) -> None:
        render = self.server.pages.get(self.path.partition("?")[0])
        if render is None:
            status, kind, body = HTTPStatus.NOT_FOUND, _TEXT, b"/metrics, /health, /live\n"
        else:
            try:
                status, kind, body = render()
            except Exception:
                _LOGGER.exception("%s cannot be shown", self.path)
                status, kind, body = HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, b""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        _LOGGER.debug("metrics: %s: " + format, self.address_string(), *arguments)


def _json_page(ask: Callable[[], tuple[HTTPStatus, dict[str, Any]]]) -> Page:
    status, body = ask()
    return status, "application/json", json.dumps(body).encode() + b"\n"
