"""Runs changes of the cluster's metadata on a disk worker, within the client's timeout."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from kstore.broker.request import Answer, Pending
from kstore.broker.services import Services
from kstore.errors import KStoreError
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages import Message

_LOGGER = logging.getLogger("kstore.broker")
METADATA_KEY = "metadata"  # the disk workers' key, which serializes metadata changes

Outcome = tuple[ErrorCode, str | None, object]  # error, message, what the change returned
Step = tuple[int, Callable[[], Sequence[Outcome]]]  # number of changes, what makes them


def error_of(error: BaseException) -> tuple[ErrorCode, str | None]:
    """Kafka's error code and message for an exception; logs unexpected exceptions."""
    if isinstance(error, KStoreError) and error.code != ErrorCode.UNKNOWN_SERVER_ERROR:
        return ErrorCode.of(error.code), error.reason
    if isinstance(error, OSError):
        return ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    _LOGGER.error("a change of the metadata failed unexpectedly", exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR, None


def run_changes(
    services: Services,
    changes: Sequence[Callable[[], object]],
    respond: Callable[[Sequence[Outcome]], Message],
    timeout_ms: int | None = None,
) -> Answer:
    """Run changes in order on a disk worker, and respond with their outcomes.

    Loop's thread. ``respond`` gets an outcome for each change; the time is that of
    :func:`run_steps`.
    """
    steps = [(1, partial(_run_one, change)) for change in changes]
    return run_steps(services, steps, respond, timeout_ms)


def _run_one(change: Callable[[], object]) -> list[Outcome]:
    return [(ErrorCode.NONE, None, change())]


def run_steps(
    services: Services,
    steps: Sequence[Step],
    respond: Callable[[Sequence[Outcome]], Message],
    timeout_ms: int | None = None,
) -> Answer:
    """Make changes on a disk worker, several at a step; answer with the outcome of each.

    Loop's thread. A step is a number of changes and what makes them, which returns as many
    outcomes, or raises the error of all. When ``timeout_ms`` is over, the client gets
    REQUEST_TIMED_OUT for what is not finished: a step that has begun is completed, those behind it
    are not made. A time of 0 or less is over at once, as in Kafka; None is none.
    """
    timed_out: Outcome = (ErrorCode.REQUEST_TIMED_OUT, None, None)
    outcomes: list[Outcome] = []
    total = sum(count for count, _ in steps)
    if not total:
        return respond(outcomes)
    if timeout_ms is not None and timeout_ms <= 0:
        return respond([timed_out] * total)
    deadline = None if timeout_ms is None else services.loop.time() + timeout_ms / 1000
    pending = Pending()

    def work() -> None:
        for count, make in steps:
            if deadline is not None and services.loop.time() >= deadline:
                outcomes.extend([timed_out] * count)
                continue
            try:
                found = make()
            except Exception as error:
                found = [(*error_of(error), None)] * count
            outcomes.extend(found)

    def answer() -> None:
        if timer is not None:
            timer.cancel()
        if not pending.is_answered:
            found = outcomes[:]
            pending.complete(respond(found + [timed_out] * (total - len(found))))

    def done(_: object, error: BaseException | None) -> None:
        if error is not None:
            _LOGGER.error("changes of the metadata failed", exc_info=error)
        answer()

    seconds = None if timeout_ms is None else timeout_ms / 1000
    timer = None if seconds is None else services.loop.call_later(seconds, answer)
    services.workers.submit(METADATA_KEY, work, done)
    return pending
