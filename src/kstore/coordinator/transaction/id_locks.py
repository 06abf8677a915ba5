"""One lock for each transactional id that is in use, and none for the others."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _IdLock:
    """The lock of an id, and how many threads hold it or wait for it."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.users = 0


class IdLocks:
    """Locks by transactional id. Thread safe.

    A lock is freed by its last user: applications that make up an id for every run would fill the
    memory otherwise, since their ids expire and the locks would not.
    """

    def __init__(self) -> None:
        self._locks: dict[str, _IdLock] = {}
        self._guard = threading.Lock()

    def __len__(self) -> int:
        return len(self._locks)

    @contextmanager
    def turn(self, transactional_id: str) -> Iterator[None]:
        """Serialize the calls for one id; a thread may take its turn within its turn."""
        with self._guard:
            held = self._locks.setdefault(transactional_id, _IdLock())
            held.users += 1  # under the guard, so that no one frees it before it is taken
        try:
            with held.lock:
                yield
        finally:
            with self._guard:
                held.users -= 1
                if not held.users:
                    del self._locks[transactional_id]

    def wait_for_all(self) -> None:
        """Wait until every turn that has begun has ended."""
        with self._guard:
            held = list(self._locks.values())
        for each in held:
            with each.lock:
                pass
