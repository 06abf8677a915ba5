"""One durable stream without the rest of the benchmarks.

PYTHONPATH=benchmarks python -m engine.log_stream 10000000       # records
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.contests.log_stream import stream
from kstore.bench.runner.estimate import percentiles


def main(records: int) -> None:
    with TemporaryDirectory() as directory:
        timed = stream(Path(directory), records)
    print(f"acknowledged {1e-6 / timed.seconds:.2f} M records/s")
    print(f"read         {1e-6 / timed.also['reader']:.2f} M records/s")
    found = percentiles([timed.waits["ack"]])
    print("ack latency ", ", ".join(f"{name} {ns / 1e6:.2f} ms" for name, ns in found.items()))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
