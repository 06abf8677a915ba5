"""What is known of a log's producers from outside, where another process writes it."""

import threading
from typing import TYPE_CHECKING

from kstore._native.read.segment_view import SegmentList
from kstore.files.files import Files
from kstore.integers import INT64_MAX
from kstore.producer_state.state import ProducerState

if TYPE_CHECKING:
    from kstore.log.log import Log


class ReaderProducerState:
    """The state of a log's producers for a reader: newest snapshot, and the log behind it.

    Changes no file. Loaded when it is first asked for, and again when the log has changed; what
    was looked up of sealed segments is kept, so that an index that was lost is made anew once.
    Thread safe.
    """

    def __init__(self, log: "Log", files: Files) -> None:
        self._log = log
        self._files = files
        self._lock = threading.Lock()
        self._seen: object = None  # what the state was loaded from
        self._state: ProducerState | None = None

    def at(self, segments: SegmentList) -> ProducerState:
        """The state at the end of these segments, which are the log's."""
        with self._lock:
            path, end = self._log.path, segments.end_offset
            seen = (path, segments.views, segments.start_offset, end)
            if self._state is None or self._seen != seen:
                state = ProducerState(self._files, path, INT64_MAX, writes=False)
                state.load(segments, 0)
                if self._state is not None:
                    state.take_over(self._state, segments)
                self._state, self._seen = state, seen
            return self._state
