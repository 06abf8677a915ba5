"""Compare ways of doing one thing: interleaved rounds, medians, ratios.

    python benchmarks/ratios.py checksum batch        # contests_checksum.py, contests_batch.py
    python benchmarks/ratios.py spark -k groupBy      # contests with this text in their name
    KSTORE_BENCH_SCALE=0.1 python benchmarks/ratios.py checksum

On a machine with neighbours a figure alone says little: the clock changes between two runs. So
every round calls each contestant once, in turn, and a ratio is the median of the rounds' ratios.
A suite is a module ``contests_*`` here whose ``contests()`` yields ``Contest`` objects; their
contestants return the same result, which is checked before anything is timed. A suite whose peer
is not installed is left out with a line that says so; that is an error where it was asked for.
"""

import argparse
import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from time import perf_counter

from kstore.bench.contest import Contest, Timed
from peers.here import MissingError

LEAST_SECONDS = 0.002  # a contestant that is faster is called several times a round
LONG_SECONDS = 1.0  # a first call that took longer tells enough


def _calls_for(call: Callable[[], object]) -> int:
    calls = 1
    while True:
        started = perf_counter()
        for _ in range(calls):
            if isinstance(call(), Timed):
                return 1
        if perf_counter() - started >= LEAST_SECONDS or calls >= 1 << 20:
            return calls
        calls *= 4


def run(contest: Contest) -> dict[str, list[float]]:
    """Seconds per call of every contestant, one figure a round."""
    first = contest.check()
    calls = {
        name: 1 if first[name] > LONG_SECONDS else _calls_for(call)
        for name, call in contest.calls.items()
    }
    times: dict[str, list[float]] = {name: [] for name in contest.calls}
    for _ in range(contest.rounds):
        for name, call in contest.calls.items():
            repeat = range(calls[name])
            started = perf_counter()
            for _ in repeat:
                result = call()
            seconds = (perf_counter() - started) / calls[name]
            if isinstance(result, Timed):
                seconds = result.seconds
                for what, more in result.also.items():
                    times.setdefault(f"{name} {what}", []).append(more)
            times[name].append(seconds)
    return times


def report(contest: Contest, times: dict[str, list[float]]) -> Iterable[str]:
    """Lines of text: the median and spread of each, then each wanted ratio."""
    yield f"== {contest.name}"
    for name, seconds in times.items():
        middle = median(seconds)
        with_rate = contest.amount and name in contest.calls
        rate = f"{contest.amount / middle:12.4g} {contest.unit}/s" if with_rate else ""
        yield (
            f"   {name:<34} {middle * 1e6:12.3f} us {rate}"
            f"   ({min(seconds) * 1e6:.3f} .. {max(seconds) * 1e6:.3f})"
        )
    for ours, peer, wanted in contest.bars:
        ratios = [b / a for a, b in zip(times[ours], times[peer], strict=True)]
        got = median(ratios)
        verdict = (
            "" if wanted is None else f"  bar {wanted:g}x {'ok' if got >= wanted else 'SHORT'}"
        )
        yield f"   {ours} against {peer}: {got:.3g}x{verdict}"


def known() -> list[str]:
    here = Path(__file__).parent
    return sorted(path.stem.removeprefix("contests_") for path in here.glob("contests_*.py"))


def contests_of(name: str) -> Iterable[Contest]:
    """A suite's contests; MissingError where something that it compares with is not here."""
    try:
        suite = importlib.import_module(f"contests_{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in (f"contests_{name}", "kstore", "peers"):
            raise
        raise MissingError(f"the module {error.name} is not installed") from None
    yield from suite.contests()


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
                    for line in report(contest, run(contest)):
                        print(line, flush=True)
        except MissingError as missing:
            print(f"{name} is left out: {missing}", file=sys.stderr)
            status = 1 if wanted.suites else status
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
