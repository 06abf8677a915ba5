"""Moves partitions to another log directory: Kafka's alterReplicaLogDirs.

Kafka's order: a ``-future`` folder receives the copy; once it is complete it is renamed to the
plain name, then the old folder becomes ``-delete``. A crash between the two renames leaves two
plain folders, on which Kafka does not start. kstore's copy contains the file ``kstore.moved`` from
just before the first rename until the old folder is removed, so the next writer knows which copy
to use.
"""

import logging
import os
from typing import TYPE_CHECKING, NamedTuple

from kstore.errors import ClosedError, KStoreError, PolicyViolationError, StorageError
from kstore.files import marker_file
from kstore.files.filenames import FUTURE, MOVED, partition_directory
from kstore.log.writer import LogWriter
from kstore.recovery.loader import load
from kstore.store.future_replica import FutureReplica, Pace
from kstore.store.log_dir_checkpoints import state_of
from kstore.store.parallel_recovery import Progress

if TYPE_CHECKING:
    from kstore.checkpoint.log_dir import LogDir
    from kstore.files.map_budget import MapBudget
    from kstore.log.log import Log
    from kstore.store.list_log_dirs import Retired
    from kstore.store.log_manager import LogManager

PartitionKey = tuple[str, int]
_LOGGER = logging.getLogger("kstore")


class MoveInfo(NamedTuple):
    """The result of a move. ``size``: bytes copied, 0 if nothing had to be copied."""

    source: str
    target: str
    size: int


class ReplicaMoves:
    """The moves of one store. Thread safe; one move of a partition at a time."""

    def __init__(self, manager: "LogManager") -> None:
        self._manager = manager
        self._moving: set[PartitionKey] = set()

    def is_moving(self, key: PartitionKey) -> bool:
        """Whether a partition is being moved (then it is not compacted, as in Kafka)."""
        return key in self._moving

    def check_not_moving(self, topic: str, partition: int | None = None) -> None:
        """Raise if a partition of a topic, or this one, is being moved."""
        for name, number in self._moving:
            if name == topic and partition in (None, number):
                raise PolicyViolationError(
                    f"{topic}-{number} is being moved to another directory; wait until the "
                    "move is finished"
                )

    def drop_unfinished(self, key: PartitionKey) -> None:
        """Drop the unfinished copy of a truncated log: it may have the truncated records."""
        with self._manager.lock:
            if key not in self._moving:
                self._manager.catalog.drop_futures(key)

    def recover_unfinished(self, maps: "MapBudget") -> None:
        """Recover the copies that a crash left, as Kafka loads ``-future`` folders.

        The clean-shutdown marker covers every file in its directory: after it, a broker would
        append to a torn copy. A copy that is corrupt otherwise is removed if its partition exists.
        """
        catalog = self._manager.catalog
        for retired in list(catalog.retired):
            key, log_dir = (retired.name.topic, retired.name.partition), retired.log_dir
            if retired.name.state != FUTURE or log_dir.clean or log_dir.offline is not None:
                continue
            folder, config = log_dir.join(retired.folder), catalog.config(key[0])
            try:
                loaded = load(log_dir.files, folder, config, clean=False)
                writer = LogWriter(folder, loaded, config=config, files=log_dir.files, maps=maps)
                log_dir.needs_recovery |= not writer.close()
            except StorageError:
                if log_dir.offline is None:
                    raise
            except KStoreError as error:
                if key[1] in catalog.topics.get(key[0], {}):
                    catalog.remove_retired(retired)
                else:
                    _LOGGER.warning("%s: not recovered, left unchanged: %s", folder, error)
                    log_dir.needs_recovery = True

    def move(
        self,
        log: "Log",
        writer: LogWriter,
        path: str | os.PathLike[str],
        pace: Pace | None = None,
        progress: Progress | None = None,
    ) -> MoveInfo:
        """Move an open log to another directory; see :meth:`kstore.Store.move`."""
        key = (log.topic, log.partition)
        catalog = self._manager.catalog
        with self._manager.lock:
            source, target = catalog.log_dir_of(*key), catalog.directory(path)
            if key in self._moving:
                raise PolicyViolationError(f"{key[0]}-{key[1]} is being moved already")
            for log_dir in (source, target):
                if log_dir.offline is not None:
                    raise log_dir.refusal()
            if source is target:  # Kafka: this cancels a move
                catalog.drop_futures(key)
                return MoveInfo(source.path, target.path, 0)
            target.begin()  # a crash from here on requires recovery
            catalog.drop_futures(key, but=target)
            folder = catalog.begin_move(key, target)
            self._moving.add(key)
        copy = FutureReplica(writer, target.files, folder, pace, progress)
        try:
            with writer.replacer.without_cleaning():
                copy.catch_up()
                # Lock order: the log's locks first, because their holder may open another log.
                with writer.relocator.standstill(), self._manager.lock:
                    if self._manager.closed:
                        raise ClosedError("the store is closed", path=target.path)
                    self._swap(log, writer, copy, source, target, folder)
                    retired = self._retire(key, source)
            catalog.remove_retired(retired)
        except BaseException:
            self._truncate_unfinished(copy, target)
            raise
        finally:
            self._moving.discard(key)
        return MoveInfo(source.path, target.path, copy.written)

    def _swap(
        self,
        log: "Log",
        writer: LogWriter,
        copy: FutureReplica,
        source: "LogDir",
        target: "LogDir",
        folder: str,
    ) -> None:
        """Make the copy the partition. The target's checkpoints are written first: without them,
        deleted records would reappear after a crash."""
        key = (log.topic, log.partition)
        plain = target.join(partition_directory(*key))
        copy.complete()
        state = state_of(log)._replace(recovery_point=writer.state.data_end)
        target.offsets.take_over(key, state, source.offsets.cleaner_offset(key))
        views = writer.relocator.views_at(target.files, folder, plain)
        target.files.write_atomically(os.path.join(folder, MOVED), marker_file.CONTENT)
        try:
            target.files.rename(folder, plain)
            target.files.sync_directory(target.path)
            writer.relocator.relocate(target.files, plain, views)
        except BaseException:
            if writer.state.directory != plain:
                _undo_rename(writer, target, folder, plain)
            raise
        log.path = plain
        self._manager.catalog.move(key, target)

    def _retire(self, key: PartitionKey, source: "LogDir") -> "Retired":
        """Retire the old copy. If its disk fails, ``kstore.moved`` stays, so that the next process
        to open the store knows which copy to use."""
        try:
            retired = self._manager.catalog.retire_copy(source, key)
        except StorageError:
            source.needs_recovery = True
            raise
        self._manager.catalog.finish_move(key)
        return retired

    def _truncate_unfinished(self, copy: FutureReplica, target: "LogDir") -> None:
        """Leave an unfinished copy such that a later move, Kafka's too, can continue."""
        try:
            copy.truncate_unfinished()
        except StorageError:
            target.needs_recovery = True


def _undo_rename(writer: LogWriter, target: "LogDir", folder: str, plain: str) -> None:
    """Undo a rename whose sync failed; if the undo fails, no copy accepts appends."""
    try:
        if target.files.kind(plain) is not None:
            target.files.rename(plain, folder)
        target.files.remove(os.path.join(folder, MOVED))
    except StorageError as error:
        writer.state.fail(error)
