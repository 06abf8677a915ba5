"""What an unfinished publication may be undone by: the headers behind its fence."""

from dataclasses import dataclass, field

import pytest

from kstore.errors import CorruptRecordError
from kstore.store import atomic_publish
from oracle.plain import PlainRecord
from oracle.writer import batch

ROWS = [PlainRecord(n, 1000 + n, b"k", b"v") for n in range(3)]


@dataclass
class OneRead:
    """A log that gives the same bytes for every offset."""

    data: bytes
    end_offset: int
    path: str = "here"
    asked: list[int] = field(default_factory=list)

    def read(self, offset: int, size: int) -> bytes:
        self.asked.append(offset)
        return self.data


def test_headers_behind_a_fence_come_one_by_one() -> None:
    data = batch(ROWS)
    log = OneRead(data, 3)
    assert list(atomic_publish._stored(log, 0)) == [data[:61]]
    assert log.asked == [0]


def test_a_negative_base_offset_behind_a_fence_proves_nothing() -> None:
    """The batches that follow it are not read, so none may count as the publication's."""
    log = OneRead((-5).to_bytes(8, "big", signed=True) + batch(ROWS)[8:], 100)
    heads = atomic_publish._stored(log, 0)
    assert len(next(heads)) == 61
    with pytest.raises(CorruptRecordError) as caught:
        next(heads)
    assert caught.value.offset == 0


@pytest.mark.parametrize("size", [-1, -(2**31), 2**31 - 1])
def test_a_size_that_cannot_be_ends_a_walk_over_headers(size) -> None:
    one = batch(ROWS)
    data = one + one[:8] + size.to_bytes(4, "big", signed=True) + one[12:] + one
    assert [bytes(head[:8]) for head in atomic_publish._headers(bytearray(data))] == [one[:8]] * 2
    atomic_publish._clear_placement(bytearray(data))
