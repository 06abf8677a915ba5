"""Waits for the store's one-writer lock."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from kstore.config import StoreConfig
from kstore.errors import StoreLockedError
from kstore.partition_files import DISK, Files, LogDir, filenames
from kstore.store.store import Store

_PAUSE = 0.02  # seconds between attempts to get the lock
_MAX_ATTEMPTS = 5  # to recover a store; then it is used as it is
_WITHOUT_BACKGROUND = StoreConfig(background=False)

Locked = TypeVar("Locked")


def retry_until_unlocked(take: Callable[[], Locked], timeout_ms: int, reason: str) -> Locked:
    """The result of ``take``, retried while another process writes the store.

    Raises StoreLockedError, with ``reason`` in its text, after ``timeout_ms``.
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
    """Open the store as its one writer, without background work.

    Opening recovers the store, and finishes or undoes interrupted operations.
    """
    return retry_until_unlocked(
        lambda: Store(tuple(paths), "a", config=_WITHOUT_BACKGROUND, files=files),
        timeout_ms,
        reason,
    )


@contextmanager
def keep_closed(
    paths: Sequence[str], timeout_ms: int, reason: str, files: Files = DISK
) -> Iterator[None]:
    """Hold the store's lock with all logs closed, after an attempt to recover them."""
    log_dirs = _lock(paths, timeout_ms, reason, files)
    try:
        # Opening the store releases the lock: another writer may leave it unclean meanwhile.
        for _ in range(_MAX_ATTEMPTS):
            if _is_clean(log_dirs):
                break
            _release(log_dirs)
            log_dirs = []
            open_alone(paths, timeout_ms, reason, files).close()
            log_dirs = _lock(paths, timeout_ms, reason, files)
        yield
    finally:
        _release(log_dirs)


def _lock(paths: Sequence[str], timeout_ms: int, reason: str, files: Files) -> list[LogDir]:
    log_dirs: list[LogDir] = []
    try:
        for path in paths:
            take = partial(LogDir, files, path, writable=True)
            log_dirs.append(retry_until_unlocked(take, timeout_ms, reason))
    except BaseException:
        _release(log_dirs)
        raise
    return log_dirs


def _release(log_dirs: Sequence[LogDir]) -> None:
    for log_dir in log_dirs:
        log_dir.release()


def _is_clean(log_dirs: Sequence[LogDir]) -> bool:
    """Whether all directories were closed cleanly, and no publication must be undone."""
    for log_dir in log_dirs:
        contents = log_dir.scan()
        if contents.partitions and not log_dir.clean:
            return False
        if any(name.startswith(filenames.PUBLISHING_PREFIX) for name in contents.files):
            return False
    return True
