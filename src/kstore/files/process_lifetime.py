"""Open objects of this process: closed at exit, disabled in a forked child."""

import atexit
import logging
import os
import threading
import weakref
from typing import Protocol

_LOGGER = logging.getLogger("kstore")


class Closable(Protocol):
    """A store, producer or consumer."""

    def close(self) -> None: ...
    def _after_fork(self) -> None: ...


class Server(Closable, Protocol):
    """A broker that serves a store."""

    def _check_can_close(self) -> None:
        """Raise PolicyViolationError on a thread of its own, which its ``close`` waits for."""


_EXITING = threading.Event()
_OPEN: weakref.WeakSet[Closable] = weakref.WeakSet()


def opened(closable: Closable) -> None:
    """Remember a store by a weak reference."""
    _OPEN.add(closable)


def closed(closable: Closable) -> None:
    _OPEN.discard(closable)


def is_exiting() -> bool:
    """Whether the process is ending with stores that the program has not closed."""
    return _EXITING.is_set()


def _close_all() -> None:
    _EXITING.set()
    for each in list(_OPEN):
        try:
            each.close()
        except Exception:
            # As text: logging treats a single mapping, such as a store, in another way.
            _LOGGER.exception("%s did not close cleanly at exit", repr(each))


def _forked() -> None:
    for each in list(_OPEN):
        each._after_fork()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forked)
