"""Partitions that change their log directory: Kafka's alterReplicaLogDirs, step by step.

Kafka's order: the copy is made in a ``-future`` folder; when nothing is missing it gets the plain
name, then the old folder becomes ``-delete``. A crash between these two leaves two plain folders,
on which Kafka does not start. Kstore's copy carries the plain file ``kstore.moved`` from just
before the first rename until the old folder is gone, so the next writer knows which one counts.
"""

import logging
import os
from typing import TYPE_CHECKING, NamedTuple

from kstore.errors import ClosedError, KStoreError, PolicyViolationError, StorageError
from kstore.files import marker
from kstore.files.filenames import FUTURE, MOVED, partition_directory
from kstore.log.writer import LogWriter
from kstore.recovery.loader import load
from kstore.store.future_replica import FutureReplica
from kstore.store.parallel_recovery import Progress

if TYPE_CHECKING:
    from kstore.checkpoint.log_dir import LogDir
    from kstore.files.map_budget import MapBudget
    from kstore.log.log import Log
    from kstore.store.manager import LogManager
    from kstore.store.topic_registry import Retired

PartitionKey = tuple[str, int]
_LOGGER = logging.getLogger("kstore")


class MoveInfo(NamedTuple):
    """What a move did. ``size`` is what was copied, in bytes, 0 where nothing had to be."""

    source: str
    target: str
    size: int


class Moves:
    """The moves of one store. Safe to share between threads; one move of a partition at a time."""

    def __init__(self, manager: "LogManager") -> None:
        self._manager = manager
        self._under_way: set[PartitionKey] = set()

    def under_way(self, key: PartitionKey) -> bool:
        """Whether a partition is being moved (then it is not compacted, as in Kafka)."""
        return key in self._under_way

    def refuse_during(self, topic: str) -> None:
        for name, partition in self._under_way:
            if name == topic:
                raise PolicyViolationError(
                    f"{topic}-{partition} is being moved to another directory; let that end first"
                )

    def forget_unfinished(self, key: PartitionKey) -> None:
        """The log was cut: what an unfinished copy has beyond that must not come back."""
        with self._manager.lock:
            if key not in self._under_way:
                self._manager.catalog.drop_futures(key)

    def recover_unfinished(self, maps: "MapBudget") -> None:
        """Recover the copies that a crash left, as Kafka loads what it finds in ``-future``.

        A clean stop says of every file in its directory that it is whole: a broker would append
        to a torn copy. One that is damaged otherwise goes, where its partition is there.
        """
        catalog = self._manager.catalog
        for each in list(catalog.retired):
            key, place = (each.name.topic, each.name.partition), each.place
            if each.name.state != FUTURE or place.clean or place.offline is not None:
                continue
            folder, config = place.join(each.folder), catalog.config(key[0])
            try:
                loaded = load(place.files, folder, config, clean=False)
                writer = LogWriter(folder, loaded, config=config, files=place.files, maps=maps)
                place.unsettled |= not writer.close()
            except StorageError:
                if place.offline is None:
                    raise
            except KStoreError as error:
                if key[1] in catalog.places.get(key[0], {}):
                    catalog.remove_retired(each)
                else:
                    _LOGGER.warning("%s: left as it is, %s", folder, error)
                    place.unsettled = True

    def move(
        self,
        log: "Log",
        writer: LogWriter,
        path: str | os.PathLike[str],
        pace: int | None = None,
        progress: Progress | None = None,
    ) -> MoveInfo:
        """Move an open log to another directory; see :meth:`kstore.Store.move`."""
        key = (log.topic, log.partition)
        catalog = self._manager.catalog
        with self._manager.lock:
            source, target = catalog.place(*key), catalog.directory(path)
            if key in self._under_way:
                raise PolicyViolationError(f"{key[0]}-{key[1]} is being moved already")
            for each in (source, target):
                if each.offline is not None:
                    raise each.refusal()
            if source is target:  # Kafka: this ends a move that was begun
                catalog.drop_futures(key)
                return MoveInfo(source.path, target.path, 0)
            target.begin()  # from here on a crash means recovery
            catalog.drop_futures(key, but=target)
            folder = catalog.begin_move(key, target)
            self._under_way.add(key)
        copy = FutureReplica(writer, target.files, folder, pace, progress)
        try:
            with writer.replacer.without_cleaning():
                copy.catch_up()
                # The log's own locks first, as everywhere: who holds them may open another log.
                with writer.relocator.standstill(), self._manager.lock:
                    if self._manager.closed:
                        raise ClosedError("the store is closed", path=target.path)
                    self._swap(log, writer, copy, source, target, folder)
                    retired = self._retire(key, source)
            catalog.remove_retired(retired)
        except BaseException:
            self._settle(copy, target)
            raise
        finally:
            self._under_way.discard(key)
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
        """Let the copy take the partition's place. Checkpoints there come first: were they
        missing after a crash, records that were deleted would be back."""
        key = (log.topic, log.partition)
        plain = target.join(partition_directory(*key))
        copy.complete()
        state = self._manager.state_of(log)._replace(recovery_point=writer.state.data_end)
        target.take_over(key, state, source.cleaner_offset(key))
        views = writer.relocator.views_at(target.files, folder, plain)
        target.files.write_atomically(os.path.join(folder, MOVED), marker.CONTENT)
        try:
            target.files.rename(folder, plain)
            target.files.sync_directory(target.path)
            writer.relocator.relocate(target.files, plain, views)
        except BaseException:
            if writer.state.directory != plain:
                _take_back(writer, target, folder, plain)
            raise
        log.path = plain
        self._manager.catalog.move(key, target)

    def _retire(self, key: PartitionKey, source: "LogDir") -> "Retired":
        """The old copy goes. Where its disk does not let it, the sign stays: the next to open
        the store knows which copy counts."""
        try:
            retired = self._manager.catalog.retire_copy(source, key)
        except StorageError:
            source.unsettled = True
            raise
        self._manager.catalog.finish_move(key)
        return retired

    def _settle(self, copy: FutureReplica, target: "LogDir") -> None:
        """Leave an unfinished copy so that it can be gone on with, by Kafka too."""
        try:
            copy.settle()
        except StorageError:
            target.unsettled = True


def _take_back(writer: LogWriter, target: "LogDir", folder: str, plain: str) -> None:
    """Undo a rename whose sync failed; if that fails, nothing may be appended to either copy."""
    try:
        if target.files.kind(plain) is not None:
            target.files.rename(plain, folder)
        target.files.remove(os.path.join(folder, MOVED))
    except StorageError as error:
        writer.state.fail(error)
