"""Compare two runs: which of kstore's figures are slower or faster.

A figure is judged by its own rounds in both runs, with an exact interval (``shift``): by pairs if
the two took turns. It is slower if the complete interval lies beyond a least change, and beyond the
change of the other contestants of its contest by as much: those run code that is not kstore's, so
what they share is the machine's (its clock speed, its disk, its neighbours). They are never slower
themselves. In a contest without kstore every contestant is judged beside the others. Installations
that took turns share the machine call by call, and are measured without other contestants.

A run has hundreds of figures. The risk of an interval is that of the run divided by their number,
and the least change makes false alarms much rarer still. It is larger for two runs that were made
one after the other: the layout of a process in memory, and of its files, changes the speed of its
shortest calls by a fifth, for as long as the process lives. Installations measured in one run start
several processes. Only contests of the same size are compared.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median
from typing import Literal

from kstore.bench.report import text_table
from kstore.bench.report.results import Tree
from kstore.bench.report.shift import (
    Shift,
    pairs_needed,
    ratio,
    ratio_of_pairs,
    rounds_needed,
    shift,
    shift_of_pairs,
)
from kstore.bench.runner.turns import of_kstore
from kstore.integers import count_of

LEAST, LEAST_APART = 0.1, 0.2  # of a change: of runs that took turns, and of others
WANTED = 0.3  # a change that a verdict "same" excludes
# That chance puts any interval of two runs beyond a change of ``LEAST``. Beside many neighbours the
# intervals of pairs are so wide that the least change protects from nothing.
RISK, RISK_APART = 0.02, 0.1
ENOUGH = 0.5  # fraction of kstore's figures without a verdict, above which nothing is concluded
SUBJECTS = ("cpu", "memory", "system", "disk", "network")
# Facts that differ from minute to minute on one machine.
VOLATILE = {"available", "page cache", "dirty", "load", "processors busy", "free", "directory"}
Verdict = Literal["slower", "faster", "same", "unsure", "few rounds"]
_SIZES = ("scale", "part")


@dataclass(frozen=True)
class Figure:
    """One figure in two runs.

    Attributes
    ----------
    rounds
        How many it has, in the run that has fewer.
    ratio
        How many times as long the second run took (or as much processor time or memory).
    others
        The same for the other contestants of the contest, in the middle; 1.0 without any.
    shift
        ``ratio`` with its interval; None if the rounds are too few.
    least
        The least change that is called one.
    is_main
        Whether it is the first figure of its contestant.
    """

    workload: str
    contest: str
    name: str
    rounds: int
    ratio: float
    others: float
    shift: Shift | None
    least: float
    is_main: bool

    @property
    def title(self) -> str:
        return f"{self.workload}: {self.contest}"

    @property
    def verdict(self) -> Verdict:
        """``unsure``: the interval excludes neither that it is the same nor a change of
        ``WANTED``."""
        if self.shift is None:
            return "few rounds"
        if self.shift.low > (1 + self.least) * max(1.0, self.others):
            return "slower"
        if self.shift.high < min(1.0, self.others) / (1 + self.least):
            return "faster"
        is_narrow = self.shift.high / self.others < 1 + WANTED
        return "same" if is_narrow and self.shift.low / self.others > 1 / (1 + WANTED) else "unsure"


@dataclass(frozen=True)
class Comparison:
    """All that two runs show. ``needed``: rounds of each run that a figure must have."""

    figures: list[Figure]
    needed: int

    @property
    def is_slower(self) -> bool:
        return any(each.verdict == "slower" for each in self.figures)

    @property
    def is_unsure(self) -> bool:
        """Whether most of the contestants have no verdict."""
        main = [each for each in self.figures if each.is_main]
        open_ones = [each for each in main if each.verdict in ("unsure", "few rounds")]
        return len(open_ones) > ENOUGH * len(main)


@dataclass(frozen=True)
class _Rounds:
    """The rounds of one figure in both runs."""

    result: Tree
    name: str
    owner: str
    was: Sequence[float]
    now: Sequence[float]

    @property
    def kind(self) -> str:
        """The name without its contestant's: empty for the first figure, ``sender CPU``."""
        return self.name.removeprefix(self.owner).strip()


