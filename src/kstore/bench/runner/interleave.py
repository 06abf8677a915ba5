"""Two installations measured in one run: their calls take turns.

Each installation runs in processes of its own, of which one is always waiting. A call of a
contestant in one is followed by the same call in the other, within milliseconds, and half of the
pairs are in the other order, so that both meet the same neighbours, clock speeds and disks. Several
sittings start new processes, since the layout of a process's memory and files changes its speed for
as long as it lives.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import inf
from pathlib import Path
from random import Random
from time import perf_counter
from uuid import uuid4

from kstore.bench.report.results import FORMAT, Tree
from kstore.bench.runner.rounds import LEAST_ROUNDS
from kstore.errors import KStoreError

SKIP = "skip"  # the answer to a contest that the other installation does not have
END = "end"  # the answer before the first call of a round when the time of a contest is up


@dataclass(frozen=True)
class Installation:
    """A Python interpreter in whose environment kstore is installed, or a checkout with built
    kernels, which the interpreter that runs this uses."""

    path: Path

    def command(self) -> list[str]:
        """How a Python program of the installation is started; KStoreError if it is none."""
        if self._is_checkout:
            return [sys.executable]
        if self.path.is_file() and os.access(self.path, os.X_OK):
            return [str(self.path.absolute())]
        raise KStoreError(
            f"{self.path} is neither a Python interpreter nor a checkout of kstore with src/kstore"
        )

    def environment(self, directory: Path) -> dict[str, str]:
        """The environment of its processes, with their temporary files in ``directory``."""
        if self._is_checkout:
            root = self.path.absolute()
            paths = [root / "src", root / "benchmarks"]
        else:  # the benchmarks of the checkout that runs this, if it is one
            engine = find_spec("engine")
            paths = [Path(engine.origin).parents[1]] if engine and engine.origin else []
        return os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "TMPDIR": str(directory),
        }

    @property
    def _is_checkout(self) -> bool:
        return (self.path / "src" / "kstore").is_dir()


@dataclass
class _Side:
    """One installation's process. ``title``: the contest before whose start it waits, or empty
    before a call; ``round``: the round of that call; ``calls``: how often each contestant is called
    in a round."""

    installation: Installation
    process: "subprocess.Popen[str]"
    title: str = ""
    round: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    is_done: bool = False
    results: list[Tree] = field(default_factory=list)
    failed: list[Tree] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def step(self, word: str = "") -> None:
        """Let the process take its step, until it waits for the next one or ends."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # its status says why
            self.process.stdin.write(f"{word}\n")
            self.process.stdin.flush()
        self.listen()

    def listen(self) -> None:
        """Read the messages until the process waits or ends; KStoreError if it failed."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if "waits" in message:
                self.title, self.round = message["waits"], message["round"]
                self.calls = message["calls"]
                return
            for name, kept in (("result", self.results), ("failed", self.failed)):
                if name in message:
                    kept.append(message[name])
        if status := self.process.wait():
            raise KStoreError(f"{self.installation.path} ended with status {status}: see above")
        self.is_done, self.title = True, ""


OnProgress = Callable[[str], None]


def interleave(
    pair: tuple[Installation, Installation],
    words: Sequence[str],
    directory: Path,
    *,
    level: str = "quick",
    seconds: float = 10.0,
    sittings: int = 3,
    on_progress: OnProgress = lambda text: None,
) -> tuple[Tree, Tree]:
    """Run the contests of the words with both installations, and return the results of each.

    The results are those of ``kstore bench --json``, and round ``n`` of a contest in one is the
    neighbour of round ``n`` in the other. ``seconds`` is the time of a contest's rounds in one
    sitting, for both installations together, without their preparation; a contest has at least five
    rounds.

    Raises
    ------
    KStoreError
        If a path is no installation, a process failed, or the two have different contests.
    """
    merged: tuple[dict[str, Tree], dict[str, Tree]] = ({}, {})
    failed: tuple[list[Tree], list[Tree]] = ([], [])
    for sitting in range(sittings):
        on_progress(f"sitting {sitting + 1} of {sittings}")
        one, other = _sitting(pair, words, directory, level, seconds, on_progress)
        failed[0].extend(one.failed)
        failed[1].extend(other.failed)
        _merge(merged, one, other)
    paired = uuid4().hex
    trees = [
        {
            "kstore_bench": FORMAT,
            "paired": paired,
            "level": level,
            "environment": {"installation": {"path": str(installation.path)}},
            "results": list(found.values()),
            "failed": failures,
        }
        for installation, found, failures in zip(pair, merged, failed, strict=True)
    ]
    return trees[0], trees[1]


def _sitting(
    pair: tuple[Installation, Installation],
    words: Sequence[str],
    directory: Path,
    level: str,
    seconds: float,
    on_progress: OnProgress,
) -> tuple[_Side, _Side]:
    source = (Path(__file__).parent / "turns.py").read_text(encoding="utf-8")
    with ExitStack() as stack:
        sides = []
        for installation in pair:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=directory)))
            process = subprocess.Popen(
                [*installation.command(), "-P", "-c", source, level, *words],
                env=installation.environment(folder),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)  # its end closes the pipes, and so ends the process
            sides.append(_Side(installation, process))
        for side in sides:
            side.listen()
        _take_turns(sides[0], sides[1], seconds, on_progress)
    return sides[0], sides[1]


def _take_turns(one: _Side, other: _Side, seconds: float, on_progress: OnProgress) -> None:
    """Let two processes take their steps until both have ended."""
    # Drawn: to turn every second pair would give the contestants of some contests one order alone.
    draw, number, until = Random(17), 0, inf
    while not (one.is_done and other.is_done):
        waiting = [each for each in (one, other) if not each.is_done]
        # Before a contest one waits for the other, which is in its last rounds.
        in_rounds = [each for each in waiting if not each.title]
        if in_rounds:
            # One may have more contestants: the other waits for it at the end of the round.
            first = min(each.round for each in in_rounds)
            behind = [each for each in in_rounds if each.round == first]
            is_new, number = first > number, first
            is_up = is_new and number >= LEAST_ROUNDS and perf_counter() > until
            for side in draw.sample(behind, len(behind)):
                side.step(END if is_up else "")
        elif one.title == other.title:
            on_progress(one.title)
            one.step()
            # Both measure how many calls make a round: beside neighbours, with different results.
            other.step(json.dumps(one.calls) if one.calls else "")
            number, until = 0, perf_counter() + seconds
        else:
            _skip_one(one, other)


def _skip_one(one: _Side, other: _Side) -> None:
    """Skip a contest that one of the two does not have, or seems not to have."""
    for side, neighbour in ((one, other), (other, one)):
        if not side.is_done and (neighbour.is_done or side.title in neighbour.skipped):
            break
    else:
        side = min(one, other, key=lambda each: len(each.skipped))
    side.skipped.append(side.title)
    side.step(SKIP)


def _merge(merged: tuple[dict[str, Tree], dict[str, Tree]], one: _Side, other: _Side) -> None:
    """Add the rounds of a sitting, as many of each figure as both sides have."""
    found = [{_key(result): result for result in side.results} for side in (one, other)]
    for key in [each for each in found[0] if each in found[1]]:
        entries = [{each["name"]: each for each in own[key]["contestants"]} for own in found]
        for name in entries[0].keys() & entries[1].keys():
            count = min(len(own[name]["seconds"]) for own in entries)
            for own in entries:
                own[name]["seconds"] = own[name]["seconds"][:count]
        for into, result in zip(merged, (own[key] for own in found), strict=True):
            if key not in into:
                into[key] = result
                continue
            known = {each["name"]: each for each in into[key]["contestants"]}
            for entry in result["contestants"]:
                if entry["name"] in known:
                    known[entry["name"]]["seconds"] += entry["seconds"]


def _key(result: Tree) -> str:
    return f"{result['workload']}: {result['contest']}"
