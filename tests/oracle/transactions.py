"""What read_committed shows of a log, worked out the slow way: every batch, from the first one.

A batch is (base offset, last offset, producer id or -1, kind), kind one of "plain", "data",
"commit", "abort" and "emptied". The rules are those of Kafka's partition leader and consumer, but
for "emptied", a control batch whose record the cleaner has removed: Kafka's leader passes over it
and lets the transaction hang. It has ended, and nothing says that its records were committed.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Batch(NamedTuple):
    base_offset: int
    last_offset: int
    producer_id: int
    kind: str


class Shown(NamedTuple):
    last_stable_offset: int
    offsets: list[int]  # of the records that read_committed shows
    aborted: list[tuple[int, int, int]]  # producer id, first offset, offset of the marker


def read_committed(batches: Iterable[Batch], end_offset: int) -> Shown:
    """The last stable offset, the offsets shown, and the aborted transactions by their markers."""
    waiting: dict[int, list[Batch]] = {}
    offsets: list[int] = []
    aborted: list[tuple[int, int, int]] = []
    for batch in batches:
        if batch.kind == "plain":
            offsets += range(batch.base_offset, batch.last_offset + 1)
        elif batch.kind == "data":
            waiting.setdefault(batch.producer_id, []).append(batch)
        else:
            ended = waiting.pop(batch.producer_id, [])
            if ended and batch.kind != "commit":
                aborted.append((batch.producer_id, ended[0].base_offset, batch.last_offset))
            if batch.kind == "commit":
                for each in ended:
                    offsets += range(each.base_offset, each.last_offset + 1)
    stable = min((each[0].base_offset for each in waiting.values()), default=end_offset)
    return Shown(stable, sorted(offset for offset in offsets if offset < stable), aborted)
