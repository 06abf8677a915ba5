"""The changes of a recovery on disk: truncates, quarantines, rewrites indexes and epochs.

Recovery deletes nothing that was in a log: bytes that leave it are first made durable beside it,
as ``kstore.cut.*``. The next recovery repeats any step that was interrupted.
"""

import os
from dataclasses import field
from os.path import join

from kstore._native.format import batch_fields
from kstore._native.recovery.segment_scan import SegmentScan
from kstore.checkpoint.leader_epochs import EpochEntry, LeaderEpochs
from kstore.checkpoint.quarantine import free_name, keep_unreadable
from kstore.config import LogConfig
from kstore.errors import CorruptFileError
from kstore.files import filenames
from kstore.files.filenames import (
    LEADER_EPOCHS,
    LOG,
    SNAPSHOT,
    TEMPORARY_SUFFIX,
)
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.lazy_dataclass import lazy_dataclass
from kstore.recovery.torn_tail import cut_tail
from kstore.segment import transaction_index
from kstore.segment.scan import scan_segment
from kstore.segment.transaction_index import ENTRY_SIZE


@lazy_dataclass()
class Plan:
    """What was found before any segment is changed, and then what was done."""

    directory: str
    sizes: dict[int, int]  # base offset to size of the log file
    names: set[str] = field(default_factory=set)  # of everything in the directory
    scans: dict[int, SegmentScan] = field(default_factory=dict)
    dropped: list[int] = field(default_factory=list)  # segments behind a torn one
    torn: int | None = None  # base offset of the segment to truncate, which becomes the last one
    gapped: list[int] = field(default_factory=list)  # to truncate; later segments stay
    sync: bool = True
    faults: dict[str, list[str]] = field(default_factory=dict)  # sentence: files it applies to
    notes: list[str] = field(default_factory=list)  # sentences about faults
    remarks: list[str] = field(default_factory=list)  # sentences about possible faults
    kept_in: str | None = None  # path of the file with the cut bytes
    kept: list[str] = field(default_factory=list)  # names of quarantined files
    rebuilt: list[str] = field(default_factory=list)  # names of rebuilt side files

    @property
    def to_cut(self) -> set[int]:
        """Base offsets of the segments that lose their end."""
        return {*self.gapped, *([] if self.torn is None else [self.torn])}

    @property
    def end_offset(self) -> int | None:
        """The new log end; None if it does not change.

        A segment in ``gapped`` loses its end, and the log does not.
        """
        return None if self.torn is None else self.scans[self.torn].next_offset


def quarantine_segments(files: Files, plan: Plan) -> list[str]:
    """Quarantine the segments after the truncated one; returns the names that are gone.

    A log file with bytes is renamed to ``kstore.cut.*``; empty ones and side files are removed.
    """
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
            aside = free_name(plan.names, found.base_offset, 0)
            plan.names.add(aside)
            files.rename(join(plan.directory, name), join(plan.directory, aside))
            plan.kept.append(aside)
        else:
            files.remove(join(plan.directory, name))
    return gone


def apply(files: Files, plan: Plan) -> None:
    """Truncate the torn and the gapped segments, and write the indexes of all scanned segments.

    Also removes transaction index entries and producer snapshots of the truncated records.
    """
    to_cut = plan.to_cut
    last = max(plan.sizes, default=-1)
    for base, scan in plan.scans.items():
        names = [filenames.index_name(base), filenames.time_index_name(base)]
        if base in to_cut:
            kept = cut_tail(
                files, plan.directory, scan, plan.names, is_last=base == last, sync=plan.sync
            )
            if kept is not None:
                plan.kept_in = join(plan.directory, kept)
                plan.kept.append(kept)
        for name, data in zip(names, (scan.index, scan.time_index), strict=True):
            if _replace(files, join(plan.directory, name), data, plan.sync):
                plan.rebuilt.append(name)
        if base in to_cut:
            _cut_transactions(files, plan, base, scan.next_offset)
    if plan.end_offset is not None:
        _cut_snapshots(files, plan, plan.end_offset)


def _replace(files: Files, path: str, data: bytes, sync: bool) -> bool:
    """Write an index under a temporary name and rename it: readers may have the old one mapped."""
    if files.exists(path) and files.size_of(path) == len(data) and files.read(path) == data:
        return False
    temporary = f"{path}{TEMPORARY_SUFFIX}"
    with OpenFile(files, temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND) as fd:
        files.write(fd, data)
        if sync:
            files.fsync(fd)
    files.rename(temporary, path)
    return True


