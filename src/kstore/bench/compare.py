"""Two runs compared: what changed beyond the noise, and what of it is more than chance.

Two runs are not interleaved, so the clock of the machine may differ between them. A contestant is
therefore compared by its fraction of the ceiling of its own run and round, which that difference
leaves alone; a ceiling itself, and everything with ``absolute``, is compared by its time, processor
time and memory always by themselves. Only contests of the same size are compared.

Hundreds of figures are looked at, many of them with three rounds: one by one those can tell
nothing. So three families of tests of ranks are made, each allowed a third of ``RISK``
(``kstore.bench.ranks``): the main figure of every contestant, against the noise; all further ones
(percentiles, processor time, memory), against the noise; and figures taken together, those of a
group, of a workload and of one contestant in all contests of a workload, against ``FAR`` times the
noise and at least ``FAR_LEAST``, since two runs on one machine differ by more than one has noise.
The noise is the larger A/A noise of the two runs, and at least ``LEAST``.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from kstore.bench import noise, ranks, table
from kstore.bench.results import Tree
from kstore.bench.statistic import Estimate, at_least_tiny, quotient

LEAST = 0.1  # of a change of one figure: so much two runs may differ that each have less noise
FAR, FAR_LEAST = 3.0, 0.25  # of a change of several together, or of a single one of few rounds
RISK = 0.05  # that anything at all is called slower between two runs of the same
NOTHING = 1.0  # the noise from which on it hides everything
FEWEST = 3  # rounds of a single figure that may look slower
SUBJECTS = ("cpu", "memory", "system", "disk", "network")
# What differs from minute to minute without another machine.
FLEETING = {"available", "page cache", "dirty", "load", "free", "directory"}
Verdict = Literal["slower", "faster", "same", "unsure"]
_SIZES = ("scale", "part")


@dataclass(frozen=True)
class Figure:
    """One figure in two runs: its rounds, and what they are measured against.

    ``against``: ``ceiling``, ``time``, ``processor time`` or ``memory``. ``main``: whether it is
    its contestant's first.
    """

    workload: str
    contest: str
    name: str
    was: ranks.Floats
    now: ranks.Floats
    noise: float
    against: str
    main: bool

    @property
    def title(self) -> str:
        return f"{self.workload}: {self.contest}"

    @cached_property
    def faster(self) -> Estimate:
        """How much faster the second run's is (0.8: takes 1.25 times as long)."""
        return quotient(self.was.tolist(), self.now.tolist())

    @cached_property
    def middle(self) -> float:
        """The median of ``faster``, without its interval."""
        return float(np.median(self.was) / np.median(self.now))

    @property
    def far(self) -> float:
        """What a change must be larger than, where few rounds or many figures tell of it."""
        return 1 + max(FAR * self.noise, FAR_LEAST)

    @property
    def seems_slower(self) -> bool:
        """Whether few rounds lie so far apart that they are worth another look: by more than
        ``far``, and by more than twice what those of either run lie apart."""
        if min(self.was.size, self.now.size) < FEWEST:
            return False
        widths = [float(rounds.max() / rounds.min()) ** 2 for rounds in (self.was, self.now)]
        return float(self.now.min() / self.was.max()) > max(self.far, *widths)


@dataclass(frozen=True)
class Change:
    """What is said of one figure.

    ``verdict``: ``unsure`` is one whose interval lies beyond the noise, and that chance may have
    put there; or any whose noise hides everything.
    """

    figure: Figure
    verdict: Verdict

    @property
    def name(self) -> str:
        return self.figure.name


@dataclass(frozen=True)
class Together:
    """Figures that are slower or faster, taken together; ``typical``: the median of them all."""

    title: str
    contests: int
    typical: float
    against: str
    verdict: Verdict


@dataclass(frozen=True)
class Comparison:
    """All that is said of two runs. ``hidden``: workloads whose noise hides everything."""

    changes: list[Change]
    together: list[Together]
    hidden: dict[str, float]

    @property
    def is_slower(self) -> bool:
        verdicts = [each.verdict for each in self.changes] + [
            each.verdict for each in self.together
        ]
        return "slower" in verdicts

    @property
    def is_unsure(self) -> bool:
        """Whether something seems much slower and its rounds are too few to say so, or noise hid
        what there may be."""
        return bool(self.hidden) or any(
            each.verdict == "unsure" and each.figure.seems_slower for each in self.changes
        )


