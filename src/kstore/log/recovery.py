"""What a writer does to a partition directory before it opens it: Kafka's LogLoader.

Finish or undo interrupted compactions, then scan what may not have reached the disk: whole
segments from the one that holds the recovery point. Only an incomplete or damaged *tail* at or
above the recovery point is cut, its bytes are kept beside the log, and the report says so.
Damage anywhere else raises RecoveryNeededError and leaves the segments as they are; Kafka would
cut there, and delete every later segment.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from time import perf_counter

from kstore._native.recover import SegmentScan
from kstore._native.status import reason
from kstore.config import LogConfig
from kstore.errors import CorruptFileError, RecoveryNeededError
from kstore.log import filenames
from kstore.log.filenames import INDEX, LEADER_EPOCHS, LOG, SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX
from kstore.log.files import TEMPORARY_SUFFIX, Files
from kstore.log.leader_epochs import LeaderEpochs

WINDOW = 1 << 25  # bytes mapped in at a time; a multiple of every page size
PIECE = 1 << 20  # bytes copied or read at a time where nothing is mapped
_TRANSACTION_ENTRY_SIZE = 34
_TRANSACTION_LAST_OFFSET = slice(18, 26)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecoveryReport:
    """What opening a partition for writing found and changed. Immutable."""

    segments_scanned: int = 0
    batches: int = 0
    bytes_scanned: int = 0
    cut_size: int = 0  # bytes taken from the end of the last segment
    cut_offset: int | None = None  # the log ended here after the cut
    cut_reason: str | None = None
    kept_in: str | None = None  # the file with the cut bytes; None if they were all zero
    indexes_rebuilt: int = 0
    removed: tuple[str, ...] = ()  # names of leftovers
    swapped: tuple[str, ...] = ()  # names of files that finished an interrupted compaction
    milliseconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RecoveredSegment:
    """A segment that is there; what only a scan can tell is None where none was needed."""

    base_offset: int
    size: int
    next_offset: int | None = None  # the offset after its last batch
    max_timestamp: int | None = None  # ms; -1: it has no timestamps
    max_timestamp_offset: int | None = None
    first_timestamp: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Recovered:
    report: RecoveryReport
    segments: tuple[RecoveredSegment, ...]  # by base offset
    epochs: LeaderEpochs


@dataclass(slots=True)
class _Plan:
    """Everything found, before anything of a segment is changed."""

    directory: Path
    sizes: dict[int, int]  # base offset to size of the log file
    scans: dict[int, SegmentScan] = field(default_factory=dict)
    dropped: list[int] = field(default_factory=list)  # empty segments behind a torn one
    torn: int | None = None  # base offset of the segment to be cut

    @property
    def end_offset(self) -> int | None:
        """The log's end where it will be cut, else None."""
        return None if self.torn is None else self.scans[self.torn].next_offset


def recover_partition(
    files: Files,
    directory: str | os.PathLike[str],
    recovery_point: int | None,
    config: LogConfig,
    *,
    sync: bool = True,
    cut_before_data: bool = False,
) -> Recovered:
    """Bring a partition directory into a state that can be opened for writing.

    Parameters
    ----------
    recovery_point
        From the checkpoint (0 if it has no entry): everything below is known to be on disk. None
        after a clean shutdown: then only segments without a usable offset index are scanned.
    config
        ``index_interval_bytes`` and ``segment_index_bytes`` shape the rebuilt indexes.
    sync
        Whether rebuilt indexes and the cut log are synced. Cut bytes always are, before the cut.

    cut_before_data
        Cut damage at or above the recovery point even where later segments hold data: as Kafka,
        but their files are kept aside, not deleted. A power cut may leave such a log when nothing
        was flushed since it rolled.

    Raises RecoveryNeededError (path, position, offset) for damage below the recovery point, or in
    front of segments that hold data: no segment has been changed then.
    """
    started = perf_counter()
    directory = Path(directory)
    removed, swapped = finish_leftovers(files, directory, config)
    plan, orphans = _find_segments(files, directory)
    _scan_segments(files, plan, recovery_point, config, cut_before_data)
    # First the empty segments behind a torn one: a crash in between must not leave a gap.
    gone = _remove_dropped(files, plan)
    rebuilt, kept_in = _apply(files, plan, sync)
    for name in orphans:
        files.remove(directory / name)
    epochs = _recover_epochs(files, plan, directory / LEADER_EPOCHS)
    if sync and (removed or swapped or orphans or gone or rebuilt):
        files.sync_directory(directory)
    torn = None if plan.torn is None else plan.scans[plan.torn]
    report = RecoveryReport(
        segments_scanned=len(plan.scans),
        batches=sum(scan.batches for scan in plan.scans.values()),
        bytes_scanned=sum(scan.file_size for scan in plan.scans.values()),
        cut_size=0 if torn is None else torn.file_size - torn.valid_size,
        cut_offset=plan.end_offset,
        cut_reason=None if torn is None else reason(torn.status),
        kept_in=kept_in,
        indexes_rebuilt=rebuilt,
        removed=(*removed, *orphans, *gone),
        swapped=tuple(swapped),
        milliseconds=(perf_counter() - started) * 1000,
    )
    dropped = set(plan.dropped)
    segments = tuple(_facts(plan, base) for base in sorted(plan.sizes) if base not in dropped)
    return Recovered(report=report, segments=segments, epochs=epochs)


