"""The keys with which a listener verifies tokens, refreshed while the broker runs (Kafka's
RefreshingHttpsJwks)."""

import logging
import threading
import time
from typing import TYPE_CHECKING

from kstore.errors import InvalidConfigError
from kstore.security.client_tls import client_context
from kstore.security.json_web_keys import MOST_JWKS, JsonWebKeys, UnknownKeyError
from kstore.security.oauth_settings import JWKS_URL, OAuthBearerSettings
from kstore.security.url_reader import UrlError, read_url, warn_if_readable

if TYPE_CHECKING:
    from kstore.broker.loop import Loop, Timer
    from kstore.security.web_tokens import AccessToken

_LOGGER = logging.getLogger("kstore.broker")
# Clients can send any key id: they cause no more refreshes than this.
_SECONDS_BETWEEN_EXPEDITED = 10.0
_SECONDS_BETWEEN_COMPLAINTS = 300.0


class JsonWebKeyRefresher:
    """Validates tokens with the current keys. Loop's thread only, except the constructor.

    A thread of its own reads the keys, so that a slow server delays neither the loop nor the stop
    of the broker. If they cannot be read, the previous keys stay in use.
    """

    def __init__(self, listener: str, settings: OAuthBearerSettings, loop: "Loop") -> None:
        """Read the keys. Blocks. Raises InvalidConfigError if that fails until the retries end."""
        self._listener = listener
        self._settings = settings
        self._loop = loop
        self._is_refreshing = False
        self._failures = 0
        self._complained_at = float("-inf")
        self._expedited_at = float("-inf")
        self._timer: Timer | None = None
        warn_if_readable(JWKS_URL, settings.jwks_url, "the keys that verify tokens")
        self._keys = self._first_keys()

    def start(self) -> None:
        """Refresh the keys from now on; further calls have no effect."""
        if self._timer is None:
            self._refresh_in(self._settings.refresh_ms)

    def validate(self, token: str, now_ms: int) -> "AccessToken":
        """Validate a token. A key that is unknown causes a refresh, for later tokens.

        Raises TokenError.
        """
        try:
            return self._keys.validate(self._settings.rules, token, now_ms)
        except UnknownKeyError:
            now = self._loop.time()
            if now - self._expedited_at >= _SECONDS_BETWEEN_EXPEDITED:
                self._expedited_at = now
                self._refresh()
            raise

    def _first_keys(self) -> JsonWebKeys:
        deadline = time.monotonic() + self._settings.retry_backoff_max_ms / 1000
        wait = self._settings.retry_backoff_ms / 1000
        while True:
            found = self._read()
            if isinstance(found, JsonWebKeys):
                return found
            is_permanent = isinstance(found, UrlError) and found.is_permanent
            is_file = self._settings.jwks_url.lower().startswith("file:")
            if is_permanent or is_file or time.monotonic() + wait > deadline:
                raise InvalidConfigError(
                    f"listener {self._listener}: {JWKS_URL}={self._settings.jwks_url} cannot be "
                    f"used: {found}"
                )
            time.sleep(wait)
            wait *= 2

    def _read(self) -> JsonWebKeys | UrlError | ValueError:
        """The keys, or why they cannot be read. On any thread. Raises InvalidConfigError."""
        url = self._settings.jwks_url
        is_https = url.lower().startswith("https:")
        context = client_context(self._settings.tls) if is_https else None
        try:
            return JsonWebKeys(read_url(url, MOST_JWKS, context=context))
        except InvalidConfigError:
            raise
        except (UrlError, ValueError) as error:
            return error

    def _refresh_in(self, milliseconds: float) -> None:
        self._timer = self._loop.call_later(milliseconds / 1000, self._refresh)

    def _refresh(self) -> None:
        if self._is_refreshing:
            return
        self._is_refreshing = True
        name = f"kstore-broker-keys-{self._listener}"
        try:
            threading.Thread(target=self._read_and_take, name=name, daemon=True).start()
        except RuntimeError as error:  # no thread can be started
            self._take(error)

    def _read_and_take(self) -> None:
        found: JsonWebKeys | Exception
        try:
            found = self._read()
        except Exception as error:
            found = error
        self._loop.call_soon_threadsafe(self._take, found)

    def _take(self, found: JsonWebKeys | Exception) -> None:
        self._is_refreshing = False
        if self._timer is not None:
            self._timer.cancel()
        settings = self._settings
        if isinstance(found, JsonWebKeys):
            if self._failures:
                _LOGGER.warning("listener %s has keys of tokens again", self._listener)
            self._keys, self._failures = found, 0
            self._refresh_in(settings.refresh_ms)
            return
        wait = min(settings.retry_backoff_ms << min(self._failures, 32),
                   settings.retry_backoff_max_ms)  # fmt: skip
        self._failures += 1
        now = self._loop.time()
        if self._failures == 1 or now - self._complained_at >= _SECONDS_BETWEEN_COMPLAINTS:
            self._complained_at = now
            _LOGGER.error(
                "listener %s keeps its keys of tokens because %s cannot be used: %s",
                self._listener, settings.jwks_url, found,
            )  # fmt: skip
        self._refresh_in(wait)
