"""Encoding and decoding record batches: the data, and each way of doing the work once."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kstore._native import limits_records
from kstore._native.decode import Scanner
from kstore._native.encode import BatchBuffer
from kstore.bench.contest import scaled

TIME = 1_700_000_000_000
NO_LIMIT = 1 << 30


def read_all(records: Iterable[Any]) -> int:
    """Read the four fields of each record; returns how many there were, if offsets start at 0.

    A statement a field and no counter: a loop that did more would measure itself.
    """
    record: Any = None
    for record in records:
        record.key  # noqa: B018
        record.value  # noqa: B018
        record.timestamp  # noqa: B018
        record.headers  # noqa: B018
    return 0 if record is None else int(record.offset) + 1


@dataclass(frozen=True)
class Encoding:
    """``count`` values of ``size`` random bytes for one batch."""

    count: int = 1000
    size: int = 100

    @cached_property
    def values(self) -> list[bytes]:
        draw = random.Random(self.count)
        return [draw.randbytes(self.size) for _ in range(self.count)]

    @cached_property
    def joined(self) -> bytes:
        return b"".join(self.values)

    @cached_property
    def _buffer(self) -> BatchBuffer:
        return BatchBuffer(1 << 20)

    @cached_property
    def _room(self) -> bytearray:
        return bytearray(self.count * (self.size + 40))

    def by_kstore(self) -> memoryview:
        """One batch from the list, CRC included, left in the encoder's memory."""
        buffer = self._buffer
        buffer.reset()
        buffer.put_values(self.values, 0, TIME, NO_LIMIT)
        return buffer.sealed()

    def by_puts(self) -> bytes:
        """The same, one call a record."""
        buffer = self._buffer
        buffer.reset()
        for value in self.values:
            buffer.put(value, None, None, TIME)
        return buffer.to_bytes()

    def by_bare_loop(self) -> int:
        """A bare C loop over contiguous values, CRC included; returns the records' size."""
        return limits_records.encode(self.joined, self.size, self._room)[0]


@dataclass(frozen=True)
class Decoding:
    """Batches of ``per_batch`` records with values of ``size`` bytes, ``total`` bytes in all."""

    per_batch: int = 1000
    size: int = 100
    total: int = 1 << 20

    @cached_property
    def data(self) -> bytes:
        values = Encoding(self.per_batch, self.size).values
        buffer = BatchBuffer()
        for n, value in enumerate(values):
            buffer.put(value, None, None, TIME + n)
        total = scaled(self.total, least=1 << 16)
        out = bytearray()
        offset = 0
        while len(out) < total:
            out += buffer.to_bytes(offset)
            offset += self.per_batch
        return bytes(out)

    @cached_property
    def count(self) -> int:
        return len(self.data) // len(self._one) * self.per_batch

    @cached_property
    def _one(self) -> bytes:
        size = int.from_bytes(self.data[8:12], "big") + 12
        return self.data[:size]

    @cached_property
    def _room(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return np.empty(self.count, np.int64), np.empty(self.count, np.int32)

    def by_bare_loop(self) -> int:
        """A bare C loop into positions and lengths of the values, CRC included; how many."""
        count, wrong = limits_records.decode(self.data, *self._room)
        if wrong:
            raise AssertionError(f"{wrong} checksums are wrong")
        return count

    def into_values(self) -> int:
        """Lists of values; returns how many."""
        scanner = Scanner(self.data, values_only=True)
        total = 0
        while (values := scanner.next_values()) is not None:
            total += len(values)
        return total

    def into_records(self) -> int:
        """Record objects whose key, value, timestamp and headers are then read."""
        return read_all(Scanner(self.data).records())

    def into_places(self) -> int:
        """Positions and lengths of the values."""
        return self._drain(Scanner(self.data, values_only=True))

    def into_columns(self) -> int:
        """All columns."""
        return self._drain(Scanner(self.data))

    def _drain(self, scanner: Scanner) -> int:
        total = 0
        while (block := scanner.next_block()) is not None:
            total += len(block)
        return total
