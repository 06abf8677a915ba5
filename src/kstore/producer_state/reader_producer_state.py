"""The producer state of a log that another process writes."""

import threading
from typing import TYPE_CHECKING

from kstore._native.read.segment_view import SegmentList
from kstore.files.files import Files
from kstore.integers import INT64_MAX
from kstore.producer_state.state import ProducerState

if TYPE_CHECKING:
    from kstore.log.log import Log


class ReaderProducerState:
    """The producer state for a reader: the newest snapshot and a replay of the log after it.

    Changes no file. Loaded on first use, and again when the log has changed. The aborted
    transactions of rolled segments stay cached, so that a lost index is rebuilt only once. Thread
    safe.
    """

    def __init__(self, log: "Log", files: Files) -> None:
        self._log = log
        self._files = files
        self._lock = threading.Lock()
        self._loaded_from: object = None  # the path, segments and end of that time
        self._state: ProducerState | None = None

    def at(self, segments: SegmentList) -> ProducerState:
        """The state at the end of these segments of the log."""
        with self._lock:
            path, end = self._log.path, segments.end_offset
            current = (path, segments.views, segments.start_offset, end)
            if self._state is None or self._loaded_from != current:
                state = ProducerState(self._files, path, INT64_MAX, writes=False)
                state.load(segments, 0)
                if self._state is not None:
                    state.take_over(self._state, segments)
                self._state, self._loaded_from = state, current
            return self._state
