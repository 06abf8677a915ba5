"""Finds lost records of a partition from its segments, side files and checkpoints.

Pure functions over facts. Certain: the log directory was closed cleanly and the log ends
below its recovery point, or within a batch, or a side file has lost its log; or the header
checksums of a segment name a next segment that is missing. Only a warning: a gap between two
segments without a reason; and after an unclean stop a recovery point beyond the end, or a side file
without its log. A follower that skipped offsets, or a process that was killed while it
truncated or deleted, leaves the same.

Not reported: what compaction, retention and deleting records leave, gaps that ``repair`` or a
follower recorded, and what recovery cut and quarantined.
"""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from kstore.checkpoint.known_gaps import Range, is_known, merge_ranges
from kstore.checkpoint.quarantine import Cut, CutBytes
from kstore.files import filenames
from kstore.files.filenames import LOST_SEGMENTS
from kstore.recovery.emptied_segments import Signs, StopState
from kstore.recovery.lost_segments import LostRange, clip, find_indexes_without_log
from kstore.recovery.report import describe_hidden
from kstore.verify.log_dir_state import PartitionState

MISSING = "missing"


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    """The end of a segment, by an audit of its log file."""

    base_offset: int
    next_offset: int  # after its last batch
    size: int
    tail: int = 0  # bytes after the last complete batch
    is_sound: bool = True  # it was walked up to its end, or to its tail
    has_gaps: bool = False  # some offsets within it have no record
    following: int | None = None  # base offset of the next segment, by its header checksums
    inode: int = 0
    signs: Signs | None = None  # of an empty segment that is not the last


@dataclass(frozen=True, slots=True)
class Layout:
    """The facts about all segments of a partition."""

    directory: str
    state: PartitionState | None
    segments: tuple[SegmentEnd, ...]  # by base offset
    orphans: tuple[tuple[int, str], ...] = ()  # side files without their log: base offset, name
    cut: frozenset[Cut] = frozenset()  # what recovery cut from segments, and kept
    known_gaps: tuple[Range, ...] = ()
    lost: tuple[LostRange, ...] = ()  # recorded by a writer that found the loss
    unreadable: tuple[tuple[str, str], ...] = ()  # invalid side files: path and reason


class Loss(NamedTuple):
    """Records that are lost, or may be. ``base_offset`` is that of the segment concerned."""

    is_certain: bool
    base_offset: int
    path: str
    position: int | None
    offset: int | None
    sentence: str
    is_end: bool = False  # shown by the recovery point, which is that of the entire log


def find_orphans(names: Iterable[str]) -> tuple[tuple[int, str], ...]:
    """Indexes whose log is missing, one for each segment: its base offset and name."""
    return tuple(sorted(find_indexes_without_log(names).items()))


def join_layouts(parts: Sequence[Layout]) -> Layout:
    """The layout of a partition from those of its ranges, in order.

    Uses the oldest state, which was read before any file was listed, and the newest listing.
    """
    segments = tuple(each for part in parts for each in part.segments)
    return replace(parts[-1], state=parts[0].state, segments=segments)


def find_losses(layout: Layout) -> list[Loss]:
    """All losses, in the order of offsets."""
    # Kafka's LogSegment renames and deletes the log before its indexes: a broker that is killed
    # twice leaves an index without its log, and removes it at its next start.
    is_clean = layout.state is None or layout.state.is_clean
    doubt = "" if is_clean else ", unless a broker was killed while it deleted the segment"
    losses = [
        Loss(
            is_clean,
            base,
            os.path.join(layout.directory, filenames.log_name(base)),
            None,
            base,
            f"the segment's log file is missing, though {name} exists: its records are lost{doubt}",
        )
        for base, name in layout.orphans
    ]
    losses += _emptied(layout)
    losses += _gaps(layout, {loss.base_offset for loss in losses})
    noted = _noted(layout)
    losses = [loss for loss in losses if loss.is_certain or not _is_noted(loss, noted)]
    named = [loss.offset for loss in losses]
    losses += [
        _loss(layout, lost)
        for lost in noted
        if not any(each is not None and lost.first <= each < lost.end for each in named)
    ]
    if layout.state is not None:
        losses += _lost_end(layout, layout.state)
    return sorted(losses, key=lambda loss: loss.base_offset)


