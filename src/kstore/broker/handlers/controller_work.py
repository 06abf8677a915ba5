"""Changes of the cluster's metadata on a disk worker, within the time that the client allows."""

import logging
from collections.abc import Callable, Sequence

from kstore.broker.request import Answer, Pending
from kstore.broker.services import Services
from kstore.errors import KStoreError
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages import Message

_LOGGER = logging.getLogger("kstore.broker")
METADATA_KEY = "metadata"  # of the disk workers: metadata changes one after the other

Outcome = tuple[ErrorCode, str | None, object]  # error, message, what the change returned


def error_of(error: BaseException) -> tuple[ErrorCode, str | None]:
    """Kafka's error code and message for an error; an unexpected one is logged."""
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
    """Make changes one after the other on a disk worker; answer with the outcome of each.

    Loop's thread. ``respond`` gets an outcome for each change. When ``timeout_ms`` is over, the
    client gets REQUEST_TIMED_OUT for what is not finished: a change that has begun is completed,
    those behind it are not made. A time of 0 or less is over at once, as in Kafka; None is none.
    """
    timed_out: Outcome = (ErrorCode.REQUEST_TIMED_OUT, None, None)
    outcomes: list[Outcome] = []
    if not changes:
        return respond(outcomes)
    if timeout_ms is not None and timeout_ms <= 0:
        return respond([timed_out] * len(changes))
    deadline = None if timeout_ms is None else services.loop.time() + timeout_ms / 1000
    pending = Pending()

    def work() -> None:
        for change in changes:
            if deadline is not None and services.loop.time() >= deadline:
                outcomes.append(timed_out)
                continue
            try:
                outcome: Outcome = (ErrorCode.NONE, None, change())
            except Exception as error:
                outcome = (*error_of(error), None)
            outcomes.append(outcome)

    def answer() -> None:
        if timer is not None:
            timer.cancel()
        if not pending.is_answered:
            found = outcomes[:]
            pending.complete(respond(found + [timed_out] * (len(changes) - len(found))))

    def done(_: object, error: BaseException | None) -> None:
        if error is not None:
            _LOGGER.error("changes of the metadata failed", exc_info=error)
        answer()

    seconds = None if timeout_ms is None else timeout_ms / 1000
    timer = None if seconds is None else services.loop.call_later(seconds, answer)
    services.workers.submit(METADATA_KEY, work, done)
    return pending
