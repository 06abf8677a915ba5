"""Explains to a shell user which process has a log directory open for writing."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kstore.errors import StoreLockedError
from kstore.partition_files import LockHolder, filenames, lock_holders

_BESIDE = "'kstore topics --list', 'console-consumer', 'get-offsets' and 'verify' work beside it"


@contextmanager
def naming_lock_holder() -> Iterator[None]:
    """Rephrase a StoreLockedError of a log directory: the holder, and what to do."""
    try:
        yield
    except StoreLockedError as error:
        path = error.path
        if path is None or os.path.basename(path) != filenames.LOCK:
            raise
        raise StoreLockedError(explain(path, next(iter(lock_holders(path)), None))) from error


def explain(path: str, holder: LockHolder | None) -> str:
    """A sentence about the lock file of a log directory."""
    directory = os.path.dirname(path)
    if holder is None:
        return (
            f"another process has {directory} open for writing: a kstore program or a Kafka "
            f"broker, of another user or on another machine ('sudo fuser -v {path}' shows it on "
            f"this one); stop it first. {_BESIDE}"
        )
    return (
        f"{holder} has {directory} open for writing: wait until it ends, or "
        f"stop it with 'kill {holder.pid}'. {_BESIDE}"
    )
