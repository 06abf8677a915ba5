"""The messages of SASL/OAUTHBEARER (RFC 7628, KIP-255) and their SASL extensions (KIP-342).

The syntax is that of Kafka's OAuthBearerClientInitialResponse. No error contains a part of a
message, since messages contain tokens.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

OAUTHBEARER = "OAUTHBEARER"
SEPARATOR = "\x01"
END_OF_ERROR = b"\x01"  # the client's response to the server's error
MOST_TOKEN = 65_536  # characters
_MOST_MESSAGE = 2 * MOST_TOKEN
_AUTH = "auth"
_HEADER = re.compile(r"n,(?:a=(?P<authzid>(?:[^\0=,\x80-\U0010ffff]|=2C|=3D)+))?,\x01")
_KEY, _VALUE = re.compile(r"[A-Za-z]+"), re.compile(r"[\x21-\x7e \t\r\n]+")
_BEARER = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.A-Za-z0-9]+=*)", re.ASCII)


class OAuthBearerError(Exception):
    """The message is invalid. The error contains no part of it."""


class InitialResponse(NamedTuple):
    """The client's first message; ``authorization_id`` is "" if it has none."""

    token: str
    authorization_id: str
    extensions: Mapping[str, str]


def parse_initial_response(message: bytes) -> InitialResponse:
    """Parse the client's first message. Raises OAuthBearerError, with Kafka's texts."""
    if len(message) > _MOST_MESSAGE:
        raise OAuthBearerError("Invalid OAUTHBEARER client first message: it is too long")
    text = message.decode("utf-8", "replace")
    header = _HEADER.match(text)
    if header is None or not text.endswith(SEPARATOR):
        raise OAuthBearerError("Invalid OAUTHBEARER client first message")
    pairs = _pairs(text[header.end() : -1])
    auth = pairs.pop(_AUTH, None)
    if auth is None:
        raise OAuthBearerError("Invalid OAUTHBEARER client first message: 'auth' not specified")
    bearer = _BEARER.fullmatch(auth)
    if bearer is None or len(bearer["token"]) > MOST_TOKEN:
        raise OAuthBearerError("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    if bearer["scheme"].lower() != "bearer":
        raise OAuthBearerError("Invalid scheme in OAUTHBEARER client first message")
    authorization_id = (header["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
    return InitialResponse(bearer["token"], authorization_id, pairs)


def initial_response(token: str, extensions: Mapping[str, str]) -> bytes:
    """Format the client's first message. Raises OAuthBearerError for an invalid token or extension
    (``check_extensions``)."""
    auth = f"Bearer {token}"
    if _BEARER.fullmatch(auth) is None or len(token) > MOST_TOKEN:
        raise OAuthBearerError("the token has characters that OAUTHBEARER does not allow")
    check_extensions(extensions)
    pairs = [f"{_AUTH}={auth}", *(f"{key}={value}" for key, value in extensions.items())]
    return f"n,,{SEPARATOR}{SEPARATOR.join(pairs)}{SEPARATOR}{SEPARATOR}".encode()


def check_extensions(extensions: Mapping[str, str]) -> None:
    """Raise OAuthBearerError for a SASL extension that RFC 7628 does not allow."""
    for key, value in extensions.items():
        if key == _AUTH or _KEY.fullmatch(key) is None or _VALUE.fullmatch(value) is None:
            raise OAuthBearerError("a SASL extension has an invalid name or value")


def _pairs(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    if text and not text.endswith(SEPARATOR):
        raise OAuthBearerError("Invalid OAUTHBEARER client first message")
    for pair in text[:-1].split(SEPARATOR) if text else ():
        key, equals, value = pair.partition("=")
        if not equals or _KEY.fullmatch(key) is None or _VALUE.fullmatch(value) is None:
            raise OAuthBearerError("Invalid OAUTHBEARER client first message")
        if key in found:
            raise OAuthBearerError("Invalid OAUTHBEARER client first message: a key twice")
        found[key] = value
    return found
