"""Batches in memory whose records have keys and headers, one like another but for their offsets."""

import random
from dataclasses import dataclass
from functools import cached_property

from kstore._native.encode import BatchBuffer

TIME = 1_700_000_000_000
HEADER = ("kind", b"measured")
KEYS = 61  # that a batch has, at most


@dataclass(frozen=True)
class Batches:
    """Batches v2 of ``records`` with values of 100 random bytes, about ``size`` bytes in all.

    ``keyed``: each with a key of 8 bytes and a header. ``producers``: so many idempotent ones take
    turns, their sequences go on. ``alike``: so many bytes of each value are the same in all.
    """

    records: int
    size: int
    keyed: bool = False
    producers: int = 0
    alike: int = 0

    def one(self, producer: int = -1, sequence: int = 0) -> bytes:
        """A batch at offset 0."""
        draw = random.Random(self.records)
        same = draw.randbytes(self.alike)
        buffer = BatchBuffer()
        if producer >= 0:
            buffer.set_producer(producer, 0, sequence)
        for n in range(self.records):
            key = b"%08d" % (n % KEYS) if self.keyed else None
            buffer.put(
                same + draw.randbytes(100 - self.alike),
                key,
                [HEADER] if self.keyed else None,
                TIME + n,
            )
        return buffer.to_bytes(0, 0)

    @cached_property
    def batches(self) -> int:
        return max(2, self.size // len(self.one()))

    @property
    def count(self) -> int:
        return self.batches * self.records

    @property
    def value_bytes(self) -> int:
        return self.count * 100

    @cached_property
    def data(self) -> bytes:
        made = (
            [
                self.one(number % self.producers, number // self.producers * self.records)
                for number in range(self.batches)
            ]
            if self.producers
            else [self.one()] * self.batches
        )
        return b"".join(
            (number * self.records).to_bytes(8, "big") + batch[8:]
            for number, batch in enumerate(made)
        )
