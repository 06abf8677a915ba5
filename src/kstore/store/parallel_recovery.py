"""Recovers the partitions of a store that was not closed cleanly, in parallel.

Kafka's LogManager.loadLogs: a pool of ``num.recovery.threads.per.data.dir`` threads for each log
directory. A partition that cannot be recovered prevents neither the recovery of the others nor
the opening of the store: it is reported, and its use raises the error.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from kstore.checkpoint.log_dir import LogDir
from kstore.errors import ClosedError, KStoreError
from kstore.files import filenames
from kstore.files.filenames import LOG, partition_directory
from kstore.files.files import Files
from kstore.lazy_dataclass import lazy_dataclass
from kstore.log.log import Log
from kstore.recovery.recover_partition import unflushed_from
from kstore.recovery.report import RecoveryReport
from kstore.segment.scan import OnProgress

if TYPE_CHECKING:
    from concurrent.futures import Future

_LOGGER = logging.getLogger("kstore")

PartitionKey = tuple[str, int]
Progress = Callable[[int, int], None]  # bytes scanned, bytes in total
Load = Callable[[str, int, OnProgress], Log]
OnRecovered = Callable[[PartitionKey, Log | KStoreError], None]


@lazy_dataclass(frozen=True, kw_only=True)
class StoreRecovery:
    """The recovery of a store's partitions opened for writing; ``str`` describes it."""

    reports: Mapping[PartitionKey, RecoveryReport] = field(
        default_factory=lambda: MappingProxyType({})
    )
    failed: Mapping[PartitionKey, KStoreError] = field(default_factory=lambda: MappingProxyType({}))
    notes: tuple[str, ...] = ()  # on the directories themselves

    @property
    def unclean(self) -> bool:
        """Whether any partition was not closed cleanly."""
        return bool(self.failed) or any(not report.clean for report in self.reports.values())

    @property
    def bytes_scanned(self) -> int:
        return sum(report.bytes_scanned for report in self.reports.values())

    @property
    def cut_size(self) -> int:
        """Bytes truncated from the ends of logs."""
        return sum(report.cut_size for report in self.reports.values())

    def __str__(self) -> str:
        repaired = [str(report) for _, report in sorted(self.reports.items()) if report.steps]
        failed = [
            f"{partition_directory(*key)}: not recovered: {error}"
            for key, error in sorted(self.failed.items())
        ]
        return "\n".join((*self.notes, *repaired, *failed)) or "nothing to recover"


class _Meter:
    """Adds up the bytes that all threads have scanned."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        if self._progress is not None:
            with self._lock:
                self._done += size
                self._progress(min(self._done, self._total), self._total)


def recover_partitions(
    files: Files,
    wanted: Iterable[tuple[PartitionKey, LogDir]],
    load: Load,
    *,
    threads: int,
    progress: Progress | None = None,
    on_recovered: OnRecovered,
) -> None:
    """Load every wanted partition; gives ``on_recovered`` each log, or the error instead of one.

    ``load`` is called in ``threads`` threads for each directory (in the caller's where one would
    do), ``on_recovered`` in the same one, ``progress`` in any, one call at a time. Any other error
    than KStoreError ends the work and is raised once all threads have stopped.
    """
    jobs: dict[LogDir, list[PartitionKey]] = {}
    for key, log_dir in wanted:
        log_dir.begin()  # and reads the checkpoints here, so that no pool thread does
        log_dir.offsets.log_start(key)
        log_dir.offsets.recovery_point(key)
        log_dir.offsets.high_watermark(key)
        jobs.setdefault(log_dir, []).append(key)
    meter = _Meter(progress, _bytes_to_scan(files, jobs) if progress is not None else 0)
    work = partial(_load_one, load, meter, on_recovered)
    keys = [key for partitions in jobs.values() for key in partitions]
    if len(keys) <= 1 or threads == len(jobs) == 1:  # nothing to run in parallel
        for key in keys:
            work(key)
    else:
        _in_parallel(work, jobs, threads)


def _in_parallel(
    work: Callable[[PartitionKey], None], jobs: dict[LogDir, list[PartitionKey]], threads: int
) -> None:
    from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

    futures: list[Future[None]] = []
    with ExitStack() as stack:
        for log_dir, keys in jobs.items():
            pool = ThreadPoolExecutor(threads, f"kstore-recovery-{log_dir.path}")
            stack.callback(pool.shutdown, cancel_futures=True)
            futures += [pool.submit(work, key) for key in keys]
        wait(futures, return_when=FIRST_EXCEPTION)
    for future in futures:
        if not future.cancelled():  # cancelled only if another one raises
            future.result()


def _load_one(load: Load, meter: _Meter, on_recovered: OnRecovered, key: PartitionKey) -> None:
    found: Log | KStoreError
    try:
        found = load(*key, meter.add)
    except KStoreError as error:
        if not isinstance(error, ClosedError):  # the store is closed during its recovery
            _LOGGER.warning("%s could not be recovered: %s", partition_directory(*key), error)
        found = error
    on_recovered(key, found)


def _bytes_to_scan(files: Files, jobs: dict[LogDir, list[PartitionKey]]) -> int:
    """Bytes of the segments from the one that holds each partition's recovery point on."""
    total = 0
    for log_dir, keys in jobs.items():
        for key in keys:
            folder = partition_directory(*key)
            sizes = {
                found.base_offset: files.size_of(log_dir.join(folder, name))
                for name in files.listdir(log_dir.join(folder))
                if (found := filenames.parse(name)) is not None
                and found.kind == LOG
                and not found.suffix
            }
            first = unflushed_from(list(sizes), log_dir.offsets.recovery_point(key))
            total += sum(size for base, size in sizes.items() if base >= first)
    return total
