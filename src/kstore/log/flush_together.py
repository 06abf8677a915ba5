"""Flushes many logs at the same time: one call syncs their files.

The file system's journal commits once for all of them. Flushes on threads of their own
(:mod:`kstore.log.shared_committer`) would wait for the interpreter after each system call.
"""

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from time import monotonic, sleep
from typing import TYPE_CHECKING

from kstore.errors import KStoreError

if TYPE_CHECKING:
    from kstore.files.files import Files
    from kstore.log.flush import BegunFlush
    from kstore.log.log import Log

_PATIENCE = 0.01  # seconds for locks that other threads hold for an append after the sync
_PAUSE = 0.0002

Errors = dict["Log", BaseException]


class SkippedError(Exception):
    """The log is locked, or has more to sync than the data of one file: ``flush`` it alone."""


def flush_together(logs: Sequence["Log"]) -> Errors:
    """Flush these logs; return the errors of those that fail, SkippedError if skipped.

    Waits for the disk, and for no lock: the source of an ``extend``, whose thread holds the lock of
    one log, may wait for another log of the call. Not for such a source itself.
    """
    errors: Errors = {}
    begun: dict[Log, BegunFlush] = {}
    with ExitStack() as held:
        for log in logs:
            flush = _begin(log, errors)
            if flush is not None:
                held.callback(flush.release)  # after an exception, too
                begun[log] = flush
        _sync(begun.values())
        _end(begun, errors)
    for flush in begun.values():
        if flush.error is None and flush.flusher.on_synced is not None:
            flush.flusher.on_synced(flush.seconds)
    return errors


def _begin(log: "Log", errors: Errors) -> "BegunFlush | None":
    try:
        flush = log._require_writer().flusher.begin()
    except (KStoreError, OSError) as error:
        errors[log] = error
        return None
    if flush is None:
        errors[log] = SkippedError()
    return flush


def _sync(begun: "Collection[BegunFlush]") -> None:
    """Sync the files by disk, and keep the result of each."""
    by_disk: dict[Files, list[BegunFlush]] = {}
    for flush in begun:
        by_disk.setdefault(flush.files, []).append(flush)
    for files, flushes in by_disk.items():
        started = monotonic()
        try:
            found = files.fdatasync_each([flush.fd for flush in flushes])
        except BaseException as error:
            for flush in flushes:
                flush.error = error  # it is unknown what is on disk: a second sync may not fail
            raise
        seconds = monotonic() - started
        for flush, failure in zip(flushes, found, strict=True):
            flush.error, flush.seconds = failure, seconds


def _end(begun: "dict[Log, BegunFlush]", errors: Errors) -> None:
    """Note what is on disk, and release the logs.

    Another thread's append holds the ``lock`` of a log for a moment, and an ``extend`` for as long
    as its source takes, which may wait for the ``flush_lock`` of another log.
    """
    busy: list[Log] = []
    for log, flush in begun.items():
        if flush.error is not None:
            errors[log] = flush.error
        elif not flush.note():
            busy.append(log)
            continue
        _release(log, flush, errors)
    until = monotonic() + _PATIENCE
    while busy and monotonic() < until:
        sleep(_PAUSE)
        for log in list(busy):
            if begun[log].note():
                busy.remove(log)
                _release(log, begun[log], errors)
    for log in busy:
        errors[log] = SkippedError()
        _release(log, begun[log], errors)


def _release(log: "Log", flush: "BegunFlush", errors: Errors) -> None:
    try:
        flush.release()
    except (KStoreError, OSError) as error:
        errors.setdefault(log, error)