def _log_path(layout: Layout, segment: SegmentEnd) -> str:
    return os.path.join(layout.directory, filenames.log_name(segment.base_offset))


def _noted(layout: Layout) -> list[LostRange]:
    """What ``kstore.lost`` says of offsets from the log start on that no segment has again."""
    start = 0 if layout.state is None else layout.state.log_start
    return clip(layout.lost, start, {one.base_offset: one.size for one in layout.segments})


def _is_noted(loss: Loss, noted: Sequence[LostRange]) -> bool:
    """Whether ``kstore.lost`` is certain of what the files only suggest."""
    at = loss.offset
    return at is not None and any(one.is_certain and one.first <= at < one.end for one in noted)


def _loss(layout: Layout, lost: LostRange) -> Loss:
    return Loss(
        lost.is_certain,
        lost.first,
        os.path.join(layout.directory, LOST_SEGMENTS),
        None,
        lost.first,
        f"{lost.describe()}. Remove {LOST_SEGMENTS} to accept the loss",
    )


def _emptied(layout: Layout) -> list[Loss]:
    """Empty segments that had records."""
    state = layout.state
    stop = StopState(
        is_clean=state is None or state.is_clean,
        recovery_point=lambda: 0 if state is None else state.recovery_point,
        was_compacted=lambda: state is not None and state.was_compacted,
    )
    filled = _last_filled(layout.segments)
    cut = CutBytes(layout.cut)
    known_gaps = merge_ranges(layout.known_gaps)
    log_start = 0 if state is None else state.log_start
    losses = []
    for one, two in pairwise(layout.segments):
        base, end = one.base_offset, two.base_offset
        if one.signs is None or end <= log_start or cut.explains(base, 0, end):
            continue
        is_certain = one.signs.find_certainty(base, stop, is_end=base > filled)
        if is_certain is None or is_known(known_gaps, max(base, log_start), end):
            continue
        how = "its indexes have entries" if one.signs.has_entries else "its checksum file has bytes"
        doubt = "" if is_certain else ", unless compaction or a power cut emptied it"
        losses.append(
            Loss(
                is_certain,
                base,
                _log_path(layout, one),
                0,
                max(base, log_start),
                f"the segment's log file is empty, though {how}: its records are lost{doubt}",
            )
        )
    return losses


def _last_filled(segments: Sequence[SegmentEnd]) -> int:
    """Base offset of the last segment that is not empty; -1 if none."""
    return max((one.base_offset for one in segments if one.size), default=-1)


