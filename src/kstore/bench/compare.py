"""Two runs compared: what changed beyond the noise.

Two runs are not interleaved, so the clock of the machine may differ between them. A contestant is
therefore compared by its fraction of the ceiling of its own run and round, which that difference
leaves alone; a ceiling itself, and everything with ``absolute``, is compared by its time. A change
counts where the whole bootstrap interval of the ratio lies beyond the noise: the larger A/A noise
of the two runs, and at least ``LEAST``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kstore.bench import noise
from kstore.bench.results import Tree
from kstore.bench.statistic import Estimate, quotient

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

    @property
    def verdict(self) -> str:
        """``faster``, ``slower`` or ``same``."""
        if self.faster.low > 1 + self.noise:
            return "faster"
        if self.faster.high < 1 / (1 + self.noise):
            return "slower"
        return "same"


def changes(before: Tree, after: Tree, *, absolute: bool = False) -> Iterator[Change]:
    """Every contestant that both runs have."""
    old = {(result["workload"], result["contest"]): result for result in before["results"]}
    for result in after["results"]:
        key = (result["workload"], result["contest"])
        if key in old:
            yield from _of_contest(old[key], result, _noise(before, after, result), absolute)


def _noise(before: Tree, after: Tree, result: Tree) -> float:
    group = result["group"]
    return max(LEAST, noise.of_group(before["noise"], group), noise.of_group(after["noise"], group))


def _of_contest(old: Tree, new: Tree, noise: float, absolute: bool) -> Iterator[Change]:
    title = f"{new['workload']}: {new['contest']}"
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
        yield Change(title, name, quotient(seconds[0], seconds[1]), noise, relative)


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
    )


_VERDICTS = ("slower", "faster", "same")
