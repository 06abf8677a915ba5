"""The verdict on one screen: at most 23 lines of 80 columns.

What was measured, the grade with its reason, each figure with a sentence, and the ranges of classes
of devices.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from kstore.bench.machine import figures as names
from kstore.bench.machine.figures import NOT_MEASURED, Figure
from kstore.bench.report import sentences
from kstore.bench.report.device_classes import CATCH_UP, CLASSES, COMMIT, MEMORY, WRITING, Range
from kstore.bench.report.grade import compared, verdict
from kstore.bench.report.sentences import Figures
from kstore.bench.report.units import duration, rate, significant
from kstore.integers import count_of

WIDTH = 80
BUSY = 0.25  # of the processors, above which a run is disturbed
_NAME, _CLASS, _CELL = 20, 24, 19  # columns


@dataclass(frozen=True)
class Subject:
    """What was measured.

    ``in_memory`` is the file system if its files are in memory (``tmpfs``), else empty;
    ``machine`` names cores, memory and kernel; ``busy`` is the fraction of the processors that
    other programs used just before.
    """

    directory: str
    file_system: str
    device: str
    machine: str
    in_memory: str = ""
    busy: float = 0.0


def subject_of(tree: Mapping[str, Any]) -> Subject:
    """What a run measured, of its environment."""
    environment = tree["environment"]
    cpu, memory, disk = (environment.get(name, {}) for name in ("cpu", "memory", "disk"))
    medium = tree.get("medium", "disk")
    cores = cpu.get("cores", "? of ?").split(" ")[0]
    system = environment.get("system", {})
    facts = (
        f"{cores} core{'' if cores == '1' else 's'}",
        memory.get("total", ""),
        system.get("kernel", ""),
    )
    return Subject(
        directory=disk.get("directory", "?"),
        file_system=disk.get("file system", "?"),
        device=disk.get("device", "?"),
        machine=", ".join(filter(None, facts)),
        in_memory="" if medium == "disk" else medium,
        busy=_busy(system.get("processors busy", "")),
    )


def _busy(percent: str) -> float:
    """The fraction of ``34 %``; 0 if the system reports none."""
    try:
        return float(percent.split(" ")[0]) / 100
    except ValueError:
        return 0.0


def lines(subject: Subject, found: Figures) -> list[str]:
    """The verdict as text."""
    judged = verdict(found, subject.in_memory)
    medium = "memory" if subject.in_memory else "disk"
    reason = wrap(f"{judged.grade.value}. {judged.reason}{_others(subject)}", WIDTH)
    return [
        _heading(subject),
        *reason,
        *([""] if len(reason) < 3 else []),
        *_row(
            "Sequential writing",
            found[names.SUSTAINED_WRITE],
            _rate(found, names.SUSTAINED_WRITE) + _extent(found[names.SUSTAINED_WRITE]),
            lambda: sentences.writing(found, medium),
        ),
        *_row(
            "One commit",
            found[names.COMMIT_P50],
            _latency(found),
            lambda: sentences.commit(found, medium),
        ),
        *_row(
            "Tail reads",
            found[names.TAIL_READ],
            f"{_rate(found, names.TAIL_READ)} of {names.TAIL >> 20} MiB while writing",
            lambda: sentences.tail(found),
        ),
        *_row(
            "Catch-up reads",
            found[names.CATCH_UP_READ],
            _rate(found, names.CATCH_UP_READ),
            lambda: sentences.catch_up(found),
        ),
        *_row(
            "Network send",
            found[names.NETWORK_SEND],
            f"{_rate(found, names.NETWORK_SEND)} over loopback",
            lambda: sentences.send(found),
        ),
        *_classes(found, subject),
    ]


def _others(subject: Subject) -> str:
    """A warning if other programs used the processors just before the run began."""
    if subject.busy <= BUSY:
        return ""
    return f" Other programs used {subject.busy:.0%} of the processors: repeat it without them."


def _heading(subject: Subject) -> str:
    device = "in memory" if subject.in_memory else f"on {subject.device}"
    rest = f" ({subject.file_system} {device}), {subject.machine}"
    directory = subject.directory
    if len(directory) + len(rest) > WIDTH:
        kept = max(WIDTH - len(rest) - 3, 10)
        directory = f"...{directory[-kept:]}"
    return f"{directory}{rest}"[:WIDTH]


def _row(name: str, figure: Figure, shown: str, sentence: Callable[[], str]) -> Iterator[str]:
    if figure.value is None:
        reason = figure.note if figure.note == NOT_MEASURED else f"not measured: {figure.note}"
        yield f"{name:<{_NAME}}{reason}"[:WIDTH]
        return
    yield f"{name:<{_NAME}}{shown}"
    yield f"  {sentence()}"


def _rate(found: Figures, name: str) -> str:
    """``1.55 GB/s (1.47 to 1.63)``: the ends of the interval in the unit of the figure."""
    figure = found[name]
    value = figure.value or 0.0
    text = rate(value, "B")
    if figure.interval is None:
        return f"{text} ({count_of(figure.rounds, 'round')}, no interval)"
    shown = float(text.split()[0])
    unit = value / shown if shown else 1.0
    low, high = (significant(end / unit) for end in figure.interval)
    return f"{text} ({low} to {high})"


def _extent(written: Figure) -> str:
    """How much was written at this rate, as its note says: ``held over 12 GB in 6 s``."""
    if written.sustained is False:
        return ", not yet sustained"
    held = [clause for clause in written.note.split("; ") if clause.startswith("held over")]
    return f", {held[0]}" if held else ""


def _latency(found: Figures) -> str:
    shown = {
        "p50": names.COMMIT_P50,
        "mean": names.COMMIT_MEAN,
        f"p{found[names.COMMIT_TAIL].share or 99:g}": names.COMMIT_TAIL,
        "slowest": names.COMMIT_SLOWEST,
    }
    known = {label: sentences.value(found, name) for label, name in shown.items()}
    return ", ".join(
        f"{label} {duration(seconds)}" for label, seconds in known.items() if seconds is not None
    )


def _classes(found: Figures, subject: Subject) -> Iterator[str]:
    """The ranges of the classes; ``*`` marks those that have this directory's figure."""
    figures = compared(found)
    titles = ("  writing", "  commit, p50", "  catch-up reads")
    heading = f"{'*: within the range of':<{_CLASS}}"
    yield (heading + "".join(f"{title:<{_CELL}}" for title in titles)).rstrip()
    for each in CLASSES:
        here = figures if (each is MEMORY) == bool(subject.in_memory) else {}
        cells = (
            ("* " if name in here and each.has(name, here[name]) else "  ")
            + span(getattr(each, name), seconds=name == COMMIT)
            for name in (WRITING, COMMIT, CATCH_UP)
        )
        yield f"  {each.name:<{_CLASS - 2}}{''.join(f'{cell:<{_CELL}}' for cell in cells)}".rstrip()


def span(limits: Range, *, seconds: bool) -> str:
    """``40 to 500 us``, ``0.4 to 6 ms``, ``80 to 290 MB/s``."""
    low, high = limits
    if seconds:
        factor, unit = (1e-3, "ms") if high >= 1e-3 else (1e-6, "us")
    else:
        factor, unit = (1e9, "GB/s") if high >= 1e9 else (1e6, "MB/s")
    return f"{significant(low / factor)} to {significant(high / factor)} {unit}"