@dataclass(frozen=True)
class _Method:
    """How the rounds of two runs are compared.

    ``beside_each_other``: in a contest of judged contestants alone, whether each is judged beside
    the others.
    """

    shift: Callable[[Sequence[float], Sequence[float], float], Shift | None]
    ratio: Callable[[Sequence[float], Sequence[float]], float]
    needed: Callable[[float], int]
    least: float
    risk: float
    beside_each_other: bool


PAIRED = _Method(shift_of_pairs, ratio_of_pairs, pairs_needed, LEAST, RISK, beside_each_other=False)
APART = _Method(shift, ratio, rounds_needed, LEAST_APART, RISK_APART, beside_each_other=True)


def compare(before: Tree, after: Tree, *, absolute: bool = False) -> Comparison:
    """Compare every figure of kstore that both runs have of a contest of the same size.

    ``absolute``: compare every contestant, and charge to it what it shares with the others.
    """
    took_turns = "paired" in after and before.get("paired") == after["paired"]
    contests = list(_same_contests(before, after))
    judged = [list(_judged(rounds, absolute)) for rounds in contests]
    number = sum(map(len, judged))
    method = PAIRED if took_turns else APART
    risk = method.risk / max(1, number)
    figures = chain.from_iterable(
        _figures(own, [] if absolute else rounds, risk, method)
        for own, rounds in zip(judged, contests, strict=True)
    )
    return Comparison(list(figures), method.needed(risk))


def _same_contests(before: Tree, after: Tree) -> Iterator[list[_Rounds]]:
    was = _contests(before)
    for key, result in _contests(after).items():
        if key in was and _size(was[key]) == _size(result):
            old = {entry["name"]: entry["seconds"] for entry in was[key]["contestants"]}
            yield [
                _Rounds(result, name, entry["contestant"], old[name], entry["seconds"])
                for entry in result["contestants"]
                if (name := entry["name"]) in old
            ]


def _judged(rounds: list[_Rounds], absolute: bool) -> Iterator[_Rounds]:
    """The figures of kstore; all figures of a contest without kstore, or with ``absolute``."""
    for each in rounds:
        goals = [bar["ours"] for bar in each.result.get("bars", ())]
        names = {other.owner for other in rounds}
        if absolute or each.owner in of_kstore(each.result["workload"], names, goals):
            yield each


def _figures(
    judged: list[_Rounds], rounds: list[_Rounds], risk: float, method: _Method
) -> Iterator[Figure]:
    ours = {each.owner for each in judged}
    peers = [each for each in rounds if each.owner not in ours]
    if not peers and method.beside_each_other:
        peers = rounds
    moved: dict[str, dict[str, float]] = {}  # by kind of figure and contestant
    for each in peers:
        moved.setdefault(each.kind, {})[each.owner] = method.ratio(each.was, each.now)
    for each in judged:
        others = [new for owner, new in moved.get(each.kind, {}).items() if owner != each.owner]
        yield Figure(
            workload=each.result["workload"],
            contest=each.result["contest"],
            name=each.name,
            rounds=min(len(each.was), len(each.now)),
            ratio=method.ratio(each.was, each.now),
            others=median(others) if others else 1.0,
            shift=method.shift(each.was, each.now, risk),
            least=method.least,
            is_main=each.kind == "",
        )


def losses(before: Tree, after: Tree) -> list[str]:
    """What the second run does not have: failed workloads, missing contests and contestants."""
    lost = [f"failed: {each['workload']}: {each['reason']}" for each in after["failed"]]
    new = _contests(after)
    for key, result in _contests(before).items():
        title = ": ".join(key)
        if key not in new:
            lost.append(f"gone: {title}")
            continue
        names = {entry["name"] for entry in new[key]["contestants"]}
        lost += [
            f"gone: {title}: {entry['name']}"
            for entry in result["contestants"]
            if entry["name"] not in names
        ]
    if by := after.get("ended_by"):
        lost.append(f"failed: the second run was ended early by {by}")
    return lost


def _contests(tree: Tree) -> dict[tuple[str, str], Tree]:
    return {(result["workload"], result["contest"]): result for result in tree["results"]}


def _size(result: Tree) -> tuple[float, ...]:
    """The factors of its data size; results without them have the full size."""
    return tuple(result.get(name, 1.0) for name in _SIZES)


