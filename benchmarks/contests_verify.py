"""Verifying and dumping 1 GiB, as programs, against Kafka's DumpLogSegments: starts included.

Kafka's tool checks less: checksums of batches (shallow), and that records can be read (deep).
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from kstore.bench import recovery
from kstore.bench.contest import Contest, scaled
from kstore.log import filenames
from peers.kafka import VERSION, prepare, required

TOPIC = "bench-0"
TOOL = "kafka.tools.DumpLogSegments"
RECORDS, VALUE_SIZE = 150, 100  # a batch of 16 KB
VERIFY, DUMP = "kstore verify, 2 threads", "kstore dump-log --deep-iteration"


def ours(words: list[str], output: Path) -> int:
    """Run a tool of kstore with its output in a file; its modules are compiled, as if installed."""
    compiled = output.with_name("compiled")
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(compiled)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with output.open("wb") as file:
        command = [sys.executable, "-m", "kstore", *words]
        subprocess.run(command, stdout=file, stderr=subprocess.DEVNULL, check=True, env=environment)
    return 0


def theirs(libs: Path, words: list[str], output: Path) -> int:
    with output.open("wb") as file:
        command = ["java", "-Xmx1g", "-cp", f"{libs}/*", TOOL, *words]
        subprocess.run(command, stdout=file, stderr=subprocess.DEVNULL, check=True)
    return 0


def same_lines(one: Path, two: Path) -> int:
    """0 where two outputs have the same lines."""
    with one.open("rb") as a, two.open("rb") as b:
        for left, right in zip(a, b, strict=True):
            if left != right:
                raise AssertionError(f"{left[:300]!r} is not {right[:300]!r}")
    return 0


def contests() -> Iterator[Contest]:
    libs, missing = prepare(VERSION)
    if missing is None and shutil.which("java") is None:
        missing = "java is missing"
    if missing is not None:
        if required():
            raise RuntimeError(missing)
        print(f"without Kafka: {missing}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        directory = root / "data" / TOPIC
        size = scaled(1 << 30)
        recovery.write_partition(directory, RECORDS, VALUE_SIZE, size)
        recovery.recover(directory)
        segment = directory / filenames.log_name(0)
        size = segment.stat().st_size
        log_dir = ["--log-dir", str(directory.parent)]
        deep = ["--deep-iteration", "--files", str(segment)]
        sink, dumped, listed = root / "sink", root / "dumped", root / "listed"
        two = partial(ours, ["verify", "--threads", "2", *log_dir], sink)
        dump = partial(ours, ["dump-log", *deep], dumped)
        quick: dict[str, Callable[[], object]] = {
            VERIFY: two,
            "kstore verify, 1 thread": partial(ours, ["verify", "--threads", "1", *log_dir], sink),
            "kstore starts": partial(ours, ["verify", "--help"], sink),
        }
        slow: dict[str, Callable[[], object]] = {VERIFY: two, DUMP: dump}
        quick_bars: list[tuple[str, str, float | None]] = []
        slow_bars: list[tuple[str, str, float | None]] = []
        if missing is None:
            quick["Kafka shallow"] = partial(theirs, libs, ["--files", str(segment)], sink)
            quick["Kafka's JVM starts"] = partial(theirs, libs, ["--version"], sink)
            quick_bars += [(VERIFY, "Kafka shallow", 3)]
            slow["Kafka deep"] = partial(theirs, libs, deep, listed)
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
                rounds=rounds,
            )
        if missing is None:
            same_lines(dumped, listed)
