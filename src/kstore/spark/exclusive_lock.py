"""A store to oneself: its one-writer lock, waited for."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from kstore.config import StoreConfig
from kstore.errors import StoreLockedError
from kstore.partition_files import DISK, Files, LogDir, filenames
from kstore.store.store import Store

_PAUSE = 0.02  # seconds between looks for the lock
_TRIES = 5  # to find a store settled; one that cannot be is taken as it is
_QUIET = StoreConfig(background=False)

Taken = TypeVar("Taken")


def when_free(take: Callable[[], Taken], timeout_ms: int, reason: str) -> Taken:
    """What ``take`` gives once no other process writes the store.

    Raises StoreLockedError, with the reason in its text, after the time is over.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        try:
            return take()
        except StoreLockedError as error:
            if time.monotonic() >= deadline:
                raise StoreLockedError(
                    f"another process has written this store for {timeout_ms} ms: {reason}",
                    path=error.path,
                ) from None
        time.sleep(_PAUSE)


def open_alone(paths: Sequence[str], timeout_ms: int, reason: str, files: Files = DISK) -> Store:
    """The store as its one writer, without background work.

    What was left unfinished there is recovered, finished or undone by that.
    """
    return when_free(
        lambda: Store(tuple(paths), "a", config=_QUIET, files=files), timeout_ms, reason
    )


@contextmanager
def keep_closed(
    paths: Sequence[str], timeout_ms: int, reason: str, files: Files = DISK
) -> Iterator[None]:
    """The store's lock, with all of its logs closed, and recovered as far as that can be."""
    held = _lock(paths, timeout_ms, reason, files)
    try:
        for _ in range(_TRIES):  # who had the lock in between may have left it unfinished again
            if _is_settled(held, files):
                break
            _release(held)
            held = []
            open_alone(paths, timeout_ms, reason, files).close()
            held = _lock(paths, timeout_ms, reason, files)
        yield
    finally:
        _release(held)


def _lock(paths: Sequence[str], timeout_ms: int, reason: str, files: Files) -> list[LogDir]:
    held: list[LogDir] = []
    try:
        for path in paths:
            take = partial(LogDir, files, path, writable=True)
            held.append(when_free(take, timeout_ms, reason))
    except BaseException:
        _release(held)
        raise
    return held


def _release(held: Sequence[LogDir]) -> None:
    for each in held:
        each.release()


def _is_settled(held: Sequence[LogDir], files: Files) -> bool:
    """Whether everything was closed cleanly, and no publication waits to be undone."""
    for each in held:
        contents = each.scan()
        if contents.partitions and not each.clean:
            return False
        if any(name.startswith(filenames.PUBLISHING_PREFIX) for name in contents.files):
            return False
    return True
