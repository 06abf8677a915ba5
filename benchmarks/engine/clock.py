"""The clock of contestants that time a part of what they do."""

from collections.abc import Callable
from time import perf_counter

from kstore.bench.contest import Timed


def time_call(call: Callable[[], object]) -> Timed:
    """The seconds and the result of one call; what is prepared before it is not timed."""
    started = perf_counter()
    result = call()
    return Timed(perf_counter() - started, result=result)
