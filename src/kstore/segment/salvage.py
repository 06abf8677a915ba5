"""What is sound in the segment files of one damaged partition, and which of it makes a log.

Only reads. A batch is sound when its checksum fits; behind damage the next sound one is searched
byte by byte. Offsets are outside a batch's checksum: where two neighbours contradict each other,
the one that fits between the others stays. Of batches that are there twice one copy is taken.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path

from kstore._native.format import batch_fields
from kstore._native.format.status import reason
from kstore._native.recovery.salvage import (
    ValidBatches,
    find_extent,
    find_valid_batch,
    scan_valid_batches,
    skip_to,
)
from kstore.errors import NewerFormatError, StorageError
from kstore.files import filenames
from kstore.files.files import Files
from kstore.segment import header_checksums
from kstore.segment.index_entry import OFFSET_ENTRY_SIZE, positions
from kstore.segment.index_sanity import read_entries

WINDOW = 1 << 25  # bytes mapped in at a time
PIECE = 1 << 20  # bytes read at a time where nothing is mapped
BLOCK = 4096  # what is given up where a disk cannot read
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
_BAD_CRC = 5  # of status.pxd
_TRUNCATED = 1
_HEADER = batch_fields.HEADER_UP_TO_MAGIC
_LEAST_SIZE = batch_fields.LOG_OVERHEAD + batch_fields.V0_OVERHEAD
_MOST_DAMAGED = 16  # batches one behind the other whose sizes are gone by
_MOST_SUMMED = 1 << 26  # bytes in which the end of a batch with a wrong size is looked for

LIVE, MISNAMED, SWAP = 0, 1, 2  # in the order in which they are believed


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are not kept. ``kind``: batch, structure, tail, unreadable, offsets, doubled.

    ``first_offset`` to ``last_offset`` (inclusive) are in no kept batch; None: nothing is lost
    here, or (``last_offset`` alone) it is not known how much followed.
    """

    path: str
    position: int
    size: int
    kind: str
    first_offset: int | None
    last_offset: int | None
    reason: str


