"""Compare two runs: what is slower or faster beyond the noise.

Two runs are not interleaved, so the clock speed of the machine may differ between them. A
contestant is therefore compared by its fraction of the ceiling of its own run and round. Ceilings,
and everything with ``absolute``, are compared by time; processor time and memory always directly.
Only contests of the same size are compared.

A run has hundreds of figures, most of them with few rounds, so that chance alone makes some of
them look slower. A single figure is slower only if its rounds are apart by more than the noise and
there are enough of them to exclude chance among so many figures (``RISK``). Figures of a group, of
a workload, and of one contestant in a workload are also combined: their median must have changed
by more than ``FAR`` times the noise and ``FAR_LEAST``, in at least ``SEVERAL`` contests. The noise
is the larger A/A noise of the two runs, and at least ``LEAST``.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kstore.bench.report import text_table
from kstore.bench.report.results import Tree
from kstore.bench.runner import noise
from kstore.bench.runner.estimate import Estimate, at_least_tiny, quotient

LEAST = 0.1  # of a change of one figure: two quiet runs differ by as much
FAR, FAR_LEAST = 3.0, 0.25  # of a change of several figures, or of one with few rounds
RISK = 0.05  # that chance makes any single figure slower between two equal runs
APART = 0.95  # fraction of the pairs of rounds of two runs that must be in one order
SEVERAL = 3  # contests whose figures are combined
HIDDEN = 1.0  # noise from which on nothing can be concluded
SEEN = 3  # rounds of a single figure that can look much slower
SUBJECTS = ("cpu", "memory", "system", "disk", "network")
# Facts that differ from minute to minute on one machine.
VOLATILE = {"available", "page cache", "dirty", "load", "free", "directory"}
Verdict = Literal["slower", "faster", "same", "unsure"]
Floats = NDArray[np.float64]
_SIZES = ("scale", "part")
_UNITS = {
    "ceiling": "as fast of its ceiling",
    "time": "as fast in time",
    "memory": "the memory",
    "processor time": "the processor time",
}


@dataclass(frozen=True)
class Figure:
    """One figure in two runs.

    Attributes
    ----------
    was, now
        Its rounds in the first and in the second run.
    against
        What is compared: a key of ``_UNITS``.
    is_main
        Whether it is the first figure of its contestant.
    """

    workload: str
    contest: str
    name: str
    was: Floats
    now: Floats
    noise: float
    against: str
    is_main: bool
    verdict: Verdict = "same"

    @property
    def title(self) -> str:
        return f"{self.workload}: {self.contest}"

    @cached_property
    def speed(self) -> Estimate:
        """The speed of the second run relative to the first (0.8: takes 1.25 times as long)."""
        return quotient(self.was.tolist(), self.now.tolist())

    @cached_property
    def median(self) -> float:
        """The median of ``speed``, without its interval."""
        return float(np.median(self.was) / np.median(self.now))

    @property
    def far(self) -> float:
        """The factor that combined figures, and one with few rounds, have to exceed."""
        return 1 + max(FAR * self.noise, FAR_LEAST)

    @property
    def seems_slower(self) -> bool:
        """Whether few rounds are so far apart that the figure deserves another measurement: by
        more than ``far``, and by more than twice the spread of either run."""
        if min(self.was.size, self.now.size) < SEEN:
            return False
        spreads = [float(rounds.max() / rounds.min()) ** 2 for rounds in (self.was, self.now)]
        return float(self.now.min() / self.was.max()) > max(self.far, *spreads)


def _judge(figure: Figure, figures: int) -> Verdict:
    """The verdict on one of so many figures.

    ``unsure``: its interval is beyond the noise, but its rounds are too few or too close together
    to exclude chance; or the noise hides everything.
    """
    was, now, beyond = figure.was, figure.now, 1 + figure.noise
    # Chance puts all rounds of one run above those of the other once in so many times.
    if comb(was.size + now.size, now.size) >= figures / RISK:
        if _are_apart(now, was * beyond):
            return "slower"
        if _are_apart(was, now * beyond):
            return "faster"
    if figure.noise >= HIDDEN:
        return "unsure"
    if 1 / beyond <= figure.median <= beyond:
        return "same"
    is_beyond = figure.speed.low > beyond or figure.speed.high < 1 / beyond
    return "unsure" if is_beyond else "same"


def _are_apart(larger: Floats, smaller: Floats) -> bool:
    return bool((larger[:, None] > smaller).mean() >= APART)


@dataclass(frozen=True)
class Combined:
    """Several figures that are slower or faster; ``speed`` is the median of theirs."""

    title: str
    contests: int
    speed: float
    against: str
    verdict: Verdict


@dataclass(frozen=True)
class Comparison:
    """All that two runs show. ``hidden``: the noise of workloads where it hides everything."""

    figures: list[Figure]
    combined: list[Combined]
    hidden: dict[str, float]

    @property
    def is_slower(self) -> bool:
        return any(each.verdict == "slower" for each in self.figures) or any(
            each.verdict == "slower" for each in self.combined
        )

    @property
    def is_unsure(self) -> bool:
        """Whether a figure seems much slower in too few rounds, or noise hides everything."""
        return bool(self.hidden) or any(
            each.verdict == "unsure" and each.seems_slower for each in self.figures
        )


def compare(before: Tree, after: Tree, *, absolute: bool = False) -> Comparison:
    """Compare every figure that both runs have of a contest of the same size."""
    found = list(_figures(before, after, absolute))
    figures = [replace(each, verdict=_judge(each, len(found))) for each in found]
    hidden = {
        each.workload: each.noise
        for each in figures
        if each.noise >= HIDDEN and each.against != "memory"
    }
    return Comparison(figures, list(_combine(each for each in figures if each.is_main)), hidden)


def _combine(figures: Iterable[Figure]) -> Iterator[Combined]:
    families: dict[tuple[str, str], list[Figure]] = defaultdict(list)
    for figure in figures:
        group = figure.workload.partition("/")[0]
        for title in (group, figure.workload, f"{figure.workload}: {figure.name}"):
            families[title, figure.against].append(figure)
    for (title, against), several in families.items():
        contests = len({each.title for each in several})
        speed = float(np.median([each.median for each in several]))
        far = max(each.far for each in several)
        if contests >= SEVERAL and not 1 / far <= speed <= far:
            yield Combined(title, contests, speed, against, "slower" if speed < 1 else "faster")


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


def _figures(before: Tree, after: Tree, absolute: bool) -> Iterator[Figure]:
    was = _contests(before)
    for key, result in _contests(after).items():
        if key in was and _size(was[key]) == _size(result):
            noises = (noise.of_workload(tree["noise"], key[0]) for tree in (before, after))
            yield from _of_contest(was[key], result, max(LEAST, *noises), absolute)


def _of_contest(old: Tree, new: Tree, noise: float, absolute: bool) -> Iterator[Figure]:
    runs = [{each["name"]: each for each in tree["contestants"]} for tree in (old, new)]
    ceiling = old["ceiling"] if all(old["ceiling"] in run for run in runs) else None
    for name, entry in runs[1].items():
        if name not in runs[0]:
            continue
        rounds = [at_least_tiny(run[name]["seconds"]) for run in runs]
        against = "memory" if name.endswith(text_table.MIB) else "processor time"
        if not text_table.is_absolute(name):
            against = "time"
            roofs = [at_least_tiny(run[ceiling]["seconds"]) for run in runs] if ceiling else []
            sizes = [(own.size, roof.size) for own, roof in zip(rounds, roofs, strict=False)]
            if roofs and not absolute and name != ceiling and all(a == b for a, b in sizes):
                against = "ceiling"
                rounds = [own / roof for own, roof in zip(rounds, roofs, strict=True)]
        yield Figure(
            workload=new["workload"],
            contest=new["contest"],
            name=name,
            was=rounds[0],
            now=rounds[1],
            noise=LEAST if against == "memory" else noise,
            against=against,
            is_main=name == entry.get("contestant", name),
        )


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
    unlike: dict[tuple[str, str], int] = defaultdict(int)
    for key, result in _contests(after).items():
        if key in was and _size(was[key]) != _size(result):
            sizes = "; then ".join(
                f"scale {scale:g}, {part:.0%} of its size"
                for scale, part in (_size(was[key]), _size(result))
            )
            unlike[key[0], sizes] += 1
    found += [
        f"size of {title}: {sizes}: {count} contests not compared"
        for (title, sizes), count in unlike.items()
    ]
    return found


def _factor(speed: float, against: str) -> float:
    """The factor that is printed: of speed, or of the memory or processor time used."""
    return speed if against in ("ceiling", "time") else 1 / speed


def lines(found: Comparison, *, every: bool = False) -> Iterator[str]:
    """The comparison as text: combined figures, then contests; ``every``: also what is the same."""
    for workload, value in found.hidden.items():
        yield f"nothing can be concluded about {workload}: its A/A noise is {value:.0%}"
    for each in found.combined:
        yield (
            f"{each.verdict}, taken together: {each.title}: typically "
            f"{_factor(each.speed, each.against):.3g}x {_UNITS[each.against]} "
            f"({each.contests} contests)"
        )
    title = None
    for figure in found.figures:
        if not every and (figure.verdict == "same" or figure.workload in found.hidden):
            continue
        if figure.title != title:
            title = figure.title
            yield title
        is_far = figure.verdict == "unsure" and figure.seems_slower
        speeds = (figure.speed.median, figure.speed.low, figure.speed.high)
        median, *interval = (_factor(speed, figure.against) for speed in speeds)
        low, high = sorted(interval)
        yield (
            f"  {figure.verdict}{', MUCH SLOWER IF SO' if is_far else ''}: {figure.name}: "
            f"{median:.3g}x {_UNITS[figure.against]} "
            f"({low:.3g} to {high:.3g}, noise {figure.noise:.1%})"
        )
    verdicts = [figure.verdict for figure in found.figures]
    counts = {word: verdicts.count(word) for word in ("slower", "faster", "same", "unsure")}
    yield (
        f"{len(verdicts)} figures compared: {counts['slower']} slower, {counts['faster']} faster, "
        f"{counts['same']} the same within the noise"
        + (f", {counts['unsure']} unsure: measure more --rounds" if counts["unsure"] else "")
    )