def _gaps(layout: Layout, emptied: set[int]) -> list[Loss]:
    """Gaps between segments without a reason; ``emptied`` segments are reported already."""
    losses = []
    bases = {segment.base_offset for segment in layout.segments}
    orphans = [base for base, _ in layout.orphans]  # ascending
    cut = CutBytes(layout.cut)
    known_gaps = merge_ranges(layout.known_gaps)
    known_bases = bases.union(orphans)
    last_thinned, filled = _last_thinned(layout), _last_filled(layout.segments)
    log_start = 0 if layout.state is None else layout.state.log_start
    ascending = sorted(bases)
    for one in layout.segments:
        end, following = one.next_offset, one.following
        if not one.is_sound or following is None or following in known_bases:
            continue
        # A broker that truncates the log to an offset before the next segment may leave this one
        # unchanged where compaction removed the records between.
        slot = bisect_right(ascending, one.base_offset)
        is_next = slot < len(ascending) and end <= following < ascending[slot]
        if following != end and not is_next:
            continue
        losses.append(
            Loss(
                True,
                one.base_offset,
                _log_path(layout, one),
                one.size,
                following,
                f"the segment that followed at offset {following} when this one was rolled or "
                "replaced is missing: its records are lost",
            )
        )
    reported = emptied.union(loss.base_offset for loss in losses)
    for one, two in pairwise(layout.segments):
        first, end = one.next_offset, two.base_offset
        if not one.is_sound or first >= end or one.base_offset in reported:
            continue
        if last_thinned >= one.base_offset or _is_explained(layout, one, end):
            continue
        if not one.size and one.base_offset > filled and _may_be_unsynced(layout, one):
            continue
        if is_known(known_gaps, max(first, log_start), end):
            continue
        if cut.explains(one.base_offset, one.size, end) or _has_any(orphans, first, end):
            continue
        losses.append(
            Loss(
                False,
                one.base_offset,
                _log_path(layout, one),
                one.size,
                first,
                f"the segment ends before offset {first} and the next one begins at {end}; "
                "the reason is unknown: a segment between them may have been lost",
            )
        )
    return losses


def _last_thinned(layout: Layout) -> int:
    """Base offset of the last segment that was compacted, as records are missing; -1 if none.

    Compaction leaves empty segments, too; but so does any program that empties a file. So an empty
    segment counts only if something else shows that the log was compacted.
    """
    state, segments = layout.state, layout.segments
    thinned = [one.base_offset for one in segments if one.has_gaps]
    was_compacted = bool(thinned) or (state is not None and state.was_compacted)
    if was_compacted:
        thinned += [one.base_offset for one in segments[:-1] if not one.size]
    return max(thinned, default=-1)


def _may_be_unsynced(layout: Layout, one: SegmentEnd) -> bool:
    """Whether a power cut may have emptied a segment, as it was not synced."""
    state = layout.state
    return state is not None and not state.is_clean and one.base_offset >= state.recovery_point


def _has_any(ascending: Sequence[int], first: int, end: int) -> bool:
    """Whether a number from first up to end is among them."""
    slot = bisect_left(ascending, first)
    return slot < len(ascending) and ascending[slot] < end


def _is_explained(layout: Layout, one: SegmentEnd, end: int) -> bool:
    """Whether the reason is known why no record has the offsets between a segment and end."""
    state = layout.state
    return (
        one.following == end  # it was so when the segment was rolled
        or (state is not None and (state.is_compacted or end <= state.first_dirty))
        or (state is not None and end <= state.log_start)
    )


def _lost_end(layout: Layout, state: PartitionState) -> list[Loss]:
    last = layout.segments[-1] if layout.segments else None
    if last is not None and not last.is_sound:
        return []  # reported by the audit of its bytes
    losses = []
    path = layout.directory if last is None else _log_path(layout, last)
    base = 0 if last is None else last.base_offset
    position = None if last is None else last.size - last.tail
    end = max(0 if last is None else last.next_offset, state.log_start)
    if last is not None and last.tail and state.is_clean:
        losses.append(
            Loss(
                True,
                base,
                path,
                position,
                last.next_offset,
                f"the last {last.tail} bytes are no complete batch, though the directory was "
                "closed cleanly",
            )
        )
    first = layout.segments[0].base_offset if layout.segments else 0
    if last is not None and first < last.next_offset < state.log_start:
        sentence = describe_hidden(first, last.next_offset, state.log_start)
        losses.append(Loss(False, base, path, position, last.next_offset, sentence, True))
    if end < state.recovery_point:
        what = "there is no segment" if last is None else f"the log ends at offset {end}"
        how = (
            "the directory was closed cleanly, so the records between are lost"
            if state.is_clean
            else "the records between are lost, unless the writer was killed during a truncation"
        )
        sentence = f"{what}, below the recovery point {state.recovery_point}: {how}"
        losses.append(Loss(state.is_clean, base, path, position, end, sentence, True))
    return losses
