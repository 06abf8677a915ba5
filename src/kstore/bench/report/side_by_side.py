"""The verdicts of two runs beside each other: which of two disks, on one screen."""

from collections.abc import Iterator

from kstore.bench.machine import figures as names
from kstore.bench.machine.figures import Figure, of_tree
from kstore.bench.report.grade import Grade, Verdict, verdict
from kstore.bench.report.results import Tree
from kstore.bench.report.units import duration, rate
from kstore.bench.report.verdict import subject_of

_NAME, _RUN = 22, 29  # columns
_ORDER = (Grade.GOOD, Grade.FAIR, Grade.POOR)  # the best first
_ROWS = {
    "Sequential writing": names.SUSTAINED_WRITE,
    "The disk alone": names.DISK_WRITE,
    "One commit, p50": names.COMMIT_P50,
    "One commit, mean": names.COMMIT_MEAN,
    "One commit, p99": names.COMMIT_TAIL,
    "One commit, slowest": names.COMMIT_SLOWEST,
    "Tail reads": names.TAIL_READ,
    "Catch-up reads": names.CATCH_UP_READ,
    "Network send": names.NETWORK_SEND,
}


def lines(before: Tree, after: Tree) -> Iterator[str]:
    """A line for each figure of the verdict, the grades, and which is better by these; nothing if a
    run has no figures."""
    runs = (before, after)
    if not all(run.get("figures") for run in runs):
        return
    found = [of_tree(run) for run in runs]
    subjects = [subject_of(run) for run in runs]
    yield _line("", [f"{each.directory} ({each.file_system})"[-_RUN + 2 :] for each in subjects])
    grades = [verdict(each, of.in_memory) for each, of in zip(found, subjects, strict=True)]
    yield _line("Verdict", [each.grade.value for each in grades])
    for row, name in _ROWS.items():
        if name == names.DISK_WRITE and all(each[name].value is None for each in found):
            continue
        yield _line(row, [_shown(each[name]) for each in found])
    yield f"{_better(*grades)} The exit status does not judge this table."


def _better(first: Verdict, second: Verdict) -> str:
    """Which of two is better by its grade, as a sentence."""
    if first.grade not in _ORDER or second.grade not in _ORDER:
        return "The grades cannot be compared."
    if first.grade is second.grade:
        return "The grades are equal."
    is_first = _ORDER.index(first.grade) < _ORDER.index(second.grade)
    return f"The {'first' if is_first else 'second'} is better by its grade."


def _line(name: str, cells: list[str]) -> str:
    return f"{name:<{_NAME}}{''.join(f'{cell:<{_RUN}}' for cell in cells)}".rstrip()


def _shown(figure: Figure) -> str:
    if figure.value is None:
        return "not measured"
    text = duration(figure.value) if figure.unit == "s" else rate(figure.value, "B")
    if figure.share not in (None, 99.0):
        return f"{text} (p{figure.share:g}: few commits)"
    return f"{text}, not sustained" if figure.sustained is False else text
