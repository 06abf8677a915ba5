"""A read-only audit of one partition directory: every checksum, record, offset and index entry.

Nothing is changed and no lock is taken, so it runs beside a writer. An incomplete batch at the
end of the last segment is not damage: it is not yet there. What lies behind a publication's fence
is looked at as all else, and counted by itself.
"""

import os
import sys
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from kstore._native.audit import BatchAudit
from kstore._native.decode import Scanner
from kstore._native.index import OffsetIndex, TimeIndex
from kstore._native.seal import SealCheck
from kstore._native.status import reason
from kstore.errors import CorruptFileError, CorruptRecordError, NewerFormatError
from kstore.log import filenames, seal
from kstore.log.fence import FENCE, read_fence
from kstore.log.filenames import INDEX, LEADER_EPOCHS, LOG, TIME_INDEX
from kstore.log.files import Files
from kstore.log.leader_epochs import LeaderEpochs
from kstore.log.segment import declared_size
from kstore.log.verify_transactions import TransactionAudit
from kstore.record import codec

_HEAD = 12  # bytes of a batch up to behind its size
WINDOW = 1 << 20  # bytes looked at in one go; stays in a core's cache between two looks
LARGEST_CHUNK = 1 << 23  # without an index's help more is looked at piece by piece
MAX_FINDINGS = 1000  # kept of one partition; all are counted

# What the kernel calls it: kind of finding, kind of file, sentence.
_EVENTS = {
    "offsets": ("offsets", LOG, "the batch's offsets are out of order or outside the segment"),
    "index position": ("index", INDEX, "the index entry does not point to the start of a batch"),
    "index offset": (
        "index",
        INDEX,
        "offsets at or above the index entry's lie in front of its position",
    ),
    "time index": (
        "time index",
        TIME_INDEX,
        "a record up to this offset is newer than the time index entry says",
    ),
}

