"""The logs of a store: which directories, what is in them, what is open (Kafka's LogManager).

The store in front of it is what people hold; here is what it does with directories and logs.
"""

import os
import threading
import weakref
from collections.abc import Callable
from functools import partial

from kstore.config import INT64_MAX, LogConfig, StoreConfig
from kstore.errors import KStoreError
from kstore.log.catalog import Catalog
from kstore.log.chores import chores
from kstore.log.filenames import partition_directory
from kstore.log.files import Files
from kstore.log.log import Log
from kstore.log.log_dir import LogDir, LogState
from kstore.log.maps import MapBudget
from kstore.log.open_logs import OpenLogs
from kstore.log.opening import open_for_reading, open_for_writing, peek_end_offset
from kstore.log.recover_all import Progress, StoreRecovery, recover_all
from kstore.log.segment_scan import Tell
from kstore.log.upkeep import Schedule, Upkeep

PartitionKey = tuple[str, int]


class LogManager:
    """Directories, catalog and open logs of one store, and the thread that looks after them.

    ``lock`` guards catalog, directories and the loading of logs; it is taken before any log's
    lock. ``keeper`` gives what must stay alive while somebody holds a log: the store.
    """

    def __init__(
        self,
        files: Files,
        paths: tuple[str, ...],
        config: StoreConfig,
        *,
        writable: bool,
        keeper: Callable[[], object],
    ) -> None:
        self.config = config
        self.writable = writable
        self.closed = False
        self.lock = threading.RLock()
        self.logs = OpenLogs(config.max_open_logs)
        self._files = files
        self._keeper = keeper
        self._maps = MapBudget(config.max_mapped_segments)
        self._upkeep: Upkeep | None = None
        self._dirs: list[LogDir] = []
        self._unrecovered: dict[PartitionKey, KStoreError] = {}
        try:
            for each in paths:
                self._dirs.append(LogDir(files, each, writable=writable))
            self.catalog = Catalog(files, self._dirs, config.log)
            if writable:
                self.catalog.resume()
        except BaseException:
            self.release()
            raise

    # --- logs -----------------------------------------------------------------------------

    def log(self, topic: str, partition: int) -> Log:
        """The log of a partition, loaded on first use."""
        log = self.logs.get((topic, partition))
        if log is None:
            with self.lock:
                log = self.logs.get((topic, partition))
                if log is None:
                    log = self._load(topic, partition)
                    self.logs.add(log)
                    self._unrecovered.pop((topic, partition), None)
            self.start_upkeep(log.config.flush_ms)
        return log

    def recover(self, progress: Progress | None) -> None:
        """Load every partition of the directories that were not closed cleanly, side by side."""
        with self.lock:
            due = [
                ((topic, partition), place)
                for topic, partition, place in self.catalog.partitions()
                if not place.clean
            ]
            logs, self._unrecovered = recover_all(
                self._files,
                due,
                self._load,
                threads=self.config.num_recovery_threads_per_data_dir,
                progress=progress,
            )
            for log in logs:
                self.logs.add(log)
        if logs:
            self.start_upkeep(min(log.config.flush_ms for log in logs))

    @property
    def recovery(self) -> StoreRecovery:
        """What opening each of the logs found and did; grows as logs are opened."""
        return StoreRecovery(
            reports={
                (log.topic, log.partition): log.recovery
                for log in self.logs
                if log.recovery is not None
            },
            failed=dict(self._unrecovered),
            notes=(
                *(f"{path}: no partition; left alone" for path in self.catalog.strangers),
                *(note for place in self._dirs for note in place.notes),
            ),
        )

    def _load(self, topic: str, partition: int, tell: Tell | None = None) -> Log:
        place = self.catalog.place(topic, partition)
        config = self.catalog.config(topic)
        files, maps = self._files, self._maps
        if not self.writable:
            own = self.catalog.is_own(topic)
            log, reader = open_for_reading(files, maps, place, topic, partition, config, own=own)
            reader.opened = partial(self.logs.woken, log)
            return log
        mode = self.config.recovery
        log, writer = open_for_writing(files, maps, place, topic, partition, config, mode, tell)
        writer.opened = partial(self.logs.woken, log)
        writer.shortened = partial(self._note_shortened, self._keeper())
        return log

    def _note_shortened(self, _keeper: object) -> None:
        """A truncation lowered a recovery point: the checkpoint must not promise more (Kafka)."""
        if not self.closed:
            self.checkpoint()

    def end_offsets(self, topic: str | None) -> dict[PartitionKey, int]:
        """The end offset of every partition (of one topic), without keeping files open."""
        with self.lock:
            if topic is not None and topic not in self.catalog.places:
                raise self.catalog.unknown(topic)
            wanted = sorted(
                ((name, partition), place)
                for name, partition, place in self.catalog.partitions()
                if topic is None or name == topic
            )
        ends: dict[PartitionKey, int] = {}
        for key, place in wanted:
            log = self.logs.get(key)
            if log is None and (place.clean or not self.writable):
                path = place.join(partition_directory(*key))
                ends[key] = peek_end_offset(self._files, path, place.log_start(key))
            else:
                ends[key] = self.log(*key).end_offset
        return ends

    # --- topics ---------------------------------------------------------------------------

    def configure(self, topic: str, config: LogConfig) -> None:
        """Keep a topic's settings, and give them to its open logs."""
        with self.lock:
            self.catalog.configure(topic, config)
            for log in self.logs.of_topic(topic):
                log.configure(config)
        self.start_upkeep(config.flush_ms)

    def delete(self, topic: str) -> None:
        """Close a topic's logs, then delete its directories; the lock is held."""
        for log in self.logs.of_topic(topic):
            self.logs.remove(log)
            log.close()
        self.catalog.delete(topic)

    # --- background -----------------------------------------------------------------------

    def start_upkeep(self, flush_ms: int) -> None:
        """Have background work done, from the first log on, if it is not switched off."""
        if not (self.writable and self.config.background):
            return
        with self.lock:
            if self._upkeep is None and not self.closed:
                self._upkeep = Upkeep(_weak_work(self))
                self._upkeep.start()
            elif self._upkeep is not None and flush_ms < INT64_MAX:
                self._upkeep.wake()

    def stop_upkeep(self) -> None:
        """End the background work; raises the error that nobody was told yet."""
        upkeep, self._upkeep = self._upkeep, None
        if upkeep is not None:
            upkeep.stop()
            upkeep.raise_error()

    @property
    def upkeep_failed(self) -> bool:
        return self._upkeep is not None and self._upkeep.failed

    def raise_upkeep_error(self) -> None:
        """Raise, once, what went wrong in the background."""
        if self._upkeep is not None:
            self._upkeep.raise_error()

    def checkpoint(self) -> None:
        """Write recovery points, log starts and high watermarks of open logs."""
        with self.lock:
            for place in self._dirs:
                states = self._states(place)
                if states:
                    place.checkpoint(states)

    def apply_retention(self) -> None:
        """Drop what retention allows in topics with settings of their own; remove old files."""
        with self.lock:
            names = self.catalog.configured()
        for name in names:
            with self.lock:
                config = self.catalog.config(name)
                partitions = sorted(self.catalog.places.get(name, ()))
            if config.retention_ms >= 0 or config.retention_bytes >= 0:
                for partition in partitions:
                    self.log(name, partition).apply_retention()
        for log in self.logs:
            log.remove_retired()

    def _states(self, place: LogDir) -> dict[PartitionKey, LogState]:
        return {
            (log.topic, log.partition): LogState(
                log.recovery_point,
                log.start_offset if log.start_offset > log.segments.views[0].base_offset else None,
                log.end_offset,
            )
            for log in self.logs
            if self.catalog.places[log.topic][log.partition] is place
        }

    # --- the end --------------------------------------------------------------------------

    def close(self, errors: list[BaseException]) -> None:
        """Close logs, then write checkpoints and markers; errors are added to the list."""
        self.closed = True
        unclean = {
            self.catalog.place(log.topic, log.partition)
            for log in self.logs
            if not attempt(errors, log.close)
        }
        for place in self._dirs:
            whole = place not in unclean and self._is_whole(place)
            attempt(errors, partial(self._close_dir, place, whole))

    def _is_whole(self, place: LogDir) -> bool:
        """Whether no log of a directory is left that needs recovery."""
        return place.clean or all(
            self.logs.get((topic, partition)) is not None
            for topic, partition, where in self.catalog.partitions()
            if where is place
        )

    def _close_dir(self, place: LogDir, whole: bool) -> None:
        try:
            states = self._states(place) if self.writable else {}
            if states:
                place.checkpoint(states)
            place.finish(clean=whole)
        finally:
            place.release()

    def release(self) -> None:
        """Give the directories' locks back and do nothing else."""
        for place in self._dirs:
            place.release()

    @property
    def loose_files(self) -> list[str]:
        """Offsets that readers committed while nobody could write ``__consumer_offsets``."""
        files = self.catalog.loose_files
        return [path for path in files if os.path.basename(path).startswith("kstore.offsets.")]


def _weak_work(manager: LogManager) -> Callable[[], float | None]:
    """The thread must not keep a store alive that nobody else holds."""
    reference, schedule = weakref.ref(manager), Schedule()

    def work() -> float | None:
        alive = reference()
        return None if alive is None or alive.closed else schedule.run(chores(alive))

    return work


def attempt(errors: list[BaseException], work: Callable[[], object]) -> object:
    """The result of work, or None where it failed; the error is kept for later."""
    try:
        return work()
    except Exception as error:
        errors.append(error)
        return None
