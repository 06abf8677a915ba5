"""A log's durable commits: batches of one size, each appended and flushed, each timed."""

import shutil
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter_ns

import numpy as np

import kstore
from kstore._native.append.encode import BatchBuffer
from kstore.bench.contest import Timed
from kstore.config import LogConfig, StoreConfig


class LogCommits:
    """A log in a new store below ``directory``, opened by the first commit and kept open.

    ``value``: bytes of which a batch of ``block`` bytes, header included, has the first ones. With
    ``preallocate`` the time to write the zeros is included, as it is in use. For one thread.
    """

    def __init__(self, directory: Path, value: memoryview, *, preallocate: bool) -> None:
        self._directory, self._block = directory, len(value)
        self._value = bytes(value[: self._block - batch_overhead(self._block)])
        self._config = LogConfig(preallocate=preallocate, max_message_bytes=2 * self._block)
        self._store: kstore.Store | None = None
        self._folder = directory

    def _open(self) -> kstore.Log:
        if self._store is None:
            self._folder = Path(mkdtemp(dir=self._directory))
            self._store = kstore.open(self._folder, config=StoreConfig(background=False))
            log = self._store.create_topic("commits", config=self._config)[0]
            log.flush()
            return log
        return self._store["commits"][0]

    def commit(self, count: int) -> Timed:
        """Append and flush ``count`` batches; seconds of each, by their median."""
        log = self._open()
        size = log.size
        took = np.zeros(count, np.int64)
        for n in range(count):
            started = perf_counter_ns()
            log.append(self._value)
            log.flush()
            took[n] = perf_counter_ns() - started
        if log.size != size + count * self._block or log[-1].value != self._value:
            raise AssertionError(f"{log.size} bytes are in the log")
        also = {"mean": float(took.mean()) / 1e9} if count > 1 else {}
        return Timed(float(np.median(took)) / 1e9, result=self._block, also=also, samples=took)

    def close(self) -> None:
        """Close the store and delete its files."""
        if self._store is not None:
            self._store.close()
            self._store = None
            shutil.rmtree(self._folder)


def batch_overhead(block: int) -> int:
    """Bytes of a one-record batch of a block's size that are not its value."""
    buffer = BatchBuffer()
    buffer.put(bytes(block - 80), None, None, 1_700_000_000_000)
    return len(buffer.to_bytes()) - (block - 80)
