"""The expected failures of a suite, each with its reason, and what differs from them.

A file ``expected/<suite>.toml`` has tables ``[[failure]]``, ``[[unsteady]]`` and ``[[retried]]``:
``test`` (a name, ``*`` for any text in it), ``why``, and optionally ``on`` (brokers) and ``of``
(variants of the suite). A failure that is not expected and a pass where a failure was expected are
both wrong. Unsteady tests run three times; all three results are shown, and none of them is wrong.
A retried test that fails runs twice more; the results are shown, and three failures are wrong. If
more than three of them fail, none runs again: a wildcard must not hide what is broken.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from strangers.suite import FAILED, PASSED, SKIPPED, Results

FOLDER = Path(__file__).parent / "expected"
# A race makes one test of a run fail, perhaps two. If more fail, there is another reason.
MOST_RETRIED = 3
_KEYS = {"test", "why", "on", "of"}


@dataclass(frozen=True)
class Entry:
    """One expected failure, or one unsteady test."""

    test: str
    why: str
    on: tuple[str, ...] = ()  # none: on every broker
    of: tuple[str, ...] = ()  # none: of every variant

    def counts(self, suite: str, broker: str) -> bool:
        return (not self.on or broker in self.on) and (not self.of or suite in self.of)

    def names(self, test: str) -> bool:
        return fnmatchcase(test.replace("[", "("), self.test.replace("[", "("))


@dataclass(frozen=True)
class Expectations:
    """What is expected of a suite at a broker."""

    failures: tuple[Entry, ...] = ()
    unsteady: tuple[Entry, ...] = ()
    retried: tuple[Entry, ...] = ()

    def is_unsteady(self, test: str) -> bool:
        return any(entry.names(test) for entry in self.unsteady)

    def is_retried(self, test: str) -> bool:
        """Not one whose failure is expected, by which a wildcard may include it."""
        return not self.is_failure(test) and any(entry.names(test) for entry in self.retried)

    def is_failure(self, test: str) -> bool:
        return any(entry.names(test) for entry in self.failures)


@dataclass
class Score:
    """What a run was worth. ``wrong`` are sentences; none of them: it is as expected."""

    passed: int = 0
    failed: int = 0
    expected: int = 0  # of those that failed
    skipped: int = 0
    wrong: list[str] = field(default_factory=list)
    unsteady: dict[str, list[str]] = field(default_factory=dict)


def read_expectations(name: str, suite: str, broker: str) -> Expectations:
    """The entries of a file that count for a suite's variant at a broker.

    Raises ValueError for an entry without a reason or with an unknown key.
    """
    path = FOLDER / f"{name}.toml"
    tables = tomllib.loads(path.read_text()) if path.exists() else {}
    unknown = set(tables) - {"failure", "unsteady", "retried"}
    if unknown:
        raise ValueError(f"{path.name}: {', '.join(sorted(unknown))}")
    return Expectations(
        tuple(_entries(path, tables.get("failure", ()), suite, broker)),
        tuple(_entries(path, tables.get("unsteady", ()), suite, broker)),
        tuple(_entries(path, tables.get("retried", ()), suite, broker)),
    )


def _entries(
    path: Path, tables: Iterable[dict[str, object]], suite: str, broker: str
) -> Iterable[Entry]:
    for table in tables:
        if set(table) - _KEYS or not table.get("test") or not table.get("why"):
            raise ValueError(f"{path.name}: an entry has a test and a reason: {table}")
        entry = Entry(
            str(table["test"]),
            str(table["why"]),
            _words(table.get("on")),
            _words(table.get("of")),
        )
        if entry.counts(suite, broker):
            yield entry


def _words(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def to_run_again(results: Results, expected: Expectations) -> list[str]:
    """The unsteady tests, and the retried ones that failed, unless these are many."""
    failed = [test for test, became in results.items() if became == FAILED]
    retried = [test for test in failed if expected.is_retried(test)]
    unsteady = [test for test in results if expected.is_unsteady(test)]
    return unsteady + (retried if len(retried) <= MOST_RETRIED else [])


def judge(results: Results, again: Iterable[Results], expected: Expectations) -> Score:
    """The score of a run; ``again`` are the further runs of its tests :func:`to_run_again`."""
    score = Score()
    repeated = list(again)
    for test, became in sorted(results.items()):
        if became == SKIPPED:
            score.skipped += 1
            continue
        if became == PASSED:
            score.passed += 1
        else:
            score.failed += 1
        if expected.is_unsteady(test):
            score.unsteady[test] = [became, *(run.get(test, "not run") for run in repeated)]
            score.expected += became == FAILED
        elif became == FAILED and expected.is_retried(test):
            score.unsteady[test] = [became, *(run.get(test, "not run") for run in repeated)]
            if PASSED in score.unsteady[test]:
                score.expected += 1
            else:
                score.wrong.append(f"{test} failed each time")
        elif became == FAILED and expected.is_failure(test):
            score.expected += 1
        elif became == FAILED:
            score.wrong.append(f"{test} failed")
        elif expected.is_failure(test):
            score.wrong.append(f"{test} passed, and a failure was expected")
    for entry in expected.failures:
        if not any(entry.names(test) for test in results):
            score.wrong.append(f"{entry.test} did not run, and a failure was expected")
    return score
