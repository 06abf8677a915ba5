"""Walks one segment for an audit, window by window and in order, and reports what it finds."""

import sys
from array import array
from bisect import bisect_left
from collections import deque
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from kstore._native.format import batch_fields
from kstore._native.format.status import reason
from kstore._native.index.index_audit import BatchAudit
from kstore._native.read.decode import Scanner
from kstore._native.recovery.header_checksums import ChecksumCheck
from kstore.files import filenames
from kstore.files.filenames import INDEX, LOG, TIME_INDEX
from kstore.record import codec

if TYPE_CHECKING:
    from kstore.verify.segment import SegmentAudit

_HEAD = batch_fields.LOG_OVERHEAD

# The kernel's name of an event: kind of finding, kind of file, sentence.
_EVENTS = {
    "offsets": ("offsets", LOG, "the batch's offsets are out of order or outside the segment"),
    "index position": ("index", INDEX, "the index entry does not point to the start of a batch"),
    "index offset": (
        "index",
        INDEX,
        "offsets at or above the index entry's lie before its position",
    ),
    "time index": (
        "time index",
        TIME_INDEX,
        "a record up to this offset is newer than the time index entry",
    ),
}

Bad = tuple[int, int, int, str]  # position, size, offset, sentence


class SegmentWalk:
    """The walk of one segment: windows of it, in order, and their findings."""

    def __init__(
        self,
        audit_of: "SegmentAudit",
        base: int,
        fd: int,
        size: int,
        last: bool,
        audit: BatchAudit,
        check: ChecksumCheck | None,
    ) -> None:
        self.of = audit_of
        self.files = audit_of.files
        self.report = audit_of.report
        self.path = audit_of.directory / filenames.log_name(base)
        self.base, self.fd, self.size, self.last = base, fd, size, last
        self.audit = audit
        self.checksums = check
        self.was_truncated = False  # its owner truncated the file meanwhile
        self.is_sound = True  # the offsets up to its end are known
        self.spare: deque[memoryview] = deque()  # buffers: fresh memory costs as much as reading
        self.mapped: memoryview | None = None
        if audit_of.map_sealed and self.files.native and not last and size > 0:
            self.mapped = memoryview(self.files.map(fd, size))

    def read(self, position: int, size: int) -> memoryview:
        """A window of the file, of its map or read into a buffer; shorter at its end."""
        if self.mapped is not None:
            return self.mapped[position : position + size]
        try:
            buffer = self.spare.pop()
        except IndexError:
            buffer = memoryview(bytearray(max(size, self.of.window + self.of.window // 8)))
        if len(buffer) < size:
            buffer = memoryview(bytearray(size))
        found = self.files.preadv_into(self.fd, buffer[:size], position)
        return buffer[:found]

    def release(self, window: memoryview) -> None:
        """Reuse the buffer of a window."""
        if self.mapped is None:
            self.spare.append(memoryview(window.obj))

    def check(self, start: int, end: int) -> tuple[memoryview, list[Bad]]:
        """Read and check a chunk; on any thread."""
        window = self.read(start, end - start)
        return window, _damage(window, start, self.path)

    def on(self, until: int, done: int) -> None:
        """Walk and check windows, up to a position or the end."""
        audit = self.audit
        while not audit.at_end and audit.position < until and not self.was_truncated:
            position = audit.position
            wanted = max(audit.wanted, min(self.of.window, until - position, self.size - position))
            window = self.read(position, wanted)
            if len(window) < min(audit.wanted, self.size - position):
                self.was_truncated = True
                return
            taken = self.take(window)
            self.note_damage(_damage(window[:taken], position, self.path))
            self.release(window)
            self.of.on_progress(done + audit.position)
        self.of.on_progress(done + audit.position)

    def take(self, window: memoryview) -> int:
        """Walk the complete batches at the beginning of a window; returns their size."""
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
            if count and self.checksums is not None:
                self.note_checksums(self.checksums.feed(rest[:count], position))
            taken += count
            if audit.position != position + count or not (count or events):
                break  # behind corruption, or a batch larger than the window
        return taken

    # --- findings -----------------------------------------------------------------------------

    def note_damage(self, damage: list[Bad]) -> None:
        for position, size, offset, sentence in damage:
            if self.last and self._was_completed(position, size):
                continue
            self.of.transactions.damaged()
            self.report.add("batch", self.path, position, offset, sentence)

    def _was_completed(self, position: int, most: int) -> bool:
        """Whether a batch is complete now where zeros or an incomplete one were read.

        A writer that preallocates writes within the file's size.
        """
        size = batch_fields.declared_size(self.files.pread(self.fd, _HEAD, position))
        if not _HEAD < size <= most:
            return False
        found = memoryview(bytearray(self.files.pread(self.fd, size, position)))
        return len(found) == size and not _damage(found, position, self.path)

    def note_checksums(self, groups: list[tuple[int, int]]) -> None:
        for start, end in groups:
            self.report.add(
                "seal",
                self.path,
                start,
                None,
                f"up to position {end} the offset, size or leader epoch of a batch has changed "
                "since the segment was rolled",
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
                        or self._was_completed(position, self.size - position)
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
    """Ranges of a segment, about a window each, that begin at batches by the index."""
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
    """Check complete batches; returns (position, size, offset, sentence) of corrupt ones."""
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
