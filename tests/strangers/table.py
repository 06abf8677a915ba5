"""The scores of all runs as one table, and what is wrong in them below it."""

from collections.abc import Sequence
from dataclasses import dataclass

from strangers.expectations import Score


@dataclass(frozen=True)
class Run:
    """A suite at a broker. ``score`` is None if it did not run, and ``why`` says the reason.

    ``broker_errors`` are lines that the broker logged and that are wrong whatever the suite says.
    """

    suite: str
    broker: str
    seconds: float
    score: Score | None
    why: str = ""
    may_be_missing: bool = False
    broker_errors: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        if self.score is None:
            return self.may_be_missing
        return not self.score.wrong and not self.broker_errors


_HEAD = ("suite", "broker", "passed", "failed", "expected", "skipped", "seconds", "")


def lines_of(runs: Sequence[Run]) -> list[str]:
    """The table, then for each run what is wrong and the three results of unsteady tests."""
    rows = [_HEAD, *map(_row, runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column in (0, 1, 7) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    for run in runs:
        name = f"{run.suite} at {run.broker}"
        if run.score is None:
            lines.append(f"{name}: not run: {run.why}")
            continue
        lines += [f"{name}: {sentence}" for sentence in run.score.wrong]
        lines += [f"{name}: the broker logged: {line}" for line in run.broker_errors]
        for test, became in run.score.unsteady.items():
            lines.append(f"{name}: unsteady, {', '.join(became)}: {test}")
    return lines


def _row(run: Run) -> tuple[str, ...]:
    seconds = f"{run.seconds:.0f}"
    if run.score is None:
        verdict = "not run" if run.may_be_missing else "NOT RUN"
        return (run.suite, run.broker, "", "", "", "", seconds, verdict)
    score = run.score
    counts = (score.passed, score.failed, score.expected, score.skipped)
    verdict = "ok" if run.is_right else "WRONG"
    return (run.suite, run.broker, *map(str, counts), seconds, verdict)
