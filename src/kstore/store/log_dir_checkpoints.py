"""Writes the checkpoints of log directories: every minute, after truncations, and at the close.

Kafka's checkpointLogRecoveryOffsets, checkpointLogStartOffsets and the high watermarks' checkpoint,
and the clean-shutdown files, which say that a directory needs no recovery.
"""

from functools import partial
from typing import TYPE_CHECKING

from kstore.background.failures import attempt
from kstore.checkpoint.log_dir import LogDir
from kstore.checkpoint.log_dir_offsets import LogState
from kstore.errors import LogDirOfflineError
from kstore.integers import count_of
from kstore.log.log import Log

if TYPE_CHECKING:
    from kstore.store.log_manager import LogManager

_NAMES = 10  # partitions that one error names


def state_of(log: Log) -> LogState:
    """The state of a log for the checkpoints."""
    first = log.segments.views[0].base_offset
    start = log.start_offset if log.start_offset > first else None
    return LogState(log.recovery_point, start, log.high_watermark)


class LogDirCheckpoints:
    """The checkpoints of one store's directories.

    Owned by its manager, which it references strongly: neither outlives the other.
    """

    def __init__(self, manager: "LogManager") -> None:
        self._manager = manager

    def write(self) -> None:
        """Write recovery points, log starts and high watermarks of open logs.

        Writes the other directories if one fails, then raises the first error.
        """
        manager = self._manager
        errors: list[BaseException] = []
        with manager.lock:
            for log_dir in manager.catalog.live:
                states = self._states(log_dir)
                if states:
                    work = partial(log_dir.offsets.checkpoint, states)
                    attempt(errors, partial(manager.in_log_dir, log_dir, work))
        if errors:
            raise errors[0]

    def finish(
        self, log_dirs: list[LogDir], unclean: set[LogDir], errors: list[BaseException]
    ) -> None:
        """Write the last checkpoints and the clean-shutdown files, then release the directories.

        ``unclean``: directories in which a log did not close. Adds errors to the list. The caller
        holds the manager's lock, and has closed the logs.
        """
        for log_dir in log_dirs:
            clean = log_dir not in unclean and self._needs_no_recovery(log_dir)
            attempt(errors, partial(self._close_log_dir, log_dir, clean))
            attempt(errors, partial(self._report_unflushed, log_dir))

    def _states(self, log_dir: LogDir) -> dict[tuple[str, int], LogState]:
        manager = self._manager
        return {
            (log.topic, log.partition): state_of(log)
            for log in manager.logs
            if manager.catalog.topics.get(log.topic, {}).get(log.partition) is log_dir
        }

    def _close_log_dir(self, log_dir: LogDir, clean: bool) -> None:
        try:
            is_written = self._manager.writable and log_dir.offline is None
            states = self._states(log_dir) if is_written else {}
            if states:
                log_dir.offsets.checkpoint(states)
            log_dir.finish(clean=clean)
        finally:
            log_dir.release()

    def _needs_no_recovery(self, log_dir: LogDir) -> bool:
        """Whether no log of the directory still needs recovery."""
        manager = self._manager
        return log_dir.clean or (
            manager.recoveries.is_complete
            and not any(
                manager.catalog.topics.get(topic, {}).get(partition) is log_dir
                for topic, partition in manager.recoveries.failed
            )
        )

    def _report_unflushed(self, log_dir: LogDir) -> None:
        """Raise if a directory went offline with records that may not be on its disk."""
        if log_dir.offline is None:
            return
        found = [
            f"{topic}-{partition} from offset {writer.state.recovery_point} to "
            f"{writer.state.segments.end_offset - 1}"
            for (topic, partition), writer in self._manager.writers_in(log_dir)
            if writer.state.recovery_point < writer.state.segments.end_offset
        ]
        if found:
            more = (
                f" and {count_of(len(found) - _NAMES, 'more partition')}"
                if len(found) > _NAMES
                else ""
            )
            raise LogDirOfflineError(
                f"closed, but the directory is offline ({log_dir.offline}) and these records may "
                f"not be on its disk: {', '.join(found[:_NAMES])}{more}",
                errno=log_dir.offline.errno,
                path=log_dir.path,
            ) from log_dir.offline
