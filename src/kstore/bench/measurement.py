"""A measurement: figures of the machine that are no contest, within a given time."""

from collections.abc import Callable
from dataclasses import dataclass

from kstore.bench.machine.figures import Figure


@dataclass(frozen=True)
class Measurement:
    """Something about the machine that is measured once, in rounds or windows of its own.

    Attributes
    ----------
    name
        What is measured, for the line of progress.
    figures
        The names of the figures that ``take`` returns.
    take
        Measures within so many seconds, set-up included, and returns the figures. It may raise
        any error: the figures then have no value, and the error is their note.
    part
        The fraction of its workload's time that it gets.
    """

    name: str
    figures: tuple[str, ...]
    take: Callable[[float], list[Figure]]
    part: float