def _facts(plan: _Plan, base: int) -> RecoveredSegment:
    scan = plan.scans.get(base)
    if scan is None:
        return RecoveredSegment(base_offset=base, size=plan.sizes[base])
    return RecoveredSegment(
        base_offset=base,
        size=scan.valid_size,
        next_offset=scan.next_offset,
        max_timestamp=scan.max_timestamp,
        max_timestamp_offset=scan.max_timestamp_offset,
        first_timestamp=scan.first_timestamp,
    )


# --- scanning -------------------------------------------------------------------------------


def scan_segment(
    files: Files,
    path: str | os.PathLike[str],
    base_offset: int,
    config: LogConfig,
) -> SegmentScan:
    """Check a whole segment file and build its indexes in memory; changes nothing.

    The file must not be cut meanwhile by anybody: it is mapped where files is the real disk.
    """
    fd = files.open(path)
    try:
        size = files.size(fd)
        scan = SegmentScan(
            base_offset,
            size,
            index_interval_bytes=config.index_interval_bytes,
            index_bytes=config.segment_index_bytes,
        )
        if files.native and size > 0:
            _scan_mapped(files, fd, scan)
        else:
            _scan_read(files, fd, scan)
    finally:
        files.close(fd)
    scan.finish()
    return scan


def _scan_mapped(files: Files, fd: int, scan: SegmentScan) -> None:
    """Feed the file's pages themselves: no copy, 1.2 to 1.5 times as fast as reading."""
    with files.map(fd, scan.file_size) as mapped, memoryview(mapped) as view:
        for start in range(0, scan.file_size, WINDOW):
            end = min(start + WINDOW, scan.file_size)
            files.read_ahead(fd, end, WINDOW)
            files.prefault(mapped, start, end - start, fd)
            with view[scan.position : end] as piece:
                if not scan.feed(piece):
                    return


def _scan_read(files: Files, fd: int, scan: SegmentScan) -> None:
    buffer = memoryview(bytearray(min(PIECE, max(scan.file_size, 1))))
    while scan.wants_more:
        size = files.preadv_into(fd, buffer, scan.position)
        scan.feed(buffer[:size])


def _find_segments(files: Files, directory: Path) -> tuple[_Plan, list[str]]:
    """The segments of a directory, and index files that have lost their log."""
    parsed = [(name, filenames.parse(name)) for name in files.listdir(directory)]
    live = [(name, found) for name, found in parsed if found is not None and not found.suffix]
    bases = {found.base_offset for _, found in live if found.kind == LOG}
    orphans = [
        name
        for name, found in live
        if found.kind in (INDEX, TIME_INDEX, TRANSACTION_INDEX) and found.base_offset not in bases
    ]
    sizes = {base: _size(files, directory / filenames.log_name(base)) for base in bases}
    return _Plan(directory, sizes), orphans


def _size(files: Files, path: Path) -> int:
    fd = files.open(path)
    try:
        return files.size(fd)
    finally:
        files.close(fd)


def _scan_segments(
    files: Files,
    plan: _Plan,
    recovery_point: int | None,
    config: LogConfig,
    cut_before_data: bool,
) -> None:
    """Scan what must be scanned; raise RecoveryNeededError for what must not be cut."""
    bases = sorted(plan.sizes)
    if recovery_point is not None:
        first = max((base for base in bases if base <= recovery_point), default=0)
    for slot, base in enumerate(bases):
        unflushed = recovery_point is not None and base >= first
        if not unflushed and _has_index(files, plan.directory, base):
            continue
        path = plan.directory / filenames.log_name(base)
        scan = scan_segment(files, path, base, config)
        plan.scans[base] = scan
        later = bases[slot + 1 :]
        if scan.status == 0:
            if later and scan.next_offset > later[0]:
                raise _overlap(path, scan, later[0])
            continue
        if recovery_point is None or scan.next_offset < recovery_point:
            raise _needed(path, scan, "below the recovery point, so it was on disk before")
        if any(plan.sizes[other] > 0 for other in later) and not cut_before_data:
            raise _needed(
                path,
                scan,
                "in front of later segments that hold data (StoreConfig(cut_before_data=True) "
                "cuts there and keeps what it cuts aside)",
            )
        plan.torn = base
        plan.dropped = later
        return


