"""When a consumer looks again for topics and partitions."""

import math
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstore.store.store import Store


class MetadataView:
    """Whether topics or partitions of a store may have come or gone since the last look."""

    def __init__(self, store: "Store", max_age: float) -> None:
        self._store = store
        self._max_age = max_age  # seconds between looks for what another process did
        self._version = -1
        self._looked_at = -math.inf

    @property
    def is_old(self) -> bool:
        """Whether this process has made, extended or deleted a topic since the last look."""
        return self._version != self._store._catalog.version

    def expire(self) -> None:
        """Look at the next opportunity."""
        self._looked_at = -math.inf

    def has_changed(self) -> bool:
        """True at the first look; in a writer no system call, in a reader one a directory."""
        if not self._store.writable and (now := monotonic()) - self._looked_at >= self._max_age:
            self._store._look_again()
            self._looked_at = now
        before, self._version = self._version, self._store._catalog.version
        return self._version != before
