"""``Topic.extend``: distributes many records over the partitions of a topic, in batches."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kstore.log.extend import split_into_chunks
from kstore.record import Item, Record, Timestamp

if TYPE_CHECKING:
    from kstore.store.topic import Topic

_BUFFER_MEMORY = 32 << 20  # bytes of records that are not appended yet, as Kafka's buffer.memory

Offsets = dict[int, list[range]]


class _Pending:
    """Records of one partition that are not appended yet, and their numbers in the source."""

    __slots__ = ("items", "numbers", "size")

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.numbers: list[int] = []
        self.size = 0


def extend_topic(topic: "Topic", values: Iterable[Item], timestamp: Timestamp) -> Offsets:
    """Append the records; returns their offsets by partition, adjacent ranges as one.

    A partition's records are appended when they fill a batch, all of them when together they
    exceed the buffer. An error has a note with the offsets that were appended before it.
    """
    batch_size = topic.config.batch_size
    pending: dict[int, _Pending] = {}
    offsets: Offsets = {}
    number = buffered = 0
    try:
        for chunk in split_into_chunks(values):
            for item in chunk:
                key, value = _key_and_value(item)
                partition = topic.partition_for(key, value)
                waiting = pending.setdefault(partition, _Pending())
                waiting.items.append(item)
                waiting.numbers.append(number)
                size = _size(key) + _size(value)
                waiting.size += size
                buffered += size
                number += 1
                if waiting.size >= batch_size:
                    buffered -= waiting.size
                    _append(topic, partition, pending.pop(partition), timestamp, offsets)
                elif buffered > _BUFFER_MEMORY:
                    buffered = 0
                    _append_all(topic, pending, timestamp, offsets)
        _append_all(topic, pending, timestamp, offsets)
    except Exception as error:
        error.add_note(f"offsets that were appended before, by partition: {offsets}")
        raise
    return offsets


def _append_all(
    topic: "Topic", pending: dict[int, _Pending], timestamp: Timestamp, offsets: Offsets
) -> None:
    for partition in sorted(pending):
        _append(topic, partition, pending.pop(partition), timestamp, offsets)


def _append(
    topic: "Topic", partition: int, waiting: _Pending, timestamp: Timestamp, offsets: Offsets
) -> None:
    found = topic[partition]._extend(waiting.items, timestamp, waiting.numbers)
    known = offsets.setdefault(partition, [])
    if known and known[-1].stop == found.start:
        found = range(known.pop().start, found.stop)
    known.append(found)


def _key_and_value(item: Any) -> tuple[Any, Any]:
    """What the partitioner needs; the append refuses what is no item."""
    if isinstance(item, Record):
        return item.key, item.value
    if isinstance(item, tuple) and len(item) == 2:
        return item
    return None, item


def _size(data: Any) -> int:
    try:
        return 0 if data is None else len(data)
    except TypeError:  # no bytes: the append says what a value is
        return 0
