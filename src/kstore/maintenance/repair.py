"""``kstore repair``: copies the valid batches of a damaged directory into a new one.

The input is read and never changed. Batches keep their bytes and their offsets; gaps stay, as
after compaction. Recovery rebuilds the indexes, leader epochs and producer state of the output, as
it does for a directory that was not closed cleanly; then the output is marked as closed.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

from kstore._native.format import batch_fields
from kstore._native.recovery.find_valid_batches import scan_valid_batches
from kstore.checkpoint.clean_shutdown import write_clean_shutdown
from kstore.checkpoint.known_gaps import note_gaps
from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.checkpoint.log_dir import check_finished
from kstore.checkpoint.offset_checkpoint import read_offsets, write_offsets
from kstore.config import LogConfig
from kstore.errors import CorruptFileError, KStoreError, StorageError, StoreLockedError
from kstore.files import filenames
from kstore.files.filenames import (
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOCK,
    LOG,
    LOG_STARTS,
    PARTITION_METADATA,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
)
from kstore.files.files import DISK, Files
from kstore.files.open_file import OpenFile
from kstore.hints.keyword_names import explain_keywords
from kstore.maintenance.epoch_repair import EpochFix, find_fixes
from kstore.maintenance.repair_losses import find_missing
from kstore.recovery.loader import load
from kstore.segment.find_next_batch import known_boundaries
from kstore.segment.salvage import (
    INT32_MAX,
    LIVE,
    MISNAMED,
    SWAP,
    Damage,
    Salvaged,
    Source,
    ValidRange,
    open_source,
    salvage,
)
from kstore.verify.log_dir_state import StateReader
from kstore.verify.losses import Loss
from kstore.verify.missing_folders import find_missing_folders
from kstore.verify.partition import Finding, verify_partition

WRITE_SIZE = 1 << 24  # bytes of one write
_SMALL = 1 << 26  # bytes of a side file that is copied
_SNAPSHOT = f".{filenames.KRAFT_SNAPSHOT}"
_SUFFIXES = (filenames.DELETED_SUFFIX, filenames.CLEANED_SUFFIX, SWAP_SUFFIX)
_STATES = {
    filenames.DELETE: "a partition that is being deleted",
    filenames.FUTURE: "the future replica of an unfinished move",
    filenames.STRAY: "a stray partition that a broker renamed",
}
_NOT_COPIED = (LOCK, filenames.CLEAN_SHUTDOWN, filenames.RECOVERY_POINTS, filenames.CLEANER_OFFSETS)

Progress = Callable[[int, int, str], None]  # bytes done, bytes in all, partition


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets between kept batches, inclusive. Both compaction and damage leave gaps."""

    first_offset: int
    last_offset: int


@dataclass(slots=True)
class PartitionRepair:
    """The repair of one partition. It does not change after :func:`repair` returns it."""

    name: str
    path: str
    output: str | None = None
    batches: int = 0
    bytes: int = 0
    first_offset: int | None = None
    end_offset: int = 0  # one past the last offset of the repaired log
    damages: list[Damage] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)  # between the kept ranges of batches
    notes: list[str] = field(default_factory=list)  # unusable side files and corrected epochs
    findings: list[Finding] = field(default_factory=list)  # of verify, in the output
    left_out: list[str] = field(default_factory=list)  # skipped entries that are not of the log
    missing: list[Loss] = field(default_factory=list)  # records that are certainly lost
    warnings: list[Loss] = field(default_factory=list)  # records that may be lost

    @property
    def lost_bytes(self) -> int:
        return sum(damage.size for damage in self.damages if damage.kind != "doubled")

    @property
    def ok(self) -> bool:
        """Whether the partition has no damage."""
        return not (self.damages or self.notes or self.findings or self.missing)


@dataclass(slots=True)
class RepairReport:
    """The result of a repair, or of its plan, where ``output`` is None."""

    path: str
    output: str | None
    partitions: list[PartitionRepair] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # of the directory itself
    left_out: list[str] = field(default_factory=list)  # skipped: not directories of live partitions
    warnings: list[str] = field(default_factory=list)  # partitions that may be lost

    @property
    def has_warnings(self) -> bool:
        """Whether records may be lost, without proof on disk."""
        return bool(self.warnings) or any(partition.warnings for partition in self.partitions)

    @property
    def ok(self) -> bool:
        """Whether there is no damage. Skipped directories are none: Kafka keeps them too."""
        return not self.notes and all(partition.ok for partition in self.partitions)


