"""Records of a damaged partition that no repair can save.

The rules are those of an audit, :mod:`kstore.verify.losses`. Records that the repair found in a
file of another name are not lost; the damage of a damaged file already covers its missing records.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from kstore._native.index.index_audit import BatchAudit
from kstore.checkpoint.known_gaps import Range, read_known_gaps
from kstore.checkpoint.quarantine import list_quarantined
from kstore.errors import CorruptFileError, NewerFormatError, StorageError
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.recovery.emptied_segments import find_signs
from kstore.recovery.lost_segments import LostRange, read_lost
from kstore.segment import header_checksums
from kstore.segment.salvage import LIVE, SWAP, Source, ValidRange
from kstore.verify.log_dir_state import PartitionState
from kstore.verify.losses import (
    Layout,
    Loss,
    SegmentEnd,
    find_losses,
    find_orphans,
)


def find_missing(
    files: Files,
    state: PartitionState | None,
    path: Path,
    sources: Sequence[Source],
    kept: Sequence[ValidRange],
) -> list[Loss]:
    """The records of a partition that are lost and in none of the kept ranges.

    Empty while the swap of a compaction is unfinished: its files replace other segments.
    """
    if any(source.rank == SWAP for source in sources):
        return []
    live = sorted(
        (source.base_offset, source)
        for source in sources
        if source.rank == LIVE and source.base_offset is not None
    )
    names = files.listdir(path)
    known_gaps: list[Range] = []
    lost: list[LostRange] = []
    with suppress(CorruptFileError, NewerFormatError, StorageError):  # gaps stay unexplained
        known_gaps = read_known_gaps(files, path)
    with suppress(CorruptFileError, NewerFormatError, StorageError):
        lost = read_lost(files, path)
    ends = [_end_of(files, base, source) for base, source in live]
    for slot, (one, two) in enumerate(pairwise(ends)):
        if not one.size:
            signs = find_signs(files, path, one.base_offset, two.base_offset, names)
            ends[slot] = replace(one, signs=signs)
    layout = Layout(
        str(path),
        state,
        tuple(ends),
        find_orphans(names),
        list_quarantined(names),
        tuple(known_gaps),
        tuple(lost),
    )
    return [
        loss
        for loss in find_losses(layout)
        if loss.offset is None
        or not any(valid.first_offset <= loss.offset <= valid.last_offset for valid in kept)
    ]


def _end_of(files: Files, base: int, source: Source) -> SegmentEnd:
    """The end of a segment, found by reading its batch headers."""
    audit = BatchAudit(base, source.size, b"", b"")
    is_sound = True
    while not audit.at_end and is_sound:
        _, events = audit.walk(source.data[audit.position :])
        is_sound = all(kind == "epoch" for kind, *_ in events)
    is_sound = is_sound and audit.tail_position < 0
    following = None
    try:
        with OpenFile(files, os.fspath(source.path)) as fd:
            found = header_checksums.load(files, source.path.parent, base, fd)
            following = None if found is None else found.following
    except (StorageError, NewerFormatError):  # the offset that followed stays unknown
        following = None
    return SegmentEnd(
        base,
        audit.last_offset + 1,
        source.size,
        is_sound=is_sound,
        has_gaps=audit.has_gaps,
        following=following,
    )
