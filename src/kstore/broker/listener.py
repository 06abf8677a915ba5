"""A listening socket and its connections."""

import errno
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from kstore.broker.closed_connection_reports import ClosedReports
from kstore.broker.connection import Connection
from kstore.broker.connection_limits import ConnectionLimits
from kstore.broker.loop import READABLE, Loop
from kstore.broker.send_queue import is_local, shown_address

if TYPE_CHECKING:
    from kstore.broker.json_web_key_refresher import JsonWebKeyRefresher
    from kstore.broker.request_memory import RequestMemory
    from kstore.broker.services import Services
    from kstore.broker.settings import BrokerSettings
    from kstore.broker.tls_contexts import TlsContext
    from kstore.broker.tls_transport import HandshakeTurns, TlsTransport
    from kstore.security.oauth_settings import OAuthBearerSettings
    from kstore.security.security_settings import ListenerSecurity
    from kstore.security.web_tokens import TokenValidator

_LOGGER = logging.getLogger("kstore.broker")
_ACCEPTED_OF_A_TURN = 64
_PAUSE_SECONDS = 1.0  # after an accept that failed for lack of descriptors or memory
_MOST_HELD = 256  # connections beyond a quota, which no limit of connections counts
_KAFKAS_SEND_BUFFER = 102_400  # the default of socket.send.buffer.bytes
# For clients on the same machine, to which records are copied: an answer of 1 MiB then takes fewer
# turns of the loop and wakes the client less often.
_LOCAL_SEND_BUFFER = 512 * 1024
_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Listener:
    """Accepts connections within the limits. Loop's thread only, except ``open``.

    At ``max.connections`` it accepts no more until a connection is closed, as Kafka does. It closes
    a connection above ``max.connections.per.ip``, or what overrides it for the address,
    immediately. The limits apply to all listeners that share ``limits``.
    """

    services: "Services"  # set before start()

    def __init__(
        self,
        name: str,
        loop: Loop,
        settings: "BrokerSettings",
        memory: "RequestMemory",
        *,
        security: "ListenerSecurity | None" = None,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self.name = name
        self.security = security  # None: plaintext without authentication
        self.connections: set[Connection] = set()
        self.reports = ClosedReports(loop)
        self.accepted = 0  # connections since the start
        self._loop = loop
        self._settings = settings
        self._memory = memory
        self._limits = limits or ConnectionLimits.of(settings)
        self._socket: socket.socket | None = None
        self._is_accepting = False
        self._held: set[socket.socket] = set()  # beyond a quota: closed after a while
        self._tls: TlsContext | None = None
        self._turns: HandshakeTurns | None = None
        if security is not None and security.tls is not None:
            from kstore.broker import tls_contexts, tls_transport  # which import ssl

            self._tls = tls_contexts.TlsContext(name, security.tls)
            self._turns = tls_transport.HandshakeTurns(loop)
        self._keys: JsonWebKeyRefresher | None = None
        self.validate_token: TokenValidator | None = None  # of OAUTHBEARER
        if security is not None and security.sasl is not None:
            self._accept_tokens(security.sasl.oauthbearer)
        # called when the last connection is closed
        self.on_empty: Callable[[], object] | None = None

    def _accept_tokens(self, settings: "OAuthBearerSettings | None") -> None:
        if settings is None:
            return
        if settings.jwks_url:
            from kstore.broker.json_web_key_refresher import JsonWebKeyRefresher

            self._keys = JsonWebKeyRefresher(self.name, settings, self._loop)
            self.validate_token = self._keys.validate
            return
        from kstore.security.web_tokens import validate_unsecured

        self.validate_token = partial(validate_unsecured, settings.rules)
        _LOGGER.warning("listener %s accepts unsecured tokens, which any client can write as any "
                        "user", self.name)  # fmt: skip

    def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen; return the bound host and port. Raises OSError, socket.gaierror."""
        # An ASCII name as bytes: for a str, getaddrinfo imports the codec of international names.
        name = host.encode() if host.isascii() else host
        found = socket.getaddrinfo(
            name or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(self._settings.socket_listen_backlog_size)
            listening.setblocking(False)
        except BaseException:
            listening.close()
            raise
        self._socket = listening
        bound = listening.getsockname()
        return bound[0], bound[1]

    def start(self) -> None:
        """Accept connections."""
        if self._socket is not None and not self._is_accepting:
            self._is_accepting = True
            self._loop.register(self._socket.fileno(), READABLE, self._accept)
            if self._keys is not None:
                self._keys.start()

    def close(self) -> None:
        """Stop accepting; existing connections stay open."""
        self._pause()
        self.reports.end_window()
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # a forked child may share it
            self._socket.close()
            self._socket = None
        for held in list(self._held):
            self._drop(held)

    def close_idle(self, now: float) -> None:
        """Close connections without traffic for ``connections.max.idle.ms``."""
        limit = self._settings.connections_max_idle_ms
        if limit < 0:
            return
        oldest = now - limit / 1000
        for connection in [each for each in self.connections if each.last_active < oldest]:
            if not connection.is_waiting:
                _LOGGER.debug("%s: closed after %d ms without a request", connection, limit)
                connection.close("")

    def on_close(self, connection: Connection) -> None:
        """A connection is closed."""
        self.connections.discard(connection)
        self._limits.release(connection.peer[0])
        if self._socket is not None:
            self.start()
        elif self.on_empty is not None and not self.connections:
            self._loop.call_soon(self.on_empty)

    def abandon(self) -> None:
        """In a forked child: close its copies of the sockets."""
        if self._socket is not None:
            self._socket.close()
        for held in self._held:
            held.close()
        for connection in self.connections:
            connection.abandon()

    def _pause(self) -> None:
        if self._is_accepting and self._socket is not None:
            self._is_accepting = False
            self._loop.unregister(self._socket.fileno())

    def _accept(self, events: int) -> None:
        for _ in range(_ACCEPTED_OF_A_TURN):
            if not self._limits.has_room(self.start):
                self._pause()
                return
            if self._socket is None:
                return
            try:
                accepted, peer = self._socket.accept()
            except (BlockingIOError, ConnectionError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in _SCARCE:
                    raise
                _LOGGER.warning("cannot accept connections: %s", error)
                self._pause()
                self._loop.call_later(_PAUSE_SECONDS, self.start)
                return
            # Once for all: access rules, quotas, limits, logs, and the hosts of members.
            self._add_connection(accepted, (shown_address(peer[0]), peer[1]))

    def _add_connection(self, accepted: socket.socket, peer: tuple[str, int]) -> None:
        if not self._limits.admit(peer[0]):
            self.reports.report("{}:{}".format(*peer), "max.connections.per.ip is reached")
            accepted.close()
            return
        throttling = self.services.throttling
        if throttling.limits_connections:
            delay = throttling.connection_delay(peer[0], self._loop.time())
            if delay > 0:  # as Kafka does, so that a client does not try again at once
                self._limits.release(peer[0])
                if len(self._held) >= _MOST_HELD:  # a flood must not take all descriptors
                    accepted.close()
                    return
                self._held.add(accepted)
                self._loop.call_later(delay, self._drop, accepted)
                return
        accepted.setblocking(False)
        with suppress(OSError):  # the client may have disconnected already
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            send_buffer = self._settings.socket_send_buffer_bytes
            if send_buffer == _KAFKAS_SEND_BUFFER and is_local(accepted, peer[0]):
                send_buffer = _LOCAL_SEND_BUFFER
            for option, size in (
                (socket.SO_SNDBUF, send_buffer),
                (socket.SO_RCVBUF, self._settings.socket_receive_buffer_bytes),
            ):
                if size > 0:
                    accepted.setsockopt(socket.SOL_SOCKET, option, size)
        self.accepted += 1
        self.connections.add(
            Connection(self._transport(accepted), peer, self, self.services, self._memory)
        )

    def _drop(self, held: socket.socket) -> None:
        self._held.discard(held)
        held.close()

    def _transport(self, accepted: socket.socket) -> "socket.socket | TlsTransport":
        if self._tls is None or self._turns is None:
            return accepted
        from kstore.broker.tls_transport import TlsTransport

        context = self._tls.current(self._loop, self.services.workers)
        return TlsTransport(accepted, context, self._loop, self._turns)