def _cut_transactions(files: Files, plan: Plan, base: int, end_offset: int) -> None:
    """Remove aborted transactions of a segment that end behind the truncation."""
    path = join(plan.directory, filenames.transaction_index_name(base))
    if not files.exists(path):
        return
    entries, fault = transaction_index.load(files, path)
    kept = [entry for entry in entries if entry.last_offset < end_offset]
    if fault is not None and len(kept) == len(entries):
        files.remove(path)  # rebuilt from the markers, as a lost one is
    elif files.size_of(path) != len(kept) * ENTRY_SIZE:
        files.write_atomically(path, transaction_index.encode(kept))


def _cut_snapshots(files: Files, plan: Plan, end_offset: int) -> None:
    """Remove producer snapshots behind the log's end."""
    for name in files.listdir(plan.directory):
        found = filenames.parse(name)
        if found is not None and found.kind == SNAPSHOT and found.base_offset > end_offset:
            files.remove(join(plan.directory, name))


# --- leader epochs ---------------------------------------------------------------------------


def recover_epochs(
    files: Files, plan: Plan, config: LogConfig
) -> tuple[LeaderEpochs, EpochEntry | None]:
    """The epochs of the file and of the scans, without those after a truncation; and the latest
    epoch that the last writer left in the file.

    A file that is missing or does not parse is rebuilt from the batches: Kafka treats a
    missing one as empty, and does not start on one that does not parse. The unreadable
    one is quarantined.
    """
    path = join(plan.directory, LEADER_EPOCHS)
    exists = LEADER_EPOCHS in plan.names
    lost = not exists and any(plan.sizes.values())
    try:
        epochs = LeaderEpochs.parse(files.read(path), path) if exists else LeaderEpochs()
    except CorruptFileError as error:
        epochs = LeaderEpochs()
        lost = True
        plan.notes.append(f"{LEADER_EPOCHS} does not parse ({error.reason})")
        plan.kept.append(keep_unreadable(files, plan.directory, LEADER_EPOCHS))
    before, changed = epochs.latest, lost
    for epoch, start_offset in _epochs_in_log(files, plan, config, entire=lost):
        if epochs.latest is None or epoch > epochs.latest.epoch:
            changed |= epochs.assign(epoch, start_offset)
    if plan.end_offset is not None:
        changed |= epochs.truncate_from_end(plan.end_offset + 1)
    if changed:
        epochs.save(files, path)
        plan.rebuilt.append(LEADER_EPOCHS)
        if lost and len(epochs):
            plan.notes.append(f"{LEADER_EPOCHS} was lost and rebuilt from the batches")
    return epochs, before


def _epochs_in_log(
    files: Files, plan: Plan, config: LogConfig, *, entire: bool
) -> list[tuple[int, int]]:
    """(epoch, offset) where epochs may begin: in the scanned segments, or in the entire log.

    Epochs never decrease, so a segment that begins with the same epoch as the next one has no
    other: of such a segment only the first batch is read.
    """
    bases = [base for base in sorted(plan.sizes) if base not in plan.dropped]
    if not entire:
        return [entry for base in bases if base in plan.scans for entry in plan.scans[base].epochs]
    firsts = [_first_epoch(files, plan, base) for base in bases]
    found: list[tuple[int, int]] = []
    for slot, base in enumerate(bases):
        if slot + 1 < len(bases) and firsts[slot][0] == firsts[slot + 1][0]:
            found += [firsts[slot]] if firsts[slot][0] >= 0 else []
            continue
        scan = plan.scans.get(base)
        if scan is None:
            path = join(plan.directory, filenames.log_name(base))
            scan = scan_segment(files, path, base, config)
        found += scan.epochs
    return found


def _first_epoch(files: Files, plan: Plan, base: int) -> tuple[int, int]:
    """(leader epoch, base offset) of a segment's first batch; -1 before v2, or without one."""
    with OpenFile(files, join(plan.directory, filenames.log_name(base))) as fd:
        header = files.pread(fd, batch_fields.HEADER_UP_TO_MAGIC, 0)
    if len(header) < batch_fields.HEADER_UP_TO_MAGIC or batch_fields.magic(header) != 2:
        return -1, base
    return batch_fields.leader_epoch(header), batch_fields.base_offset(header)
