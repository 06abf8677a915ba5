"""``Topic.extend``: distributes many records over the partitions of a topic, in batches."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kstore.log.extend import TopicItems, check_items
from kstore.record import Item, Record, Timestamp
from kstore.record.memory_size import RECORD_OVERHEAD, headers_size

if TYPE_CHECKING:
    from kstore.store.topic import Topic

_BUFFER_MEMORY = 32 << 20  # bytes of records that are not appended yet, as Kafka's buffer.memory

Offsets = dict[int, list[range]]


def extend_topic(topic: "Topic", values: Iterable[Item], timestamp: Timestamp) -> Offsets:
    """Append the records; returns their offsets by partition, adjacent ranges as one.

    A partition's records are appended when they fill a batch, all of them when together they
    exceed the buffer. An error has a note with the number and offsets that were appended before.
    """
    batch_size = topic.config.batch_size
    pending: dict[int, TopicItems] = {}
    offsets: Offsets = {}
    buffered = 0
    try:
        for number, item in enumerate(check_items(values)):
            key, value = _key_and_value(item)
            partition = topic.partition_for(key, value)
            waiting = pending.setdefault(partition, TopicItems())
            waiting.items.append(item)
            waiting.numbers.append(number)
            size = _size(key) + _size(value)
            if isinstance(item, Record) and item.headers:
                size += headers_size(item.headers)
            waiting.size += size
            buffered += RECORD_OVERHEAD + size
            if waiting.size >= batch_size:
                buffered -= waiting.memory
                _append(topic, partition, pending.pop(partition), timestamp, offsets)
            elif buffered > _BUFFER_MEMORY:
                buffered = 0
                _append_all(topic, pending, timestamp, offsets)
        _append_all(topic, pending, timestamp, offsets)
    except BaseException as error:
        error.add_note(_note(offsets))
        raise
    return offsets


def _note(offsets: Offsets) -> str:
    if not offsets:
        return "before this error nothing was appended"
    count = sum(len(each) for ranges in offsets.values() for each in ranges)
    were = "item was" if count == 1 else "items were"
    return f"before this error {count} {were} appended; offsets by partition: {offsets}"


def _append_all(
    topic: "Topic", pending: dict[int, TopicItems], timestamp: Timestamp, offsets: Offsets
) -> None:
    for partition in sorted(pending):
        _append(topic, partition, pending.pop(partition), timestamp, offsets)


def _append(
    topic: "Topic", partition: int, waiting: TopicItems, timestamp: Timestamp, offsets: Offsets
) -> None:
    try:
        topic[partition]._extend(waiting.items, timestamp, waiting)
    finally:
        if waiting.appended:  # also where a later record failed
            _add_range(offsets.setdefault(partition, []), waiting.appended)


def _add_range(known: list[range], appended: range) -> None:
    if known and known[-1].stop == appended.start:
        appended = range(known.pop().start, appended.stop)
    known.append(appended)


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
