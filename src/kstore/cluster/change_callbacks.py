"""Who is called after a change of the cluster's metadata."""

import logging
from collections.abc import Callable
from functools import partial

from kstore.cluster.image import ClusterImage
from kstore.cluster.metadata import OnChange

_LOGGER = logging.getLogger("kstore")


class ChangeCallbacks:
    """Callbacks in the order in which they were added; thread safe."""

    def __init__(self) -> None:
        self._callbacks: list[OnChange] = []

    def add(self, callback: OnChange) -> "CallbackRegistration":
        """Call ``callback(old, new)`` after each change, until the registration is closed."""
        self._callbacks.append(callback)
        return CallbackRegistration(partial(self._forget, callback))

    def _forget(self, callback: OnChange) -> None:
        if callback in self._callbacks:
            self._callbacks.remove(callback)

    def call(self, old: ClusterImage, new: ClusterImage) -> None:
        """Call each; one that fails is logged."""
        for callback in tuple(self._callbacks):
            try:
                callback(old, new)
            except Exception:  # the change itself succeeded
                _LOGGER.exception("a callback of a change of metadata failed")


class CallbackRegistration:
    """Ends an ``on_change``."""

    def __init__(self, forget: Callable[[], None]) -> None:
        self._forget = forget

    def close(self) -> None:
        """Call back no more; may be repeated."""
        self._forget()
