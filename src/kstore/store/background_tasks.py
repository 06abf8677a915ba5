"""The periodic background tasks of a store, all listed here.

Kafka's LogManager gives the same tasks to its scheduler. One thread runs them in turn
(:class:`kstore.background.scheduler.Scheduler`), so a long task delays ``flush.ms``
and needs a thread of its own.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from kstore.background.scheduler import ScheduledTask
from kstore.integers import INT64_MAX

if TYPE_CHECKING:
    from kstore.store.log_manager import LogManager

CHECKPOINT_INTERVAL_MS = 60_000  # log.flush.offset.checkpoint.interval.ms
REMOVAL_CHECK_INTERVAL_MS = 1_000
EXPIRATION_CHECK_INTERVAL_MS = 600_000  # producer.id.expiration.check.interval.ms


def background_tasks(manager: "LogManager") -> Iterator[ScheduledTask]:
    """The tasks for the current settings and open logs; each first runs after one period."""
    check_ms = manager.config.retention_check_interval_ms
    yield ScheduledTask("checkpoint", CHECKPOINT_INTERVAL_MS, manager.checkpoints.write)
    yield ScheduledTask("retention", check_ms, manager.retention.run_in_background)
    yield ScheduledTask(
        "producers", EXPIRATION_CHECK_INTERVAL_MS, partial(_expire_producers, manager)
    )
    yield ScheduledTask(
        "removed logs", REMOVAL_CHECK_INTERVAL_MS, partial(_refuse_removed, manager)
    )
    yield from manager.more_tasks
    if manager.config.log_cleaner_enable:  # in threads of its own: it may take long
        yield ScheduledTask("cleaner", manager.config.log_cleaner_backoff_ms, manager.cleaner.wake)
    for log in manager.logs:
        flush_ms = log.config.flush_ms
        if flush_ms < INT64_MAX:
            work = partial(manager.run, "flush", (log.topic, log.partition), manager.flush_log, log)
            yield ScheduledTask(f"flush {log.path}", max(flush_ms, 1), work)


def _refuse_removed(manager: "LogManager") -> None:
    """Refuse appends to logs whose directory was removed: they would be lost.

    An append itself checks the file's name only now and then: a system call for each would cost
    as much as the append. Kafka notices at its next roll.
    """
    for log in manager.logs.awake():
        key = (log.topic, log.partition)
        manager.run("append", key, lambda log: log._require_writer().check_removed(), log)


def _expire_producers(manager: "LogManager") -> None:
    for log in manager.logs:
        key = (log.topic, log.partition)
        manager.run("producer expiration", key, manager.expire_producers, log)
