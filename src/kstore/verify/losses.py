"""Which records a partition has lost, by what its segments, side files and checkpoints say.

Pure functions over facts. Certain damage: the log directory was closed cleanly and the log ends
below its recovery point, or amid a batch, or a side file has lost its log; kstore's seal of a
segment says that another one followed at once, and that is not there. A gap between two segments
that nothing explains, or after an unclean stop a recovery point beyond the end or a side file
without its log, is a warning: what a follower skipped, or a process that was killed while it
truncated or deleted, leaves the same.

Not reported: what compaction, retention and deleting records leave, gaps that ``repair`` or a
follower noted, what recovery cut and kept aside.
"""

import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from kstore.checkpoint.known_gaps import Range, is_known, merge_ranges
from kstore.files import filenames
from kstore.files.filenames import LOST_SEGMENTS
from kstore.recovery.gap_reasons import Cut, CutBytes
from kstore.recovery.lost_segments import LostRange, clip, find_indexes_without_log
from kstore.verify.log_dir_state import PartitionState

MISSING = "missing"


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    """Where a segment ends, by an audit of its log file."""

    base_offset: int
    next_offset: int  # after its last batch
    size: int
    tail: int = 0  # bytes behind the last whole batch
    is_sound: bool = True  # it was walked up to its end, or to its tail
    has_gaps: bool = False  # offsets within it are in no record
    following: int | None = None  # base offset of the next segment, as its seal says
    inode: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """What is known of a partition's segments as a whole."""

    directory: str
    state: PartitionState | None
    segments: tuple[SegmentEnd, ...]  # by base offset
    orphans: tuple[tuple[int, str], ...] = ()  # side files without their log: base offset, name
    cut: frozenset[Cut] = frozenset()  # what recovery cut from segments, and keeps
    known_gaps: tuple[Range, ...] = ()
    lost: tuple[LostRange, ...] = ()  # noted by a writer that found them gone
    unreadable: tuple[tuple[str, str], ...] = ()  # side files that say nothing: path and reason


class Loss(NamedTuple):
    """Records that are gone, or may be. ``base_offset`` is that of the segment concerned."""

    is_certain: bool
    base_offset: int
    path: str
    position: int | None
    offset: int | None
    sentence: str
    is_end: bool = False  # by the recovery point, which is the whole log's


def find_orphans(names: Iterable[str]) -> tuple[tuple[int, str], ...]:
    """Indexes whose log is not there, one for each segment: its base offset and name."""
    return tuple(sorted(find_indexes_without_log(names).items()))


def join_layouts(parts: Sequence[Layout]) -> Layout:
    """The layout of the whole from those of its parts, in order.

    The oldest state counts, which was read before any file was listed, and the newest listing.
    """
    segments = tuple(each for part in parts for each in part.segments)
    return replace(parts[-1], state=parts[0].state, segments=segments)


def find_losses(layout: Layout) -> list[Loss]:
    """What is missing, in the order of offsets."""
    # Kafka's LogSegment renames and deletes the log before its indexes: a broker that is killed
    # twice leaves an index alone, and removes it at its next start.
    is_clean = layout.state is None or layout.state.is_clean
    doubt = "" if is_clean else ", unless a broker was killed while it deleted the segment"
    losses = [
        Loss(
            is_clean,
            base,
            os.path.join(layout.directory, filenames.log_name(base)),
            None,
            base,
            f"the segment's log file is not there, though {name} is: its records are gone{doubt}",
        )
        for base, name in layout.orphans
    ]
    losses += _gaps(layout)
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


def _gaps(layout: Layout) -> list[Loss]:
    losses = []
    bases = {segment.base_offset for segment in layout.segments}
    orphans = [base for base, _ in layout.orphans]  # ascending
    cut = CutBytes(layout.cut)
    known_gaps = merge_ranges(layout.known_gaps)
    there = bases.union(orphans)
    last_thinned = _last_thinned(layout.segments)
    log_start = 0 if layout.state is None else layout.state.log_start
    for one in layout.segments:
        end = one.next_offset
        if not one.is_sound or one.following != end or one.following in there:
            continue
        losses.append(
            Loss(
                True,
                one.base_offset,
                _log_path(layout, one),
                one.size,
                end,
                f"the segment that followed at offset {end} when this one was sealed is not "
                "there: its records are gone",
            )
        )
    certain = {loss.base_offset for loss in losses}
    for one, two in pairwise(layout.segments):
        first, end = one.next_offset, two.base_offset
        if not one.is_sound or first >= end or one.base_offset in certain:
            continue
        if last_thinned >= one.base_offset or _is_explained(layout, one, first, end):
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
                "nothing says why: a segment between them may have been lost",
            )
        )
    return losses


def _last_thinned(segments: Sequence[SegmentEnd]) -> int:
    """Base offset of the last segment that was compacted, by the records it lacks; -1 if none.

    Only compaction leaves an empty segment that is not the last.
    """
    return max(
        (
            one.base_offset
            for one in segments
            if one.has_gaps or (one.size == 0 and one is not segments[-1])
        ),
        default=-1,
    )


def _has_any(ascending: Sequence[int], first: int, end: int) -> bool:
    """Whether there is any number from first up to end."""
    slot = bisect_left(ascending, first)
    return slot < len(ascending) and ascending[slot] < end


def _is_explained(layout: Layout, one: SegmentEnd, first: int, end: int) -> bool:
    """Whether anything says why no record has the offsets from first up to end."""
    state = layout.state
    return (
        one.following == end  # so it was when it was sealed
        or (state is not None and (state.is_compacted or end <= state.first_dirty))
        or (state is not None and end <= state.log_start)
    )


def _lost_end(layout: Layout, state: PartitionState) -> list[Loss]:
    last = layout.segments[-1] if layout.segments else None
    if last is not None and not last.is_sound:
        return []  # the audit of its bytes has said so
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
                f"the last {last.tail} bytes are no whole batch, though the directory was closed "
                "cleanly",
            )
        )
    if end < state.recovery_point:
        what = "there is no segment" if last is None else f"the log ends at offset {end}"
        how = (
            "the directory was closed cleanly, so what was between is gone"
            if state.is_clean
            else "what was between is gone, unless the writer was killed while it truncated the log"
        )
        sentence = f"{what}, below the recovery point {state.recovery_point}: {how}"
        losses.append(Loss(state.is_clean, base, path, position, end, sentence, True))
    return losses
