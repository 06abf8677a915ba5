"""Counts the connections of all listeners of a broker against its limits."""

import socket
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from kstore.config import parse_whole_number
from kstore.errors import InvalidConfigError
from kstore.integers import INT32_MAX

if TYPE_CHECKING:
    from kstore.broker.settings import BrokerSettings

OVERRIDES = "max.connections.per.ip.overrides"
_NONE: Mapping[str, int] = MappingProxyType({})


def limits_by_address(text: str) -> Mapping[str, int]:
    """The addresses of ``max.connections.per.ip.overrides`` with their limits.

    The text is a list of ``host:limit``; the last colon separates, so that an address of IPv6 needs
    no brackets, but may have them. A name is resolved now, to all of its addresses.
    Raises InvalidConfigError, also for a name that cannot be resolved, as Kafka does.
    """
    limits: dict[str, int] = {}
    for each in text.split(","):
        if not each.strip():
            continue
        host, colon, number = each.strip().rpartition(":")
        host = host.strip().removeprefix("[").removesuffix("]")
        if not colon or not host:
            raise InvalidConfigError(f"{OVERRIDES}: {each.strip()!r} is not host:limit")
        limit = parse_whole_number(number.strip(), 0, INT32_MAX, name=f"{OVERRIDES} of {host}")
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise InvalidConfigError(f"{OVERRIDES}: cannot resolve {host!r}: {error}") from error
        limits.update((str(address[0]), limit) for *_, address in found)
    return limits


class ConnectionLimits:
    """``max.connections``, ``max.connections.per.ip`` and its overrides. Loop's thread only."""

    def __init__(
        self, limit: int, limit_of_address: int, overrides: Mapping[str, int] = _NONE
    ) -> None:
        self._limit = limit
        self._limit_of_address = limit_of_address
        self._overrides = overrides  # by address
        self._count = 0
        self._of_address: Counter[str] = Counter()
        self._waiting: dict[Callable[[], object], None] = {}

    @classmethod
    def of(cls, settings: "BrokerSettings") -> "ConnectionLimits":
        """The limits of a broker. Raises InvalidConfigError for its overrides."""
        overrides = limits_by_address(settings.max_connections_per_ip_overrides)
        return cls(settings.max_connections, settings.max_connections_per_ip, overrides)

    def change(self, limit: int, limit_of_address: int) -> None:
        """Other limits from now on; connections that are open stay."""
        self._limit, self._limit_of_address = limit, limit_of_address
        self._resume()

    def has_room(self, resume: Callable[[], object]) -> bool:
        """Whether one more connection may be accepted; if not, ``resume`` is called once it may."""
        if self._count < self._limit:
            return True
        self._waiting[resume] = None
        return False

    def admit(self, address: str) -> bool:
        """Count a connection from an address; False, without counting, if it has too many."""
        limit = self._overrides.get(address, self._limit_of_address)
        if self._of_address[address] >= limit:
            return False
        self._of_address[address] += 1
        self._count += 1
        return True

    def release(self, address: str) -> None:
        """A connection is closed."""
        self._count -= 1
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]
        self._resume()

    def _resume(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for resume in waiting:
            resume()
