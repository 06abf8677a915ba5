"""What is open in this process: closed at exit, made useless in a forked child."""

import atexit
import logging
import os
import weakref
from typing import Protocol

_LOGGER = logging.getLogger("kstore")


class Closable(Protocol):
    """A store, producer or consumer."""

    def close(self) -> None: ...
    def _after_fork(self) -> None: ...


_OPEN: weakref.WeakSet[Closable] = weakref.WeakSet()


def opened(thing: Closable) -> None:
    """Remember a store; it is not kept alive by that."""
    _OPEN.add(thing)


def closed(thing: Closable) -> None:
    _OPEN.discard(thing)


def _close_all() -> None:
    for thing in list(_OPEN):
        try:
            thing.close()
        except Exception:
            # A store is a mapping, and a lone mapping means something else to logging.
            _LOGGER.exception("%s did not close cleanly at exit", repr(thing))


def _forked() -> None:
    for thing in list(_OPEN):
        thing._after_fork()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forked)
