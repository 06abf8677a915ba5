"""Verifying and dumping a segment, as programs, against Kafka's DumpLogSegments: starts and memory
included.

Kafka's tool checks less: checksums of batches (shallow), and that records can be read (deep).
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from kstore.bench import recovery
from kstore.bench.children import run_program
from kstore.bench.contest import Contest, Timed, scaled
from kstore.bench.peers import kafka_tool
from kstore.log import filenames

TOPIC = "bench-0"
TOOL = "kafka.tools.DumpLogSegments"
RECORDS, VALUE_SIZE = 150, 100  # a batch of 16 KB
VERIFY, DUMP = "kstore verify, 2 threads", "kstore dump-log --deep-iteration"
START, JVM, READ = "kstore starts", "Kafka's tool starts", "read"
Calls = dict[str, Callable[[], object]]
Bars = list[tuple[str, str, float | None]]


def python(words: list[str], output: Path) -> Timed:
    """A program of Python; its modules are compiled, as if installed."""
    compiled = output.with_name("compiled")
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(compiled)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return run_program([sys.executable, *words], output, environment)


def ours(words: list[str], output: Path) -> Timed:
    """A tool of kstore."""
    return python(["-m", "kstore", *words], output)


def same_lines(one: Path, two: Path) -> None:
    """AssertionError unless two outputs have the same lines."""
    with one.open("rb") as a, two.open("rb") as b:
        for left, right in zip(a, b, strict=True):
            if left != right:
                raise AssertionError(f"{left[:300]!r} is not {right[:300]!r}")


def contests() -> Iterator[Contest]:
    tool = kafka_tool(TOOL)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        directory = root / "data" / TOPIC
        recovery.write_partition(directory, RECORDS, VALUE_SIZE, scaled(1 << 30))
        recovery.recover(directory)
        segment = directory / filenames.log_name(0)
        size = segment.stat().st_size
        log_dir = ["--log-dir", str(directory.parent)]
        deep = ["--deep-iteration", "--files", str(segment)]
        sink, dumped, listed = root / "sink", root / "dumped", root / "listed"
        two = partial(ours, ["verify", "--threads", "2", *log_dir], sink)
        dump = partial(ours, ["dump-log", *deep], dumped)
        quick: Calls = {
            VERIFY: two,
            "kstore verify, 1 thread": partial(ours, ["verify", "--threads", "1", *log_dir], sink),
            START: partial(ours, ["verify", "--help"], sink),
            READ: partial(recovery.read_whole, segment),
        }
        slow: Calls = {VERIFY: two, DUMP: dump, READ: quick[READ]}
        quick_bars: Bars = []
        slow_bars: Bars = []
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
            same_lines(dumped, listed)
