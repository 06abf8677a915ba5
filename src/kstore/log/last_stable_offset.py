"""The last stable offset of a log whose producer state is not current, from its headers.

A writer keeps it in :mod:`kstore.producer_state.state`; ``Log.last_stable_offset`` takes the
smaller of it and the high watermark.
"""

import threading
from contextlib import suppress
from os.path import join
from typing import TYPE_CHECKING

from kstore._native.read.segment_view import SegmentView
from kstore.errors import CorruptFileError, StorageError
from kstore.files import filenames
from kstore.files.files import Files
from kstore.log.read_committed import HeaderWalker
from kstore.producer_state import snapshot

if TYPE_CHECKING:
    from kstore.log.readable_log import ReadableLog

_SNAPSHOT_LIMIT = 1 << 30  # bytes


class LastStableOffset:
    """The last stable offset of a log, updated by walking the batches appended since.

    For a log without a current producer state: another process writes it, or it was truncated.
    Starts from the newest valid producer snapshot, else from the log start. Thread
    safe. Memory: one entry for each open transaction, and a slice of the log during a walk.
    """

    def __init__(self, log: "ReadableLog", files: Files) -> None:
        self._log = log
        self._files = files
        self._lock = threading.Lock()
        self._walker: HeaderWalker | None = None
        self._walked: SegmentView | None = None  # the active segment that it walked

    def offset(self) -> int:
        """First offset of the earliest open transaction; the log end where none is open."""
        with self._lock:
            while True:
                segments = self._log.segments
                start, end, active = segments.start_offset, segments.end_offset, segments.views[-1]
                walker = self._walker
                if (
                    walker is None
                    or not start <= walker.state.next_offset <= end
                    # Its files were listed again: rolled, or truncated and grown beyond the walk.
                    # Another process may also cut and extend the file without any such sign.
                    or (
                        (active is not self._walked or walker.state.last_beginning)
                        and not walker.is_in_log()
                    )
                    or (active is not self._walked and self._may_have_gone(walker))
                ):
                    walker = self._walker = self._begin(start, end)
                self._walked, state = active, walker.state
                begin, last = state.next_offset, state.last_beginning
                walker.advance(end)
                state.aborted.clear()
                if (
                    not last
                    or state.next_offset == begin
                    or self._log.segments.views[-1] is active
                    or walker.is_in_log(last)
                ):
                    earliest = min(state.open.values(), default=end)
                    return min(max(earliest, start), end)
                self._walker = None  # the log no longer has what it had walked before

    def _may_have_gone(self, walker: HeaderWalker) -> bool:
        """Whether the cleaner may have removed an open transaction, and the marker behind it."""
        return bool(walker.state.open) and "compact" in self._log.config.cleanup_policy

    def _begin(self, start: int, end: int) -> HeaderWalker:
        """A walk from the newest snapshot; without one no transaction is open at the start."""
        names = map(filenames.parse, self._files.listdir(self._log.path))
        offsets = (
            name.base_offset
            for name in names
            if name is not None and name.kind == filenames.SNAPSHOT and not name.suffix
        )
        for offset in sorted(offsets, reverse=True):
            if not start <= offset <= end:
                continue
            path = join(self._log.path, filenames.snapshot_name(offset))
            with suppress(CorruptFileError, StorageError):  # removed or corrupt: try an older one
                entries = snapshot.parse(self._files.read(path, _SNAPSHOT_LIMIT))
                opened = {
                    entry.producer_id: entry.current_transaction_first_offset
                    for entry in entries
                    if entry.current_transaction_first_offset >= 0
                }
                # From the earliest of them on: the snapshot's writer may have left open what a
                # control batch without records has ended.
                begin = max(start, min(opened.values(), default=offset))
                before = {producer: at for producer, at in opened.items() if at < begin}
                return HeaderWalker(self._log, min(begin, offset), before)
        return HeaderWalker(self._log, start)
