"""What kstore calls otherwise than the recorded broker did: ids, and the directory.

The answers of both teach it: where they differ in a field of `_NAMES`, kstore's value takes the
endpoint of the recorded one in every later request.
"""

import dataclasses
import struct
from collections.abc import Iterator
from typing import Any

from kstore.protocol.wire import ZERO_UUID
from oracle.crc import crc32c
from oracle.reader import read_log

_NAMES = {"member_id", "leader", "producer_id", "session_id", "topic_id", "log_dir"}
_NAMES |= {"v3_and_below_producer_id", "path"}
_SAME = {"leader": "member_id", "v3_and_below_producer_id": "producer_id", "path": "log_dir"}
_LABELS = ("name", "topic", "partition_index", "partition")
_PRODUCER_ID, _CRC, _HEADER = 43, 17, 61  # positions in a batch v2


class Translation:
    """Grows with each pair of answers."""

    def __init__(self) -> None:
        self.recorded_topics: dict[str, bytes] = {}
        self.topics: dict[str, bytes] = {}
        self._known: dict[tuple[str, Any], Any] = {}

    def learn(self, recorded: Any, ours: Any) -> None:
        for name, theirs, mine in _pairs(recorded, ours):
            if name in _NAMES and type(theirs) is type(mine) and _is_given(theirs):
                self._known.setdefault((_SAME.get(name, name), theirs), mine)
        self._learn_topics(recorded, self.recorded_topics)
        self._learn_topics(ours, self.topics)

    def _learn_topics(self, answer: Any, topics: dict[str, bytes]) -> None:
        for each in getattr(answer, "topics", ()):
            topic_id, name = getattr(each, "topic_id", None), getattr(each, "name", None)
            if topic_id and _is_given(topic_id) and name:
                topics[name] = topic_id

    def apply(self, request: Any) -> None:
        """Put kstore's values into a decoded request."""
        for each in dataclasses.fields(request):
            value = getattr(request, each.name)
            if each.name in _NAMES:
                key = (_SAME.get(each.name, each.name), value)
                setattr(request, each.name, self._known.get(key, value))
            elif isinstance(value, memoryview):
                setattr(request, each.name, memoryview(self._of_our_producers(bytes(value))))
            for inner in value if isinstance(value, list) else (value,):
                if dataclasses.is_dataclass(inner):
                    self.apply(inner)

    def _of_our_producers(self, records: bytes) -> bytes:
        found = bytearray(records)
        for position, producer_id in _producers(records):
            mine = self._known.get(("producer_id", producer_id), producer_id)
            struct.pack_into(">q", found, position + _PRODUCER_ID, mine)
            _seal(found, position)
        return bytes(found)


def _is_given(value: Any) -> bool:
    """Not what stands for no id."""
    return bool(value) and value not in (-1, ZERO_UUID)


def hide_producers(answer: Any) -> None:
    """Give each batch of an answer the producer id 0, and each marker the time 0."""
    for each in dataclasses.fields(answer):
        value = getattr(answer, each.name)
        if isinstance(value, memoryview):
            records = bytearray(value)
            for position, _ in _producers(bytes(value)):
                struct.pack_into(">q", records, position + _PRODUCER_ID, 0)
                if records[position + 22] & 0x20:
                    struct.pack_into(">qq", records, position + 27, 0, 0)
                _seal(records, position)
            setattr(answer, each.name, memoryview(bytes(records)))
        for inner in value if isinstance(value, list) else (value,):
            if dataclasses.is_dataclass(inner):
                hide_producers(inner)


def _producers(records: bytes) -> Iterator[tuple[int, int]]:
    """Position and producer id of each batch that has one."""
    for batch in read_log(records, decode=False).batches:
        if batch.producer_id >= 0:
            yield batch.position, batch.producer_id


def _seal(records: bytearray, position: int) -> None:
    """Write the checksum of a changed batch v2."""
    size = 12 + struct.unpack_from(">i", records, position + 8)[0]
    checksum = crc32c(bytes(records[position + _CRC + 4 : position + size]))
    struct.pack_into(">I", records, position + _CRC, checksum)


def _pairs(recorded: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    """Each field of both answers, by its name; elements of lists are paired by their labels."""
    for each in dataclasses.fields(recorded):
        theirs, mine = getattr(recorded, each.name), getattr(ours, each.name)
        yield each.name, theirs, mine
        if isinstance(theirs, list):
            yield from _pairs_of_lists(theirs, mine)
        elif dataclasses.is_dataclass(theirs) and mine is not None:
            yield from _pairs(theirs, mine)


def _pairs_of_lists(theirs: list[Any], mine: list[Any]) -> Iterator[tuple[str, Any, Any]]:
    labelled = {_label(each, n): each for n, each in enumerate(mine or ())}
    for n, each in enumerate(theirs):
        other = labelled.get(_label(each, n))
        if dataclasses.is_dataclass(each) and other is not None:
            yield from _pairs(each, other)


def _label(value: Any, number: int) -> Any:
    for name in _LABELS:
        found = getattr(value, name, None)
        if found is not None:
            return found
    return number
