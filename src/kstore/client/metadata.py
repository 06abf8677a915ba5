"""Decides when a consumer refreshes its topics and partitions."""

import math
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstore.store.store import Store


class MetadataView:
    """Whether topics or partitions of a store may have changed since the last check."""

    def __init__(self, store: "Store", max_age: float) -> None:
        self._store = store
        self._max_age = max_age  # seconds between checks for changes by another process
        self._version = -1
        self._checked_at = -math.inf

    @property
    def is_old(self) -> bool:
        """Whether this process has created, extended or deleted a topic since the last check."""
        return self._version != self._store._catalog.version

    def expire(self) -> None:
        """Check at the next call of :meth:`has_changed`."""
        self._checked_at = -math.inf

    def has_changed(self) -> bool:
        """Whether topics may have changed; True at the first call. Costs a writer no system call, a
        reader one per directory."""
        if not self._store.writable and (now := monotonic()) - self._checked_at >= self._max_age:
            self._store._follow_writer()
            self._checked_at = now
        before, self._version = self._version, self._store._catalog.version
        return self._version != before
