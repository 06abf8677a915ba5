"""Startup times of brokers: with many cleanly closed partitions, and after a kill."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import kstore
from load.brokers import PATIENCE, SOURCES, ProcessBroker
from load.rounds import Results, keep
from peers.broker import end_offsets

MANY = 10_000  # clean partitions
GB = 1_000_000_000
PARTITIONS = 10
UNSYNCED = 90_000_000  # bytes above the recovery points, of all partitions together
_BATCH = [b"%0100d" % n for n in range(1000)]
# A writer that writes 10 GB to disk, appends an unsynced tail, and kills itself.
_KILLED_WRITER = """
import os, signal, sys
import kstore
path, total, tail, count = sys.argv[1], *map(int, sys.argv[2:])
values = [b"%0100d" % n for n in range(1000)]
store = kstore.open(path, config=kstore.StoreConfig(background=False))
topic = store.create_topic("killed", partitions=count, config={"segment.bytes": 100_000_000})
for log in topic:
    while log.size < total // count:
        log.extend(values)
    log.flush()
store.checkpoint()
for log in topic:
    size = log.size
    while log.size < size + tail // count:
        log.extend(values)
os.kill(os.getpid(), signal.SIGKILL)
"""


def make_clean(log_dir: Path, partitions: int) -> None:
    """Create a cleanly closed directory of this many partitions with some records each."""
    with kstore.open(log_dir, config=kstore.StoreConfig(background=False)) as store:
        for log in store.create_topic("many", partitions=partitions):
            log.extend(_BATCH[:10])


def make_killed(log_dir: Path, total: int) -> None:
    """Create a directory whose writer was killed."""
    tail = min(UNSYNCED, total // 10)
    done = subprocess.run(
        [sys.executable, "-c", _KILLED_WRITER, log_dir, str(total), str(tail), str(PARTITIONS)],
        env={**os.environ, "PYTHONPATH": os.fspath(SOURCES)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def measure_large_starts(rounds: int, scale: float, root: Path) -> Results:
    """Milliseconds until the port is open, and until all partitions are served."""
    results: Results = {}
    many, total = max(10, int(MANY * scale)), int(10 * GB * scale)
    clean, killed = root / "clean", root / "killed"
    make_clean(clean, many)
    make_killed(killed, total)
    os.sync()
    work = f"start, {many:,} clean partitions"
    for number in range(rounds):
        _load_program(root / f"empty-{number}", root)
        keep(results, work, "kstore", _start(clean, "many", many, root))
    work = f"start after a kill, {total / GB:.1f} GB"
    for number in range(rounds):
        copy = root / f"killed-{number}"
        shutil.copytree(killed, copy)  # a copy, because a start recovers the directory
        os.sync()  # the disk's work for the copy is not the start's
        _load_program(root / f"loaded-{number}", root)
        keep(results, work, "kstore", _start(copy, "killed", PARTITIONS, root))
        shutil.rmtree(copy)
    return results


def _load_program(log_dir: Path, root: Path) -> None:
    """Start and stop once on an empty directory: gigabytes of copies may have evicted Python's and
    kstore's own files from the page cache, where a restart finds them."""
    log_dir.mkdir()
    _start(log_dir, "", 0, root)


def _start(log_dir: Path, topic: str, partitions: int, root: Path) -> dict[str, float]:
    def command(port: int) -> list[str]:
        words = ["serve", "--log-dir", os.fspath(log_dir), "--port", str(port)]
        return [sys.executable, "-m", "kstore", *words]

    broker = ProcessBroker("kstore", command, root / "start.log", keeps_records=True)
    started = time.perf_counter()
    try:
        port = broker.start()
        if partitions:
            _wait_for_all(broker.port, topic, partitions)
        return {"port, ms": port * 1e3, "all serve, ms": (time.perf_counter() - started) * 1e3}
    finally:
        broker.stop()


def _wait_for_all(port: int, topic: str, partitions: int) -> None:
    until = time.monotonic() + PATIENCE
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        while time.monotonic() < until:
            errors, ends = end_offsets(connection, topic, partitions)
            if not any(errors):
                assert min(ends) > 0, ends
                return
            time.sleep(0.005)
    raise AssertionError(f"not every partition of {topic} serves after {PATIENCE:.0f} s")