Progress = Callable[[int, int], None]  # bytes done, bytes in all
_Bad = tuple[int, int, int, str]  # position, size, offset, sentence


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: ``kind`` is structure, batch, offsets, seal, index, time index,
    epochs, transaction index, snapshot or publication; ``position`` is a byte in ``path``."""

    kind: str
    path: str
    position: int | None
    offset: int | None
    sentence: str


@dataclass(slots=True)
class VerifyReport:
    """What an audit saw. ``ok`` means that nothing is wrong. Nobody changes it once it is given."""

    segments: int = 0
    batches: int = 0
    bytes: int = 0  # of log files
    not_yet_there: int = 0  # bytes of an incomplete batch at the end of the last segment
    unpublished: int = 0  # bytes behind a publication's fence: readers do not show them
    unsealed_segments: int = 0  # without a seal that fits; the last one never has one
    unsealed_batches: int = 0  # offset, size and leader epoch of these are cross-checked only
    finding_count: int = 0
    findings: list[Finding] = field(default_factory=list)  # at most MAX_FINDINGS of them

    @property
    def ok(self) -> bool:
        return self.finding_count == 0

    def raise_if_corrupt(self) -> None:
        """Raise CorruptRecordError for the first finding, if there is one."""
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
        path: Path,
        position: int | None,
        offset: int | None,
        sentence: str,
    ) -> None:
        self.finding_count += 1
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(kind, str(path), position, offset, sentence))


def verify_partition(
    files: Files,
    directory: str | os.PathLike[str],
    *,
    threads: int = 1,
    map_sealed: bool = True,
    progress: Progress | None = None,
) -> VerifyReport:
    """Check every byte of a partition that has a meaning.

    Parameters
    ----------
    threads
        How many checksum and decode at the same time; the calling one only walks headers.
    map_sealed
        Map all segments but the last. To be False where the owner of the directory may cut any
        file in place (a running Kafka broker): then everything is read.
    progress
        Called now and then with the bytes done and the bytes in all.

    Memory: a few windows of 4 MiB, or one batch where it is larger. Safe from several threads.
    """
    return Audit(files, Path(directory), threads, map_sealed, progress).run()


def check_order(report: VerifyReport, path: Path, base: int, previous_end: int) -> None:
    """Tell of a segment that begins below the end of the one before it."""
    if base < previous_end:
        report.add(
            "offsets",
            path,
            0,
            base,
            f"the segment begins below offset {previous_end}, where the one before it ends",
        )


class Audit:
    """One audit, of all segments of a partition or some that follow one another."""

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
    ) -> None:
        """``start`` and ``stop``: only segments from this base offset on, and below that one.

        ``opened`` are then the transactions that are open where these begin.
        """
        if threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        self.files = files
        self.directory = directory
        self.threads = threads
        self.map_sealed = map_sealed
        self.progress = progress
        self.start, self.stop, self.opened = start, stop, opened
        self.first_base: int | None = None
        self.end_offset = 0
        self.report = VerifyReport()
        self.epochs: LeaderEpochs | None = None
        self.total = 0

    def run(self) -> VerifyReport:
        names = self.files.listdir(self.directory)
        parsed = [filenames.parse(name) for name in names]
        bases = sorted(
            found.base_offset
            for found in parsed
            if found is not None and found.kind == LOG and not found.suffix
        )
        chosen = [
            base
            for base in bases
            if (self.start is None or base >= self.start)
            and (self.stop is None or base < self.stop)
        ]
        self.first_base = chosen[0] if chosen else None
        self._load_epochs(names)
        with ExitStack() as stack:
            opened = {}
            for base in chosen:
                fd = self.files.open(self._path(base))
                stack.callback(self.files.close, fd)
                opened[base] = (fd, self.files.size(fd))
            self.total = sum(size for _, size in opened.values())
            pool = None
            if self.threads > 1:
                pool = stack.enter_context(ThreadPoolExecutor(self.threads))
            self.transactions = TransactionAudit(
                self.files, self.directory, names, self.report.add, self.opened
            )
            for base, (fd, size) in opened.items():
                check_order(self.report, self._path(base), base, self.end_offset)
                self.end_offset = self._segment(base, fd, size, base == bases[-1], names, pool)
        if self.stop is None and FENCE in names:
            self._note_fence(bases)
        return self.report

    def _note_fence(self, bases: list[int]) -> None:
        """Count what a publication that is not over has written so far."""
        try:
            fence = read_fence(self.files, str(self.directory))
        except (CorruptFileError, NewerFormatError) as error:
            self.report.add("publication", self.directory / FENCE, None, None, error.reason)
            return
        if fence is not None:
            paths = [self._path(base) for base in bases if base >= fence.segment]
            behind = sum(map(self.files.size_of, paths)) - fence.position
            self.report.unpublished = max(0, behind - self.report.not_yet_there)

    def _path(self, base: int) -> Path:
        return self.directory / filenames.log_name(base)

    def _load_epochs(self, names: list[str]) -> None:
        path = self.directory / LEADER_EPOCHS
        if LEADER_EPOCHS in names:
            try:
                self.epochs = LeaderEpochs.load(self.files, path)
            except CorruptFileError as error:
                if self.start is None:
                    self.report.add("epochs", path, None, None, error.reason)

    # --- one segment --------------------------------------------------------------------------

    def _segment(
        self,
        base: int,
        fd: int,
        size: int,
        last: bool,
        names: list[str],
        pool: ThreadPoolExecutor | None,
    ) -> int:
        """Audit one segment; returns the offset after it."""
        index = self._index(filenames.index_name(base), names, base, size, last)
        times = self._time_index(filenames.time_index_name(base), names, base)
        audit = BatchAudit(base, size, index, times)
        guard = None if last else self._seal(base, fd)
        walk = _Walk(self, base, fd, size, last, audit, guard)
        self.transactions.begin(base)
        done = self.report.bytes
        if pool is None:
            walk.on(size, done)
        else:
            self._in_chunks(walk, pool, _chunks(index, size), done)
        if not walk.cut_short:
            walk.note_events(audit.finish())
        if guard is not None and not walk.cut_short:
            walk.note_seal(guard.finish())
        self.transactions.end(base, audit.last_offset + 1)
        if audit.tail_position >= 0:
            self._note_tail(base, audit, size, last)
        self.report.segments += 1
        self.report.batches += audit.batches
        self.report.bytes += size
        if guard is None:
            self.report.unsealed_segments += 1
            self.report.unsealed_batches += audit.batches
        self._tell(self.report.bytes)
        return audit.last_offset + 1

    def _seal(self, base: int, fd: int) -> SealCheck | None:
        try:
            return seal.load(self.files, self.directory, base, fd)
        except NewerFormatError as error:
            path = self.directory / filenames.seal_name(base)
            self.report.add("seal", path, None, None, error.reason)
            return None

    def _in_chunks(
        self,
        walk: "_Walk",
        pool: ThreadPoolExecutor,
        chunks: list[tuple[int, int]],
        done: int,
    ) -> None:
        """Have chunks read and checked side by side; their headers are walked here, in order.

        Where a chunk begins and ends the index says, or a guess does. If the walk comes to
        another place, what was found in the chunk does not count, and its bytes are looked at
        one after the other.
        """
        jobs: deque[tuple[int, int, Future[tuple[memoryview, list[_Bad]]] | None]] = deque()
        waiting = iter(chunks)
        while True:
            while len(jobs) < 2 * self.threads and (chunk := next(waiting, None)) is not None:
                large = chunk[1] - chunk[0] > LARGEST_CHUNK
                jobs.append((*chunk, None if large else pool.submit(walk.look, *chunk)))
            if not jobs:
                return
            start, end, job = jobs.popleft()
            if job is not None:
                window, damage = job.result()
                taken = walk.take(window) if walk.audit.position == start else 0
                walk.note_damage([bad for bad in damage if bad[0] < start + taken])
                walk.give_back(window)
            walk.on(end, done)

    def _tell(self, done: int) -> None:
        if self.progress is not None:
            self.progress(min(done, self.total), self.total)

    # --- findings -----------------------------------------------------------------------------

    def _note_tail(self, base: int, audit: BatchAudit, size: int, last: bool) -> None:
        if last:
            self.report.not_yet_there += size - audit.tail_position
            return
        self.report.add(
            "structure",
            self._path(base),
            audit.tail_position,
            audit.last_offset + 1,
            "the segment ends within a batch, but there are later segments",
        )

    def _check_epoch(self, base: int, position: int, offset: int, epoch: int) -> None:
        if self.epochs is None or self.epochs.earliest is None:
            return
        known = self.epochs.epoch_for(offset)
        if known not in (-1, epoch):
            self.report.add(
                "epochs",
                self._path(base),
                position,
                offset,
                f"the batch says leader epoch {epoch}, {LEADER_EPOCHS} says {known}",
            )

    # --- indexes ------------------------------------------------------------------------------

    def _index(self, name: str, names: list[str], base: int, log_size: int, last: bool) -> bytes:
        """Used entries of a sound offset index; b"" of an unsound or missing one."""
        if name not in names:
            return b""
        path = self.directory / name
        data = self.files.read(path)
        index = OffsetIndex(data, base)
        # Beside a writer the index may know more of the last segment than its size, read before.
        fault = index.find_fault(None if last else log_size)
        if fault is not None:
            sentence, position, offset = fault
            self.report.add("index", path, position, offset, sentence)
            return b""
        count = index.count
        while last and count > 0 and index[count - 1][1] >= log_size:
            count -= 1
        return data[: 8 * count]

    def _time_index(self, name: str, names: list[str], base: int) -> bytes:
        if name not in names:
            return b""
        path = self.directory / name
        data = self.files.read(path)
        index = TimeIndex(data, base)
        fault = index.find_fault()
        if fault is not None:
            sentence, position, offset = fault
            self.report.add("time index", path, position, offset, sentence)
            return b""
        return data[: 12 * index.count]


class _Walk:
    """One segment on its way: windows of it, walked in order, and what they show."""

    def __init__(
        self,
        audit_of: Audit,
        base: int,
        fd: int,
        size: int,
        last: bool,
        audit: BatchAudit,
        guard: SealCheck | None,
    ) -> None:
        self.of = audit_of
        self.files = audit_of.files
        self.report = audit_of.report
        self.path = audit_of.directory / filenames.log_name(base)
        self.base, self.fd, self.size, self.last = base, fd, size, last
        self.audit = audit
        self.guard = guard
        self.cut_short = False  # its owner cut the file meanwhile
        self.spare: deque[memoryview] = deque()  # buffers: fresh memory costs as much as reading
        self.whole: memoryview | None = None
        if audit_of.map_sealed and self.files.native and not last and size > 0:
            self.whole = memoryview(self.files.map(fd, size))

    def read(self, position: int, size: int) -> memoryview:
        """A window of the file: of its map, or read into a buffer; shorter where it ends."""
        if self.whole is not None:
            return self.whole[position : position + size]
        try:
            buffer = self.spare.pop()
        except IndexError:
            buffer = memoryview(bytearray(max(size, WINDOW + WINDOW // 8)))
        if len(buffer) < size:
            buffer = memoryview(bytearray(size))
        found = self.files.preadv_into(self.fd, buffer[:size], position)
        return buffer[:found]

    def give_back(self, window: memoryview) -> None:
        if self.whole is None:
            self.spare.append(memoryview(window.obj))

    def look(self, start: int, end: int) -> tuple[memoryview, list["_Bad"]]:
        """Read a chunk and check what is in it; any thread."""
        window = self.read(start, end - start)
        return window, _damage(window, start, self.path)

    def on(self, until: int, done: int) -> None:
        """Walk and check one window after the other, up to a position or the end."""
        audit = self.audit
        while not audit.at_end and audit.position < until and not self.cut_short:
            position = audit.position
            wanted = max(audit.wanted, min(WINDOW, until - position, self.size - position))
            window = self.read(position, wanted)
            if len(window) < min(audit.wanted, self.size - position):
                self.cut_short = True
                return
            taken = self.take(window)
            self.note_damage(_damage(window[:taken], position, self.path))
            self.give_back(window)
            self.of._tell(done + audit.position)
        self.of._tell(done + audit.position)

    def take(self, window: memoryview) -> int:
        """Walk the whole batches at the beginning of a window; returns their size."""
        audit, taken = self.audit, 0
        while not audit.at_end:
            position = audit.position
            rest = window[taken:]
            if len(rest) < min(audit.wanted, self.size - position):
                break
            count, events = audit.walk(rest)
            self.note_events(events)
            if count:
                self.of.transactions.feed(rest[:count])
            if count and self.guard is not None:
                self.note_seal(self.guard.feed(rest[:count], position))
            taken += count
            if audit.position != position + count or not (count or events):
                break  # behind damage, or a batch larger than the window
        return taken

    # --- findings -----------------------------------------------------------------------------

    def note_damage(self, damage: list["_Bad"]) -> None:
        for position, size, offset, sentence in damage:
            if self.last and self._came_meanwhile(position, size):
                continue
            self.of.transactions.damaged()
            self.report.add("batch", self.path, position, offset, sentence)

    def _came_meanwhile(self, position: int, most: int) -> bool:
        """Whether a whole batch stands now where zeros, or a part of it, were read.

        A writer that preallocates writes within what was the file's size all the time.
        """
        size = declared_size(self.files.pread(self.fd, _HEAD, position))
        if not _HEAD < size <= most:
            return False
        found = memoryview(bytearray(self.files.pread(self.fd, size, position)))
        return len(found) == size and not _damage(found, position, self.path)

    def note_seal(self, groups: list[tuple[int, int]]) -> None:
        for start, end in groups:
            self.report.add(
                "seal",
                self.path,
                start,
                None,
                f"up to position {end} an offset, a size or a leader epoch of a batch is not what "
                "it was when the segment was sealed",
            )

    def note_events(self, events: list[tuple[str, int, int, int]]) -> None:
        for kind, position, offset, other in events:
            if kind == "epoch":
                self.of._check_epoch(self.base, position, offset, other)
            elif kind == "structure":
                self.of.transactions.damaged()
                if (
                    self.last
                    and self.audit.at_end
                    and (
                        self.files.only_zeros(self.fd, position, self.size)
                        or self._came_meanwhile(position, self.size - position)
                    )
                ):
                    self.report.not_yet_there += self.size - position
                else:
                    self.report.add(kind, self.path, position, offset, reason(other))
            else:
                kind, file_kind, sentence = _EVENTS[kind]
                path = self.of.directory / filenames.file_name(self.base, file_kind)
                self.report.add(kind, path, position, offset, sentence)


def _chunks(index: bytes, size: int) -> list[tuple[int, int]]:
    """Parts of a segment that begin where the index knows of batches, about a window each."""
    if size == 0:
        return []
    numbers = array("i", index)
    if sys.byteorder == "little":
        numbers.byteswap()
    positions = numbers[1::2]
    starts = [0]
    while (slot := bisect_left(positions, starts[-1] + WINDOW)) < len(positions):
        if positions[slot] >= size:
            break
        starts.append(positions[slot])
    return list(pairwise([*starts, size]))


def _damage(window: memoryview, position: int, path: Path) -> list[_Bad]:
    """Check sums and records of whole batches; (position, size, offset, sentence) of bad ones."""
    scanner = Scanner(
        window,
        control=True,
        values_only=True,
        decompress=codec.decompress,
        on_damage="skip",
        on_tail="damage",
        path=path,
        position_base=position,
        row_target=1 << 15,
    )
    try:
        while scanner.next_block() is not None:
            continue
        return list(scanner.skipped)
    finally:
        scanner.close()
