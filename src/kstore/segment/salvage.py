"""Finds valid batches in the segment files of a corrupt partition, and selects those of one log.

Only reads. A batch is valid when its checksum matches; behind corruption
:mod:`kstore.segment.find_next_batch` finds the next valid one. Offsets are outside a batch's
checksum: where two neighbours contradict each other, the one that fits between the others stays.
Of duplicate batches one copy is kept.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from operator import attrgetter
from pathlib import Path

from kstore._native.format import batch_fields
from kstore._native.format.status import reason
from kstore._native.recovery.find_valid_batches import (
    ValidBatches,
    scan_valid_batches,
    skip_to,
)
from kstore.errors import StorageError
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.lazy_dataclass import lazy_dataclass
from kstore.segment.find_next_batch import find_next

WINDOW = 1 << 25  # bytes mapped in at a time
READ_SIZE = 1 << 20  # bytes read at a time where nothing is mapped
BLOCK = 4096  # bytes skipped where a disk cannot read
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
_BAD_CRC = 5  # of status.pxd
_TRUNCATED = 1

LIVE, MISNAMED, SWAP = 0, 1, 2  # the most trusted one first


@lazy_dataclass(frozen=True)
class Damage:
    """Bytes that are not kept. ``kind``: batch, structure, tail, unreadable, offsets, doubled.

    ``first_offset`` to ``last_offset`` (inclusive) are in no kept batch; None: nothing is lost
    here, or (only ``last_offset``) it is unknown how much followed.
    """

    path: str
    position: int
    size: int
    kind: str
    first_offset: int | None
    last_offset: int | None
    reason: str


@lazy_dataclass()
class Source:
    """A file with batches. ``data`` is valid as long as the source."""

    path: Path
    rank: int
    base_offset: int | None  # by its name
    data: memoryview = field(default_factory=lambda: memoryview(b""))
    unreadable: list[tuple[int, int, str]] = field(default_factory=list)  # start, end, why
    boundaries: Callable[[], Sequence[int]] = tuple  # called at corruption: see find_next

    @property
    def size(self) -> int:
        return len(self.data)


@lazy_dataclass(frozen=True)
class ValidRange:
    """Consecutive complete, valid batches with increasing offsets."""

    source: Source
    position: int
    end: int
    first_offset: int
    last_offset: int
    batches: int


@lazy_dataclass(frozen=True)
class _Break:
    """Bytes of a source that are no valid batches."""

    source: Source
    position: int
    end: int
    status: int


@lazy_dataclass()
class Salvaged:
    """The batches of the repaired log: ranges by offset, and everything that is not in them."""

    ranges: list[ValidRange]
    damages: list[Damage]
    copies: list[ValidRange] = field(default_factory=list)  # see _Salvage._is_unfinished_swap


def open_source(
    files: Files,
    path: Path,
    rank: int,
    base_offset: int | None,
    progress: Callable[[int], None] | None = None,
) -> Source:
    """Map a file, or read it into memory if some of it cannot be read (zeros instead)."""
    source = Source(path, rank, base_offset)
    with OpenFile(files, path) as fd:
        size = files.size(fd)
        if size == 0:
            return source
        if files.native:
            try:
                mapped = memoryview(files.map(fd, size))
                for start in range(0, size, WINDOW):
                    files.prefault(mapped, start, min(WINDOW, size - start), fd)
                    if progress is not None:
                        progress(min(WINDOW, size - start))
                source.data = mapped
                return source
            except StorageError:
                progress = None  # already reported
        source.data = memoryview(_read_around(files, fd, size, source.unreadable, progress))
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
        for start in range(0, size, READ_SIZE):
            end = min(start + READ_SIZE, size)
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


def salvage(sources: list[Source]) -> Salvaged:
    """Select batches of all sources that make one log; the sources are of one partition."""
    return _Salvage(sources).run()


class _Salvage:
    """The selection of batches. ``cores``: ranges of batches in order. ``suspects``: batches at a
    break whose offsets contradict a neighbour. ``breaks``: bytes that are no valid batch.
    """

    def __init__(self, sources: list[Source]) -> None:
        self.sources = sources
        self.cores: list[ValidRange] = []
        self.suspects: list[ValidRange] = []
        self.breaks: list[_Break] = []
        self.kept: list[ValidRange] = []  # by offset, none overlapping
        self.refused: list[tuple[ValidRange, str]] = []
        self.doubled: list[ValidRange] = []

    def run(self) -> Salvaged:
        named = sorted(
            source.base_offset
            for source in self.sources
            if source.rank == LIVE and source.base_offset is not None
        )
        for source in self.sources:
            self._scan(source, self._next_base(named, source))
        for valid in sorted(self.cores, key=lambda valid: (valid.source.rank, -valid.batches)):
            self._insert(valid)
        around, rivals = _by_source(self.cores), _by_source(self.suspects)
        scored = [(self._score(valid, named, around, rivals), valid) for valid in self.suspects]
        for score, valid in sorted(scored, key=lambda pair: -pair[0]):
            self._judge(valid, score)
        copies: list[ValidRange] = []
        doubled: list[ValidRange] = []
        for valid in self.doubled:
            (copies if self._is_unfinished_swap(valid) else doubled).append(valid)
        self.doubled = doubled
        return Salvaged(self.kept, self._damages(), copies)

    @staticmethod
    def _next_base(named: list[int], source: Source) -> int:
        """Base offset of the next segment by its name, even if that is empty or incomplete."""
        if source.rank != LIVE or source.base_offset is None:
            return INT64_MAX
        slot = bisect_left(named, source.base_offset + 1)
        return named[slot] if slot < len(named) else INT64_MAX

    # --- one file -------------------------------------------------------------------------

    def _scan(self, source: Source, next_base: int) -> None:
        """Split a file into cores, suspects and breaks."""
        data, position, in_order, last_offset = source.data, 0, True, -1
        boundaries: Sequence[int] | None = None
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
                if boundaries is None:
                    boundaries = source.boundaries()
                following = find_next(data, end, run.stop_size, last_offset, high, boundaries)
                self._note_break(_Break(source, end, following, run.stop_status))
                end = following
            position = end

    def _note_break(self, found: _Break) -> None:
        """Merge adjacent corrupt batches into one damage: it is unknown where each ends."""
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
        """Move batches at the ends that contradict a neighbour to the suspects."""
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
            self.suspects.append(ValidRange(source, position, end, first, last_offset, 1))
            return
        if head:
            self.suspects.append(_valid_range(source, position, start))
        if tail and stop < end:
            self.suspects.append(_valid_range(source, stop, end))
        if start < stop:
            self.cores.append(_valid_range(source, start, stop))

    # --- one log --------------------------------------------------------------------------

    def _insert(self, valid: ValidRange) -> None:
        """Keep a range, without offsets that are kept already."""
        data, position = valid.source.data, valid.position
        while position < valid.end:
            rest = _valid_range(valid.source, position, valid.end)
            slot = bisect_left(self.kept, rest.first_offset, key=attrgetter("last_offset"))
            if slot == len(self.kept):
                self.kept.append(rest)
                return
            other = self.kept[slot]
            run = scan_valid_batches(data[: valid.end], position, other.first_offset)
            if run.batch_count > 0 and run.last_offset < other.first_offset:
                self.kept.insert(slot, _valid_range(valid.source, position, run.end))
                position = run.end
                continue
            end = skip_to(data, position, valid.end, other.last_offset + 1)
            self.doubled.append(_valid_range(valid.source, position, end))
            position = end

    def _score(
        self,
        valid: ValidRange,
        named: list[int],
        around: dict[int, list[ValidRange]],
        rivals: dict[int, list[ValidRange]],
    ) -> int:
        """How well a suspect fits between the cores around it in its file; 0: not at all.

        Of two messages with one offset, the one scores higher whose position among the suspects
        matches.
        """
        source = valid.source
        before = source.base_offset - 1 if source.base_offset is not None else -1
        after = self._next_base(named, source)
        cores = around.get(id(source), [])
        slot = bisect_left(cores, valid.position, key=attrgetter("position"))
        start, end = 0, source.size
        if slot > 0:
            before, start = max(before, cores[slot - 1].last_offset), cores[slot - 1].end
        if slot < len(cores):
            after, end = min(after, cores[slot].first_offset), cores[slot].position
        if not before < valid.first_offset or not valid.last_offset < after:
            return 0
        if source.base_offset is not None and valid.last_offset - source.base_offset > INT32_MAX:
            return 0
        between = [each for each in rivals[id(source)] if start <= each.position < end]
        ahead = sum(_width(each) for each in between if each.position < valid.position)
        behind = sum(_width(each) for each in between if each.position > valid.position)
        first, last = valid.first_offset - before - 1, after - valid.last_offset - 1
        return 1 + 3 * ((first == 0) + (last == 0)) + (first == ahead) + (last == behind)

    def _judge(self, valid: ValidRange, score: int) -> None:
        slot = bisect_left(self.kept, valid.first_offset, key=attrgetter("last_offset"))
        free = slot == len(self.kept) or self.kept[slot].first_offset > valid.last_offset
        if score > 0 and free and self._is_in_order(valid, slot):
            self.kept.insert(slot, valid)
        elif not free and self._is_copy(valid, self.kept[slot]):
            self.doubled.append(valid)
        else:
            self.refused.append(
                (
                    valid,
                    f"its checksum is valid, but its offsets {valid.first_offset} to "
                    f"{valid.last_offset} contradict the batches around it",
                )
            )

    def _is_in_order(self, valid: ValidRange, slot: int) -> bool:
        """Whether a range has the same neighbours in its file as by offset."""
        before, after = self.kept[max(slot - 1, 0) : slot], self.kept[slot : slot + 1]
        return all(
            each.source is not valid.source or each.position < valid.position for each in before
        ) and all(
            each.source is not valid.source or each.position > valid.position for each in after
        )

    @staticmethod
    def _is_copy(valid: ValidRange, kept: ValidRange) -> bool:
        """Whether the single batch of a range is, byte for byte, in a kept one."""
        data = kept.source.data
        at = skip_to(data, kept.position, kept.end, valid.first_offset)
        stop = at + valid.end - valid.position
        return stop <= kept.end and data[at:stop] == valid.source.data[valid.position : valid.end]

    def _is_unfinished_swap(self, valid: ValidRange) -> bool:
        """Whether a swap file has these batches because the process ended within a swap.

        Then each kept batch is still in its old segment. The batch in the swap file has the same
        offsets, and may have fewer records: compaction keeps both offsets of a batch.
        """
        if valid.source.rank != SWAP:
            return False
        data, position = valid.source.data, valid.position
        slot = bisect_left(self.kept, valid.first_offset, key=attrgetter("last_offset"))
        at = self.kept[slot].position if slot < len(self.kept) else 0
        while position < valid.end:
            first, last, end = _offsets_of(data, position)
            while slot < len(self.kept) and self.kept[slot].last_offset < first:
                slot += 1
                at = self.kept[slot].position if slot < len(self.kept) else 0
            if slot == len(self.kept):
                return False
            kept = self.kept[slot]
            at = skip_to(kept.source.data, at, kept.end, first)
            if at >= kept.end or _offsets_of(kept.source.data, at)[:2] != (first, last):
                return False
            position = end
        return True

    # --- what is lost -----------------------------------------------------------------------

    def _damages(self) -> list[Damage]:
        found = []
        around = _by_source(self.kept)
        for gap in self.breaks:
            kind, why = _kind(gap)
            lost = self._lost(gap.source, gap.position, around)
            found.append(_damage(gap.source, gap.position, gap.end, kind, lost, why))
        for valid, why in self.refused:
            lost = self._lost(valid.source, valid.position, around)
            found.append(_damage(valid.source, valid.position, valid.end, "offsets", lost, why))
        for valid in self.doubled:
            why = (
                f"offsets {valid.first_offset} to {valid.last_offset} are kept from "
                f"{self._kept_copy(valid).source.path.name}"
            )
            found.append(
                _damage(valid.source, valid.position, valid.end, "doubled", (None, None), why)
            )
        return sorted(found, key=lambda damage: (damage.path, damage.position))

    def _kept_copy(self, valid: ValidRange) -> ValidRange:
        slot = bisect_left(self.kept, valid.first_offset, key=attrgetter("last_offset"))
        return self.kept[min(slot, len(self.kept) - 1)]

    def _lost(
        self, source: Source, position: int, around: dict[int, list[ValidRange]]
    ) -> tuple[int | None, int | None]:
        """Offsets around a position of a file that no kept batch has."""
        near = around.get(id(source), [])
        slot = bisect_left(near, position, key=attrgetter("position"))
        if slot > 0:
            first = near[slot - 1].last_offset + 1
        elif source.base_offset is not None:
            first = source.base_offset
        elif near:
            slot = bisect_left(self.kept, near[0].first_offset, key=attrgetter("last_offset"))
            first = self.kept[slot - 1].last_offset + 1 if slot else 0
        else:
            return None, None
        slot = bisect_left(self.kept, first, key=attrgetter("last_offset"))
        if slot == len(self.kept):
            return first, None
        last = self.kept[slot].first_offset - 1
        return (first, last) if first <= last else (None, None)


def _width(valid: ValidRange) -> int:
    return valid.last_offset - valid.first_offset + 1


def _by_source(ranges: list[ValidRange]) -> dict[int, list[ValidRange]]:
    """The ranges of each source, by position."""
    found: dict[int, list[ValidRange]] = {}
    for valid in sorted(ranges, key=attrgetter("position")):
        found.setdefault(id(valid.source), []).append(valid)
    return found


def _valid_range(source: Source, position: int, end: int) -> ValidRange:
    run = scan_valid_batches(source.data[:end], position)
    assert run.end == end
    return ValidRange(source, position, end, run.first_offset, run.last_offset, run.batch_count)


def _offsets_of(data: memoryview, position: int) -> tuple[int, int, int]:
    """First and last offset of a valid batch, and the position behind it."""
    end = position + batch_fields.frame_size(data, position)
    run = scan_valid_batches(data[:end], position)
    return run.first_offset, run.last_offset, end


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
    zeros = memoryview(bytes(READ_SIZE))
    return all(
        data[at : at + READ_SIZE] == zeros[: len(data) - at]
        for at in range(0, len(data), READ_SIZE)
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
