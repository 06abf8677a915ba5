"""Recovers a partition directory before a writer opens it: Kafka's LogLoader.

Finishes or undoes interrupted compactions, then scans what may not have reached the disk: entire
segments from the one that holds the recovery point. Only an incomplete or corrupt *tail* at or
above the recovery point is cut; its bytes are kept beside the log, and the report contains it.
Corruption elsewhere raises RecoveryNeededError and leaves the segments unchanged. Kafka cuts
there, and deletes every later segment; ``mode="kafka"`` does the same, but keeps the bytes.

Everything is checked before any segment is changed; :mod:`kstore.recovery.apply_changes` makes the
changes.
"""

import logging
import os
from collections.abc import Callable, Mapping
from os.path import basename, join
from time import perf_counter

from kstore._native.format import batch_fields
from kstore._native.format.batch_scan import scan as scan_batches
from kstore._native.format.status import name as status_name
from kstore._native.format.status import reason
from kstore._native.read.segment_view import SegmentView
from kstore._native.recovery.segment_scan import SegmentScan
from kstore.config import LogConfig
from kstore.errors import CorruptFileError, RecoveryNeededError
from kstore.files import filenames
from kstore.files.filenames import INDEX, LOG, TIME_INDEX, TRANSACTION_INDEX, Parsed
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.integers import count_of
from kstore.recovery import apply_changes
from kstore.recovery.apply_changes import Plan
from kstore.recovery.emptied_segments import StopState
from kstore.recovery.gap_reasons import GapReasons
from kstore.recovery.lost_segments import (
    LostRange,
    clip,
    find_lost_segments,
    forget_lost_following,
    merge_lost,
    read_lost,
    write_lost,
)
from kstore.recovery.report import Recovered, RecoveredSegment, RecoveryReport, some_of
from kstore.recovery.swap_files import finish_swaps
from kstore.segment.index_sanity import find_index_fault
from kstore.segment.scan import OnProgress, scan_segment
from kstore.segment.segment import load_indexes, walk_end

_LOGGER = logging.getLogger("kstore")


def recover_partition(
    files: Files,
    directory: str | os.PathLike[str],
    recovery_point: int | None,
    config: LogConfig,
    *,
    sync: bool = True,
    mode: str = "careful",
    on_progress: OnProgress | None = None,
    cleaned_below: Callable[[], int] = lambda: 0,
    log_start: int = 0,
) -> Recovered:
    """Bring a partition directory into a state that can be opened for writing.

    Parameters
    ----------
    recovery_point
        From the checkpoint (0 without an entry): everything below was on disk. None
        after a clean shutdown: then only segments whose indexes look wrong are scanned.
    config
        ``index_interval_bytes`` and ``segment_index_bytes`` apply to rebuilt indexes.
    sync
        Whether rebuilt indexes and the truncated log are synced. Cut bytes always are, first.
    mode
        ``"careful"``, or ``"kafka"``: cut at the first bad batch of every segment from the one
        that holds the recovery point, below it too, and quarantine all later segments.
    on_progress
        Called with how many more bytes have been scanned.
    cleaned_below
        The first dirty offset of the log cleaner, called only where offsets are missing between
        segments: a compacted segment is on disk before it replaces others, so the cleaner left
        any gap below this offset.
    log_start
        From the checkpoint; 0 without an entry.

    Memory: the indexes of the scanned segments, 20 bytes for every ``index_interval_bytes`` of
    log; the log itself is mapped 32 MiB at a time.

    Raises RecoveryNeededError (path, position, offset) for corruption below the recovery point, or
    before segments that hold data: then no segment has been changed.
    """
    started = perf_counter()
    directory = os.fspath(directory)
    parsed = _list_parsed(files, directory)
    removed, swapped = finish_swaps(files, directory, config, parsed)
    if removed or swapped:
        parsed = _list_parsed(files, directory)
    plan, orphans = _find_segments(files, directory, parsed)
    plan.sync = sync
    stop = StopState(
        is_clean=recovery_point is None,
        recovery_point=lambda: recovery_point or 0,
        was_compacted=lambda: "compact" in config.cleanup_policy or cleaned_below() > 0,
    )
    lost = _note_lost(files, plan, log_start, stop)
    gaps = GapReasons(
        files,
        directory,
        plan.names,
        log_start=log_start,
        cleaned_below=cleaned_below,
        lost=lost,
    )
    _scan_segments(files, plan, recovery_point, config, mode, on_progress, gaps)
    # First the segments behind a torn one: a crash in between must not leave a gap.
    gone = apply_changes.quarantine_segments(files, plan)
    apply_changes.apply(files, plan)
    for name in orphans:
        files.remove(join(directory, name))
    epochs, epoch_before = apply_changes.recover_epochs(files, plan, config)
    if sync and (removed or swapped or orphans or gone or plan.rebuilt):
        files.sync_directory(directory)
    removed += [*orphans, *gone]
    report = _report(plan, recovery_point is None, removed, swapped, started)
    if report.steps:
        level = logging.WARNING if report.alarming else logging.INFO
        _LOGGER.log(level, "%s", report)
        for did, names in (("removed", report.removed), ("rebuilt", report.rebuilt)):
            _LOGGER.debug("%s: %s: %s", basename(directory), did, ", ".join(names) or "nothing")
    dropped = set(plan.dropped)
    segments = tuple(_facts(plan, base) for base in sorted(plan.sizes) if base not in dropped)
    return Recovered(
        report=report,
        segments=segments,
        epochs=epochs,
        epoch_before=epoch_before,
        names=frozenset(parsed) if report.steps == () else None,
        lost=tuple(lost),
        has_cut_batches=_has_cut_batches(plan),
    )


