"""Recovers the partitions of a store: before its first use, or while it is in use.

A broker opens its port first, and serves each partition as soon as that one is recovered
(docs/decisions/0039-the-port-opens-before-recovery.md).
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from kstore.checkpoint.log_dir import LogDir
from kstore.errors import ClosedError, KStoreError
from kstore.files.files import Files
from kstore.integers import INT64_MAX
from kstore.log.log import Log
from kstore.segment.scan import OnProgress
from kstore.store.parallel_recovery import Progress, recover_partitions

if TYPE_CHECKING:
    from kstore.store.log_manager import LogManager

PartitionKey = tuple[str, int]


class StagedRecovery:
    """The partitions of a store that are due for recovery, and the thread that recovers them.

    Thread safe. The threads that recover do not take the manager's lock: a thread that holds it
    may wait for a partition.

    Attributes
    ----------
    failed
        Partitions that could not be recovered, with their errors.
    is_complete
        Every due recovery was tried.
    on_recovered
        Called with each log that was recovered, in the thread that did it; it must not block.
    """

    NAME = "kstore-recovery"

    def __init__(self, manager: "LogManager", files: Files) -> None:
        self.failed: dict[PartitionKey, KStoreError] = {}
        self.is_complete = False
        self.on_recovered: Callable[[Log], object] | None = None
        self._manager = manager
        self._files = files
        self._waiting: set[PartitionKey] = set()
        self._changed = threading.Condition()
        self._stopping = False
        self._is_cut_short = False  # by the close of the store
        self._thread: threading.Thread | None = None

    def recover(self, progress: Progress | None) -> None:
        """Recover all due partitions; the caller holds the manager's lock."""
        self._recover(self._begin(), progress)
        self._finish()

    def start(self, on_complete: Callable[[], object]) -> None:
        """Recover all due partitions in a thread, then call ``on_complete`` there.

        Until then :meth:`wait` waits for those that are not recovered. Raises RuntimeError, and
        nothing waits, where no thread can be started.
        """
        with self._manager.lock:
            due = self._begin()
            self._waiting = {key for key, _ in due}
        thread = threading.Thread(
            target=self._run, args=(due, on_complete), name=self.NAME, daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            self._waiting = set()
            raise
        self._thread = thread

    def is_waiting(self, key: PartitionKey) -> bool:
        """Whether a partition is in recovery, or waits for it. Takes no lock."""
        return key in self._waiting

    @property
    def is_any_waiting(self) -> bool:
        """Whether any partition is in recovery, or waits for it. Takes no lock."""
        return bool(self._waiting)

    @property
    def waiting_count(self) -> int:
        """How many partitions are in recovery, or wait for it. Takes no lock."""
        return len(self._waiting)

    def wait(self, *keys: PartitionKey) -> None:
        """Return when none of the partitions is in recovery. ClosedError if the store closes."""
        self._wait_until(lambda: self._waiting.isdisjoint(keys))

    def wait_for_all(self) -> None:
        """Return when no partition is in recovery. ClosedError if the store closes."""
        self._wait_until(lambda: not self._waiting)

    def _wait_until(self, is_done: Callable[[], bool]) -> None:
        if is_done():
            return
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or is_done())
        self._check_running()

    def stop(self) -> None:
        """End a recovery at its next step, as a kill would, and wait for that."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def request_stop(self) -> None:
        """End a recovery without waiting for it; takes no lock: a finalizer may call it."""
        self._stopping = True

    def _check_running(self) -> None:
        if self._stopping:
            raise ClosedError("the store is closed")

    # --- the work -------------------------------------------------------------------------

    def _begin(self) -> list[tuple[PartitionKey, LogDir]]:
        """The partitions of the directories that were not closed cleanly.

        Internal topics first: coordinators wait for them.
        """
        manager = self._manager
        for log_dir in manager.catalog.live:
            if not log_dir.clean:
                manager.in_log_dir(log_dir, log_dir.begin)
        due = [
            ((topic, partition), log_dir)
            for topic, partition, log_dir in manager.catalog.partitions()
            if not log_dir.clean and log_dir.offline is None
        ]
        return sorted(due, key=lambda each: not each[0][0].startswith("__"))

    def _recover(self, due: list[tuple[PartitionKey, LogDir]], progress: Progress | None) -> None:
        threads = self._manager.config.num_recovery_threads_per_data_dir
        recover_partitions(
            self._files,
            due,
            self._load,
            threads=threads,
            progress=progress,
            on_recovered=self._recovered,
        )

    def _finish(self) -> None:
        """The caller holds the manager's lock."""
        manager = self._manager
        manager.recover_moves()
        self.is_complete = True
        if len(manager.logs):
            manager.start_background(min(log.config.flush_ms for log in manager.logs))

    def _load(self, topic: str, partition: int, on_progress: OnProgress) -> Log:
        def note(size: int) -> None:
            self._check_running()
            on_progress(size)

        self._check_running()
        return self._manager.load(topic, partition, note)

    def _recovered(self, key: PartitionKey, found: Log | KStoreError) -> None:
        if isinstance(found, Log):
            self._manager.logs.add(found)
            config = self._manager.catalog.config(found.topic)
            if found.config != config:  # changed during the recovery
                found.configure(config)
        elif isinstance(found, ClosedError):
            self._is_cut_short = True
        else:
            self.failed[key] = found
        with self._changed:
            self._waiting.discard(key)
            if isinstance(found, Log) and self.on_recovered is not None:
                self.on_recovered(found)
            self._changed.notify_all()

    def _run(
        self, due: list[tuple[PartitionKey, LogDir]], on_complete: Callable[[], object]
    ) -> None:
        try:
            self._manager.start_background(INT64_MAX)
            self._recover(due, None)
            if self._is_cut_short:
                return
            with self._manager.lock:
                self._finish()
            if not self._stopping:
                on_complete()
        except Exception as error:
            if not self._stopping:
                self._manager.background.report("recovery", error, is_lasting=True)
        finally:
            with self._changed:
                self._waiting = set()
                self._changed.notify_all()