def _has_index(files: Files, directory: Path, base: int) -> bool:
    """Kafka's reason to rebuild a segment of a clean log: no offset index, or no whole entries."""
    path = directory / filenames.index_name(base)
    return files.exists(path) and _size(files, path) % 8 == 0


def _needed(path: Path, scan: SegmentScan, where: str) -> RecoveryNeededError:
    return RecoveryNeededError(
        f"{reason(scan.status)}; the damage lies {where}, and kstore never cuts there by itself: "
        "read around it with mode='r', or restore the file",
        path=path,
        position=scan.valid_size,
        offset=scan.next_offset,
    )


def _overlap(path: Path, scan: SegmentScan, base: int) -> RecoveryNeededError:
    return RecoveryNeededError(
        f"the segment goes on to offset {scan.next_offset}, but the next one begins at {base}",
        path=path,
        position=scan.valid_size,
        offset=scan.next_offset,
    )


# --- changing ---------------------------------------------------------------------------------


def _apply(files: Files, plan: _Plan, sync: bool) -> tuple[int, str | None]:
    """Cut the torn segment, write the indexes; returns how many changed, and the kept file."""
    kept_in = None
    rebuilt = 0
    for base, scan in plan.scans.items():
        if base == plan.torn:
            kept_in = _cut(files, plan.directory, scan, sync)
        for kind, data in ((INDEX, scan.index), (TIME_INDEX, scan.time_index)):
            path = plan.directory / filenames.file_name(base, kind)
            rebuilt += _replace_index(files, path, data, sync)
    if plan.end_offset is not None:
        _cut_transactions(files, plan)
    return rebuilt, kept_in


def _cut(files: Files, directory: Path, scan: SegmentScan, sync: bool) -> str | None:
    """Take the torn tail from the log file; its bytes are safe elsewhere before they go."""
    fd = files.open(directory / filenames.log_name(scan.base_offset), os.O_RDWR)
    try:
        kept_in = _keep_tail(files, fd, directory, scan)
        files.truncate(fd, scan.valid_size)
        if sync:
            files.fsync(fd)
    finally:
        files.close(fd)
    return kept_in


def _keep_tail(files: Files, fd: int, directory: Path, scan: SegmentScan) -> str | None:
    if not _has_data(files, fd, scan.valid_size, scan.file_size):
        return None  # only zeros: preallocated, or extended just before a power cut
    name = _free_cut_name(files, directory, scan.base_offset, scan.valid_size)
    path = directory / name
    kept = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
    try:
        for position in range(scan.valid_size, scan.file_size, PIECE):
            piece = files.pread(fd, min(PIECE, scan.file_size - position), position)
            files.write(kept, piece)
        files.fsync(kept)
    finally:
        files.close(kept)
    files.sync_directory(directory)
    return str(path)


def _free_cut_name(files: Files, directory: Path, base_offset: int, position: int) -> str:
    names = set(files.listdir(directory))
    return next(
        name
        for number in count()
        if (name := filenames.cut_name(base_offset, position, number)) not in names
    )


def _has_data(files: Files, fd: int, start: int, end: int) -> bool:
    return any(
        any(files.pread(fd, min(PIECE, end - position), position))
        for position in range(start, end, PIECE)
    )


def _replace_index(files: Files, path: Path, data: bytes, sync: bool) -> bool:
    """Write an index under a temporary name and rename it: readers may have the old one mapped."""
    if files.exists(path) and _size(files, path) == len(data) and files.read(path) == data:
        return False
    temporary = Path(f"{path}{TEMPORARY_SUFFIX}")
    fd = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    try:
        files.write(fd, data)
        if sync:
            files.fsync(fd)
    finally:
        files.close(fd)
    files.rename(temporary, path)
    return True


def _cut_transactions(files: Files, plan: _Plan) -> None:
    """Forget aborted transactions and producer states that end behind the cut."""
    assert plan.torn is not None
    end_offset = plan.scans[plan.torn].next_offset
    path = plan.directory / filenames.transaction_index_name(plan.torn)
    if files.exists(path):
        data = files.read(path)
        size = 0
        while size + _TRANSACTION_ENTRY_SIZE <= len(data):
            entry = data[size : size + _TRANSACTION_ENTRY_SIZE]
            if int.from_bytes(entry[_TRANSACTION_LAST_OFFSET], "big", signed=True) >= end_offset:
                break
            size += _TRANSACTION_ENTRY_SIZE
        if size < len(data):
            files.write_atomically(path, data[:size])
    for name in files.listdir(plan.directory):
        found = filenames.parse(name)
        if found is not None and found.kind == SNAPSHOT and found.base_offset > end_offset:
            files.remove(plan.directory / name)


