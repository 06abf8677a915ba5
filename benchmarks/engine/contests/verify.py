"""Whole programs that verify and dump a segment, against Kafka's DumpLogSegments.

Starts and memory are included. Kafka's tool checks less: checksums of batches (shallow), and that
records can be read (deep).
"""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from engine.child_process import run_program, run_python
from engine.data.partitions import read_file, write_partition
from engine.peers.kafka import kafka_tool
from kstore.bench.contest import Bar, Calls, Contest, Timed, scaled
from kstore.config import LogConfig
from kstore.files import filenames
from kstore.files.files import DISK
from kstore.recovery.recover_partition import recover_partition

TOOL = "kafka.tools.DumpLogSegments"
RECORDS = 150  # in a batch of 16 KB
VERIFY, DUMP = "kstore verify, 2 threads", "kstore dump-log --deep-iteration"
START, JVM, READ = "kstore starts", "Kafka's tool starts", "read"


def make_indexes(directory: Path) -> None:
    """Recover a partition that has no indexes, without syncs."""
    recover_partition(DISK, directory, 0, LogConfig(), sync=False)


def check_same_lines(one: Path, two: Path) -> None:
    """AssertionError unless two outputs have the same lines."""
    with one.open("rb") as a, two.open("rb") as b:
        for left, right in zip(a, b, strict=True):
            if left != right:
                raise AssertionError(f"{left[:300]!r} is not {right[:300]!r}")


def contests() -> Iterator[Contest]:
    tool = kafka_tool(TOOL)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        directory = root / "data" / "bench-0"
        write_partition(directory, RECORDS, scaled(1 << 30))
        make_indexes(directory)
        segment = directory / filenames.log_name(0)
        size = segment.stat().st_size
        log_dir = ["--log-dir", str(directory.parent)]
        deep = ["--deep-iteration", "--files", str(segment)]
        sink, dumped, listed = root / "sink", root / "dumped", root / "listed"

        def kstore(*words: str, output: Path = sink) -> Timed:
            return run_python(["-m", "kstore", *words], output)

        two = partial(kstore, "verify", "--threads", "2", *log_dir)
        quick: Calls = {
            VERIFY: two,
            "kstore verify, 1 thread": partial(kstore, "verify", "--threads", "1", *log_dir),
            START: partial(kstore, "verify", "--help"),
            READ: partial(read_file, segment),
        }
        dump = partial(kstore, "dump-log", *deep, output=dumped)
        slow: Calls = {VERIFY: two, DUMP: dump, READ: quick[READ]}
        quick_bars: list[Bar] = []
        slow_bars: list[Bar] = []
        if tool is not None:
            quick["Kafka shallow"] = partial(run_program, [*tool, "--files", str(segment)], sink)
            quick[JVM] = partial(run_program, [*tool, "--version"], sink)
            quick_bars += [(VERIFY, "Kafka shallow", 3), (START, JVM, None)]
            quick_bars += [(f"{VERIFY} memory, MiB", "Kafka shallow memory, MiB", None)]
            slow["Kafka deep"] = partial(run_program, [*tool, *deep], listed)
            slow_bars += [(VERIFY, "Kafka deep", 30), (DUMP, "Kafka deep", 2)]
        for what, calls, bars, rounds in (
            ("verify", quick, quick_bars, 9),
            ("verify and dump", slow, slow_bars, 3),
        ):
            yield Contest(
                name=f"{what} {size:,} bytes of 16 KB batches, page cache, whole programs",
                calls=calls,
                amount=size,
                bars=tuple(bars),
                ceiling=READ,
                unchecked=frozenset([READ]),
                rounds=rounds,
            )
        if listed.exists():
            check_same_lines(dumped, listed)
