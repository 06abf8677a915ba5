"""Explains to a shell user which process has a log directory open for writing."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kstore.errors import StoreLockedError
from kstore.partition_files import (
    DISK,
    BrokerAddress,
    LockHolder,
    filenames,
    lock_holders,
    read_broker_addresses,
)

_BESIDE = "'kstore topics --list', 'console-consumer', 'get-offsets' and 'verify' work beside it"


@contextmanager
def naming_lock_holder(*, takes_server: bool = False) -> Iterator[None]:
    """Rephrase a StoreLockedError of a log directory: the holder, and what to do.

    ``takes_server``: the tool has ``--bootstrap-server``, which a served directory needs.
    """
    try:
        yield
    except StoreLockedError as error:
        path = error.path
        if path is None or os.path.basename(path) != filenames.LOCK:
            raise
        holder = next(iter(lock_holders(path)), None)
        served = read_broker_addresses(DISK, os.path.dirname(path))
        if served:
            text = explain_served(path, holder, served, takes_server=takes_server)
        else:
            text = explain(path, holder)
        raise StoreLockedError(text) from error


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


def explain_served(
    path: str,
    holder: LockHolder | None,
    served: Sequence[BrokerAddress],
    *,
    takes_server: bool,
) -> str:
    """A sentence about the lock file of a log directory that a broker serves."""
    listener = served[0]
    who = "another process" if holder is None else holder
    text = f"{who} serves {os.path.dirname(path)} on {listener.address}"
    stop = "stop it first" if holder is None else f"stop it with 'kill {holder.pid}'"
    if not takes_server:
        return f"{text}: {stop}. {_BESIDE}"
    option = f"--bootstrap-server {listener.address}"
    if not listener.is_plaintext:
        option += f" (which needs the client's settings for {listener.protocol})"
    return f"{text}: use {option} instead of --log-dir, or {stop}. {_BESIDE}"
