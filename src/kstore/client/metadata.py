"""Decides when a consumer refreshes its topics and partitions."""

import math
from collections.abc import Callable, Collection
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstore.store.store import Store


class MetadataView:
    """Whether topics or partitions of a store may have changed since the last check.

    A TopicListener of the store; ``wake`` is called after each change.
    """

    def __init__(self, store: "Store", max_age: float, wake: Callable[[], object]) -> None:
        self._store = store
        self._max_age = max_age  # seconds between checks for changes by another process
        self._wake = wake
        self._has_changed = True
        self._checked_at = -math.inf
        store._manager.changes.add_listener(self)

    def close(self) -> None:
        """Follow the store no longer."""
        self._store._manager.changes.remove_listener(self)

    def topics_noted(self, names: Collection[str] | None) -> None:
        """This process has changed topics, or found that another one has."""
        self._has_changed = True

    def topics_changed(self) -> None:
        self._wake()

    @property
    def is_old(self) -> bool:
        """Whether a topic was created, extended or deleted since the last check."""
        return self._has_changed

    def expire(self) -> None:
        """Check at the next call of :meth:`has_changed`."""
        self._checked_at = -math.inf

    def has_changed(self) -> bool:
        """Whether topics may have changed; True at the first call. Costs a writer no system call, a
        reader one per directory."""
        if not self._store.writable and (now := monotonic()) - self._checked_at >= self._max_age:
            self._store._follow_writer()
            self._checked_at = now
        if not self._has_changed:
            return False
        self._has_changed = False  # before the caller looks: a later change sets it again
        return True
