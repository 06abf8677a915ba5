"""How a log accesses its segments: those of its writer, or of its reader."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from kstore._native.read.segment_view import SegmentList, SegmentView, Slice
from kstore.recovery.lost_segments import LostRecords

Result = TypeVar("Result")


class SegmentSource(Protocol):
    """Accesses segments while some of them leave the log: of its writer, or of its reader.

    Methods raise StorageError for a segment that has left the log.
    """

    @property
    def lost(self) -> LostRecords:
        """Records that are known to be lost."""
        ...

    def on_current_segments(self, use: Callable[[SegmentList], Result]) -> Result:
        """Call a function with the segments; repeat it if it fails while the segments change."""
        ...

    def load_entries(self, view: SegmentView) -> None:
        """Load the index entries of a segment into memory."""
        ...

    def learn_times(self, view: SegmentView) -> None:
        """Find a segment's largest timestamp."""
        ...

    def read_segment(self, view: SegmentView, offset: int, max_bytes: int) -> Slice | None:
        """As SegmentList.read, within one segment."""
        ...

    def check_lost(self, start: int, stop: int | None, ms: int) -> None:
        """Raise CorruptRecordError if lost records in [start, stop) may be at or after ms."""
        ...
