"""The measured process of the contest ``log_open``: it imports only what it measures."""

import json
import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import kstore

FILES = 1024  # descriptors that the process may have


def main(path: str, topic: str) -> None:
    """Open, append to one partition, read it back, then ask for every end offset.

    Both times begin with the opening, as the time of a broker that loads its logs.
    """
    load_modules()
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    started = perf_counter()
    with kstore.open(path) as store:
        log = store[topic][7]
        offset = log.append(b"first")
        value = log[offset].value
        first = perf_counter() - started
        ends = store.end_offsets(topic)
        known = perf_counter() - started
        lowest = min(ends.values())
    if heavy := [name for name in ("numpy", "asyncio", "pyarrow") if name in sys.modules]:
        raise AssertionError(f"opening a store, or this process, loaded {heavy}")
    if value is None or lowest < 1:
        raise AssertionError("a partition without its record")
    reply = {"first": first, "ends": known, "partitions": len(ends), "read": value.decode()}
    print(json.dumps(reply | {"memory": peak_memory()}))


def load_modules() -> None:
    """Do the same in a small store: what a program pays once, whatever it opens."""
    with TemporaryDirectory() as path:
        for _ in range(2):  # the second opening is that of a store that exists
            with kstore.open(path) as store:
                topic = store.create_topic("first", exist_ok=True)
                assert topic[0][topic[0].append(b"first")].value == b"first"
                store.end_offsets("first")


def peak_memory() -> float:
    """The most MiB of memory that this process had."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status has no VmHWM")
