"""The durable stream against a bare write and fdatasync of the same bytes."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from kstore.bench import log_stream as work
from kstore.bench.contest import Contest, Timed, scaled

WANTED = 4_000_000  # records a second, durable; read behind as fast


def contests() -> Iterator[Contest]:
    records = scaled(10_000_000, 20_000) // 1000 * 1000
    with TemporaryDirectory() as path:
        directory = Path(path)
        yield Contest(
            name=f"durable stream of {records} records, read by another process",
            calls={
                "kstore": partial(work.stream, directory, records),
                "kstore, nobody reads": partial(work.stream, directory, records, reader=False),
                "write, fdatasync each MiB": partial(work.raw_stream, directory, records),
                "4 M records/s": lambda: Timed(1 / WANTED, result=records),
                "10 ms": lambda: Timed(0.010, result=records),
            },
            amount=1,
            unit="records",
            bars=(
                ("kstore", "4 M records/s", 1.0),
                ("kstore reader", "4 M records/s", 1.0),
                ("kstore ack p99", "10 ms", None),
                ("kstore, nobody reads", "write, fdatasync each MiB", None),
            ),
            rounds=5,
        )
