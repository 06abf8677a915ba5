"""What a store does by itself, from time to time: every kind of it is named here and only here.

Kafka's LogManager hands the same tasks to its scheduler. One thread does them in turn
(:class:`kstore.log.upkeep.Upkeep`), so a chore that takes long holds up ``flush.ms``: such work
wants a thread of its own.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from kstore.integers import INT64_MAX
from kstore.log.upkeep import Chore

if TYPE_CHECKING:
    from kstore.log.manager import LogManager

CHECKPOINT_INTERVAL_MS = 60_000  # log.flush.offset.checkpoint.interval.ms
EXPIRATION_CHECK_INTERVAL_MS = 600_000  # producer.id.expiration.check.interval.ms


def chores(manager: "LogManager") -> Iterator[Chore]:
    """The work of a store as its settings and open logs are now; each from its first period on."""
    check_ms = manager.config.retention_check_interval_ms
    yield Chore("checkpoint", CHECKPOINT_INTERVAL_MS, manager.checkpoint)
    yield Chore("retention", check_ms, manager.retention.run_in_background)
    yield Chore("producers", EXPIRATION_CHECK_INTERVAL_MS, partial(_expire_producers, manager))
    yield from manager.more_chores
    if manager.config.log_cleaner_enable:  # in threads of its own: it may take long
        yield Chore("cleaner", manager.config.log_cleaner_backoff_ms, manager.cleaner.wake)
    for log in manager.logs:
        flush_ms = log.config.flush_ms
        if flush_ms < INT64_MAX:
            work = partial(manager.run, "flush", (log.topic, log.partition), manager.flush_log, log)
            yield Chore(f"flush {log.path}", max(flush_ms, 1), work)


def _expire_producers(manager: "LogManager") -> None:
    for log in manager.logs:
        key = (log.topic, log.partition)
        manager.run("producer expiration", key, manager.expire_producers, log)
