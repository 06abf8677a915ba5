"""Every state that a crash may leave, of every scenario, on three kinds of disks.

A scenario runs once on a recording disk. Then for each of its moments the states that a disk may
be in are computed (:mod:`torture.crash_disk`), made in memory, opened and checked. Where there are
more than a bound at one moment, a sample is taken; the next round takes another one, from the
third on of the scenario varied by the seed. A state is counted once in a run, over all scenarios
and processes: by the digest of every path and byte. The same state is checked again where the
witness asks something else of it.

Each state is read by a reader that recovers nothing, then opened for writing, which recovers it;
topics, records, gaps, lookups by offset, groups, transactions and the lock are checked (see
:func:`torture.checks.check`). One in four then takes an append and is read by the independent
reader. The others are closed, and their directories compared with all that earlier ones were
recovered to: the same directory must hold the same records; a new one is opened again, changes
nothing by that, is read by the independent reader, and opened without any derived file. One state
in forty has its own recovery crash.
"""

import gc
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from unittest.mock import patch

from kstore import Store, clock
from kstore.client import producer, transactional_producer
from kstore.errors import KStoreError
from support.recording_disk import Recorder, Trace, Tree
from torture.broker_transactions import check_at_broker
from torture.checks import (
    CUTTING,
    QUIET,
    CheckedDirectories,
    Violation,
    check,
    materialise,
    rows_of,
)
from torture.crash_disk import MODELS, CrashDisk
from torture.parts import Budget, Figures, quietly, scratch, share
from torture.scenarios import SCENARIOS, SERVED
from torture.witness import Witness
from torture.world import START_OF_TIME, World, paths_of

ALL = {**SCENARIOS, **SERVED}
GOAL = ("distinct", 1_000_000)
APPEND_EVERY = 4  # one state in so many takes an append at once, the others are looked into
NESTED_EVERY = 40  # one in so many has its own recovery crash, which is a scenario of its own
NESTED_BOUND = 12
DEPTH = 2
COLLECT_EVERY = 500
BOUNDS = (1, 5, 20, 40, 80)  # states at a moment, by round
VARIED_FROM = 2
NOW = START_OF_TIME + 60_000


def record(name: str, root: str, vary: Random | None = None) -> Trace:
    """Run a scenario on a recording disk."""
    disk = Recorder(root)
    world = World(root, disk, lambda event: disk.note(*event), vary=vary)
    ALL[name].run(world)
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
    """Goes through the states of traces and remembers which it has seen.

    ``part``: of all states only those whose digest gives this remainder; other processes do the
    others. ``at_broker``: a broker opens each state, too.
    """

    def __init__(
        self, root: str, budget: Budget, figures: Figures, part: int, *, at_broker: bool = False
    ) -> None:
        self.root = root
        self.budget = budget
        self.figures = figures
        self.part = part
        self.at_broker = at_broker
        self.wanted: set[int] = set()  # (state, what was asked of it)
        self.checked = CheckedDirectories()
        self.every = 1  # of so many moments one is checked

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
            demand = hash((where.partition(",")[0], _demand(asked, power=model != "kill")))
            for tree in disk.states(model, bound, random, torn):
                state = hash(tuple(sorted(tree.items(), key=_path)))
                mine = depth > 0 or state % self.budget.jobs == self.part
                if not mine or (wanted := hash((state, demand))) in self.wanted:
                    continue
                self.wanted.add(wanted)
                self._try(f"{where}, {model}, change {index}", tree, state, asked, model, depth)
                if self.budget.ended(self.figures):
                    return

    def _try(
        self, where: str, tree: Tree, state: int, witness: Witness, model: str, depth: int
    ) -> None:
        seen, counts = self.figures.seen, self.figures.counts
        new = state not in seen
        seen.setdefault(state, model)
        counts["checked"] += 1
        if counts["checked"] % COLLECT_EVERY == 0:
            gc.collect()
            gc.freeze()  # what stays is much in a long run: it is gone through once
        power = model != "kill"
        try:
            materialise(tree, self.root)
            deep = counts["checked"] % APPEND_EVERY != 0
            checked = check(
                self.root, witness, power=power, deep=deep, again=depth > 0, checked=self.checked
            )
            if self.at_broker and depth == 0:
                materialise(tree, self.root)
                check_at_broker(self.root, witness, by_timeout=counts["checked"] % 2 == 0)
                counts["at_broker"] += 1
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
            tp,
            history.end,
            history.start,
            history.base,
            len(history.lacks),
            witness.floor(tp, power=power),
        )
        for tp, history in sorted(witness.logs.items())
    )
    return hash(
        (
            *(logs, repr(witness.topics), repr(witness.committed), repr(witness.transactions)),
            *(len(witness.publications), power),
        )
    )


def explore_all(
    budget: Budget,
    *,
    names: list[str] | None = None,
    models: tuple[str, ...] = MODELS,
    bound: int = BOUNDS[-1],
    rounds: int = 1 << 30,
    every: int = 1,
) -> Figures:
    """Round after round over all scenarios and models until the time is over.

    The first rounds are short, so that every scenario has its turn in little time. From the
    third on a scenario is varied: other counts, sizes and settings, which the seed decides.
    """
    chosen = list(ALL) if names is None else names

    def work(number: int) -> Figures:
        figures = Figures()
        with scratch() as base, _uncollected(), _still():
            os.mkdir(f"{base}/run")
            os.mkdir(f"{base}/state")
            explorers = {
                name: Explorer(
                    f"{base}/state/data", budget, figures, number, at_broker=ALL[name].at_broker
                )
                for name in chosen
            }
            for turn in range(rounds):
                before = figures.counts["checked"]
                for name, explorer in explorers.items():
                    vary = budget.random(name, turn) if turn >= VARIED_FROM else None
                    shutil.rmtree(f"{base}/run/data", ignore_errors=True)
                    trace = record(name, f"{base}/run/data", vary)
                    explorer.every = every
                    for model in models:
                        random = budget.random(name, model, turn)
                        limit = min(bound, BOUNDS[min(turn, len(BOUNDS) - 1)])
                        explorer.explore(f"{name}, round {turn}", trace, model, limit, random)
                    if budget.ended(figures):
                        return figures
                if figures.counts["checked"] == before:
                    break
        return figures

    with quietly():
        figures = share(budget.jobs, work)
    figures.counts = Counter({"distinct": len(figures.seen)}) + figures.counts
    figures.counts.update(figures.seen.values())
    return figures


CLOCKS = (time, clock, producer, transactional_producer)


@contextmanager
def _still() -> Iterator[None]:
    """At one moment, behind all that scenarios write: producers live, and what a recovery adds
    is the same each time."""
    with ExitStack() as stack:
        for module in CLOCKS:
            stack.enter_context(patch.object(module, "time_ns", lambda: NOW * 1_000_000))
        yield


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the collector of cycles: the caller collects now and then."""
    enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()
