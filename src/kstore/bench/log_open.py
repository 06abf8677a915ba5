"""Opening a store of many clean partitions, with few descriptors, in a process of its own."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import kstore
from kstore.bench.contest import Timed
from kstore.config import StoreConfig

MEMORY = "memory, MiB"
FILES = 1024  # the descriptors that the measured process may have


def make(path: Path, partitions: int) -> Path:
    """A store with a topic of so many partitions, one record in each, cleanly closed."""
    # Here, not above: the measured process has no use for what that brings.
    from kstore.bench.log_append import prepared

    batch = prepared(1)
    with kstore.open(path, config=StoreConfig(background=False)) as store:
        for log in store.create_topic("many", partitions=partitions):
            log.append_as_leader(batch)
    return path


def open_and_use(path: Path, partitions: int, topic: str = "many") -> Timed:
    """Seconds from open to the end of a first append and a first read of one partition.

    Also: until every end offset is known, and the most memory that the process had. Modules are
    loaded before the clock starts.
    """
    done = subprocess.run(
        [sys.executable, "-c", program(path, topic)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"the measured process failed:\n{done.stderr[-2000:]}")
    said = checked(done.stdout, partitions)
    also = {"all end offsets": said["ends"], MEMORY: said["memory"]}
    return Timed(said["first"], result=partitions, also=also)


def program(path: Path, topic: str) -> str:
    """What the measured process runs."""
    return f"from kstore.bench.log_open import measure; measure({os.fspath(path)!r}, {topic!r})"


def checked(output: str, partitions: int) -> dict[str, Any]:
    """What the measured process said, where it saw what is there."""
    said: dict[str, Any] = json.loads(output)
    if said["partitions"] != partitions or said["read"] != "first":
        raise AssertionError(f"the measured process saw {said}")
    return said


def measure(path: str, topic: str) -> None:
    """The measured process: open, append to one partition, read it, then every end offset."""
    import resource
    from time import perf_counter

    for module in ("kstore.store", "kstore.log.view", "kstore.record.scan"):
        import_module(module)  # what a program pays once, whatever it opens
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    started = perf_counter()
    with kstore.open(path) as store:
        log = store[topic][7]
        offset = log.append(b"first")
        value = log[offset].value
        first = perf_counter() - started
        again = perf_counter()
        ends = store.end_offsets(topic)
        known = perf_counter() - again
        lowest = min(ends.values())
    if heavy := [name for name in ("numpy", "asyncio", "pyarrow") if name in sys.modules]:
        raise AssertionError(f"opening a store, or this harness, loaded {heavy}")
    if value is None or lowest < 1:
        raise AssertionError("a partition without its record")
    said = {"first": first, "ends": known, "partitions": len(ends), "read": value.decode()}
    print(json.dumps(said | {"memory": most_memory()}))


def most_memory() -> float:
    """The most MiB of memory that this process had."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status does not say VmHWM")
