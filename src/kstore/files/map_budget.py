"""Limits how many segments are mapped at once, for address space and descriptors."""

import threading

from kstore._native.read.segment_view import SegmentView


class MapBudget:
    """Keeps at most ``limit`` segments mapped, and unmaps those not read lately.

    A clock: each mapped segment gets a second chance if it was read since the last sweep.
    Slices and arrays in use keep their mapping; only the view drops it.
    Thread safe.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._views: list[SegmentView] = []
        self._lock = threading.Lock()

    def add(self, view: SegmentView) -> None:
        """Count a view that was just mapped, and unmap others above the limit."""
        with self._lock:
            self._views = [other for other in self._views if other.mapped and other is not view]
            self._views.append(view)
            excess = len(self._views) - self.limit
            if excess <= 0:
                return
            kept: list[SegmentView] = []
            for other in self._views[:-1]:
                if excess > 0 and not other.touched:
                    other.unmap()
                    excess -= 1
                else:
                    other.touched = False
                    kept.append(other)
            while excess > 0 and kept:  # all were read lately: unmap the oldest
                kept.pop(0).unmap()
                excess -= 1
            self._views = [*kept, view]

    def release(self, view: SegmentView) -> None:
        """Stop counting a view that stays mapped while it is in use."""
        with self._lock:
            self._views = [other for other in self._views if other is not view]

    def forget(self, view: SegmentView) -> None:
        """Drop a view that left its log."""
        if not view.mapped:  # not counted, and a log may have thousands of them
            return
        with self._lock:
            self._views = [other for other in self._views if other is not view]
        view.unmap()
