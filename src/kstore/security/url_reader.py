"""Reads what an OAuth provider answers: a URL of a file, http or https. Blocks.

No redirects and no proxies, as in Kafka's HttpAccessTokenRetriever: a secret or a token goes to the
configured server only. Errors contain no credentials and no response.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from kstore.errors import InvalidConfigError, StorageError
from kstore.files.files import read_outside

if TYPE_CHECKING:
    import ssl

_LOGGER = logging.getLogger("kstore")
_SCHEMES = ("file", "http", "https")
_CHUNK = 1 << 16
_MOST_SECONDS = 86_400.0  # a socket takes no longer timeout than some
_PERMANENT = frozenset(range(400, 500)) - {408, 425, 429}  # of HTTP: not worth a retry


class _Response(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class UrlError(Exception):
    """The URL cannot be read. ``is_permanent``: another attempt would fail, too."""

    def __init__(self, text: str, *, is_permanent: bool = False) -> None:
        super().__init__(text)
        self.is_permanent = is_permanent


def check_url(setting: str, url: str) -> str:
    """Return the URL. Raises InvalidConfigError unless it is one that can be read."""
    try:
        parts = urlsplit(url)
        is_port = parts.port != 0  # ValueError for a port that is none
    except ValueError as error:
        raise InvalidConfigError(f"{setting} is no URL: {error}") from None
    if not is_port:
        raise InvalidConfigError(f"{setting} has the port 0")
    if parts.scheme.lower() not in _SCHEMES or parts.username is not None:
        raise InvalidConfigError(f"{setting} is a URL with file:, http: or https:, and no user")
    if parts.scheme.lower() == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise InvalidConfigError(f"{setting}: a file's URL is file:///path")
    elif not parts.hostname:
        raise InvalidConfigError(f"{setting} has no host")
    return url


def warn_if_readable(setting: str, url: str, what: str) -> None:
    """Log a warning if others can read or replace ``what`` on its way from the URL."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    is_local = host in ("localhost", "::1") or host.startswith("127.")
    if parts.scheme.lower() == "http" and not is_local:
        _LOGGER.warning(
            "%s is an http: URL: programs on the way to %s can read or replace %s; use https:",
            setting, host, what,
        )  # fmt: skip


def read_url(
    url: str,
    most: int,
    *,
    timeout_seconds: float = 10.0,
    context: "ssl.SSLContext | None" = None,
    data: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Return at most ``most`` bytes, or raise UrlError. ``data`` is sent as a POST request.

    ``timeout_seconds`` limits the connection, and the entire response, headers included,
    however slowly the server sends them.
    """
    parts = urlsplit(url)
    if parts.scheme.lower() == "file":
        try:
            return read_outside(unquote(parts.path), most)
        except (StorageError, ValueError) as error:  # ValueError: a NUL in the path
            raise UrlError(str(error)) from None
    from http.client import HTTPException  # these are slow to import
    from urllib.error import HTTPError, URLError
    from urllib.request import Request

    from kstore.security.url_opener import open_url

    timeout_seconds = min(timeout_seconds, _MOST_SECONDS)
    asked = Request(url, data, {"Accept": "application/json", **(headers or {})})
    try:
        with open_url(asked, timeout_seconds, context) as response:
            return _bounded(response, most)
    except HTTPError as error:
        error.close()
        raise UrlError(f"HTTP {error.code}", is_permanent=error.code in _PERMANENT) from None
    except URLError as error:
        raise UrlError(_reason(error.reason)) from None
    except (OSError, HTTPException, ValueError) as error:
        raise UrlError(_reason(error)) from None


def _bounded(response: "_Response", most: int) -> bytes:
    received = bytearray()
    while chunk := response.read1(_CHUNK):
        received += chunk
        if len(received) > most:
            raise UrlError(f"the response has more than {most} bytes", is_permanent=True)
    return bytes(received)


def _reason(error: object) -> str:
    """What failed, without the texts of the server."""
    if isinstance(error, OSError):
        return getattr(error, "verify_message", None) or error.strerror or str(error)
    return type(error).__name__
