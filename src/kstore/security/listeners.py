"""The listeners of a broker, in Kafka's syntax: ``listeners=PLAINTEXT://127.0.0.1:9092,...``.

As in Kafka's SocketServerConfigs and KafkaConfig, a listener has a name, an address, a security
protocol from ``listener.security.protocol.map``, and an advertised address from
``advertised.listeners``.
"""

import re
from collections.abc import Mapping

from kstore.errors import InvalidConfigError
from kstore.lazy_dataclass import lazy_dataclass

LISTENERS = "listeners"
ADVERTISED_LISTENERS = "advertised.listeners"
PROTOCOL_MAP = "listener.security.protocol.map"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
DEFAULT_NAME = "PLAINTEXT"
EVERYWHERE = ("0.0.0.0", "::", "")

_MOST = 100
_LISTENER = re.compile(r"(?P<name>[^:/\s]+)://(?P<host>\[[^\]]*\]|[^:/\[\]]*):(?P<port>[0-9]{1,5})")
_NAME = re.compile(r"[A-Za-z0-9_-]+")


@lazy_dataclass(frozen=True)
class Address:
    """A host ("" for all interfaces) and a port (0 for any free port)."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@lazy_dataclass(frozen=True)
class ListenerAddress:
    """One listener. ``advertised`` is None if the listener is not advertised."""

    name: str
    protocol: str
    address: Address
    advertised: Address | None

    @property
    def uses_tls(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")


def parse_listeners(settings: Mapping[str, str]) -> list[ListenerAddress]:
    """Parse the listeners of the settings, in order.

    Raises InvalidConfigError where Kafka does: for a repeated listener name or address, a name
    without a security protocol, or an unknown advertised listener.
    """
    found = _parse(LISTENERS, settings[LISTENERS])
    if not found:
        raise InvalidConfigError(f"{LISTENERS} names no listener")
    seen: set[tuple[str, int]] = set()
    for address in found.values():
        if address.port and (address.host, address.port) in seen:
            raise InvalidConfigError(f"{LISTENERS}: each listener must have its own address")
        seen.add((address.host, address.port))
    protocols = _protocols(settings.get(PROTOCOL_MAP))
    advertised = dict(found)
    if ADVERTISED_LISTENERS in settings:
        advertised = _parse(ADVERTISED_LISTENERS, settings[ADVERTISED_LISTENERS])
        _check_advertised(advertised, found)
    return [
        ListenerAddress(name, _protocol_of(name, protocols), address, advertised.get(name))
        for name, address in found.items()
    ]


def single_listener(
    host: str, port: int, advertised: tuple[str, int | None] | None
) -> ListenerAddress:
    """The listener of a broker that has an address instead of ``listeners``."""
    shown = Address(host, port)
    if advertised is not None:
        name, given = advertised
        shown = Address(name, 0 if given is None else given)
    return ListenerAddress(DEFAULT_NAME, "PLAINTEXT", Address(host, port), shown)


def _parse(setting: str, text: str) -> dict[str, Address]:
    found: dict[str, Address] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        match = _LISTENER.fullmatch(part)
        if match is None or int(match["port"]) > 65_535 or not _NAME.fullmatch(match["name"]):
            raise InvalidConfigError(f"{setting} is NAME://host:port,..., not {part!r}")
        name = match["name"].upper()  # Kafka's ListenerName.normalised
        if name in found:
            raise InvalidConfigError(f"{setting}: the name {name} is given twice")
        found[name] = Address(match["host"].strip("[]"), int(match["port"]))
    if len(found) > _MOST:
        raise InvalidConfigError(f"{setting} has {len(found)} listeners; at most {_MOST}")
    return found


def _protocols(text: str | None) -> dict[str, str]:
    if text is None:
        return {name: name for name in PROTOCOLS}
    found: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, colon, protocol = part.rpartition(":")
        name, protocol = name.strip().upper(), protocol.strip().upper()
        if not colon or not name or protocol not in PROTOCOLS:
            raise InvalidConfigError(
                f"{PROTOCOL_MAP} is NAME:PROTOCOL,... with one of {', '.join(PROTOCOLS)}; "
                f"not {part!r}"
            )
        if found.get(name, protocol) != protocol:
            raise InvalidConfigError(f"{PROTOCOL_MAP}: the name {name} has two protocols")
        found[name] = protocol
    return found


def _protocol_of(name: str, protocols: Mapping[str, str]) -> str:
    if name not in protocols:
        raise InvalidConfigError(
            f"listener {name} has no security protocol; name it in {PROTOCOL_MAP}"
        )
    return protocols[name]


def _check_advertised(advertised: Mapping[str, Address], listeners: Mapping[str, Address]) -> None:
    for name, address in advertised.items():
        if name not in listeners:
            raise InvalidConfigError(
                f"{ADVERTISED_LISTENERS} names {name}, which is not one of the {LISTENERS}"
            )
        if address.host in EVERYWHERE:
            raise InvalidConfigError(
                f"{ADVERTISED_LISTENERS}: clients cannot connect to {address.host or 'no host'!r}"
            )
    if not advertised:
        raise InvalidConfigError(f"{ADVERTISED_LISTENERS} names no listener")