def _has_cut_batches(plan: Plan) -> bool:
    """Whether a complete batch was cut off the log's end, valid or not, or an entire segment."""
    if plan.torn is None:
        return False
    is_complete = status_name(plan.scans[plan.torn].status) != "TRUNCATED"
    return (is_complete and plan.kept_in is not None) or any(
        plan.sizes[base] for base in plan.dropped
    )


def _facts(plan: Plan, base: int) -> RecoveredSegment:
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
        producer_batches=scan.producer_batches,
    )


def _report(
    plan: Plan, clean: bool, removed: list[str], swapped: list[str], started: float
) -> RecoveryReport:
    cut = None if plan.torn is None else plan.scans[plan.torn]
    to_cut = plan.to_cut
    scanned = plan.scans.values()
    bytes_scanned = sum(scan.file_size for scan in scanned)
    steps = []
    if swapped:
        steps.append(
            f"finished an interrupted compaction: {count_of(len(swapped), 'file')} renamed"
        )
    if removed:
        steps.append(f"removed {count_of(len(removed), 'file')} left over: {some_of(removed)}")
    if scanned and not clean:
        steps.append(f"scanned {count_of(len(scanned), 'segment')}, {bytes_scanned:,} bytes")
    for sentence, names in plan.faults.items():
        many = f"{len(names)} files, " if len(names) > 1 else ""
        steps.append(f"{sentence}: {many}{some_of(names)}")
    steps += [*plan.notes, *plan.remarks]
    if cut is not None:
        kept = f"kept in {basename(plan.kept_in)}" if plan.kept_in else "all zero"
        steps.append(
            f"cut {cut.file_size - cut.valid_size:,} bytes ({kept}) off "
            f"{filenames.log_name(cut.base_offset)} at position {cut.valid_size}: "
            f"{reason(cut.status)}; the log ends at offset {cut.next_offset}"
        )
    if plan.rebuilt:
        steps.append(f"rebuilt {count_of(len(plan.rebuilt), 'side file')}: {some_of(plan.rebuilt)}")
    return RecoveryReport(
        path=plan.directory,
        clean=clean,
        segments_scanned=len(scanned),
        batches=sum(scan.batches for scan in scanned),
        bytes_scanned=bytes_scanned,
        cut_size=sum(
            scan.file_size - scan.valid_size for base, scan in plan.scans.items() if base in to_cut
        ),
        cut_offset=plan.end_offset,
        cut_reason=None if cut is None else reason(cut.status),
        kept_in=plan.kept_in,
        kept=tuple(plan.kept),
        indexes_rebuilt=sum(name.endswith((INDEX, TIME_INDEX)) for name in plan.rebuilt),
        rebuilt=tuple(plan.rebuilt),
        removed=tuple(removed),
        faulty=bool(plan.faults or plan.notes),
        swapped=tuple(swapped),
        steps=tuple(steps),
        milliseconds=(perf_counter() - started) * 1000,
    )


# --- checking -------------------------------------------------------------------------------


def _list_parsed(files: Files, directory: str) -> dict[str, Parsed | None]:
    """The sorted names in a directory, each parsed; None for a name that is not a segment's."""
    return {name: filenames.parse(name) for name in files.listdir(directory)}


def _find_segments(
    files: Files, directory: str, parsed: Mapping[str, Parsed | None]
) -> tuple[Plan, list[str]]:
    """The segments of a directory, and index files whose log is missing."""
    live = [(name, found) for name, found in parsed.items() if found and not found.suffix]
    bases = {found.base_offset for _, found in live if found.kind == LOG}
    orphans = [
        name
        for name, found in live
        if found.kind in (INDEX, TIME_INDEX, TRANSACTION_INDEX) and found.base_offset not in bases
    ]
    sizes = {base: _size(files, join(directory, filenames.log_name(base))) for base in bases}
    return Plan(directory, sizes, set(parsed)), orphans


