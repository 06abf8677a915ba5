"""Settings of the connection to a cluster, by the names of Kafka's clients."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kstore.config import parse_whole_number, setting_text
from kstore.errors import InvalidConfigError
from kstore.security.client_settings import client_security

if TYPE_CHECKING:
    from kstore.security.client_settings import ClientSecurity

_PEM = "ssl.truststore.type=PEM and ssl.truststore.location"
_PEM_KEY = "ssl.keystore.type=PEM and ssl.keystore.location, a file with key and certificates"
_JAAS = "sasl.jaas.config"
# kafka-python's names of what Kafka's clients name differently. Ignored, they would mean a
# connection without encryption, or without authentication.
_OTHERS = {
    "ssl_cafile": _PEM,
    "ssl_certfile": _PEM_KEY,
    "ssl_keyfile": _PEM_KEY,
    "ssl_password": "ssl.key.password",
    "ssl_check_hostname": "ssl.endpoint.identification.algorithm, https or empty",
    "sasl_plain_username": _JAAS,
    "sasl_plain_password": _JAAS,
    "api_version": "nothing, since a broker before 0.10 is recognised",
}


class ConnectionSettings(NamedTuple):
    """How to connect to a cluster."""

    security: "ClientSecurity"
    client_id: str = "kstore-mirror"
    timeout: float | None = None
    """Seconds to wait for a response."""


def connection_settings(given: Mapping[str, object]) -> ConnectionSettings:
    """Read ``security.protocol``, ``ssl.*``, ``sasl.*``, ``client.id`` and ``request.timeout.ms``.

    Other settings of Kafka's clients have no effect. Raises InvalidConfigError for invalid
    settings, and for kafka-python's names.
    """
    for name in given:
        if not isinstance(name, str):
            raise InvalidConfigError(f"the name of a setting is a text, not {name!r}")
        other = _OTHERS.get(name.replace(".", "_"))
        if other is None and "_" in name:
            other = name.replace("_", ".")
        if other is not None:
            raise InvalidConfigError(
                f"{name!r} is not a setting of Kafka's clients; instead of it: {other}"
            )
    texts = {name: setting_text(value) for name, value in given.items()}
    timeout = texts.get("request.timeout.ms")
    return ConnectionSettings(
        security=client_security(texts),
        client_id=texts.get("client.id", "kstore-mirror"),
        timeout=None
        if timeout is None
        else parse_whole_number(timeout, 1, 2**31 - 1, name="request.timeout.ms") / 1000,
    )
