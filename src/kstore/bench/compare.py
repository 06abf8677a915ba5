"""Two runs compared: what changed beyond the noise.

Two runs are not interleaved, so the clock of the machine may differ between them. A contestant is
therefore compared by its fraction of the ceiling of its own run and round, which that difference
leaves alone; a ceiling itself, and everything with ``absolute``, is compared by its time. A change
counts where the whole bootstrap interval of the ratio lies beyond the noise: the larger A/A noise
of the two runs, and at least ``LEAST``. The interval is wider the more figures are compared; with
too few rounds to tell a figure from chance (always under five) its verdict is ``unsure``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kstore.bench import noise
from kstore.bench.results import Tree
from kstore.bench.statistic import Estimate, quotient, tells

LEAST = 0.03
SUBJECTS = ("cpu", "memory", "system", "disk", "network")
# What differs from minute to minute without another machine.
FLEETING = {"available", "page cache", "dirty", "load", "free", "directory"}


@dataclass(frozen=True)
class Change:
    """How much faster the second run's contestant is (0.8: takes 1.25 times as long)."""

    title: str
    name: str
    faster: Estimate
    noise: float
    relative: bool
    sure: bool

    @property
    def verdict(self) -> str:
        """``faster``, ``slower``, ``unsure`` (too few rounds to say which) or ``same``."""
        faster = self.faster.low > 1 + self.noise
        if not faster and self.faster.high >= 1 / (1 + self.noise):
            return "same"
        if not self.sure:
            return "unsure"
        return "faster" if faster else "slower"


def changes(before: Tree, after: Tree, *, absolute: bool = False) -> Iterator[Change]:
    """Every contestant that both runs have."""
    old = _contests(before)
    pairs = [
        (result, pair)
        for key, result in _contests(after).items()
        if key in old
        for pair in _of_contest(old[key], result, absolute)
    ]
    for result, (name, was, now, relative) in pairs:
        figures = len(pairs)
        yield Change(
            f"{result['workload']}: {result['contest']}",
            name,
            quotient(was, now, figures),
            _noise(before, after, result),
            relative,
            tells(len(was), len(now), figures),
        )


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


def _noise(before: Tree, after: Tree, result: Tree) -> float:
    title = result["workload"]
    found = (noise.of_workload(tree["noise"], title) for tree in (before, after))
    return max(LEAST, *found)


def _of_contest(
    old: Tree, new: Tree, absolute: bool
) -> Iterator[tuple[str, list[float], list[float], bool]]:
    """Contestant, its figures in both runs, and whether they are parts of the ceiling."""
    before = {entry["name"]: entry for entry in old["contestants"]}
    after = {entry["name"]: entry for entry in new["contestants"]}
    ceiling = old["ceiling"] if old["ceiling"] in after else None
    for name, entry in after.items():
        if name not in before:
            continue
        seconds = before[name]["seconds"], entry["seconds"]
        relative = not absolute and ceiling is not None and name != ceiling
        if relative:
            under = before[ceiling]["seconds"], after[ceiling]["seconds"]
            seconds = tuple(  # type: ignore[assignment]
                [own / base for own, base in zip(run, bases, strict=True)]
                for run, bases in zip(seconds, under, strict=True)
            )
        yield name, *seconds, relative


def differences(before: Tree, after: Tree) -> list[str]:
    """What of the two environments is not the same."""
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
    return told


def lines(found: list[Change], *, every: bool = False) -> Iterator[str]:
    """What changed, by contest; ``every``: also what did not."""
    title = None
    for change in found:
        if change.verdict == "same" and not every:
            continue
        if change.title != title:
            title = change.title
            yield title
        against = "of its ceiling" if change.relative else "in time"
        yield (
            f"  {change.verdict}: {change.name}: {change.faster.median:.3g}x as fast {against} "
            f"({change.faster.low:.3g} to {change.faster.high:.3g}, noise {change.noise:.1%})"
        )
    counts = {word: sum(change.verdict == word for change in found) for word in _VERDICTS}
    yield (
        f"{len(found)} figures compared: {counts['slower']} slower, {counts['faster']} faster, "
        f"{counts['same']} the same within the noise"
        + (f", {counts['unsure']} unsure: more --rounds tell" if counts["unsure"] else "")
    )


_VERDICTS = ("slower", "faster", "same", "unsure")