@dataclass(slots=True)
class Source:
    """A file with batches. ``data`` stays valid as long as the source."""

    path: Path
    rank: int
    base_offset: int | None  # what its name says
    data: memoryview = field(default_factory=lambda: memoryview(b""))
    unreadable: list[tuple[int, int, str]] = field(default_factory=list)  # start, end, why
    landmarks: Callable[[], Sequence[int]] = tuple  # asked for at damage: see find_next

    @property
    def size(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole sound batches in a row, offsets rising."""

    source: Source
    position: int
    end: int
    first_offset: int
    last_offset: int
    batches: int


@dataclass(frozen=True, slots=True)
class _Break:
    """Bytes of a source that are no sound batches."""

    source: Source
    position: int
    end: int
    status: int


@dataclass(slots=True)
class Salvaged:
    """The log that can be made: pieces by offset, and everything that is not in it."""

    pieces: list[Piece]
    damages: list[Damage]


def open_source(
    files: Files,
    path: Path,
    rank: int,
    base_offset: int | None,
    progress: Callable[[int], None] | None = None,
) -> Source:
    """Map a file, or read it into memory where a part of it cannot be read (left as zeros)."""
    source = Source(path, rank, base_offset)
    fd = files.open(path)
    try:
        size = files.size(fd)
        if size == 0:
            return source
        if files.native:
            try:
                mapped = files.map(fd, size)
                for start in range(0, size, WINDOW):
                    files.prefault(mapped, start, min(WINDOW, size - start), fd)
                    if progress is not None:
                        progress(min(WINDOW, size - start))
                source.data = memoryview(mapped)
                return source
            except StorageError:
                progress = None  # told already, about
        source.data = memoryview(_read_around(files, fd, size, source.unreadable, progress))
    finally:
        files.close(fd)
    return source


def _read_around(
    files: Files,
    fd: int,
    size: int,
    unreadable: list[tuple[int, int, str]],
    progress: Callable[[int], None] | None,
) -> bytearray:
    data = bytearray(size)
    with memoryview(data) as view:
        for start in range(0, size, PIECE):
            end = min(start + PIECE, size)
            try:
                files.preadv_into(fd, view[start:end], start)
            except StorageError:
                for block in range(start, end, BLOCK):
                    stop = min(block + BLOCK, end)
                    try:
                        files.preadv_into(fd, view[block:stop], block)
                    except StorageError as error:
                        view[block:stop] = bytes(stop - block)
                        _note_unreadable(unreadable, block, stop, error.reason)
            if progress is not None:
                progress(end - start)
    return data


def _note_unreadable(ranges: list[tuple[int, int, str]], start: int, end: int, why: str) -> None:
    if ranges and ranges[-1][1] == start:
        ranges[-1] = (ranges[-1][0], end, ranges[-1][2])
    else:
        ranges.append((start, end, why))


def find_next(
    data: memoryview | bytes,
    position: int,
    size: int,
    last_offset: int,
    high: int,
    landmarks: Sequence[int] = (),
) -> int:
    """Where the next sound batch behind damage at a position begins; the end if there is none.

    The values of records may hold whole batches, put there on purpose or not. So what a search
    finds counts only where nothing surer tells, in this order: the damaged batch's own checksum,
    if only its size is wrong; its size; a landmark at which a sound batch begins.

    Parameters
    ----------
    size
        What the damaged batch says its own is, 0 if that is unreadable.
    last_offset
        Of the batch in front of it.
    high
        What follows has a base offset of no more.
    landmarks
        Positions, ascending, at which batches began, as side files tell.
    """
    declared, end, low = position + size, len(data), last_offset + 1
    known = next(
        (
            mark
            for mark in landmarks[bisect_right(landmarks, position) :]
            if _begins_batch(data, mark, low, high)
        ),
        None,
    )
    stop = min(position + _MOST_SUMMED, end) if known is None else known
    if (found := find_extent(data, position, stop, low, high)) >= 0:
        return found
    if size > 0 and (declared == end or _leads_to_batch(data, declared, low, high)):
        return declared  # it is the payload that is bad
    if known is not None:
        # A damaged batch had offsets of its own, so that what follows it goes on behind them.
        after = low + (batch_fields.base_offset(data, position) == low)
        before = batch_fields.base_offset(data, known) - 1
        found = find_valid_batch(data, position + 1, after, before, known)
        if found < 0:
            found = find_valid_batch(data[:known], position + 1, after, before)
        return known if found < 0 else found
    for least, top in ((low, high), (0, INT64_MAX)):
        found = find_valid_batch(data, position + 1, least, top)
        if found >= 0:
            return found
    return end


def _leads_to_batch(data: memoryview | bytes, position: int, low: int, high: int) -> bool:
    """Whether a sound batch begins here, or behind damaged ones whose sizes and offsets go on."""
    for _ in range(_MOST_DAMAGED):
        if _begins_batch(data, position, low, high):
            return True
        if position + _HEADER > len(data):
            return False
        size = batch_fields.frame_size(data, position)
        first = batch_fields.base_offset(data, position)
        if size < _LEAST_SIZE or batch_fields.magic(data, position) > 2:
            return False
        if not low <= first <= high:
            return False
        position, low = position + size, first + 1
        if position == len(data):
            return True
    return False


def _begins_batch(data: memoryview | bytes, position: int, low: int, high: int) -> bool:
    if position + _HEADER > len(data):
        return False
    size = batch_fields.frame_size(data, position)
    if not _LEAST_SIZE <= size <= len(data) - position:
        return False
    run = scan_valid_batches(data[: position + size], position)
    return run.batch_count > 0 and low <= run.first_offset <= high


def landmarks_of(files: Files, path: Path, base_offset: int) -> list[int]:
    """Positions in a segment where its offset index and its seal say that batches begin.

    Nothing is believed of them before a sound batch is found there; what cannot be read says
    nothing. (A time index names offsets only.)
    """
    found: set[int] = set()
    index = path.parent / filenames.index_name(base_offset)
    with suppress(StorageError):
        if files.exists(index):
            entries, _ = read_entries(files, index, OFFSET_ENTRY_SIZE)
            found.update(positions(entries))
    with suppress(StorageError, NewerFormatError):
        fd = files.open(path)
        try:
            found.update(header_checksums.landmarks(files, path.parent, base_offset, fd))
        finally:
            files.close(fd)
    return sorted(found)


def salvage(sources: list[Source]) -> Salvaged:
    """Choose batches of all sources that make one log; sources are those of one partition."""
    return _Salvage(sources).run()


class _Salvage:
    def __init__(self, sources: list[Source]) -> None:
        self.sources = sources
        self.cores: list[Piece] = []
        self.suspects: list[Piece] = []
        self.breaks: list[_Break] = []
        self.kept: list[Piece] = []  # by offset, none overlapping
        self.refused: list[tuple[Piece, str]] = []
        self.doubled: list[Piece] = []

    def run(self) -> Salvaged:
        named = sorted(
            source.base_offset
            for source in self.sources
            if source.rank == LIVE and source.base_offset is not None
        )
        for source in self.sources:
            self._scan(source, self._next_base(named, source))
        for piece in sorted(self.cores, key=lambda piece: (piece.source.rank, -piece.batches)):
            self._insert(piece)
        around, rivals = _by_source(self.cores), _by_source(self.suspects)
        scored = [(self._score(piece, named, around, rivals), piece) for piece in self.suspects]
        for score, piece in sorted(scored, key=lambda pair: -pair[0]):
            self._judge(piece, score)
        return Salvaged(self.kept, self._damages())

    @staticmethod
    def _next_base(named: list[int], source: Source) -> int:
        """Where the next segment begins by its name; an empty or torn one speaks, too."""
        if source.rank != LIVE or source.base_offset is None:
            return INT64_MAX
        slot = bisect_left(named, source.base_offset + 1)
        return named[slot] if slot < len(named) else INT64_MAX

    # --- one file -------------------------------------------------------------------------

    def _scan(self, source: Source, next_base: int) -> None:
        """Split a file into cores, suspects and breaks."""
        data, position, in_order, last_offset = source.data, 0, True, -1
        landmarks: Sequence[int] | None = None
        while position < source.size:
            run = scan_valid_batches(data, position)
            end = run.end
            if run.batch_count:
                last_offset = run.last_offset
                self._split(source, position, run, not in_order, next_base)
            in_order = run.is_in_order
            if end < source.size and in_order:
                high = next_base - 1
                if high >= INT64_MAX - 1 and source.base_offset is not None:
                    high = min(source.base_offset + INT32_MAX, INT64_MAX)
                if landmarks is None:
                    landmarks = source.landmarks()
                following = find_next(data, end, run.stop_size, last_offset, high, landmarks)
                self._note_break(_Break(source, end, following, run.stop_status))
                end = following
            position = end

    def _note_break(self, found: _Break) -> None:
        """Damaged batches one after the other are one damage: nothing tells where each ends."""
        last = self.breaks[-1] if self.breaks else None
        if last is not None and last.source is found.source and last.end == found.position:
            self.breaks[-1] = replace(last, end=found.end)
        else:
            self.breaks.append(found)

    def _split(
        self,
        source: Source,
        position: int,
        run: ValidBatches,
        after_break: bool,
        next_base: int,
    ) -> None:
        """Put a run's batches that contradict a neighbour among the suspects."""
        end, first, last_offset = run.end, run.first_offset, run.last_offset
        base = source.base_offset if source.rank == LIVE else None
        head = after_break or (base is not None and first < base <= last_offset)
        tail = not run.is_in_order or run.offset_before_last < next_base <= last_offset
        if base is not None and last_offset - base > INT32_MAX:
            tail = True
        start, stop = position, end
        if head:
            start = run.second_position
        if tail and run.last_position >= start:
            stop = run.last_position
        if run.batch_count == 1 and (head or tail):
            self.suspects.append(Piece(source, position, end, first, last_offset, 1))
            return
        if head:
            self.suspects.append(_piece(source, position, start))
        if tail and stop < end:
            self.suspects.append(_piece(source, stop, end))
        if start < stop:
            self.cores.append(_piece(source, start, stop))

    # --- one log --------------------------------------------------------------------------

    def _insert(self, piece: Piece) -> None:
        """Keep a piece, less what is kept already."""
        data, position = piece.source.data, piece.position
        while position < piece.end:
            rest = _piece(piece.source, position, piece.end)
            slot = bisect_left(self.kept, rest.first_offset, key=attrgetter("last_offset"))
            if slot == len(self.kept):
                self.kept.append(rest)
                return
            other = self.kept[slot]
            run = scan_valid_batches(data[: piece.end], position, other.first_offset)
            if run.batch_count > 0 and run.last_offset < other.first_offset:
                self.kept.insert(slot, _piece(piece.source, position, run.end))
                position = run.end
                continue
            end = skip_to(data, position, piece.end, other.last_offset + 1)
            self.doubled.append(_piece(piece.source, position, end))
            position = end

    def _score(
        self,
        piece: Piece,
        named: list[int],
        around: dict[int, list[Piece]],
        rivals: dict[int, list[Piece]],
    ) -> int:
        """How well a suspect fits between the cores around it in its file; 0: it does not.

        Of two messages with one offset the one counts more whose place among the suspects fits.
        """
        source = piece.source
        before = source.base_offset - 1 if source.base_offset is not None else -1
        after = self._next_base(named, source)
        cores = around.get(id(source), [])
        slot = bisect_left(cores, piece.position, key=attrgetter("position"))
        start, end = 0, source.size
        if slot > 0:
            before, start = max(before, cores[slot - 1].last_offset), cores[slot - 1].end
        if slot < len(cores):
            after, end = min(after, cores[slot].first_offset), cores[slot].position
        if not before < piece.first_offset or not piece.last_offset < after:
            return 0
        if source.base_offset is not None and piece.last_offset - source.base_offset > INT32_MAX:
            return 0
        between = [each for each in rivals[id(source)] if start <= each.position < end]
        ahead = sum(_width(each) for each in between if each.position < piece.position)
        behind = sum(_width(each) for each in between if each.position > piece.position)
        first, last = piece.first_offset - before - 1, after - piece.last_offset - 1
        return 1 + 3 * ((first == 0) + (last == 0)) + (first == ahead) + (last == behind)

    def _judge(self, piece: Piece, score: int) -> None:
        slot = bisect_left(self.kept, piece.first_offset, key=attrgetter("last_offset"))
        free = slot == len(self.kept) or self.kept[slot].first_offset > piece.last_offset
        if score > 0 and free and self._in_place(piece, slot):
            self.kept.insert(slot, piece)
        elif not free and self._is_copy(piece, self.kept[slot]):
            self.doubled.append(piece)
        else:
            self.refused.append(
                (
                    piece,
                    f"its checksum fits, but its offsets {piece.first_offset} to "
                    f"{piece.last_offset} contradict the batches around it",
                )
            )

    def _in_place(self, piece: Piece, slot: int) -> bool:
        """Whether a piece lies between the same neighbours in its file as it does by offset."""
        before, after = self.kept[max(slot - 1, 0) : slot], self.kept[slot : slot + 1]
        return all(
            each.source is not piece.source or each.position < piece.position for each in before
        ) and all(
            each.source is not piece.source or each.position > piece.position for each in after
        )

    @staticmethod
    def _is_copy(piece: Piece, kept: Piece) -> bool:
        """Whether the one batch of a piece is, byte for byte, among those of a kept one."""
        data = kept.source.data
        at = skip_to(data, kept.position, kept.end, piece.first_offset)
        stop = at + piece.end - piece.position
        return stop <= kept.end and data[at:stop] == piece.source.data[piece.position : piece.end]

    # --- what is lost -----------------------------------------------------------------------

    def _damages(self) -> list[Damage]:
        found = []
        around = _by_source(self.kept)
        for gap in self.breaks:
            kind, why = _kind(gap)
            lost = self._lost(gap.source, gap.position, around)
            found.append(_damage(gap.source, gap.position, gap.end, kind, lost, why))
        for piece, why in self.refused:
            lost = self._lost(piece.source, piece.position, around)
            found.append(_damage(piece.source, piece.position, piece.end, "offsets", lost, why))
        for piece in self.doubled:
            why = (
                f"offsets {piece.first_offset} to {piece.last_offset} are kept from "
                f"{self._keeper(piece).source.path.name}"
            )
            found.append(
                _damage(piece.source, piece.position, piece.end, "doubled", (None, None), why)
            )
        return sorted(found, key=lambda damage: (damage.path, damage.position))

    def _keeper(self, piece: Piece) -> Piece:
        slot = bisect_left(self.kept, piece.first_offset, key=attrgetter("last_offset"))
        return self.kept[min(slot, len(self.kept) - 1)]

    def _lost(
        self, source: Source, position: int, around: dict[int, list[Piece]]
    ) -> tuple[int | None, int | None]:
        """Offsets around a place of a file that no kept batch has."""
        near = around.get(id(source), [])
        slot = bisect_left(near, position, key=attrgetter("position"))
        if slot > 0:
            first = near[slot - 1].last_offset + 1
        elif source.base_offset is not None:
            first = source.base_offset
        elif near:
            place = bisect_left(self.kept, near[0].first_offset, key=attrgetter("last_offset"))
            first = self.kept[place - 1].last_offset + 1 if place else 0
        else:
            return None, None
        slot = bisect_left(self.kept, first, key=attrgetter("last_offset"))
        if slot == len(self.kept):
            return first, None
        last = self.kept[slot].first_offset - 1
        return (first, last) if first <= last else (None, None)


def _width(piece: Piece) -> int:
    return piece.last_offset - piece.first_offset + 1


def _by_source(pieces: list[Piece]) -> dict[int, list[Piece]]:
    """The pieces of each source, by position."""
    found: dict[int, list[Piece]] = {}
    for piece in sorted(pieces, key=attrgetter("position")):
        found.setdefault(id(piece.source), []).append(piece)
    return found


def _piece(source: Source, position: int, end: int) -> Piece:
    run = scan_valid_batches(source.data[:end], position)
    assert run.end == end
    return Piece(source, position, end, run.first_offset, run.last_offset, run.batch_count)


def _kind(gap: _Break) -> tuple[str, str]:
    for start, end, why in gap.source.unreadable:
        if start < gap.end and gap.position < end:
            return "unreadable", f"bytes {start} to {end - 1}: {why}"
    if gap.end == gap.source.size and gap.status == _TRUNCATED:
        return "tail", "the file ends within a batch"
    if _only_zeros(gap.source.data[gap.position : gap.end]):
        return ("tail" if gap.end == gap.source.size else "structure"), "only zeros"
    return ("batch" if gap.status == _BAD_CRC else "structure"), reason(gap.status)


def _only_zeros(data: memoryview) -> bool:
    zeros = memoryview(bytes(PIECE))
    return all(
        data[at : at + PIECE] == zeros[: len(data) - at] for at in range(0, len(data), PIECE)
    )


def _damage(
    source: Source,
    position: int,
    end: int,
    kind: str,
    lost: tuple[int | None, int | None],
    why: str,
) -> Damage:
    return Damage(str(source.path), position, end - position, kind, *lost, why)
