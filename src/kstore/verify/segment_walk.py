"""One segment on its way through an audit: windows of it, walked in order, and what they show."""

import sys
from array import array
from bisect import bisect_left
from collections import deque
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from kstore._native.format import batch_fields
from kstore._native.format.status import reason
from kstore._native.read.decode import Scanner
from kstore._native.recovery.batch_audit import BatchAudit
from kstore._native.recovery.header_checksums import ChecksumCheck
from kstore.files import filenames
from kstore.files.filenames import INDEX, LOG, TIME_INDEX
from kstore.record import codec

if TYPE_CHECKING:
    from kstore.verify.segment import SegmentAudit

_HEAD = batch_fields.LOG_OVERHEAD

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

Bad = tuple[int, int, int, str]  # position, size, offset, sentence


class SegmentWalk:
    """One segment on its way: windows of it, walked in order, and what they show."""

    def __init__(
        self,
        audit_of: "SegmentAudit",
        base: int,
        fd: int,
        size: int,
        last: bool,
        audit: BatchAudit,
        guard: ChecksumCheck | None,
    ) -> None:
        self.of = audit_of
        self.files = audit_of.files
        self.report = audit_of.report
        self.path = audit_of.directory / filenames.log_name(base)
        self.base, self.fd, self.size, self.last = base, fd, size, last
        self.audit = audit
        self.guard = guard
        self.cut_short = False  # its owner cut the file meanwhile
        self.is_sound = True  # the offsets up to its end are known
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
            buffer = memoryview(bytearray(max(size, self.of.window + self.of.window // 8)))
        if len(buffer) < size:
            buffer = memoryview(bytearray(size))
        found = self.files.preadv_into(self.fd, buffer[:size], position)
        return buffer[:found]

    def give_back(self, window: memoryview) -> None:
        if self.whole is None:
            self.spare.append(memoryview(window.obj))

    def look(self, start: int, end: int) -> tuple[memoryview, list[Bad]]:
        """Read a chunk and check what is in it; any thread."""
        window = self.read(start, end - start)
        return window, _damage(window, start, self.path)

    def on(self, until: int, done: int) -> None:
        """Walk and check one window after the other, up to a position or the end."""
        audit = self.audit
        while not audit.at_end and audit.position < until and not self.cut_short:
            position = audit.position
            wanted = max(audit.wanted, min(self.of.window, until - position, self.size - position))
            window = self.read(position, wanted)
            if len(window) < min(audit.wanted, self.size - position):
                self.cut_short = True
                return
            taken = self.take(window)
            self.note_damage(_damage(window[:taken], position, self.path))
            self.give_back(window)
            self.of.tell(done + audit.position)
        self.of.tell(done + audit.position)

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

    def note_damage(self, damage: list[Bad]) -> None:
        for position, size, offset, sentence in damage:
            if self.last and self._came_meanwhile(position, size):
                continue
            self.of.transactions.damaged()
            self.report.add("batch", self.path, position, offset, sentence)

    def _came_meanwhile(self, position: int, most: int) -> bool:
        """Whether a whole batch stands now where zeros, or a part of it, were read.

        A writer that preallocates writes within what was the file's size all the time.
        """
        size = batch_fields.declared_size(self.files.pread(self.fd, _HEAD, position))
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
                self.of.check_epoch(self.base, position, offset, other)
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
                    self.is_sound = False
                    self.report.add(kind, self.path, position, offset, reason(other))
            else:
                self.is_sound &= kind != "offsets"
                kind, file_kind, sentence = _EVENTS[kind]
                path = self.of.directory / filenames.file_name(self.base, file_kind)
                self.report.add(kind, path, position, offset, sentence)


def chunks_of(index: bytes, size: int, window: int) -> list[tuple[int, int]]:
    """Parts of a segment that begin where the index knows of batches, about a window each."""
    if size == 0:
        return []
    numbers = array("i", index)
    if sys.byteorder == "little":
        numbers.byteswap()
    positions = numbers[1::2]
    starts = [0]
    while (slot := bisect_left(positions, starts[-1] + window)) < len(positions):
        if positions[slot] >= size:
            break
        starts.append(positions[slot])
    return list(pairwise([*starts, size]))


def _damage(window: memoryview, position: int, path: Path) -> list[Bad]:
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
