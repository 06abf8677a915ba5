"""One pass over a segment file: checks every batch and builds both indexes in memory."""

import os
from collections.abc import Callable

from kstore._native.recovery.segment_scan import SegmentScan
from kstore.config import LogConfig
from kstore.files.files import Files
from kstore.files.open_file import OpenFile

WINDOW = 1 << 25  # bytes mapped in at a time; a multiple of every page size
READ_SIZE = 1 << 20  # bytes copied or read at a time where nothing is mapped

OnProgress = Callable[[int], None]  # takes how many more bytes were read


def scan_segment(
    files: Files,
    path: str | os.PathLike[str],
    base_offset: int,
    config: LogConfig,
    on_progress: OnProgress | None = None,
    *,
    mapped: bool = True,
) -> SegmentScan:
    """Check a segment file and build its indexes in memory; changes nothing.

    No process may truncate the file meanwhile: it is mapped where ``files`` is the real disk.
    Without ``mapped`` it is read, and a truncation by another machine costs an error only.
    The GIL is released while a window is scanned, so that threads can scan segments in parallel.
    """
    with OpenFile(files, path) as fd:
        size = files.size(fd)
        scan = SegmentScan(
            base_offset,
            size,
            index_interval_bytes=config.index_interval_bytes,
            index_bytes=config.segment_index_bytes,
        )
        if mapped and files.native and size > 0:
            _scan_mapped(files, fd, scan, on_progress)
        else:
            _scan_read(files, fd, scan, on_progress)
    scan.finish()
    return scan


def _scan_mapped(files: Files, fd: int, scan: SegmentScan, on_progress: OnProgress | None) -> None:
    """Feed the mapped pages: no copy, 1.2 to 1.5 times as fast as reading."""
    with memoryview(files.map(fd, scan.file_size)) as view:
        for start in range(0, scan.file_size, WINDOW):
            end = min(start + WINDOW, scan.file_size)
            files.read_ahead(fd, end, WINDOW)
            files.prefault(view, start, end - start, fd)
            with view[scan.position : end] as window:
                more = scan.feed(window)
            if on_progress is not None:
                on_progress(end - start)
            if not more:
                return


def _scan_read(files: Files, fd: int, scan: SegmentScan, on_progress: OnProgress | None) -> None:
    buffer = memoryview(bytearray(min(READ_SIZE, max(scan.file_size, 1))))
    while scan.wants_more:
        before = scan.position
        size = files.preadv_into(fd, buffer, scan.position)
        scan.feed(buffer[:size])
        if on_progress is not None:
            on_progress(scan.position - before)
