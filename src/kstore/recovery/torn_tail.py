"""Cuts the torn tail of a segment, and keeps its bytes as ``kstore.cut.*``.

:mod:`kstore.recovery.recover_partition` decides where, by the scan of the segment.
"""

import os
from os.path import join

from kstore._native.recovery.segment_scan import SegmentScan
from kstore.checkpoint.quarantine import free_name
from kstore.files import filenames
from kstore.files.filenames import CLEANED_SUFFIX, TEMPORARY_SUFFIX
from kstore.files.files import Files
from kstore.files.open_file import OpenFile
from kstore.segment.scan import READ_SIZE


def cut_tail(
    files: Files, directory: str, scan: SegmentScan, names: set[str], *, is_last: bool, sync: bool
) -> str | None:
    """Remove the torn tail from a log file; its bytes are first made durable in another file.

    Returns that file's name, which is added to ``names`` (of the directory), or None where the
    tail was only zeros.

    The last segment is truncated in place: no reader maps it. A reader in another process may
    have mapped a segment with others behind it, and access to a page beyond a file's end kills
    the process: so a copy of its beginning replaces it, as in a truncation.
    """
    path = join(directory, filenames.log_name(scan.base_offset))
    with OpenFile(files, path, os.O_RDWR) as fd:
        kept = _keep_tail(files, fd, directory, scan, names)
        if is_last:
            files.truncate(fd, scan.valid_size)
            if sync:
                files.fsync(fd)
    if not is_last:
        copy = f"{path}{CLEANED_SUFFIX}"  # which every loader removes as unfinished
        files.copy(path, copy, scan.valid_size)
        files.rename(copy, path)
        if sync:
            files.sync_directory(directory)
    return kept


def _keep_tail(
    files: Files, fd: int, directory: str, scan: SegmentScan, names: set[str]
) -> str | None:
    if files.only_zeros(fd, scan.valid_size, scan.file_size):
        return None  # preallocated, or extended just before a power cut
    name = free_name(names, scan.base_offset, scan.valid_size)
    names.add(name)
    path = join(directory, name)
    temporary = f"{path}{TEMPORARY_SUFFIX}"
    with OpenFile(files, temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND) as kept:
        for position in range(scan.valid_size, scan.file_size, READ_SIZE):
            chunk = files.pread(fd, min(READ_SIZE, scan.file_size - position), position)
            files.write(kept, chunk)
        files.fsync(kept)
    files.rename(temporary, path)
    files.sync_directory(directory)
    return name