def _remove_dropped(files: Files, plan: _Plan) -> list[str]:
    """Remove the empty segments that a roll had begun behind the cut one."""
    dropped = set(plan.dropped)
    gone = [
        name
        for name in (files.listdir(plan.directory) if dropped else ())
        if (found := filenames.parse(name)) is not None
        and found.base_offset in dropped
        and found.kind != SNAPSHOT
    ]
    for name in sorted(gone, reverse=True):  # newest first: a crash in between leaves no gap
        found = filenames.parse(name)
        assert found is not None
        if found.kind == LOG and plan.sizes[found.base_offset] > 0:
            aside = _free_cut_name(files, plan.directory, found.base_offset, 0)
            files.rename(plan.directory / name, plan.directory / aside)
        else:
            files.remove(plan.directory / name)
    return gone


def _recover_epochs(files: Files, plan: _Plan, path: Path) -> LeaderEpochs:
    """Epochs from the file, with those the scans found and without those behind a cut.

    A malformed file counts as absent: the scans give what they saw.
    """
    try:
        epochs = LeaderEpochs.load(files, path)
        changed = False
    except CorruptFileError:
        epochs = LeaderEpochs()
        changed = True
    for base in sorted(plan.scans):
        for epoch, start_offset in plan.scans[base].epochs:
            if epochs.latest is None or epoch > epochs.latest.epoch:
                changed |= epochs.assign(epoch, start_offset)
    if plan.end_offset is not None:
        changed |= epochs.truncate_from_end(plan.end_offset)
    if changed:
        epochs.save(files, path)
    return epochs


# --- leftovers of compaction and deletion ----------------------------------------------------


def finish_leftovers(
    files: Files, directory: Path, config: LogConfig
) -> tuple[list[str], list[str]]:
    """Finish or undo what was interrupted; returns names removed, and names put in place.

    ``.deleted`` files go. ``.cleaned`` files are incomplete: they go, and with them every
    ``.swap`` file from the lowest of their base offsets on (new segments are renamed in
    descending order, so those belong to the same unfinished set). The other ``.swap`` files
    are complete: what they cover goes, then they take its place.
    """
    parsed = {name: filenames.parse(name) for name in files.listdir(directory)}
    known = {name: found for name, found in parsed.items() if found is not None}
    of = {
        suffix: [name for name, found in known.items() if found.suffix == suffix]
        for suffix in ("", ".deleted", ".cleaned", ".swap")
    }
    lowest = min((known[name].base_offset for name in of[".cleaned"]), default=None)
    undone = [
        name for name in of[".swap"] if lowest is not None and known[name].base_offset >= lowest
    ]
    swaps = [name for name in of[".swap"] if name not in undone]
    low, high = _covered(files, directory, config, swaps)
    bases = {known[name].base_offset for name in swaps if known[name].kind == LOG}
    replaced = [
        name
        for name in of[""]
        if low <= known[name].base_offset < high
        or (known[name].base_offset in bases and known[name].kind != SNAPSHOT)
    ]
    # A power cut may undo any part of what was not synced: each step is on disk before the next.
    for names in (undone, of[".cleaned"], of[".deleted"] + replaced):
        for name in names:
            files.remove(directory / name)
        if names:
            files.sync_directory(directory)
    removed = [*undone, *of[".cleaned"], *of[".deleted"], *replaced]
    swapped = [name.removesuffix(".swap") for name in swaps]
    for name in swapped:
        files.rename(directory / (name + ".swap"), directory / name)
    return removed, swapped


def _covered(
    files: Files, directory: Path, config: LogConfig, swaps: Iterable[str]
) -> tuple[int, int]:
    """The offsets that complete new segments stand for: [low, high), empty if there are none."""
    low, high = 2**63, -1
    for name in swaps:
        found = filenames.parse(name)
        if found is None or found.kind != LOG:
            continue
        path = directory / name
        scan = scan_segment(files, path, found.base_offset, config)
        if scan.status != 0:  # it was synced before it was renamed: its originals must not go
            raise _needed(path, scan, "in a segment that should replace older ones")
        low = min(low, found.base_offset)
        high = max(high, scan.next_offset)
    return low, high
