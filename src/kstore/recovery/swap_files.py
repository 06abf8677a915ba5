"""Finishes or undoes an interrupted compaction, split or deletion in a partition directory.

The rules are those of Kafka's LogLoader.removeTempFilesAndCollectSwapFiles and
completeSwapOperations. A split of one segment into several leaves the same names.
"""

import os
from collections.abc import Iterable, Mapping
from os.path import join

from kstore._native.format.status import reason
from kstore.config import LogConfig
from kstore.errors import RecoveryNeededError
from kstore.files import filenames
from kstore.files.filenames import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG,
    SNAPSHOT,
    SWAP_SUFFIX,
    Parsed,
)
from kstore.files.files import Files
from kstore.segment.scan import scan_segment


def finish_swaps(
    files: Files,
    directory: str | os.PathLike[str],
    config: LogConfig,
    parsed: Mapping[str, Parsed | None] | None = None,
) -> tuple[list[str], list[str]]:
    """Finish or undo interrupted swaps; returns names removed, and names that replaced them.

    Removes ``.deleted`` files. ``.cleaned`` files are incomplete: removes them, and every
    ``.swap`` file from the lowest of their base offsets on (new segments are renamed in
    descending order, so those belong to the same unfinished set). The other ``.swap`` files
    are complete: they replace the segments that they cover.

    ``parsed`` is a listing of the directory, by name; None: it is listed.

    Raises RecoveryNeededError where a complete new segment is corrupt: then nothing was removed.
    """
    if parsed is None:
        parsed = {name: filenames.parse(name) for name in files.listdir(directory)}
    if all(found is None or not found.suffix for found in parsed.values()):
        return [], []
    known = {name: found for name, found in parsed.items() if found is not None}
    of = {
        suffix: [name for name, found in known.items() if found.suffix == suffix]
        for suffix in ("", DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)
    }
    lowest = min((known[name].base_offset for name in of[CLEANED_SUFFIX]), default=None)
    undone: list[str] = []
    swaps: list[str] = []
    for name in of[SWAP_SUFFIX]:
        is_undone = lowest is not None and known[name].base_offset >= lowest
        (undone if is_undone else swaps).append(name)
    low, high = _covered(files, directory, config, swaps)
    bases = {known[name].base_offset for name in swaps if known[name].kind == LOG}
    replaced = [
        name
        for name in of[""]
        if low <= known[name].base_offset < high
        or (known[name].base_offset in bases and known[name].kind != SNAPSHOT)
    ]
    # A power cut may undo any changes that are not synced: each step is on disk before the next.
    for names in (undone, of[CLEANED_SUFFIX], of[DELETED_SUFFIX] + replaced):
        for name in names:
            files.remove(join(directory, name))
        if names:
            files.sync_directory(directory)
    removed = [*undone, *of[CLEANED_SUFFIX], *of[DELETED_SUFFIX], *replaced]
    swapped = [name.removesuffix(SWAP_SUFFIX) for name in swaps]
    for name in swapped:
        files.rename(join(directory, name + SWAP_SUFFIX), join(directory, name))
    return removed, swapped


def _covered(
    files: Files, directory: str | os.PathLike[str], config: LogConfig, swaps: Iterable[str]
) -> tuple[int, int]:
    """The offsets that complete new segments replace: [low, high), empty without any."""
    low, high = 2**63, -1
    for name in swaps:
        found = filenames.parse(name)
        if found is None or found.kind != LOG:
            continue
        path = join(directory, name)
        scan = scan_segment(files, path, found.base_offset, config)
        if scan.status != 0:  # it was synced before it was renamed: keep its originals
            raise RecoveryNeededError(
                f"{reason(scan.status)}; the corruption is in a segment that replaces older "
                "ones, which are unchanged: restore the file, or remove the .swap files "
                "if all of the older segments exist",
                path=path,
                position=scan.valid_size,
                offset=scan.next_offset,
            )
        low = min(low, found.base_offset)
        high = max(high, scan.next_offset)
    return low, high
