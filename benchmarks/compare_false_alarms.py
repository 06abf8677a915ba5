"""Measures how often ``kstore bench compare`` errs on this machine, by A/A and A/B pairs.

    python benchmarks/compare_false_alarms.py            # every plant, 10 pairs; 50 equal pairs
    python benchmarks/compare_false_alarms.py --busy --plants commit --pairs 3 --equal 5
    python benchmarks/compare_false_alarms.py --apart    # two files, made one after the other

Measures pairs of installations with ``compare --run`` (``--apart``: two runs one after the other).
In equal pairs nothing differs; in the others calls of the second installation take 1.3 times as
long: ``os.fdatasync`` of an append and flush, the CRC-32C kernel, or ``os.sendfile``. Both
installations have the wrapper around these calls, with factor 1 in an equal one. Wanted: at most
two alarms in fifty equal pairs, and nine of ten slowdowns found. ``--busy`` runs a busy loop on
each core meanwhile.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kstore.bench.report import compare
from kstore.bench.report.results import Tree
from kstore.bench.runner.interleave import Installation, interleave

CHECKOUT = Path(__file__).parents[1]
FACTOR = 1.3
# By name: the module and the function that is slowed, the callers to which this happens (a part of
# their file's path: peers and preparations call the same functions), and the workload.
PLANTS = {
    "commit": ("os", "fdatasync", "kstore/files/", "disk/commit"),
    "kernel": ("kstore._native.format.crc", "crc32c", "", "engine/checksum"),
    "sendfile": ("os", "sendfile", "engine/contests/fetch", "engine/fetch"),
}
# What the interpreter of a planted installation runs first.
_WRAPPER = """\
import importlib, sys
from time import perf_counter_ns
def plant(module, name, caller, factor):
    module = importlib.import_module(module)
    real = getattr(module, name)
    def planted(*words):
        if caller and caller not in sys._getframe(1).f_code.co_filename:
            return real(*words)
        began = perf_counter_ns()
        result = real(*words)
        until = began + factor * (perf_counter_ns() - began)
        while perf_counter_ns() < until:
            pass
        return result
    setattr(module, name, planted)
"""


@dataclass(frozen=True)
class Planted(Installation):
    """This checkout, whose processes first run the ``sitecustomize`` of a folder."""

    hooks: Path

    def environment(self, directory: Path) -> dict[str, str]:
        found = super().environment(directory)
        return found | {"PYTHONPATH": f"{self.hooks}{os.pathsep}{found['PYTHONPATH']}"}


def planted(folder: Path, plant: str, factor: float) -> Planted:
    """This checkout, in which the calls of a plant take ``factor`` times as long."""
    module, name, caller, _ = PLANTS[plant]
    hooks = folder / f"{plant}-{factor}"
    hooks.mkdir(exist_ok=True)
    call = f"plant({module!r}, {name!r}, {caller!r}, {factor!r})\n"
    (hooks / "sitecustomize.py").write_text(_WRAPPER + call)
    return Planted(CHECKOUT, hooks)


def a_pair(plant: str, factor: float, folder: Path, given: argparse.Namespace) -> tuple[Tree, Tree]:
    """The results of two installations, of which the second has the plant."""
    old, new = planted(folder, plant, 1.0), planted(folder, plant, factor)
    words = [PLANTS[plant][-1]]
    measure = partial(
        interleave,
        words=words,
        directory=folder,
        seconds=given.seconds,
        sittings=1 if given.apart else given.sittings,
    )
    if given.apart:
        return measure((old, old))[0], measure((new, new))[0]
    return measure((old, new))


def judge(plant: str, factor: float, folder: Path, given: argparse.Namespace) -> bool:
    """Whether the comparison of a pair finds something slower."""
    found = compare.compare(*a_pair(plant, factor, folder, given))
    slower = [each for each in found.figures if each.verdict == "slower"]
    shown = "; ".join(f"{each.contest[:40]}: {each.name} {each.ratio:.2f}x" for each in slower)
    unsure = sum(each.verdict in ("unsure", "few rounds") for each in found.figures)
    print(
        f"  {plant}, {factor}x: {'slower' if slower else 'not slower'}, "
        f"{unsure} of {len(found.figures)} without a verdict, "
        f"{min(each.rounds for each in found.figures)} pairs or more {shown}",
        flush=True,
    )
    return bool(slower)


def _spin() -> None:
    while True:
        pass


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """So many processes that only compute."""
    several = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(count)]
    for each in several:
        each.start()
    try:
        yield
    finally:
        for each in several:
            each.terminate()


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--plants", nargs="+", choices=PLANTS, default=list(PLANTS))
    parser.add_argument("--pairs", type=int, default=10, help="of each plant")
    parser.add_argument("--equal", type=int, default=50, help="pairs without one")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a contest in a sitting")
    parser.add_argument("--sittings", type=int, default=3)
    parser.add_argument("--busy", action="store_true", help="a busy loop on each core")
    parser.add_argument("--apart", action="store_true", help="two files, each of one sitting")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args(words)
    cores = len(os.sched_getaffinity(0)) if given.busy else 0
    is_good = True
    with tempfile.TemporaryDirectory(dir=given.dir) as path, neighbours(cores):
        for plant in given.plants:
            hits = sum(judge(plant, FACTOR, Path(path), given) for _ in range(given.pairs))
            print(f"{plant}: {hits} of {given.pairs} slowdowns of {FACTOR}x found")
            is_good &= hits >= 0.9 * given.pairs
        equal = [given.plants[number % len(given.plants)] for number in range(given.equal)]
        alarms = sum(judge(plant, 1.0, Path(path), given) for plant in equal)
        print(f"{alarms} alarms in {given.equal} equal pairs")
        is_good &= alarms <= given.equal / 25
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
