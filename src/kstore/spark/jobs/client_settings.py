"""Settings of kafka-python's producer, from the text of a properties file."""

import math
import re
from collections.abc import Mapping
from typing import Any

from kstore.errors import InvalidConfigError
from kstore.hints.close_names import close_names
from kstore.integers import parse_float, parse_integer

_WORDS = {"true": True, "false": False}
# Settings that Kafka's Java clients name differently, or keep in a form that only Java reads.
_JAVA = {
    "ssl_truststore_location": "ssl_cafile, a file of certificates in PEM",
    "ssl_truststore_type": "ssl_cafile, a file of certificates in PEM",
    "ssl_truststore_certificates": "ssl_cafile, a file of certificates in PEM",
    "ssl_truststore_password": "ssl_cafile, a file of certificates in PEM",
    "ssl_keystore_location": "ssl_certfile and ssl_keyfile, files in PEM",
    "ssl_keystore_type": "ssl_certfile and ssl_keyfile, files in PEM",
    "ssl_keystore_password": "ssl_certfile and ssl_keyfile, files in PEM",
    "ssl_key_password": "ssl_password",
    "ssl_endpoint_identification_algorithm": "ssl_check_hostname=true or false",
    "sasl_jaas_config": "sasl_plain_username and sasl_plain_password, for SCRAM too",
}
_OBJECTS = frozenset(
    {"metrics", "sasl_oauth_token_provider", "selector", "socket_options", "ssl_context"}
)


def of_the_client(given: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as kafka-python takes them.

    ``known``: its names, with their defaults, which determine the type. Dots in names count as
    underscores; text is converted to that type, other values stay unchanged. Raises
    InvalidConfigError for a name that kafka-python would ignore, and for a wrong value.
    """
    found = {}
    for name, value in given.items():
        key = name.replace(".", "_")
        if key not in known:
            close = close_names(key, known, 2)
            hint = (
                _JAVA.get(key) or " or ".join(close) or "the names of kafka-python's KafkaProducer"
            )
            raise InvalidConfigError(f"no setting of the connection: {name!r}; there is {hint}")
        found[key] = _value(key, value, known[key]) if isinstance(value, str) else value
    return found


def _value(key: str, text: str, default: object) -> object:
    if key in _OBJECTS:
        raise InvalidConfigError(f"{key} is a Python object: it can be given from Python only")
    if key == "acks" and text in ("all", "-1"):
        return -1
    if key == "api_version":
        if re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4}){1,3}", text) is None:
            raise InvalidConfigError(f"api_version is a version such as 0.8.2, not {text!r}")
        return tuple(map(int, text.split(".")))
    if isinstance(default, bool):
        if text.lower() not in _WORDS:
            raise InvalidConfigError(f"{key} is true or false, not {text!r}")
        return _WORDS[text.lower()]
    if isinstance(default, int | float):
        try:
            number = parse_float(text) if isinstance(default, float) else parse_integer(text)
        except ValueError:
            number = math.nan
        if not number >= 0:
            raise InvalidConfigError(f"{key} is a number, not {text!r}")
        return number
    return text