def _size(files: Files, path: str) -> int:
    with OpenFile(files, path) as fd:
        return files.size(fd)


def unflushed_from(bases: list[int], recovery_point: int) -> int:
    """Base offset of the first segment that may not be on disk: the recovery point's."""
    return max((base for base in bases if base <= recovery_point), default=0)


def _scan_segments(
    files: Files,
    plan: Plan,
    recovery_point: int | None,
    config: LogConfig,
    mode: str,
    on_progress: OnProgress | None,
    gaps: GapReasons,
) -> None:
    """Scan what must be scanned; raise RecoveryNeededError for corruption that must not be cut."""
    bases = sorted(plan.sizes)
    if recovery_point is not None:
        first = unflushed_from(bases, recovery_point)
    for slot, base in enumerate(bases):
        path = join(plan.directory, filenames.log_name(base))
        following = bases[slot + 1] if slot + 1 < len(bases) else None
        if recovery_point is None or base < first:
            thorough = recovery_point is not None
            if following is None and _has_never_held_records(plan, base):
                continue
            _scan_for_indexes(files, plan, base, config, mode, every_entry=thorough)
            if base in plan.scans and following is not None:
                _check_overlap(path, plan.scans[base], following)
                _note_gap(plan, plan.scans[base], following, config, gaps)
            continue
        plan.scans[base] = scan = scan_segment(files, path, base, config, on_progress)
        if scan.status == 0:
            if following is not None:
                _check_overlap(path, scan, following)
                _note_gap(plan, scan, following, config, gaps)
            continue
        later = bases[slot + 1 :]
        if mode != "kafka":
            _check_cut(files, plan, path, scan, recovery_point, later)
        plan.torn = base
        plan.dropped = later
        return
    _check_empty_end(files, plan, bases, config)


def _check_empty_end(files: Files, plan: Plan, bases: list[int], config: LogConfig) -> None:
    """Raise if an empty last segment begins below the end of the one before it.

    Its appends would reuse offsets, and its base would hide the records that have
    them. Kafka appends there. Where both segments hold data a reader reports the overlap, and
    appends do no harm.
    """
    filled = [base for base in bases if plan.sizes[base]]
    if not filled or filled[-1] == bases[-1] or filled[-1] in plan.scans:
        return
    path = join(plan.directory, filenames.log_name(filled[-1]))
    view = SegmentView(filled[-1], path)
    load_indexes(files, plan.directory, view)
    if walk_end(files, view, plan.sizes[filled[-1]])[1] > bases[-1]:
        # An index may be wrong: scan the log.
        _check_overlap(path, scan_segment(files, path, filled[-1], config), bases[-1])


def _has_never_held_records(plan: Plan, base: int) -> bool:
    """Whether an empty last segment lacks its indexes: the first append creates them."""
    names = (filenames.index_name(base), filenames.time_index_name(base))
    return plan.sizes[base] == 0 and not plan.names.intersection(names)


def _scan_for_indexes(
    files: Files, plan: Plan, base: int, config: LogConfig, mode: str, *, every_entry: bool
) -> None:
    """Scan a segment that is known to be on disk if its indexes cannot be trusted.

    Corruption in it is not cut. Without a usable offset index it keeps the log from opening, as no
    lookup could pass it. Kafka (LogLoader.loadSegmentFiles, LogSegment.recover) cuts a segment
    whose offset index is missing at its first bad batch, and leaves the later ones: a gap.
    """
    size = plan.sizes[base]
    fault = find_index_fault(files, plan.directory, base, size, plan.names, every_entry=every_entry)
    if fault is None:
        return
    path = join(plan.directory, filenames.log_name(base))
    scan = scan_segment(files, path, base, config)
    if scan.status == 0:
        plan.scans[base] = scan
        plan.faults.setdefault(fault.sentence, []).append(fault.name)
    elif mode == "kafka" and filenames.index_name(base) not in plan.names:
        plan.scans[base] = scan
        plan.gapped.append(base)
        plan.notes.append(
            f"{fault.name} {fault.sentence}, and {basename(path)} is corrupt at position "
            f"{scan.valid_size} ({reason(scan.status)}): cut there, "
            f"{scan.file_size - scan.valid_size:,} bytes; later segments stay"
        )
    elif fault.vital:
        raise _needed(path, scan, "below the recovery point, so it was on disk before")
    else:
        plan.notes.append(
            f"{fault.name} {fault.sentence} and is not rebuilt: {basename(path)} is corrupt at "
            f"position {scan.valid_size} ({reason(scan.status)}), below the recovery point"
        )


