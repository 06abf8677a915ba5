"""kstore compared with the limits of this machine: one interleaved run, medians.

Each pair does the same work on the same bytes: check them against read them, append them against
write them. The two alternate, round by round, so that both see the same machine.
"""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

import kstore
from kstore._native.bench.memory_loops import read_all
from kstore._native.format.crc import cpu_path, crc32c

ROUNDS = 31  # of a read: milliseconds each
WRITES = 7  # each leaves SIZE bytes on the disk
SIZE = 32 << 20


@dataclass(frozen=True)
class Speed:
    """GB/s of kstore, and of the plain operation that it is compared with."""

    what: str
    against: str
    reached: float
    ceiling: float

    @property
    def share(self) -> float:
        """The part of the ceiling. Both are medians, so it may be a little above 1."""
        return self.reached / self.ceiling

    @property
    def percent(self) -> str:
        return "as fast" if self.share > 1 else f"{self.share:.0%}"


def interleaved(
    what: str,
    against: str,
    size: int,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    rounds: int = ROUNDS,
) -> Speed:
    """Run the two in turn, once to warm up and then some rounds; compare the medians."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        for run, times in zip((ours, theirs), seconds, strict=True):
            start = time.perf_counter()
            run()
            if number > 0:
                times.append(time.perf_counter() - start)
    return Speed(what, against, *(size / statistics.median(times) / 1e9 for times in seconds))


def checksum() -> Speed:
    """CRC-32C of memory against a read of the same memory by the widest loads of the CPU.

    NumPy's reductions are no bound: a checksum was faster.
    """
    data = np.frombuffer(os.urandom(1 << 20) * (SIZE >> 20), np.uint8)
    return interleaved(
        f"CRC-32C ({cpu_path()})",
        "reading the memory",
        SIZE,
        lambda: crc32c(data),
        lambda: read_all(data),
    )


def append(log: kstore.Log, values: list[bytes], path: Path) -> Speed:
    """Real lines through encode, CRC, index and write, against a bare write of as many bytes."""
    before = log.size
    log.extend(values)
    size = log.size - before
    block = memoryview(os.urandom(log.config.batch_size))
    blocks, rest = divmod(size, len(block))

    def write() -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for _ in range(blocks):
                os.write(descriptor, block)
            os.write(descriptor, block[:rest])
        finally:
            os.close(descriptor)

    result = interleaved(
        "append lines", "writing a file", size, lambda: log.extend(values), write, WRITES
    )
    path.unlink()
    return result


def scan(log: kstore.Log) -> Speed:
    """Every record into columns with its batch's CRC checked, against reading the same pages."""
    maps = [np.memmap(path, np.uint8, "r") for path in sorted(Path(log.path).glob("*.log"))]

    def read() -> None:
        for part in maps:
            read_all(part)

    def columns() -> int:
        return sum(len(part.offsets) for part in log.view().scan())

    return interleaved("scan as columns", "reading the pages", log.size, columns, read)


def measure(store: kstore.Store, lines: list[bytes], folder: Path) -> list[Speed]:
    """The three pairs, on a topic of their own that is deleted afterwards."""
    topic = store.create_topic("speeds")
    repeated = (line for _ in iter(int, 1) for line in lines)
    values = list(islice(repeated, SIZE // (sum(map(len, lines)) // len(lines))))
    try:
        return [checksum(), append(topic[0], values, folder / "bare-write"), scan(topic[0])]
    finally:
        store.delete_topic("speeds")