def plan_repair(
    path: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    files: Files = DISK,
) -> RepairReport:
    """What :func:`repair` would save of a directory. Writes nothing; raises the same errors."""
    return _Repair(files, Path(path), None, progress).run()


@explain_keywords("it writes a new directory: kstore.repair('data', 'fixed')")
def repair(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    files: Files = DISK,
) -> RepairReport:
    """Copy the valid batches of a damaged directory into a new one.

    Parameters
    ----------
    path
        A log directory (its partitions are repaired one after the other) or the directory of one
        partition. It is only read: no byte, name or time of it changes.
    output
        A directory that does not exist or is empty. It becomes a log directory with the same
        partitions for kstore or a Kafka broker, closed cleanly: they open it without recovery.

    Raises
    ------
    StoreLockedError
        Another process has the directory open for writing.
    KStoreError
        The directory has no partitions, or the output is not empty.
    StorageError
        The output cannot be written. Read errors go into the report instead.

    Memory: maps of the segments of one partition; a copy of one segment if the disk cannot read
    some of its sectors. Uses one thread; other calls may run at the same time.
    """
    return _Repair(files, Path(path), Path(output), progress).run()


class _Repair:
    def __init__(
        self, files: Files, path: Path, output: Path | None, progress: Progress | None
    ) -> None:
        self.files = files
        self.path = Path(os.path.abspath(path))
        self.output = None if output is None else Path(os.path.abspath(output))
        self.progress = progress
        self.report = RepairReport(str(self.path), None if output is None else str(self.output))
        self.states = StateReader(files)
        self.done = self.total = 0

    def run(self) -> RepairReport:
        files = self.files
        if files.kind(self.path) != "directory":
            raise KStoreError(
                "there is no such directory: name a log directory or a partition's directory",
                path=self.path,
            )
        check_finished(files, str(self.path))
        root, partitions = self._partitions()
        if files.probe(root / LOCK):
            raise StoreLockedError(
                "this process, or another one (kstore or a Kafka broker), has this directory open "
                "for writing: close the store, or stop the broker",
                path=root / LOCK,
            )
        if self.output is not None:
            self._check_output(self.output)
        self._check_rights(partitions)
        starts = self._checkpoint(root / LOG_STARTS)
        sizes = {name: self._size(path) for name, path in partitions}
        self.total = sum(sizes.values())
        if self.output is not None:
            _make_directories(files, self.output)
            files.write_atomically(self.output / filenames.UNFINISHED, b'{"format":1}')
            files.sync_directory(self.output)
        for name, path in partitions:
            found = filenames.parse_partition_directory(name)
            key = (found.topic, found.partition) if found is not None else (name, 0)
            self.report.partitions.append(self._partition(name, path, starts.get(key, 0)))
        if root == self.path:
            for folder in find_missing_folders(files, [str(root)]):
                notes = self.report.notes if folder.is_certain else self.report.warnings
                if folder.recovery_point is None:  # may be in another directory of the store
                    notes = self.report.left_out
                notes.append(f"{folder.path}: {folder.sentence}")
        if self.output is not None:
            if root == self.path:
                self._root_files(self.output)
            if starts:
                write_offsets(files, self.output / LOG_STARTS, starts)
            write_clean_shutdown(files, self.output)
            files.sync_directory(self.output)
            files.remove(self.output / filenames.UNFINISHED)
            files.sync_directory(self.output)
        return self.report

    def _partitions(self) -> tuple[Path, list[tuple[str, Path]]]:
        """The log directory, and name and path of each partition to repair."""
        names = self.files.list_own_directories(self.path)
        found = []
        for name in names:
            parsed = filenames.parse_partition_directory(name)
            if parsed is not None and not parsed.state:
                found.append((name, self.path / name))
            else:
                kind = _STATES.get(parsed.state if parsed is not None else "", "not a partition")
                self.report.left_out.append(f"skipped: {name}, {kind}")
        if found:
            return self.path, found
        parsed = filenames.parse_partition_directory(self.path.name)
        if parsed is None or parsed.state:
            missing = find_missing_folders(self.files, [str(self.path)])
            if any(folder.recovery_point is not None for folder in missing):
                return self.path, []  # the report names the missing partitions
            raise KStoreError(
                "no partitions: a log directory has directories named <topic>-<partition>, and "
                "the directory of a single partition has such a name",
                path=self.path,
            )
        self.report.left_out.clear()
        return self.path.parent, [(self.path.name, self.path)]

    def _check_output(self, output: Path) -> None:
        kind = self.files.kind(output)
        if kind == "directory":
            check_finished(self.files, str(output))
        if kind is not None and (kind != "directory" or self.files.listdir(output)):
            raise KStoreError("the output must not exist, or be an empty directory", path=output)
        if output == self.path or self.path in output.parents:
            raise KStoreError("the output cannot lie in the damaged directory", path=output)

    def _check_rights(self, partitions: list[tuple[str, Path]]) -> None:
        """Raise StorageError if this user may not read a segment: that is not damage."""
        for _, directory in partitions:
            for name in self.files.listdir(directory):
                if name.endswith(LOG) and self._is_file(directory / name):
                    try:
                        self.files.close(self.files.open(directory / name))
                    except StorageError as error:
                        if error.errno in (errno.EACCES, errno.EPERM):
                            raise

    def _checkpoint(self, path: Path) -> dict[tuple[str, int], int]:
        try:
            return read_offsets(self.files, path)
        except (CorruptFileError, StorageError) as error:
            self.report.notes.append(f"not used: {error}")
            return {}

    def _size(self, directory: Path) -> int:
        return sum(
            self.files.size_of(directory / name)
            for name in self.files.listdir(directory)
            if name.endswith(LOG) and self._is_file(directory / name)
        )

    def _count_read(self, name: str, size: int) -> None:
        self.done += size
        if self.progress is not None:
            self.progress(min(self.done, self.total), self.total, name)

    # --- one partition ------------------------------------------------------------------------

    def _partition(self, name: str, path: Path, log_start: int) -> PartitionRepair:
        result = PartitionRepair(name, str(path))
        state = self.states.read(path)  # before the files are listed
        sources, copied = self._sources(name, path, result)
        found = salvage(sources)
        ranges = found.ranges
        result.damages += found.damages
        result.left_out += [
            f"skipped: {name}, of an unfinished swap: the segments it would replace are kept"
            for name in sorted({valid.source.path.name for valid in found.copies})
        ]
        result.batches = sum(valid.batches for valid in ranges)
        result.bytes = sum(valid.end - valid.position for valid in ranges)
        result.first_offset = ranges[0].first_offset if ranges else None
        result.gaps = [
            Gap(before.last_offset + 1, after.first_offset - 1)
            for before, after in pairwise(ranges)
            if before.last_offset + 1 < after.first_offset
        ]
        segments = _segments(found, sources)
        end = ranges[-1].last_offset + 1 if ranges else 0
        result.end_offset = max([end, log_start, *(base for base, _ in segments)])
        epochs = self._epochs(path, result)
        for loss in find_missing(self.files, state, path, sources, ranges):
            (result.missing if loss.is_certain else result.warnings).append(loss)
        fixes = find_fixes(
            ranges, None if epochs is None else LeaderEpochs.parse(epochs, path / LEADER_EPOCHS)
        )
        result.notes += [
            f"{fix.source.path.name}: the batch at position {fix.position} has leader epoch "
            f"{fix.found}, which contradicts the others; corrected to {fix.corrected}"
            for fix in fixes
        ]
        if self.output is not None:
            target = self.output / name
            result.output = str(target)
            self._write(target, segments, copied, epochs, path, fixes)
            if result.gaps:
                gaps = [(gap.first_offset, gap.last_offset + 1) for gap in result.gaps]
                note_gaps(self.files, target, gaps)
            self._finish(target, result, log_start)
        return result

    def _sources(
        self, partition: str, path: Path, result: PartitionRepair
    ) -> tuple[list[Source], list[str]]:
        """The files with batches, and the names of the files to copy unchanged."""
        sources: list[Source] = []
        copied = []
        for name in self.files.listdir(path):
            parsed = filenames.parse(name)
            live = parsed is not None and parsed.kind == LOG and parsed.suffix in ("", SWAP_SUFFIX)
            if not self._is_file(path / name) and parsed is not None and live:
                reason = "not a file, or a broken symbolic link"
                base = parsed.base_offset
                result.damages.append(
                    Damage(str(path / name), 0, 0, "unreadable", base, None, reason)
                )
            elif self._is_directory(path / name):
                result.left_out.append(f"skipped: {name}, a directory")
            elif not self._is_file(path / name):
                result.notes.append(f"skipped: {name}, not a file")
            elif parsed is None:
                if name in (LEADER_EPOCHS, PARTITION_METADATA) or name.startswith("kstore."):
                    continue
                if name.endswith((TEMPORARY_SUFFIX, *_SUFFIXES)):
                    result.left_out.append(f"skipped: {name}, not a file of a live log")
                    continue
                is_snapshot = name.endswith(_SNAPSHOT)
                source = None if is_snapshot else self._open_misnamed(path / name, result)
                if source is not None:
                    sources.append(source)
                else:
                    copied.append(name)
            elif parsed.kind == LOG and parsed.suffix in ("", SWAP_SUFFIX):
                rank = SWAP if parsed.suffix else LIVE
                on_read = partial(self._count_read, partition)
                source = self._open(path / name, rank, parsed.base_offset, result, on_read)
                if source is not None:
                    sources.append(source)
        return sources, copied

    def _is_file(self, path: Path) -> bool:
        """False for a symbolic link that is broken or points to itself."""
        return self._kind(path) == "file"

    def _is_directory(self, path: Path) -> bool:
        return self._kind(path) == "directory"

    def _kind(self, path: Path) -> str | None:
        with suppress(StorageError):
            return self.files.kind(path)
        return None

    def _open(
        self,
        path: Path,
        rank: int,
        base_offset: int | None,
        result: PartitionRepair,
        on_read: Callable[[int], None] | None = None,
    ) -> Source | None:
        try:
            source = open_source(self.files, path, rank, base_offset, on_read)
            if rank == LIVE and base_offset is not None:
                source.boundaries = partial(known_boundaries, self.files, path, base_offset)
            return source
        except StorageError as error:
            result.damages.append(
                Damage(str(path), 0, 0, "unreadable", base_offset, None, error.reason)
            )
            return None

    def _open_misnamed(self, path: Path, result: PartitionRepair) -> Source | None:
        """A file without the name of a segment, if it has valid batches or ends in ``.log``."""
        has_suffix = path.name.endswith("." + LOG)
        source = self._open(path, MISNAMED, None, result)
        if source is None or source.size == 0:
            return None
        if has_suffix or scan_valid_batches(source.data, 0).batch_count > 0:
            result.notes.append(f"no name of a segment, but batches: {path.name}")
            return source
        return None

    def _epochs(self, path: Path, result: PartitionRepair) -> bytes | None:
        """The bytes of the leader epoch checkpoint; None if it does not parse."""
        try:
            data = self.files.read(path / LEADER_EPOCHS, limit=_SMALL)
            LeaderEpochs.parse(data, path / LEADER_EPOCHS)
        except (CorruptFileError, StorageError) as error:
            if self.files.exists(path / LEADER_EPOCHS):
                result.notes.append(f"rebuilt: {error}")
            return None
        return data

    # --- writing ------------------------------------------------------------------------------

    def _write(
        self,
        target: Path,
        segments: list[tuple[int, list[ValidRange]]],
        copied: list[str],
        epochs: bytes | None,
        path: Path,
        fixes: list[EpochFix],
    ) -> None:
        files = self.files
        files.make_directory(target)
        for base, ranges in segments:
            with OpenFile(
                files,
                target / filenames.log_name(base),
                os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND,
            ) as fd:
                for chunk in _chunks(ranges, fixes):
                    files.write(fd, chunk)
                files.fsync(fd)
        if epochs is not None:
            files.write_atomically(target / LEADER_EPOCHS, epochs)
        for name in (*copied, PARTITION_METADATA):
            self._copy(path / name, target / name, self.report.notes)
        files.sync_directory(target)

    def _copy(self, source: Path, target: Path, notes: list[str]) -> None:
        try:
            if not self.files.exists(source):
                return
            data = self.files.read(source, limit=_SMALL)
        except StorageError as error:
            notes.append(f"not copied: {error}")
            return
        self.files.write_atomically(target, data)

    def _finish(self, target: Path, result: PartitionRepair, log_start: int) -> None:
        """Recover the output, which writes its derived files, and verify it."""
        loaded = load(
            self.files,
            str(target),
            LogConfig(),
            clean=False,
            log_start_offset=log_start,
        )
        if loaded.recovery.cut_size or loaded.segments.end_offset != result.end_offset:
            raise KStoreError(
                f"the repaired log ends at offset {loaded.segments.end_offset}, but the plan "
                f"says {result.end_offset}; please report this",
                path=target,
            )
        if loaded.epochs_changed:
            loaded.epochs.save(self.files, target / LEADER_EPOCHS)
        self._sync(target)
        result.findings = verify_partition(self.files, target).findings

    def _sync(self, target: Path) -> None:
        """Put every file of a partition on disk: the marker of a clean stop vouches for them."""
        for name in self.files.listdir(target):
            if self.files.kind(target / name) == "file":
                with OpenFile(self.files, target / name) as fd:
                    self.files.fsync(fd)
        self.files.sync_directory(target)

    def _root_files(self, output: Path) -> None:
        """Copy the side files of the log directory: identity, settings, high watermarks."""
        for name in self.files.listdir(self.path):
            source = self.path / name
            skipped = name in (*_NOT_COPIED, LOG_STARTS) or name.endswith(TEMPORARY_SUFFIX)
            if skipped or self.files.kind(source) != "file":
                continue
            if name == HIGH_WATERMARKS:
                marks = self._checkpoint(source)
                if marks:
                    write_offsets(self.files, output / name, marks)
                continue
            self._copy(source, output / name, self.report.notes)


