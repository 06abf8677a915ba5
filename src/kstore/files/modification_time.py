"""Whether a directory's modification time shows every change since it was read."""

import time

TICK_NS = 20_000_000  # longer than a tick of the clock that stamps directories


def is_settled(modified_ns: int) -> bool:
    """Whether a name that comes or goes from now on gives the directory another time.

    Not within the tick of the clock in which it changed last: then list it once more.
    """
    return abs(time.time_ns() - modified_ns) > TICK_NS