def _check_cut(
    files: Files,
    plan: Plan,
    path: str,
    scan: SegmentScan,
    recovery_point: int | None,
    later: list[int],
) -> None:
    on_disk_to = 0 if recovery_point is None else recovery_point
    if scan.next_offset < on_disk_to or _cuts_valid_batch(files, path, scan, on_disk_to):
        raise _needed(path, scan, "below the recovery point, so it was on disk before")
    if any(plan.sizes[base] > 0 for base in later):
        raise _needed(path, scan, "before later segments that hold data")


def _cuts_valid_batch(files: Files, path: str, scan: SegmentScan, recovery_point: int) -> bool:
    """Whether the scan stopped at a valid batch, because the base offset before it is corrupt.

    No checksum covers base offsets. One that is too large puts the end of the scan above the
    recovery point, and the batch behind it out of order: its offset lies in the gap in front of
    the corrupt one.
    """
    gap_start, gap_end = scan.last_gap
    if status_name(scan.status) != "BAD_OFFSET" or gap_start >= recovery_point:
        return False
    with OpenFile(files, path) as fd:
        header = files.pread(fd, batch_fields.V2_HEADER_SIZE, scan.valid_size)
        size = min(batch_fields.declared_size(header), scan.file_size - scan.valid_size)
        batch = scan_batches(files.pread(fd, size, scan.valid_size))
    if len(batch) != 1 or batch.crc_state[0] != 1:
        return False
    return gap_start <= batch.base_offset[0] < gap_end


def _check_overlap(path: str, scan: SegmentScan, following: int) -> None:
    if scan.next_offset > following:
        name = filenames.log_name(following)
        raise RecoveryNeededError(
            f"the segment continues to offset {scan.next_offset}, but the next one begins at "
            f"{following}: one of the two does not belong to this log. Remove {name} "
            "if it is empty, else restore the files; mode='r' reads the records, and "
            "`kstore repair` writes a valid copy",
            path=path,
            position=scan.valid_size,
            offset=scan.next_offset,
        )


def _note_lost(files: Files, plan: Plan, log_start: int, stop: StopState) -> list[LostRange]:
    """Find lost segments, and record them on disk before their last signs are removed.

    The report names them at every opening, until retention passes them or the file is removed.
    """
    directory = plan.directory
    known: list[LostRange] = []
    try:
        known = read_lost(files, directory) if filenames.LOST_SEGMENTS in plan.names else []
    except CorruptFileError as error:
        plan.notes.append(str(error))
    found = find_lost_segments(
        files, directory, sorted(plan.names), plan.sizes, log_start=log_start, stop=stop
    )
    lost = clip(merge_lost(known, found), log_start, plan.sizes)
    if lost != known:
        write_lost(files, directory, lost)
    if lost:  # each time: a crash may have come in between
        forget_lost_following(files, directory, sorted(plan.names), plan.sizes, lost)
    plan.notes += [each.describe() for each in lost]
    return lost


def _note_gap(
    plan: Plan,
    scan: SegmentScan,
    following: int,
    config: LogConfig,
    gaps: GapReasons,
) -> None:
    """Report offsets that are missing between segments, above the recovery point.

    A power cut leaves such logs where a rolled segment was not yet synced and the next one was.
    Nothing is cut. Not reported is what the cleaner is known to have left, and gaps in
    ``kstore.gaps``: of a follower's leader, and of what ``repair`` could not save. For a compacted
    log that the cleaner had not finished, this is a remark and no warning.
    """
    first = scan.next_offset
    if first >= following:
        return
    if gaps.is_explained(scan.base_offset, scan.valid_size, first, following):
        return
    gap = (
        f"{filenames.log_name(scan.base_offset)} ends before offset {scan.next_offset} and "
        f"the next segment begins at {following}"
    )
    if "compact" in config.cleanup_policy:
        plan.remarks.append(f"{gap}: compaction removed the records between, or they are lost")
    else:
        plan.notes.append(f"{gap}: records between them may be lost")


def _needed(path: str, scan: SegmentScan, where: str) -> RecoveryNeededError:
    return RecoveryNeededError(
        f"{reason(scan.status)}; the corruption is {where}, where kstore never cuts by itself: "
        "skip it with mode='r', restore the file, or let it be cut as Kafka does, with "
        "StoreConfig(recovery='kafka'), which keeps the cut bytes",
        path=path,
        position=scan.valid_size,
        offset=scan.next_offset,
    )