def compare(before: Tree, after: Tree, *, absolute: bool = False) -> Comparison:
    """Every figure that both runs have of a contest of the same size."""
    figures = list(_figures(before, after, absolute))
    main, further = ([each for each in figures if each.main is kind] for kind in (True, False))
    hidden = {
        each.workload: each.noise
        for each in figures
        if each.noise >= NOTHING and each.against != "memory"
    }
    changes = [*_judged(main), *_judged(further)]
    order = {id(figure): at for at, figure in enumerate(figures)}
    changes.sort(key=lambda change: order[id(change.figure)])
    return Comparison(changes, _taken_together(main), hidden)


def _judged(figures: list[Figure]) -> Iterator[Change]:
    slower, faster = (
        ranks.found([ranks.chance(*pair, 1 + each.noise) for each, pair in pairs], RISK / 3)
        for pairs in (
            [(each, (each.now, each.was)) for each in figures],
            [(each, (each.was, each.now)) for each in figures],
        )
    )
    for figure, is_slower, is_faster in zip(figures, slower, faster, strict=True):
        beyond = 1 + figure.noise
        verdict: Verdict = "same"
        if is_slower:
            verdict = "slower"
        elif is_faster:
            verdict = "faster"
        elif figure.noise >= NOTHING:
            verdict = "unsure"
        elif not 1 / beyond <= figure.middle <= beyond:
            interval = figure.faster
            verdict = "unsure" if interval.low > beyond or interval.high < 1 / beyond else "same"
        yield Change(figure, verdict)


