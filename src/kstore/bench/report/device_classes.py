"""Classes of storage devices, with the ranges that published figures of each class span.

docs/guide/bench.md names the source of every range. Ranges are of one writer and one reader through
a file system, as ``kstore bench`` measures them, so they overlap: a class is a comparison, it does
not identify a device.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

MB, GB = 1e6, 1e9
US, MS = 1e-6, 1e-3
WRITING, COMMIT, CATCH_UP = "writing", "commit", "catch_up"
Range = tuple[float, float]


@dataclass(frozen=True)
class DeviceClass:
    """A class of device.

    Attributes
    ----------
    name
        As the verdict names it.
    writing, catch_up
        Bytes a second: written sequentially, sustained; read sequentially, not from a cache.
    commit
        Seconds: the median of a 4 KiB write with its ``fdatasync``.
    """

    name: str
    writing: Range
    commit: Range
    catch_up: Range

    def has(self, figure: str, value: float) -> bool:
        """Whether a value of ``WRITING``, ``COMMIT`` or ``CATCH_UP`` is within this class."""
        low, high = getattr(self, figure)
        return bool(low <= value <= high)


MEMORY = DeviceClass("memory (tmpfs)", (1 * GB, 30 * GB), (0.3 * US, 20 * US), (1 * GB, 60 * GB))
CLASSES = (
    MEMORY,
    DeviceClass(
        "datacentre NVMe (PLP)", (0.7 * GB, 10 * GB), (10 * US, 350 * US), (1 * GB, 14 * GB)
    ),
    DeviceClass("consumer NVMe", (250 * MB, 4 * GB), (400 * US, 6 * MS), (1 * GB, 14 * GB)),
    DeviceClass(
        "datacentre SATA (PLP)", (250 * MB, 550 * MB), (40 * US, 500 * US), (300 * MB, 560 * MB)
    ),
    DeviceClass(
        "consumer SATA SSD", (60 * MB, 530 * MB), (500 * US, 10 * MS), (250 * MB, 560 * MB)
    ),
    DeviceClass(
        "network block (gp3)", (100 * MB, 2.1 * GB), (350 * US, 10 * MS), (100 * MB, 2.1 * GB)
    ),
    DeviceClass("hard disk", (80 * MB, 290 * MB), (4 * MS, 50 * MS), (80 * MB, 290 * MB)),
)


def matches(figures: Mapping[str, float]) -> Iterator[tuple[DeviceClass, frozenset[str]]]:
    """Each class with the names of those figures that lie within it."""
    for each in CLASSES:
        yield each, frozenset(name for name, value in figures.items() if each.has(name, value))


def closest(figures: Mapping[str, float], *, in_memory: bool) -> tuple[DeviceClass, ...]:
    """The classes within which all of the figures lie: none, one, or several that overlap.

    Only files in memory are of the class of memory.
    """
    return tuple(
        each
        for each, within in matches(figures)
        if figures and len(within) == len(figures) and (each is MEMORY) == in_memory
    )
