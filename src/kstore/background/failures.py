"""Reports failures of background work to the log, a callback and ``Store``.

They never surface in a caller's append. Each goes to the logger ``kstore`` and to the callback
``StoreConfig.on_background_error``, and stays in ``Store.background_failures`` until the same
task succeeds.
"""

import logging
import threading
from collections.abc import Callable

from kstore.clock import now_ms
from kstore.errors import BackgroundFailure

_LOGGER = logging.getLogger("kstore")

Callback = Callable[[BackgroundFailure], object]
_Key = tuple[str, str | None, int | None]


class BackgroundFailures:
    """The current failures. Thread safe; no lock is held while the callback runs."""

    def __init__(self, on_error: Callback | None) -> None:
        self._on_error = on_error
        self._lock = threading.Lock()
        self._current: dict[_Key, BackgroundFailure] = {}

    @property
    def current(self) -> tuple[BackgroundFailure, ...]:
        """The failures whose task has not succeeded since, oldest first."""
        with self._lock:
            return tuple(self._current.values())

    def report(
        self,
        work: str,
        error: Exception,
        topic: str | None = None,
        partition: int | None = None,
        *,
        is_lasting: bool = False,
    ) -> None:
        """Record a failure; log it and call back, unless the last attempt failed with the same
        error."""
        key = (work, topic, partition)
        with self._lock:
            known = self._current.get(key)
            if known is not None and _is_same(known, error, is_lasting):
                return
            since = now_ms() if known is None else known.since_ms
            failure = BackgroundFailure(work, topic, partition, error, is_lasting, since)
            self._current[key] = failure
        subject = "" if topic is None else f" of {topic}-{partition}"
        retry = "not retried until its cause is removed" if is_lasting else "to be retried"
        _LOGGER.warning("%s%s failed in the background, %s: %s", work, subject, retry, error)
        if self._on_error is not None:
            try:
                self._on_error(failure)
            except Exception:
                _LOGGER.exception("on_background_error failed")

    def end(self, work: str, topic: str | None = None, partition: int | None = None) -> None:
        """Remove the failure of a task that succeeded or has nothing left to do."""
        key = (work, topic, partition)
        if key not in self._current:  # the usual case, without the lock
            return
        with self._lock:
            ended = self._current.pop(key, None)
        if ended is not None:
            subject = "" if topic is None else f" of {topic}-{partition}"
            _LOGGER.info("%s%s no longer fails", work, subject)

    def forget_topic(self, topic: str, partition: int | None = None) -> None:
        """Remove the failures of a deleted topic, or of one partition that was deleted."""
        with self._lock:
            self._current = {
                key: failure
                for key, failure in self._current.items()
                if key[1] != topic or partition not in (None, key[2])
            }


def _is_same(known: BackgroundFailure, error: Exception, is_lasting: bool) -> bool:
    return (
        known.is_lasting == is_lasting
        and type(known.error) is type(error)
        and str(known.error) == str(error)
    )


def attempt(errors: list[BaseException], work: Callable[[], object]) -> object:
    """Return the result of ``work``; on an exception append it to ``errors`` and return None."""
    try:
        return work()
    except Exception as error:
        errors.append(error)
        return None
