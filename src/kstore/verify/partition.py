"""A read-only audit of one partition directory: every checksum, record, offset and index entry.

It changes nothing and takes no lock, so it runs beside a writer. An incomplete batch at the
end of the last segment is an append in progress, not corruption. Bytes behind a publication's
barrier are checked like all others, and counted separately. While a writer has the directory open,
what looks wrong is checked again, with pauses; after an unclean stop, what recovery rebuilds is not
corruption either. For lost records see :mod:`kstore.verify.losses`.
"""

import errno
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from kstore.checkpoint.known_gaps import Range, read_known_gaps
from kstore.checkpoint.leader_epochs import LeaderEpochs
from kstore.checkpoint.quarantine import list_quarantined
from kstore.errors import CorruptFileError, CorruptRecordError, NewerFormatError, StorageError
from kstore.files import filenames
from kstore.files.filenames import FENCE, LEADER_EPOCHS, LOG, SEGMENT_KINDS
from kstore.files.files import Files
from kstore.files.publish_barrier import read_barrier
from kstore.files.stable_listing import list_stable
from kstore.hints.kafka_names import OF_REPORTS
from kstore.hints.missing_names import answer_names
from kstore.integers import INT32_MAX, check_integer, count_of
from kstore.recovery.lost_segments import LostRange, read_lost
from kstore.recovery.recover_partition import unflushed_from
from kstore.verify.log_dir_state import StateReader
from kstore.verify.losses import (
    MISSING,
    Layout,
    Loss,
    SegmentEnd,
    find_losses,
    find_orphans,
)
from kstore.verify.segment import NO_INDEX, SegmentAudit
from kstore.verify.transactions import SNAPSHOT, TRANSACTIONS, TransactionAudit

WINDOW = 1 << 20  # bytes read at a time; stays in a core's cache between two passes
MAX_FINDINGS = 1000  # kept of one partition; all are counted
LOOKS = 5  # further checks of what may be in flight: about 0.3 s with the pauses between them

# Kinds of derived files: a writer may be about to write them, and recovery rebuilds them.
_OF_TRANSACTIONS = frozenset({TRANSACTIONS, SNAPSHOT})
_DERIVED = _OF_TRANSACTIONS | {"index", "time index", "epochs"}

