"""Finds the program's line that a warning is about, however many of kstore's frames lie between."""

import sys
from types import FrameType


def level_of_caller() -> int:
    """The ``stacklevel`` for ``warnings.warn`` in the function that calls this one. Any thread."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_of_kstore(frame):
        level, frame = level + 1, frame.f_back
    return level


def _is_of_kstore(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "kstore"
