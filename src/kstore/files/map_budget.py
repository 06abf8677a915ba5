"""How many segments are mapped at once. A bound for address space and for descriptors."""

import threading

from kstore._native.read.segment_view import SegmentView


class MapBudget:
    """Keeps at most ``limit`` segments mapped, letting go of those not read lately.

    A clock: each mapped segment gets a second chance when it was read since the last sweep.
    Slices and arrays that were handed out keep their mapping alive; only the view forgets it.
    Thread safe.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._views: list[SegmentView] = []
        self._lock = threading.Lock()

    def add(self, view: SegmentView) -> None:
        """Count a view that was just mapped, and unmap others where there are too many."""
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
            while excess > 0 and kept:  # all were read lately: the oldest go
                kept.pop(0).unmap()
                excess -= 1
            self._views = [*kept, view]

    def release(self, view: SegmentView) -> None:
        """Count a view no more but leave it mapped: it stays so as long as somebody holds it."""
        with self._lock:
            self._views = [other for other in self._views if other is not view]

    def forget(self, view: SegmentView) -> None:
        """Drop a view that left its log."""
        if not view.mapped:  # so it does not count, and a log may have thousands of them
            return
        with self._lock:
            self._views = [other for other in self._views if other is not view]
        view.unmap()
