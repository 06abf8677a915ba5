"""Compare ways of doing one thing: interleaved rounds, medians, ratios.

    python benchmarks/ratios.py checksum batch        # contests_checksum.py, contests_batch.py
    KSTORE_BENCH_SCALE=0.1 python benchmarks/ratios.py checksum

On a machine with neighbours a figure alone says little: the clock changes between two runs. So
every round calls each contestant once, in turn, and a ratio is the median of the rounds' ratios.
A suite is a module ``contests_*`` here whose ``contests()`` yields ``Contest`` objects; their
contestants return the same result, which is checked before anything is timed.
"""

import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from time import perf_counter

from kstore.bench.contest import Contest, Timed

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


def main(names: list[str]) -> None:
    for name in names:
        suite = importlib.import_module(f"contests_{name}")
        for contest in suite.contests():
            for line in report(contest, run(contest)):
                print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or known())
