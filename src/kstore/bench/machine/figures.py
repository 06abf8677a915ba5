"""The figures of a machine on which the verdict rests: their names, their units, their JSON.

A run stores them under ``figures`` in its tree, one entry per name. :func:`of_tree` returns a
:class:`Figure` for every name, also for those that were not measured.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

SUSTAINED_WRITE = "sustained write"
DISK_WRITE = "write of the disk alone"  # where the writer's calls limit SUSTAINED_WRITE
COMMIT_P50 = "commit p50"
COMMIT_TAIL = "commit tail"  # the p99, or the highest percentile that the samples allow
COMMIT_MEAN = "commit mean"
COMMIT_SLOWEST = "commit slowest"
TAIL_READ = "tail read beside writing"
TAIL_WRITE = "write beside tail reads"
CACHED_READ = "cached read"
CATCH_UP_READ = "catch-up read"
NETWORK_SEND = "network send"

# The unit of each figure, in the order in which they are shown.
UNITS = {
    SUSTAINED_WRITE: "B/s",
    DISK_WRITE: "B/s",
    COMMIT_P50: "s",
    COMMIT_TAIL: "s",
    COMMIT_MEAN: "s",
    COMMIT_SLOWEST: "s",
    TAIL_READ: "B/s",
    TAIL_WRITE: "B/s",
    CACHED_READ: "B/s",
    CATCH_UP_READ: "B/s",
    NETWORK_SEND: "B/s",
}
TAIL = 16 << 20  # bytes of the end of a file, which TAIL_READ reads again and again
NOT_MEASURED = "not measured in this run"


@dataclass(frozen=True)
class Figure:
    """One figure of the machine.

    Attributes
    ----------
    name
        One of ``UNITS``.
    value
        In the figure's unit; None if it was not measured, and ``note`` is the reason.
    interval
        The 95 % confidence interval of the median of the rounds; None for fewer than five rounds,
        and for the slowest of several.
    rounds
        How many rounds the value is the median of, the warm-up not counted. For a sustained rate,
        how many windows of time; for latencies, how many single writes.
    sustained
        Of a sustained rate: False if it was still falling at the end of the run. None for others.
    share
        Of a tail of latencies: the percentile that it is, 99.0 or less. None for others.
    note
        What limits the figure's meaning, as a sentence without a full stop; may be empty.
    """

    name: str
    value: float | None
    interval: tuple[float, float] | None = None
    rounds: int = 0
    sustained: bool | None = None
    note: str = ""
    share: float | None = None

    @property
    def unit(self) -> str:
        """``B/s`` or ``s``."""
        return UNITS[self.name]


def as_tree(figures: Iterable[Figure]) -> dict[str, dict[str, Any]]:
    """The figures by name, as a run's JSON file has them."""
    return {each.name: asdict(each) | {"unit": each.unit} for each in figures}


def of_tree(tree: Mapping[str, Any]) -> dict[str, Figure]:
    """Every figure of a run by its name, in the order of ``UNITS``.

    A figure that the run does not have has no value, and the note says so.
    """
    kept = tree.get("figures", {})
    return {name: _figure(name, kept.get(name)) for name in UNITS}


def _figure(name: str, entry: Mapping[str, Any] | None) -> Figure:
    if entry is None:
        return Figure(name, None, note=NOT_MEASURED)
    interval = entry["interval"]
    return Figure(
        name,
        entry["value"],
        None if interval is None else (interval[0], interval[1]),
        entry["rounds"],
        entry["sustained"],
        entry["note"],
        entry.get("share"),
    )