def _segments(found: Salvaged, sources: list[Source]) -> list[tuple[int, list[ValidRange]]]:
    """Base offset and ranges of each output segment; names of input segments stay if possible."""
    segments: list[tuple[int, list[ValidRange]]] = []
    end, size = 0, 0
    for valid in found.ranges:
        source, length = valid.source, valid.end - valid.position
        last = segments[-1] if segments else None
        fits = (
            last is not None
            and (source is last[1][0].source or source.rank != LIVE)
            and valid.last_offset - last[0] <= INT32_MAX
            and size + length <= INT32_MAX
        )
        if fits and last is not None:
            last[1].append(valid)
            size += length
        else:
            base_offset = source.base_offset
            if base_offset is None or not end <= base_offset <= valid.first_offset:
                # The header of a wrapper message has its last inner offset: the base offset must
                # lie below the first one, which is unknown.
                base_offset = (
                    max(end, valid.first_offset - (1 << 20))
                    if _is_legacy(valid)
                    else valid.first_offset
                )
            segments.append((base_offset, [valid]))
            size = length
        end = valid.last_offset + 1
    live = [s.base_offset for s in sources if s.rank == LIVE and s.base_offset is not None]
    if live and max(live) >= end and (not segments or max(live) > segments[-1][0]):
        segments.append((max(live), []))  # the log ended at that offset or later
    return segments


def _is_legacy(valid: ValidRange) -> bool:
    return batch_fields.magic(valid.source.data, valid.position) < 2


def _chunks(ranges: list[ValidRange], fixes: list[EpochFix]) -> Iterator[memoryview | bytes]:
    """The bytes of the ranges in chunks for writing, with leader epochs corrected."""
    for valid in ranges:
        start = valid.position
        inside = [
            fix
            for fix in fixes
            if fix.source is valid.source and valid.position <= fix.position < valid.end
        ]
        for fix in sorted(inside, key=attrgetter("position")):
            epoch_position = fix.position + batch_fields.V2_LEADER_EPOCH_POSITION
            yield from _split(valid.source.data, start, epoch_position)
            yield fix.corrected.to_bytes(4, "big", signed=True)
            start = epoch_position + 4
        yield from _split(valid.source.data, start, valid.end)


def _split(data: memoryview, start: int, end: int) -> Iterator[memoryview]:
    for position in range(start, end, WRITE_SIZE):
        yield data[position : min(position + WRITE_SIZE, end)]


def _make_directories(files: Files, path: Path) -> None:
    if files.kind(path) is None:
        _make_directories(files, path.parent)
        files.make_directory(path)
