"""The topics whose images are behind the store, by name."""

from collections import deque
from collections.abc import Collection


class NotedTopics:
    """Topics that have changed since they were last taken. Thread safe, without a lock."""

    def __init__(self) -> None:
        self._noted: deque[Collection[str] | None] = deque((None,))

    def __bool__(self) -> bool:
        return bool(self._noted)

    def note(self, names: Collection[str] | None) -> None:
        """These have changed; None: perhaps any."""
        self._noted.append(None if names is None else tuple(names))

    def take(self) -> set[str] | None:
        """Those that have changed, which are forgotten; None: perhaps any."""
        names: set[str] = set()
        is_any = False
        while self._noted:
            found = self._noted.popleft()
            if found is None:
                is_any = True
            else:
                names.update(found)
        return None if is_any else names
