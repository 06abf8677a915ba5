"""The TLS context of a listener, reloaded when its files change."""

import logging
from typing import TYPE_CHECKING

from kstore.errors import InvalidConfigError
from kstore.security.tls import Stamps, TlsSettings, server_context, stamps

if TYPE_CHECKING:
    import ssl

    from kstore.broker.disk_workers import DiskWorkers
    from kstore.broker.loop import Loop

_LOGGER = logging.getLogger("kstore.broker")
_SECONDS_BETWEEN_CHECKS = 5.0


class TlsContext:
    """Provides the current certificates to new connections. Loop's thread only.

    When a client connects, a disk worker checks the files, at most every five seconds; later
    connections use a new certificate. If the files are invalid, it logs an error and keeps the old
    context.
    """

    def __init__(self, listener: str, settings: TlsSettings) -> None:
        """Raises InvalidConfigError for invalid files."""
        self._listener = listener
        self._settings = settings
        self._stamps: Stamps = stamps(settings)
        self._context = server_context(settings)
        self._check_again_at = 0.0
        self._is_checking = False

    def current(self, loop: "Loop", workers: "DiskWorkers") -> "ssl.SSLContext":
        """The context for a new connection."""
        now = loop.time()
        if now >= self._check_again_at and not self._is_checking:
            self._check_again_at = now + _SECONDS_BETWEEN_CHECKS
            self._is_checking = True
            workers.submit(("tls", self._listener), self._renewed, self._take)
        return self._context

    def _renewed(self) -> "tuple[Stamps, ssl.SSLContext | None]":
        """On a disk worker: return the files' stamps, and a new context if they changed."""
        found = stamps(self._settings)
        if found == self._stamps:
            return found, None
        return found, server_context(self._settings)

    def _take(
        self, result: "tuple[Stamps, ssl.SSLContext | None] | None", error: BaseException | None
    ) -> None:
        self._is_checking = False
        if result is None:
            kind = error if isinstance(error, InvalidConfigError) else type(error).__name__
            _LOGGER.error(
                "listener %s keeps its certificate because the new one is not valid: %s",
                self._listener, kind,
            )  # fmt: skip
            return
        self._stamps, context = result
        if context is not None:
            self._context = context
            _LOGGER.info("listener %s uses new certificates", self._listener)
