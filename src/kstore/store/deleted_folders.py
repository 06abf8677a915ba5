"""Removes the folders of deleted topics: at once, or in a thread.

Kafka removes them after ``file.delete.delay.ms``. The removal of 10,000 folders may take longer
than a client waits. ``kstore.topics`` names them until they are removed, so that a stop or a crash
leaves the rest to the next writer (:mod:`kstore.checkpoint.topics_file`).
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from kstore.checkpoint.log_dir import LogDir
from kstore.errors import StorageError
from kstore.files.filenames import DELETE
from kstore.store.remove_tree import remove_tree

if TYPE_CHECKING:
    from kstore.store.log_manager import LogManager

_WORK = "removal of deleted topics"  # as background failures name it


class DeletedFolders:
    """Removes the ``-delete`` folders of the topics that a store has deleted. Thread safe.

    Owned by its manager, which it references strongly: neither outlives the other.
    """

    NAME = "kstore-remove-folders"

    def __init__(self, manager: "LogManager") -> None:
        self._manager = manager
        self._turn = threading.Lock()  # of the thread that removes
        self._lock = threading.Lock()  # guards the two below
        self._thread: threading.Thread | None = None
        self._is_wanted = False
        self._is_stopping = False

    def remove(self) -> None:
        """Remove the folders of all topics that were deleted before the call.

        A failure is one of background work: the topic is deleted all the same. What is left is
        removed by the next call, or by the next writer.
        """
        self._remove(lambda: False)

    def start(self) -> None:
        """Remove them in a thread; at once in a store without background work."""
        if not self._manager.config.background:
            self.remove()
            return
        with self._lock:
            self._is_wanted = True
            if self._thread is not None or self._is_stopping or self._manager.closed:
                return
            # A daemon thread, as the scheduler's: an exit handler closes the store.
            thread = threading.Thread(target=self._run, name=self.NAME, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no thread left: the next deletion tries again
                return
            self._thread = thread

    def request_stop(self) -> None:
        """Stop the thread after the folder that it removes. Takes no lock."""
        self._is_stopping = True

    def stop(self) -> None:
        """Stop the thread and wait for the folder that it removes; the rest is left."""
        self.request_stop()
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._is_stopping or not self._is_wanted:
                    self._thread = None
                    return
                self._is_wanted = False
            self._remove(lambda: self._is_stopping)

    def _remove(self, is_stopping: Callable[[], bool]) -> None:
        manager, catalog = self._manager, self._manager.catalog
        with self._turn:
            with manager.lock:
                uniques, live = catalog.folders_to_remove(), catalog.live
                are_all_live = not catalog.offline
            if not uniques:
                return
            suffixes = tuple(f".{unique}-{DELETE}" for unique in uniques)
            try:
                for log_dir in live:
                    if not self._remove_in(log_dir, suffixes, is_stopping):
                        return
            except StorageError as error:
                manager.background.report(_WORK, error)
                return
            manager.background.end(_WORK)
            if are_all_live:
                with manager.lock:
                    catalog.settings.forget_deleted(uniques)

    def _remove_in(
        self, log_dir: LogDir, suffixes: tuple[str, ...], is_stopping: Callable[[], bool]
    ) -> bool:
        """Remove the folders in one directory; False if the thread has to stop before the end."""
        removed = 0
        try:
            for name in log_dir.files.listdir(log_dir.path):  # links without a target, too
                if name.endswith(suffixes):
                    if is_stopping():
                        return False
                    remove_tree(log_dir.files, log_dir.join(name))
                    removed += 1
        finally:
            with self._manager.lock:
                log_dir.partition_count -= removed
        if removed:  # before kstore.topics names them no more
            log_dir.files.sync_directory(log_dir.path)
        return True
