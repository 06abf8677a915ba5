"""Runs the workloads on all brokers in turn, round by round, and computes medians."""

import shutil
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from load.brokers import Broker
from load.programs import Generator
from load.workloads import Bench, Sample, Workload, memory_mb

Results = dict[tuple[str, str], dict[str, list[float]]]  # (work, figure) -> broker -> samples


def keep(results: Results, work: str, broker: str, sample: Sample) -> None:
    for figure, value in sample.items():
        results.setdefault((work, figure), {}).setdefault(broker, []).append(value)


def measure(
    brokers: Sequence[Broker],
    workloads: Sequence[Workload],
    rounds: int,
    scale: float,
    scratch: Path,
) -> Results:
    """Start all brokers, run one discarded round that warms up the JVM, then run the rounds.

    Each round of a workload begins with a different broker. Memory is measured after the start and
    after all rounds.
    """
    results: Results = {}
    generator = Generator(scratch)
    benches = []
    try:
        for broker in brokers:
            broker.start()
            benches.append(Bench(broker, generator, scale))
            keep(results, "memory", broker.name, {"idle, MB": memory_mb(benches[-1])})
        for workload in workloads:
            for number in range(rounds + 1):
                turn = number % len(benches)
                for bench in benches[turn:] + benches[:turn]:
                    sample = workload.run(bench)
                    if number:
                        keep(results, workload.name, bench.broker.name, sample)
            print(f"{workload.name}: {rounds} rounds", file=sys.stderr, flush=True)
        for bench in benches:
            figures = {"after the load, MB": memory_mb(bench), "received, GB": bench.received / 1e9}
            keep(results, "memory", bench.broker.name, figures)
    finally:
        for broker in brokers:
            broker.stop()
    return results


def measure_starts(
    factories: Sequence[Callable[[Path], Broker]], rounds: int, root: Path
) -> Results:
    """Milliseconds from the start of a process to its open port, each time on an empty
    directory."""
    results: Results = {}
    for number in range(rounds):
        for which, factory in enumerate(factories):
            directory = root / f"start-{number}-{which}"
            directory.mkdir()
            broker = factory(directory)
            try:
                keep(results, "start", broker.name, {"port, ms": broker.start() * 1e3})
            finally:
                broker.stop()
                shutil.rmtree(directory)
    return results


def median(results: Results, work: str, figure: str, broker: str) -> float | None:
    """The median of a figure; None if the broker was not measured."""
    samples = results.get((work, figure), {}).get(broker)
    return statistics.median(samples) if samples else None