def _taken_together(figures: Iterable[Figure]) -> list[Together]:
    families: dict[tuple[str, str], dict[str, list[Figure]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for figure in figures:
        group = figure.workload.partition("/")[0]
        for title in (group, figure.workload, f"{figure.workload}: {figure.name}"):
            families[title, figure.against][figure.title].append(figure)
    several = {
        key: contests
        for key, contests in families.items()
        if len(contests) > 1 or (key[0].count(":") == 0 and len(*contests.values()) > 1)
    }
    found = []
    directions: tuple[tuple[Verdict, bool], ...] = (("slower", False), ("faster", True))
    for verdict, swapped in directions:
        chances = [
            ranks.together(_strata(contests.values(), swapped), _far(contests))
            for contests in several.values()
        ]
        for (key, contests), real in zip(
            several.items(), ranks.found(chances, RISK / 3), strict=True
        ):
            if real:
                all_of_it = [each.middle for some in contests.values() for each in some]
                typical = float(np.median(all_of_it))
                found.append(Together(key[0], len(contests), typical, key[1], verdict))
    return found


def _far(contests: dict[str, list[Figure]]) -> float:
    return max(each.far for some in contests.values() for each in some)


def _strata(contests: Iterable[list[Figure]], swapped: bool) -> Iterator[ranks.Stratum]:
    for some in contests:
        fewest = [
            min(rounds.size for rounds in runs)
            for runs in zip(*((each.was, each.now) for each in some), strict=True)
        ]
        was = np.stack([each.was[: fewest[0]] for each in some])
        now = np.stack([each.now[: fewest[1]] for each in some])
        yield ranks.Stratum(was, now) if swapped else ranks.Stratum(now, was)


def losses(before: Tree, after: Tree) -> list[str]:
    """What the second run has no figure of: failed workloads, contests, contestants."""
    told = [f"failed: {each['workload']}: {each['reason']}" for each in after["failed"]]
    new = _contests(after)
    for key, result in _contests(before).items():
        title = ": ".join(key)
        if key not in new:
            told.append(f"gone: {title}")
            continue
        names = {entry["name"] for entry in new[key]["contestants"]}
        told += [
            f"gone: {title}: {entry['name']}"
            for entry in result["contestants"]
            if entry["name"] not in names
        ]
    if by := after.get("ended_by"):
        told.append(f"failed: the second run was ended early by {by}")
    return told


def _contests(tree: Tree) -> dict[tuple[str, str], Tree]:
    return {(result["workload"], result["contest"]): result for result in tree["results"]}


def _size(result: Tree) -> tuple[float, ...]:
    """What its data were multiplied by; files of before that was recorded were of whole size."""
    return tuple(result.get(name, 1.0) for name in _SIZES)


def _noise(before: Tree, after: Tree, title: str) -> float:
    return max(LEAST, *(noise.of_workload(tree["noise"], title) for tree in (before, after)))


def _figures(before: Tree, after: Tree, absolute: bool) -> Iterator[Figure]:
    was = _contests(before)
    for key, result in _contests(after).items():
        if key in was and _size(was[key]) == _size(result):
            yield from _of_contest(was[key], result, _noise(before, after, key[0]), absolute)


def _of_contest(old: Tree, new: Tree, noise: float, absolute: bool) -> Iterator[Figure]:
    runs = [{each["name"]: each for each in tree["contestants"]} for tree in (old, new)]
    ceiling = old["ceiling"] if all(old["ceiling"] in run for run in runs) else None
    for name, entry in runs[1].items():
        if name not in runs[0]:
            continue
        rounds = [at_least_tiny(run[name]["seconds"]) for run in runs]
        against = "memory" if name.endswith(table.MIB) else "processor time"
        if not table.is_absolute(name):
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
            main=name == entry.get("contestant", name),
        )


def differences(before: Tree, after: Tree) -> list[str]:
    """What of the two environments, and of the sizes that were measured, is not the same."""
    told = []
    for subject in SUBJECTS:
        old, new = (tree["environment"].get(subject, {}) for tree in (before, after))
        told += [
            f"{subject} {name}: {old.get(name) or 'nothing'}; then {new.get(name) or 'nothing'}"
            for name in dict.fromkeys([*old, *new])
            if name not in FLEETING and old.get(name) != new.get(name)
        ]
    if before["level"] != after["level"]:
        told.append(f"level: {before['level']}; then {after['level']}")
    was = _contests(before)
    unlike: dict[tuple[str, str], int] = defaultdict(int)
    for key, result in _contests(after).items():
        if key in was and _size(was[key]) != _size(result):
            sizes = "; then ".join(
                f"scale {scale:g}, {part:.0%} of its size"
                for scale, part in (_size(was[key]), _size(result))
            )
            unlike[key[0], sizes] += 1
    told += [
        f"size of {title}: {sizes}: {count} contests not compared"
        for (title, sizes), count in unlike.items()
    ]
    return told


_AGAINST = {"ceiling": "as fast of its ceiling", "time": "as fast in time"}
_LESS = {"memory": "the memory", "processor time": "the processor time"}


def _times(faster: float, against: str) -> str:
    if against in _LESS:
        return f"{1 / faster:.3g}x {_LESS[against]}"
    return f"{faster:.3g}x {_AGAINST[against]}"


def lines(found: Comparison, *, every: bool = False) -> Iterator[str]:
    """What changed, taken together and by contest; ``every``: also what did not."""
    for workload, value in found.hidden.items():
        yield f"nothing can be told of {workload}: a thing against itself differed by {value:.0%}"
    for whole in found.together:
        yield (
            f"{whole.verdict}, taken together: {whole.title}: typically "
            f"{_times(whole.typical, whole.against)} ({whole.contests} contests)"
        )
    title = None
    for change in found.changes:
        figure = change.figure
        if not every and (change.verdict == "same" or figure.workload in found.hidden):
            continue
        if figure.title != title:
            title = figure.title
            yield title
        look = ", MUCH SLOWER IF SO" if change.verdict == "unsure" and figure.seems_slower else ""
        told = _times(figure.faster.median, figure.against)
        low, high = figure.faster.low, figure.faster.high
        if figure.against in _LESS:
            low, high = 1 / high, 1 / low
        yield (
            f"  {change.verdict}{look}: {change.name}: {told} "
            f"({low:.3g} to {high:.3g}, noise {figure.noise:.1%})"
        )
    verdicts = [change.verdict for change in found.changes]
    counts = {word: verdicts.count(word) for word in ("slower", "faster", "same", "unsure")}
    yield (
        f"{len(verdicts)} figures compared: {counts['slower']} slower, {counts['faster']} faster, "
        f"{counts['same']} the same within the noise"
        + (f", {counts['unsure']} unsure: more --rounds tell" if counts["unsure"] else "")
    )
