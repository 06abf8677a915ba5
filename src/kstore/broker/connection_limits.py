"""Counts the connections of all listeners of a broker against its limits."""

from collections import Counter
from collections.abc import Callable


class ConnectionLimits:
    """``max.connections`` and ``max.connections.per.ip``. Loop's thread only."""

    def __init__(self, limit: int, limit_of_address: int) -> None:
        self._limit = limit
        self._limit_of_address = limit_of_address
        self._count = 0
        self._of_address: Counter[str] = Counter()
        self._waiting: dict[Callable[[], object], None] = {}

    def change(self, limit: int, limit_of_address: int) -> None:
        """Other limits from now on; connections that are open stay."""
        self._limit, self._limit_of_address = limit, limit_of_address
        self._resume()

    def has_room(self, resume: Callable[[], object]) -> bool:
        """Whether one more connection may be accepted; if not, ``resume`` is called once it may."""
        if self._count < self._limit:
            return True
        self._waiting[resume] = None
        return False

    def admit(self, address: str) -> bool:
        """Count a connection from an address; False, without counting, if it has too many."""
        if self._of_address[address] >= self._limit_of_address:
            return False
        self._of_address[address] += 1
        self._count += 1
        return True

    def release(self, address: str) -> None:
        """A connection is closed."""
        self._count -= 1
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]
        self._resume()

    def _resume(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for resume in waiting:
            resume()
