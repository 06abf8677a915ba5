"""Whether a directory's modification time shows every change since it was read."""

import time

TICK_NS = 20_000_000  # longer than a tick of the clock for modification times


def is_settled(modified_ns: int) -> bool:
    """Whether a later change of the directory's names gives it another time.

    Not within the clock tick of its last change: then list it once more.
    """
    return abs(time.time_ns() - modified_ns) > TICK_NS