Progress = Callable[[int, int], None]  # bytes done, bytes in total


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault: ``kind`` is structure, batch, offsets, seal, index, time index,
    epochs, transaction index, snapshot, publication, missing (records are lost), checkpoint or
    record (of ``__consumer_offsets``); ``position`` is a byte in ``path``."""

    kind: str
    path: str
    position: int | None
    offset: int | None
    sentence: str


@dataclass(slots=True)
class VerifyReport:
    """The result of an audit. Final once it is returned.

    ``findings`` are certain corruption or loss. ``warnings`` are possible losses: nothing on disk
    decides. ``in_flight`` still looked wrong after several checks while a writer, which may be
    about to write it, had the directory open. ``recovery_due`` is what the next process that opens
    the directory for writing rebuilds from the log, after an unclean stop.
    """

    segments: int = 0
    batches: int = 0
    bytes: int = 0  # of log files
    not_yet_there: int = 0  # bytes of an incomplete batch at the end of the last segment
    unpublished: int = 0  # bytes behind a publication's barrier, which readers do not show
    unsealed_segments: int = 0  # without valid header checksums; the last one never has any
    unsealed_batches: int = 0  # their offset, size and leader epoch are only cross-checked
    finding_count: int = 0
    findings: list[Finding] = field(default_factory=list)  # at most MAX_FINDINGS of each list
    warning_count: int = 0
    warnings: list[Finding] = field(default_factory=list)
    in_flight: list[Finding] = field(default_factory=list)
    recovery_due: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is certainly wrong; there may be warnings."""
        return self.finding_count == 0

    def __str__(self) -> str:
        """The verdict, and a line for each finding and warning, as `kstore verify` prints."""
        from kstore.verify.report_lines import finding_lines, state_of

        what = f"{count_of(self.segments, 'segment')}, {count_of(self.batches, 'batch', 'es')}"
        return "\n".join([f"{state_of(self)}: {what}, {self.bytes:,} bytes", *finding_lines(self)])

    def raise_if_corrupt(self) -> None:
        """Raise CorruptRecordError for the first finding, if any. Not for warnings."""
        if self.findings:
            first = self.findings[0]
            more = f" (and {self.finding_count - 1} more)" if self.finding_count > 1 else ""
            raise CorruptRecordError(
                first.sentence + more,
                path=first.path,
                position=first.position,
                offset=first.offset,
            )

    def add(
        self,
        kind: str,
        path: str | os.PathLike[str],
        position: int | None,
        offset: int | None,
        sentence: str,
    ) -> None:
        self.finding_count += 1
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(kind, os.fspath(path), position, offset, sentence))

    def warn(self, finding: Finding) -> None:
        self.warning_count += 1
        if len(self.warnings) < MAX_FINDINGS:
            self.warnings.append(finding)

    def soften(self, sentence: str) -> None:
        """Turn the findings of a sentence into warnings: nothing is wrong, but it is not right."""
        for finding in [each for each in self.findings if each.sentence == sentence]:
            self.findings.remove(finding)
            self.finding_count -= 1
            self.warn(finding)

    def merge(self, other: "VerifyReport", most: int) -> None:
        """Add the report on other segments; at most so many of each list."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("findings", "warnings", "in_flight", "recovery_due"):
            mine = getattr(self, name)
            mine.extend(getattr(other, name)[: most - len(mine)])


answer_names(VerifyReport, OF_REPORTS)


_COUNTS = (
    "segments", "batches", "bytes", "not_yet_there", "unpublished", "unsealed_segments",
    "unsealed_batches", "finding_count", "warning_count",
)  # fmt: skip


def wait(look: int) -> None:
    """The pause before another check: 10 ms, then twice as long each time."""
    time.sleep(0.01 * 2**look)


def add_losses(
    report: VerifyReport, layout: Layout, losses: list[Loss], in_flight_from: int | None = None
) -> None:
    """Add losses to the report, and checkpoints that cannot be used.

    From the base offset ``in_flight_from`` on a writer may be about to change the segments.
    """
    for loss in losses:
        finding = Finding(MISSING, loss.path, loss.position, loss.offset, loss.sentence)
        moves = in_flight_from is not None and loss.base_offset >= in_flight_from
        if moves and loss.is_certain and not loss.is_end:
            report.in_flight.append(finding)
        elif loss.is_certain:
            report.add(MISSING, loss.path, loss.position, loss.offset, loss.sentence)
        else:
            report.warn(finding)
    for path, why in layout.unreadable:
        report.warn(Finding("checkpoint", path, None, None, f"cannot be used: {why}"))


def verify_partition(
    files: Files,
    directory: str | os.PathLike[str],
    *,
    threads: int = 1,
    map_sealed: bool = True,
    progress: Progress | None = None,
    states: StateReader | None = None,
    pause: Callable[[int], None] = wait,
) -> VerifyReport:
    """Check every byte of a partition that has a meaning, and whether records are lost.

    Parameters
    ----------
    threads
        How many check checksums and decode in parallel; the calling one only walks headers.
    map_sealed
        Map all segments but the last. False where the owner of the directory may truncate any
        file in place (a running Kafka broker): then everything is read.
    progress
        Called at intervals with the bytes done and the bytes in total.
    states
        Reads the checkpoints of the log directory; one for many partitions parses them once.
    pause
        Called before each further check of what may be in flight, with its number; at
        most LOOKS times for a segment, and only while another process has the directory open.

    Memory: a few windows of 4 MiB, or one batch where it is larger. Safe from several threads.
    """
    audit = Audit(files, Path(directory), threads, map_sealed, progress, states=states, pause=pause)
    audit.run()
    return audit.conclude()


class Audit(SegmentAudit):
    """One audit, of all segments of a partition or of some adjacent ones."""

    def __init__(
        self,
        files: Files,
        directory: Path,
        threads: int,
        map_sealed: bool,
        progress: Progress | None,
        start: int | None = None,
        stop: int | None = None,
        opened: Mapping[int, int] | None = None,
        *,
        states: StateReader | None = None,
        pause: Callable[[int], None] = wait,
        looks: int = LOOKS,
    ) -> None:
        """``start`` and ``stop``: only segments from this base offset on, and below that one.

        ``opened`` are then the transactions that are open at its start.
        """
        self.files = files
        self.directory = directory
        self.threads = check_integer("threads", threads, 1, INT32_MAX)
        self.map_sealed = map_sealed
        self.progress = progress
        self.start, self.stop, self.opened = start, stop, opened
        self.states = StateReader(files) if states is None else states
        self.pause, self.looks = pause, looks
        self.window = WINDOW
        self.first_base: int | None = None
        self.end_offset = 0
        self.is_certain = True  # nothing before it was skipped
        self.ends: list[SegmentEnd] = []
        self.report = VerifyReport()
        self.epochs: LeaderEpochs | None = None
        self.has_epochs = False
        self.total = self.done = 0  # bytes
        self.absent: set[int] = set()

    def run(self) -> VerifyReport:
        """Audit the segments; the report does not include losses yet."""
        self.state = self.states.read(self.directory)  # before the files are listed
        self.was_open = self.states.is_open(self.state)
        self._list(self.states.list_names(self.directory))
        chosen = [
            base
            for base in self.bases
            if (self.start is None or base >= self.start)
            and (self.stop is None or base < self.stop)
        ]
        self.first_base = chosen[0] if chosen else None
        self._load_epochs(self.names)
        self.total = sum(self._size_of(base) for base in chosen)
        self.transactions = TransactionAudit(
            self.files, self.directory, self.names, self._add, self.opened, self.is_certain
        )
        with ExitStack() as stack:
            pool = None
            if self.threads > 1:
                pool = stack.enter_context(ThreadPoolExecutor(self.threads))
            for base in chosen:
                self._visit(base, pool)
        if self.stop is None and FENCE in self.names:
            self._note_fence(self.bases)
        if self.start is None and self.has_epochs:
            self._check_epochs_exist()
        return self.report

    def _list(self, names: list[str]) -> None:
        self.names = names
        parsed = map(filenames.parse, self.names)
        self.bases = sorted(
            found.base_offset
            for found in parsed
            if found is not None and found.kind == LOG and not found.suffix
        )

    def _add(
        self, kind: str, path: Path, position: int | None, offset: int | None, sentence: str
    ) -> None:
        self.report.add(kind, path, position, offset, sentence)

    def _size_of(self, base: int) -> int:
        found = self.files.identity_of(self._path(base))
        return 0 if found is None else found[1]

    # --- checking again ------------------------------------------------------------------------

    def _visit(self, base: int, pool: ThreadPoolExecutor | None) -> None:
        """Audit a segment; again where it looks wrong and a writer has the directory open."""
        transactions = self.transactions
        opened = transactions.opened if transactions.is_begun else None
        certain, before = transactions.certain, self.end_offset
        complete, self.report = self.report, VerifyReport()
        try:
            end = self._segment(base, base == self.bases[-1], pool)
        finally:
            found, self.report = self.report, complete
        if end is None:  # retention or compaction removed it
            transactions.damaged()
            return
        if found.findings and self.looks:
            self._check_again(base, found, opened, certain, before)
            found.soften(NO_INDEX)
        self.report.merge(found, MAX_FINDINGS)
        self.ends.append(end)
        self.end_offset = end.next_offset

    def _another(self, base: int) -> "Audit":
        """An audit of one segment, with its own listing."""
        return Audit(
            self.files, self.directory, 1, self.map_sealed, None, base, base + 1, {},
            states=self.states, looks=0,
        )  # fmt: skip

    def _check_again(
        self,
        base: int,
        found: VerifyReport,
        opened: Mapping[int, int] | None,
        certain: bool,
        before: int,
    ) -> None:
        """Replace the findings of a segment by those of several further audits of it."""
        newest, has_changed = self.bases[-2:], False
        if self.was_open or self._is_open():
            stamps = self._stamps(base)
            for look in range(self.looks):
                self.pause(look)
                another = self._another(base)
                another.opened, another.is_certain, another.end_offset = opened, certain, before
                seen = another.run()
                was, stamps = stamps, self._stamps(base)
                is_same, has_changed = seen.findings == found.findings, was != stamps
                found.findings, found.finding_count = seen.findings, seen.finding_count
                newest = another.bases[-2:]
                if not found.findings or (is_same and not has_changed and base < newest[0]):
                    break
        self._sort(base, found, newest[0], has_changed)

    def _stamps(self, base: int) -> list[tuple[int, int] | None]:
        paths = (self.directory / filenames.file_name(base, kind) for kind in SEGMENT_KINDS)
        return [self.files.identity_of(path) for path in paths]

    def _is_open(self) -> bool:
        return self.states.is_open(self.state)

    def _sort(self, base: int, found: VerifyReport, newest: int, has_changed: bool) -> None:
        """Separate the findings of a segment: in flight, fixed by recovery, or corruption."""
        if self.state is None or not found.findings:
            return
        is_open = self._is_open()
        marker = os.path.join(self.state.directory, filenames.CLEAN_SHUTDOWN)
        is_unclean = not is_open and not self.state.is_clean and not self.files.exists(marker)
        due_from = unflushed_from(self.bases, self.state.recovery_point)
        damage = []
        for finding in found.findings:
            parsed = filenames.parse(os.path.basename(finding.path))
            at = base if parsed is None else max(base, parsed.base_offset)
            moves = has_changed or at >= newest
            if finding.kind not in _DERIVED:
                damage.append(finding)
            elif is_open and (moves or (finding.kind in _OF_TRANSACTIONS and self._was_replaced())):
                found.in_flight.append(finding)
            elif is_unclean and at >= due_from:
                found.recovery_due.append(finding)
            else:
                damage.append(finding)
        found.finding_count -= len(found.findings) - len(damage)
        found.findings = damage

    def _was_replaced(self) -> bool:
        """Whether a walked file was replaced by another one: the log was compacted."""
        return any(
            (self.files.identity_of(self._path(end.base_offset)) or (0,))[0] != end.inode
            for end in self.ends
        )

    # --- the partition -------------------------------------------------------------------------

    def layout(self) -> Layout:
        """The facts about all segments, by the audit and the last listing."""
        unreadable = () if self.state is None else self.state.unreadable
        known_gaps: list[Range] = []
        lost: list[LostRange] = []
        try:
            known_gaps = read_known_gaps(self.files, self.directory)
            lost = read_lost(self.files, self.directory)
        except (CorruptFileError, NewerFormatError) as error:
            unreadable = (*unreadable, (str(error.path), error.reason))
        return Layout(
            str(self.directory),
            self.state,
            tuple(self.ends),
            find_orphans(self.names),
            list_quarantined(self.names),
            tuple(known_gaps),
            tuple(lost),
            unreadable,
        )

    def conclude(self) -> VerifyReport:
        """Add losses to the report of an audit of all segments.

        Raises StorageError if a segment left the log and came back, so that the report lacks it.
        """
        for base in self.absent:
            if self.files.exists(self._path(base)):
                path = self._path(base)
                raise StorageError("the file was absent meanwhile", errno=errno.ENOENT, path=path)
        layout = self.layout()
        losses = find_losses(layout)
        for look in range(self.looks):
            if not losses or not self._may_change():
                break
            self.pause(look)
            self._audit_ends()
            layout = self.layout()
            losses = find_losses(layout)
        newest = self.bases[-2:] or [0]
        add_losses(self.report, layout, losses, newest[0] if self._is_open() else None)
        return self.report

    def _may_change(self) -> bool:
        """Whether another process has the directory open, or has had it open since the start."""
        if self.state is None:
            return False
        marker = os.path.join(self.state.directory, filenames.CLEAN_SHUTDOWN)
        return self.was_open or self._is_open() or self.state.is_clean != self.files.exists(marker)

    def _audit_ends(self) -> None:
        """List the segments again, and audit those that are new or may have grown."""
        self.state = self.states.read(self.directory)
        self._list(list_stable(self.files, self.directory))
        known = {end.base_offset: end for end in self.ends}
        self.ends = []
        for base in self.bases:
            end = known.get(base)
            now = self.files.identity_of(self._path(base))
            if (
                end is not None
                and now is not None
                and now[0] == end.inode
                and (base != self.bases[-1])
            ):
                self.ends.append(end)
                continue
            another = self._another(base)
            another.run()
            self.ends += another.ends

    def _note_fence(self, bases: list[int]) -> None:
        """Count what a publication in progress has written so far."""
        try:
            fence = read_barrier(self.files, str(self.directory))
        except (CorruptFileError, NewerFormatError) as error:
            self.report.add("publication", self.directory / FENCE, None, None, error.reason)
            return
        if fence is not None:
            paths = [self._path(base) for base in bases if base >= fence.segment]
            behind = sum(map(self.files.size_of, paths)) - fence.position
            self.report.unpublished = max(0, behind - self.report.not_yet_there)

    def _load_epochs(self, names: list[str]) -> None:
        path = self.directory / LEADER_EPOCHS
        if LEADER_EPOCHS in names:
            try:
                self.epochs = LeaderEpochs.load(self.files, path)
            except CorruptFileError as error:
                if self.start is None:
                    self.report.add("epochs", path, None, None, error.reason)

    def _check_epochs_exist(self) -> None:
        """Warn if the file is missing: the next writer rebuilds it, and Kafka takes it as empty.

        No finding: a writer of messages v0 or v1 removes the file, and batches v2 may remain.
        """
        path = self.directory / LEADER_EPOCHS
        if LEADER_EPOCHS not in self.names and not self.files.exists(path):
            sentence = f"{LEADER_EPOCHS} is missing, but batches have leader epochs"
            self.report.warn(Finding("epochs", str(path), None, None, sentence))
