"""What a store does by itself, from time to time: every kind of it is named here and only here.

Kafka's LogManager hands the same tasks to its scheduler. One thread does them in turn
(:class:`kstore.log.upkeep.Upkeep`), so a chore that takes long holds up ``flush.ms``: such work
wants a thread of its own.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from kstore.config import INT64_MAX
from kstore.errors import ClosedError, LogFailedError
from kstore.log.upkeep import Chore

if TYPE_CHECKING:
    from kstore.log.manager import LogManager

CHECKPOINT_INTERVAL_MS = 60_000  # log.flush.offset.checkpoint.interval.ms
EXPIRATION_CHECK_INTERVAL_MS = 600_000  # producer.id.expiration.check.interval.ms


def chores(manager: "LogManager") -> Iterator[Chore]:
    """The work of a store as its settings and open logs are now; each from its first period on."""
    yield Chore("checkpoint", CHECKPOINT_INTERVAL_MS, manager.checkpoint)
    yield Chore("retention", manager.config.retention_check_interval_ms, manager.apply_retention)
    yield Chore("producers", EXPIRATION_CHECK_INTERVAL_MS, partial(_expire_producers, manager))
    yield from manager.more_chores
    if manager.config.log_cleaner_enable:  # in threads of its own: it may take long
        yield Chore("cleaner", manager.config.log_cleaner_backoff_ms, manager.cleaner.wake)
    for log in manager.logs:
        flush_ms = log.config.flush_ms
        if flush_ms < INT64_MAX:
            yield Chore(f"flush {log.path}", max(flush_ms, 1), partial(manager.flush, log))


def _expire_producers(manager: "LogManager") -> None:
    for log in manager.logs:
        with suppress(LogFailedError, ClosedError):
            log.expire_producers()
