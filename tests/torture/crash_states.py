"""Every state that a crash may leave, of every scenario, on three kinds of disks.

A scenario runs once on a recording disk. Then for each of its moments the states that a disk may
be in are computed (:mod:`torture.crash_disk`), made in memory, opened and checked. Where there are
more than a bound at one moment, a sample is taken; the next round takes another one.
"""

import os
from collections.abc import Iterator
from random import Random

from kstore import Store
from kstore.errors import KStoreError
from support.recording import Recorder, Trace, Tree
from torture.checks import CUTTING, QUIET, Violation, check, materialise, rows_of
from torture.crash_disk import MODELS, CrashDisk
from torture.parts import Budget, Figures, quietly, scratch, share
from torture.scenarios import SCENARIOS
from torture.world import Witness, World, paths_of

GOAL = ("distinct", 1_000_000)
DEEP_EVERY = 4  # one state in so many is checked in every way
NESTED_EVERY = 40  # one in so many has its own recovery crash, which is a scenario of its own
NESTED_BOUND = 12
DEPTH = 2


def record(name: str, root: str) -> Trace:
    """Run a scenario on a recording disk."""
    disk = Recorder(root)
    world = World(root, disk, lambda event: disk.note(*event))
    SCENARIOS[name].run(world)
    if disk.outside:
        raise Violation(f"{name} touched {disk.outside}")
    return disk.trace


def moments(trace: Trace) -> Iterator[tuple[int, CrashDisk, Witness]]:
    """After each change (and before the first): the disk, and what the witness knows by then."""
    disk, witness = CrashDisk(trace), Witness()
    notes = iter(trace.notes)
    note = next(notes, None)
    for index in range(len(trace.ops) + 1):
        while note is not None and note[0] <= index:
            witness.hear(note[1])
            note = next(notes, None)
        yield index, disk, witness
        if index < len(trace.ops):
            disk.apply(index, trace.ops[index])


class Explorer:
    """Goes through the states of traces and remembers which it has seen."""

    def __init__(self, root: str, budget: Budget, figures: Figures) -> None:
        self.root = root
        self.budget = budget
        self.figures = figures
        self.seen: set[int] = set()
        self.wanted: set[int] = set()  # (state, what was asked of it)
        self.every = 1  # of so many moments one is looked at

    def explore(
        self, where: str, trace: Trace, model: str, bound: int, random: Random, depth: int = 0,
        known: Witness | None = None,
    ) -> None:  # fmt: skip
        """All moments of a trace under one model; known: the witness of what crashed before."""
        for index, disk, witness in moments(trace):
            if self.budget.ended(self.figures):
                return
            if index % self.every:
                continue
            asked = witness if known is None else known
            torn = trace.ops[index] if index < len(trace.ops) else None
            demand = _demand(asked, power=model != "kill")
            for tree in disk.states(model, bound, random, torn):
                self._try(f"{where}, {model}, change {index}", tree, asked, model, demand, depth)
                if self.budget.ended(self.figures):
                    return

    def _try(
        self, where: str, tree: Tree, witness: Witness, model: str, demand: int, depth: int
    ) -> None:
        state = hash(tuple(sorted(tree.items(), key=_path)))
        if (wanted := hash((state, demand))) in self.wanted:
            return
        self.wanted.add(wanted)
        new = state not in self.seen
        self.seen.add(state)
        counts = self.figures.counts
        counts["distinct"] += new
        counts["checked"] += 1
        counts[f"{model}"] += new
        power = model != "kill"
        try:
            materialise(tree, self.root)
            deep = counts["checked"] % DEEP_EVERY == 0
            checked = check(self.root, witness, power=power, deep=deep, again=depth > 0)
            counts["by_word"] += checked.by_word
            counts["with_gap"] += checked.gaps > 0
        except Exception as error:  # whatever it is, it is a finding
            self.figures.violated(where, f"depth {depth}", type(error).__name__, error)
            return
        if new and depth < DEPTH and counts["checked"] % NESTED_EVERY == 0:
            trace = self._recover(tree, witness.dirs)
            counts["recoveries"] += 1
            random = self.budget.random(where, "nested", counts["checked"])
            self.explore(where, trace, model, NESTED_BOUND, random, depth + 1, witness)

    def _recover(self, tree: Tree, dirs: int) -> Trace:
        """Open and close what a crash left, on a recording disk: it may crash again."""
        materialise(tree, self.root)
        disk = Recorder(self.root)
        for config in (QUIET, CUTTING):
            try:
                with Store(paths_of(self.root, dirs), config=config, files=disk) as store:
                    for topic in store:
                        for log in store[topic]:
                            rows_of(log)
                break
            except KStoreError:
                continue
        return disk.trace


def _path(item: tuple[str, bytes | None]) -> str:
    return item[0]


def _demand(witness: Witness, *, power: bool) -> int:
    """What is asked of a state, as one number: the same state with the same demand is done."""
    logs = tuple(
        (
            place,
            history.end,
            history.start,
            history.base,
            len(history.lacks),
            witness.floor(place, power=power),
        )
        for place, history in sorted(witness.logs.items())
    )
    return hash(
        (logs, repr(witness.topics), repr(witness.committed), repr(witness.transactions), power)
    )


def explore_all(
    budget: Budget,
    *,
    names: list[str] | None = None,
    models: tuple[str, ...] = MODELS,
    bound: int = 400,
    rounds: int = 1 << 30,
    every: int = 1,
) -> Figures:
    """Round after round over all scenarios and models until the time is over."""
    chosen = list(SCENARIOS) if names is None else names

    def work(number: int) -> Figures:
        figures = Figures()
        with scratch() as base:
            os.mkdir(f"{base}/run")
            os.mkdir(f"{base}/state")
            mine = [name for at, name in enumerate(chosen) if at % budget.jobs == number]
            traces = {name: record(name, f"{base}/run/{at}") for at, name in enumerate(mine)}
            explorers = {name: Explorer(f"{base}/state/data", budget, figures) for name in mine}
            for explorer in explorers.values():
                explorer.every = every
            for turn in range(rounds):
                before = figures.counts["checked"]
                for name in mine:
                    for model in models:
                        random = budget.random(name, model, turn)
                        # Short rounds first, so that every scenario has its turn.
                        limit = min(bound, 20 << turn)
                        explorers[name].explore(name, traces[name], model, limit, random)
                if budget.ended(figures) or figures.counts["checked"] == before:
                    break
        return figures

    with quietly():
        return share(budget.jobs, work)
