"""Compare ways of doing one thing: interleaved rounds, medians, ratios.

    python benchmarks/ratios.py checksum batch        # two suites
    python benchmarks/ratios.py spark -k groupBy      # contests with this text in their name
    KSTORE_BENCH_SCALE=0.1 python benchmarks/ratios.py checksum

A suite is a module of ``engine.contests``, or ``contests_*`` in this folder for Spark, whose
``contests()`` yields ``Contest`` objects at full size. Results are checked before anything is
timed. A suite whose peer is not installed is skipped with a message; that is an error if it was
named. The runner is that of `kstore bench`.
"""

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Iterable
from pathlib import Path

from engine import contests
from kstore.bench.contest import Contest
from kstore.bench.report import results, text_table
from kstore.bench.runner.rounds import run
from peers.provide_kafka import MissingError

HERE = Path(__file__).parent


def known() -> list[str]:
    ours = {path.stem.removeprefix("contests_") for path in HERE.glob("contests_*.py")}
    return sorted(ours | {module.name for module in pkgutil.iter_modules(contests.__path__)})


def contests_of(name: str) -> Iterable[Contest]:
    """A suite's contests; MissingError if a peer of all of them is missing."""
    if (HERE / f"contests_{name}.py").exists():
        module = f"contests_{name}"
    else:
        module = f"{contests.__name__}.{name}"
    try:
        suite = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in (f"contests_{name}", "kstore", "peers"):
            raise
        raise MissingError(f"the module {error.name} is not installed") from None
    yield from suite.contests()


def show(suite: str, contest: Contest) -> None:
    """Run a contest and print its table and every ratio, including those without a goal."""
    result = results.as_tree("", suite, run(contest))
    print("\n".join(text_table.lines(result, every_ratio=True)), flush=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Compare ways of doing one thing.")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(known())}")
    parser.add_argument("-k", dest="text", default="", help="only contests whose name has this")
    wanted = parser.parse_args(arguments)
    status = 0
    for name in wanted.suites or known():
        try:
            for contest in contests_of(name):
                if wanted.text.lower() in contest.name.lower():
                    show(name, contest)
        except MissingError as missing:
            print(f"{name} is skipped: {missing}", file=sys.stderr)
            status = 1 if wanted.suites else status
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
