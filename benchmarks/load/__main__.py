"""kstore, Kafka and a null broker under the same load, interleaved, in one table.

    PYTHONPATH=benchmarks:src python -m load                    # all workloads, seven rounds
    PYTHONPATH=benchmarks:src python -m load --quick --brokers kafka,null
    PYTHONPATH=benchmarks:src python -m load --list
    PYTHONPATH=benchmarks:src python -m load "produce 16 KB, 4x5" --json out.json

Files are in a temporary directory below --directory, by default /dev/shm if it exists, so that no
figure includes the disk. Kafka needs Java 17; its jars are fetched once.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import peers.kafka  # finds tests/interop, and with it the jars

# isort: split

from load.brokers import Broker, KafkaBroker, kstore_broker, null_broker
from load.performance_tool import measure_tool
from load.rounds import measure, measure_starts
from load.starts import measure_large_starts
from load.table import table
from load.workloads import WORKLOADS

assert peers.kafka.VERSION
SHM = "/dev/shm"
BROKERS: dict[str, Callable[[Path], Broker]] = {
    "kstore": kstore_broker,
    "kafka": KafkaBroker,
    "null": null_broker,
}


OTHERS = ["start", "tool", "large start"]  # measurements other than the workloads


def _again(factories: list[Callable[[Path], Broker]], root: Path) -> list[Broker]:
    """New brokers of the same kinds, each with its own directory."""
    directory = root / "tool"
    directory.mkdir()
    return [factory(directory) for factory in factories]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m load", description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", help="words that occur in the names of workloads")
    parser.add_argument("--brokers", default="kstore,kafka,null", help="a list of names")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0, help="counts are multiplied by it")
    parser.add_argument("--quick", action="store_true", help="three rounds at a twentieth")
    parser.add_argument("--directory", default=SHM if os.path.isdir(SHM) else None)
    parser.add_argument("--json", type=Path, help="a file for every sample")
    parser.add_argument("--list", action="store_true", help="the names of the workloads")
    return parser.parse_args()


def main() -> int:
    given = _arguments()
    if given.list:
        print("\n".join([workload.name for workload in WORKLOADS] + OTHERS))
        return 0
    rounds, scale = (3, 0.05) if given.quick else (given.rounds, given.scale)
    factories = [BROKERS[name] for name in given.brokers.split(",")]
    workloads = [
        workload
        for workload in WORKLOADS
        if not given.workloads or any(word in workload.name for word in given.workloads)
    ]
    with tempfile.TemporaryDirectory(dir=given.directory, prefix="kstore-load-") as directory:
        root = Path(directory)
        brokers = [factory(root) for factory in factories]
        results = measure(brokers, workloads, rounds, scale, root)
        if not given.workloads or "start" in given.workloads:
            results |= measure_starts(factories, rounds, root)
        if not given.workloads or "tool" in given.workloads:
            results |= measure_tool(
                _again(factories, root), rounds, max(1000, int(500_000 * scale))
            )
    if not given.workloads or "large start" in given.workloads:
        with tempfile.TemporaryDirectory(prefix="kstore-load-") as directory:  # 20 GB: on a disk
            results |= measure_large_starts(rounds, scale, Path(directory))
    names = [broker.name for broker in brokers]
    if given.json:
        rows = [
            {"work": work, "figure": figure, "samples": samples}
            for (work, figure), samples in results.items()
        ]
        given.json.write_text(json.dumps(rows, indent=1))
    print(table(results, names, "kstore", f"Kafka {peers.kafka.VERSION}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
