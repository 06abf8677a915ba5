"""The listeners of a broker: their ports, advertised addresses, and shutdown."""

import errno
import logging
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kstore.broker.connection_limits import ConnectionLimits
from kstore.broker.listener import Listener
from kstore.cluster.image import Endpoint
from kstore.errors import AddressError
from kstore.security.listeners import EVERYWHERE, Address

if TYPE_CHECKING:
    from kstore.broker.connection import Connection
    from kstore.broker.loop import Loop
    from kstore.broker.request_memory import RequestMemory
    from kstore.broker.services import Services
    from kstore.broker.settings import BrokerSettings
    from kstore.security.security_settings import ListenerSecurity, SecuritySettings

_LOGGER = logging.getLogger("kstore.broker")


class ListenerSet:
    """All listeners of one broker. Loop's thread only, except ``open`` and the addresses."""

    def __init__(
        self,
        security: "SecuritySettings",
        loop: "Loop",
        settings: "BrokerSettings",
        memory: "RequestMemory",
    ) -> None:
        self.limits = limits = ConnectionLimits.of(settings)
        self._security = security.listeners
        self._listeners = [
            Listener(each.where.name, loop, settings, memory, security=each, limits=limits)
            for each in security.listeners
        ]
        self.bound = {each.where.name: each.where.address for each in security.listeners}
        self._on_empty: Callable[[], object] | None = None

    def open(self) -> None:
        """Open all ports. Raises AddressError, and then leaves none open."""
        try:
            for listener in self._listeners:
                wanted = self.bound[listener.name]
                try:
                    host, port = listener.open(wanted.host, wanted.port)
                except OSError as error:
                    raise AddressError(f"cannot listen on {wanted}: {_reason(error)}") from error
                self.bound[listener.name] = Address(host, port)
        except BaseException:
            self.close()
            raise

    def start(self, services: "Services") -> None:
        """Accept connections; ``services`` handle their requests."""
        for listener in self._listeners:
            listener.services = services
            listener.start()

    def close(self) -> None:
        """Stop accepting; existing connections stay open."""
        for listener in self._listeners:
            listener.close()

    def stop(self, on_empty: Callable[[], object]) -> None:
        """Close, let each connection complete its requests and close, then call ``on_empty``."""
        self._on_empty = on_empty
        for listener in self._listeners:
            listener.on_empty = self._listener_empty
        self.close()
        for connection in list(self.connections()):
            connection.stop()
        self._listener_empty()

    def _listener_empty(self) -> None:
        if self._on_empty is not None and not any(each.connections for each in self._listeners):
            on_empty, self._on_empty = self._on_empty, None
            on_empty()

    def end(self) -> None:
        """Close the remaining connections without completing their requests."""
        self._on_empty = None
        for connection in list(self.connections()):
            connection.close("")

    def abandon(self) -> None:
        """In a forked child: close its copies of the sockets."""
        for listener in self._listeners:
            listener.abandon()

    def close_idle(self, now: float) -> None:
        """Close connections that are idle for too long."""
        for listener in self._listeners:
            listener.close_idle(now)

    def connections(self) -> Iterator["Connection"]:
        for listener in self._listeners:
            yield from listener.connections

    def counts(self) -> dict[str, tuple[int, int]]:
        """Connections that are open, and that were accepted, by listener. From any thread."""
        return {each.name: (len(each.connections), each.accepted) for each in self._listeners}

    # --- addresses ------------------------------------------------------------------------

    def addresses(self) -> dict[str, Address]:
        """The advertised address of each advertised listener, by listener name."""
        return advertised_addresses(self._security, self.bound)

    def endpoints(self) -> dict[str, Endpoint]:
        """The advertised addresses as endpoints of a cluster image."""
        protocols = {each.where.name: each.where.protocol for each in self._security}
        return {
            name: Endpoint(address.host, address.port, protocols[name])
            for name, address in self.addresses().items()
        }

    def warn_if_open(self) -> None:
        """Log a warning for each listener that is open to the network without security."""
        for each in self._security:
            address = self.bound[each.where.name]
            if each.where.protocol == "PLAINTEXT" and not _is_local(address.host):
                _LOGGER.warning(
                    "listening on %s without security: every host that reaches port %d may read, "
                    "write and delete all topics", address.host, address.port,
                )  # fmt: skip


def advertised_addresses(
    listeners: Iterable["ListenerSecurity"], bound: Mapping[str, Address]
) -> dict[str, Address]:
    """The advertised addresses by listener; ``bound`` has the ports that the system chose."""
    found = {}
    for each in listeners:
        where = each.where
        if where.advertised is not None:
            host = where.advertised.host
            found[where.name] = Address(
                socket.gethostname() if host in EVERYWHERE else host,
                where.advertised.port or bound[where.name].port,
            )
    return found


def _is_local(host: str) -> bool:
    return host.startswith("127.") or host == "::1"


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another process uses the port; port 0 chooses a free one"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine does not have the address"
    if error.errno == errno.EACCES:
        return "ports below 1024 need root privileges"
    return error.strerror or str(error)