def differences(before: Tree, after: Tree) -> list[str]:
    """How the environments and the sizes of the two runs differ."""
    found = []
    for subject in SUBJECTS:
        old, new = (tree["environment"].get(subject, {}) for tree in (before, after))
        found += [
            f"{subject} {name}: {old.get(name) or 'nothing'}; then {new.get(name) or 'nothing'}"
            for name in dict.fromkeys([*old, *new])
            if name not in VOLATILE and old.get(name) != new.get(name)
        ]
    if before["level"] != after["level"]:
        found.append(f"level: {before['level']}; then {after['level']}")
    was = _contests(before)
    unlike: dict[tuple[str, str], int] = {}
    for key, result in _contests(after).items():
        if key in was and _size(was[key]) != _size(result):
            sizes = "; then ".join(
                f"scale {scale:g}, {part:.0%} of its size"
                for scale, part in (_size(was[key]), _size(result))
            )
            unlike[key[0], sizes] = unlike.get((key[0], sizes), 0) + 1
    found += [
        f"size of {title}: {sizes}: {count_of(count, 'contest')} not compared"
        for (title, sizes), count in unlike.items()
    ]
    return found


def lines(found: Comparison, *, every: bool = False) -> Iterator[str]:
    """The comparison as text: contests that changed, then what has no verdict, then the sum.

    ``every``: also the figures that are the same, or that have no verdict.
    """
    title = None
    for figure in found.figures:
        if not every and figure.verdict not in ("slower", "faster"):
            continue
        if figure.title != title:
            title = figure.title
            yield title
        yield f"  {figure.verdict}: {figure.name}: {_numbers(figure)}"
    yield from _without_verdict(found)
    yield from _of_the_machine(found)
    verdicts = [figure.verdict for figure in found.figures]
    undecided = verdicts.count("unsure") + verdicts.count("few rounds")
    yield (
        f"{count_of(len(verdicts), 'figure')} compared: {verdicts.count('slower')} slower, "
        f"{verdicts.count('faster')} faster, {verdicts.count('same')} the same, {undecided} "
        "without a verdict"
    )


def _numbers(figure: Figure) -> str:
    what = "the time"
    if text_table.is_absolute(figure.name):
        what = "the memory" if figure.name.endswith(text_table.MIB) else "the processor time"
    if figure.shift is None:
        return f"{figure.ratio:.3g}x {what}, of {count_of(figure.rounds, 'round')}"
    others = f", the others {figure.others:.3g}x" if figure.others != 1.0 else ""
    return (
        f"{figure.ratio:.3g}x {what} ({figure.shift.low:.3g} to {figure.shift.high:.3g}, "
        f"{count_of(figure.rounds, 'round')}{others})"
    )


def _without_verdict(found: Comparison) -> Iterator[str]:
    """One line a workload for each reason why figures have no verdict."""
    few: dict[str, list[int]] = {}
    wide: dict[str, list[float]] = {}
    for each in found.figures:
        if each.verdict == "few rounds":
            few.setdefault(each.workload, []).append(each.rounds)
        elif each.verdict == "unsure" and each.shift is not None:
            wide.setdefault(each.workload, []).append(each.shift.high)
    for workload, rounds in few.items():
        yield (
            f"cannot say: {workload}: {count_of(len(rounds), 'figure')} of "
            f"{count_of(min(rounds), 'round')} or more: "
            f"{found.needed} are needed"
        )
    for workload, highs in wide.items():
        yield (
            f"cannot say: {workload}: {count_of(len(highs), 'figure')} whose rounds differ too "
            f"much: up to {median(highs):.2g}x the time would not be seen"
        )


def _of_the_machine(found: Comparison) -> Iterator[str]:
    """One line a workload whose other contestants changed: the machine did."""
    moved: dict[str, dict[str, float]] = {}
    for each in found.figures:
        if each.is_main:
            moved.setdefault(each.workload, {})[each.contest] = each.others
    for workload, contests in moved.items():
        middle = median(contests.values())
        if not 1 / (1 + LEAST) < middle < 1 + LEAST:
            yield (
                f"the machine: {workload}: contestants that are not judged, or all together, took "
                f"{middle:.3g}x the time; this is not charged to kstore"
            )
