"""The grade of a machine for a log, and the sentence that gives its reason."""

from dataclasses import dataclass
from enum import Enum

from kstore.bench.machine import figures as names
from kstore.bench.machine.figures import Figure
from kstore.bench.report.device_classes import CATCH_UP, COMMIT, WRITING, closest
from kstore.bench.report.sentences import Figures, value
from kstore.bench.report.units import duration, rate

# Bounds of the grades. 300 MB/s is the network traffic of 2.4 Gbit/s, 100 MB/s that of a gigabit.
# 5 ms is Kafka's default linger.ms (KIP-1030): a commit within it adds little to a batch's wait.
WRITING_BOUNDS = (300e6, 100e6)  # bytes a second, at least
COMMIT_BOUNDS = (5e-3, 50e-3)  # seconds, p99, at most


class Grade(Enum):
    """What the verdict says first."""

    GOOD = "GOOD FOR A LOG"
    FAIR = "FAIR FOR A LOG"
    POOR = "POOR FOR A LOG"
    MEMORY = "NOT A DISK"
    UNKNOWN = "NO VERDICT"


@dataclass(frozen=True)
class Verdict:
    """The grade, and sentences that give its reason."""

    grade: Grade
    reason: str


def verdict(found: Figures, in_memory: str = "") -> Verdict:
    """The verdict on some figures; ``in_memory``: the file system, if its files are in memory."""
    if in_memory:
        return Verdict(
            Grade.MEMORY,
            f"{in_memory} is memory: what is written here is lost at a restart or a power cut. "
            "Compare other directories with it, keep no log in it.",
        )
    written, commit = found[names.SUSTAINED_WRITE], found[names.COMMIT_TAIL]
    for figure, name in ((written, "sequential writing"), (commit, "commit latency")):
        if figure.value is None:
            return Verdict(Grade.UNKNOWN, f"Without {name} it cannot be given.")
    written = disk_writing(found)
    ranks = {"writing": _rank(written, WRITING_BOUNDS), "commit": _rank(commit, COMMIT_BOUNDS)}
    worst = max(ranks.values())
    if worst == 0:
        reasons = [_likeness(found), _first_limit(found)]
    else:
        reasons = [_shortfall(found, {name for name in ranks if ranks[name] == worst}, worst)]
    if (share := _share(commit)) < 99:
        reasons.append(
            f"Graded by the p{share:g} of {commit.rounds} commits, too few for a p99, which may be "
            "worse."
        )
    if found[names.SUSTAINED_WRITE].sustained is False:
        reasons.append("Longer writing may be slower.")
    elif _is_open(written, WRITING_BOUNDS) or _is_open(commit, COMMIT_BOUNDS):
        reasons.append("The intervals allow another grade: measure longer.")
    return Verdict((Grade.GOOD, Grade.FAIR, Grade.POOR)[worst], " ".join(filter(None, reasons)))


def disk_writing(found: Figures) -> Figure:
    """The rate that is graded as the disk's: that of its syncs where the writer is the limit."""
    alone = found[names.DISK_WRITE]
    return found[names.SUSTAINED_WRITE] if alone.value is None else alone


def _share(commit: Figure) -> float:
    """The percentile that a tail of commits is."""
    return 99.0 if commit.share is None else commit.share


def _one_in(share: float) -> str:
    """How often a commit takes longer than a percentile: ``one commit in 100``."""
    return "every second commit" if share <= 50 else f"one commit in {100 / (100 - share):.0f}"


def _rank(figure: Figure, bounds: tuple[float, float], worth: float | None = None) -> int:
    """0: good, 1: fair, 2: poor."""
    measured = worth if worth is not None else figure.value or 0.0
    at_least = bounds[0] > bounds[1]
    return sum(measured < bound if at_least else measured > bound for bound in bounds)


def _is_open(figure: Figure, bounds: tuple[float, float]) -> bool:
    """Whether the ends of a figure's interval have different grades."""
    return len({_rank(figure, bounds, end) for end in figure.interval or ()}) > 1


def _shortfall(found: Figures, short: set[str], worst: int) -> str:
    """Which figures caused a grade below good."""
    reasons = []
    if "writing" in short:
        written, bound = disk_writing(found).value or 0.0, WRITING_BOUNDS[worst - 1]
        reasons.append(f"it writes {rate(written, 'B')}, less than {rate(bound, 'B')}")
    if "commit" in short:
        took, bound = found[names.COMMIT_TAIL], COMMIT_BOUNDS[worst - 1]
        reasons.append(
            f"{_one_in(_share(took))} takes {duration(took.value or 0.0)}, more than "
            f"{duration(bound)}: batch records, or let replicas acknowledge"
        )
    text = ", and ".join(reasons)
    return f"{text[0].upper()}{text[1:]}."


def _first_limit(found: Figures) -> str:
    """What limits producers and consumers first, of the rates that were measured."""
    on_disk = found[names.DISK_WRITE].value is None
    rates = {
        "writing to disk" if on_disk else "writing to the page cache": value(
            found, names.SUSTAINED_WRITE
        ),
        "reading from disk": value(found, names.CATCH_UP_READ),
        "one core's sending": value(found, names.NETWORK_SEND),
    }
    known = {name: each for name, each in rates.items() if each is not None}
    slowest = min(known, key=lambda name: known[name])
    return f"Its first limit is {slowest}, {rate(known[slowest], 'B')}."


def compared(found: Figures) -> dict[str, float]:
    """The figures of which classes of devices have ranges, as far as they were measured."""
    figures = {
        WRITING: disk_writing(found).value,
        COMMIT: value(found, names.COMMIT_P50),
        CATCH_UP: value(found, names.CATCH_UP_READ),
    }
    return {name: each for name, each in figures.items() if each is not None}


def _likeness(found: Figures) -> str:
    """Which classes have all of the measured figures."""
    alike = [each.name for each in closest(compared(found), in_memory=False)]
    return f"Like: {' or '.join(alike)}." if alike else ""
