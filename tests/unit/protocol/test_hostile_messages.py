"""Damaged messages: each is read, or refused as an invalid message, in bounded memory."""

import tracemalloc
from random import Random

import pytest

from kstore.errors import InvalidMessageError
from kstore.protocol.schema import table
from kstore.protocol.schema.generate import class_name
from kstore.protocol.wire import Reader
from support.random_messages import TABLE, encoded, message_class, random_message

MUTATIONS = 150
BYTES = (b"\0", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff")
ELEMENTS = 3_000
MEMORY_PER_BYTE, MEMORY = 75, 20_000  # an object of Python for an element of a few bytes


def damaged(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5))):
        position = random.randrange(len(changed) + 1)
        match random.randrange(4):
            case 0:
                changed[position : position + 1] = random.randbytes(1)
            case 1:
                extreme = random.choice(BYTES)
                changed[position : position + len(extreme)] = extreme
            case 2:
                del changed[position : position + random.randrange(1, 9)]
            case 3:
                changed[position:position] = random.randbytes(random.randrange(1, 9))
    return bytes(changed)


@pytest.mark.parametrize("message", TABLE.values(), ids=lambda each: each.name)
def test_a_damaged_message_is_read_or_refused(message: table.Message) -> None:
    kind = message_class(message)
    random = Random(message.name)
    refused = 0
    for version in (message.versions.low, message.flexible_from, message.versions.high):
        if version > message.versions.high:
            continue
        for number in range(MUTATIONS):
            data = damaged(encoded(random_message(message, version, number), version), random)
            try:
                kind.decode(Reader(data), version)
            except InvalidMessageError:
                refused += 1
    assert refused or not message.fields


ARRAYS = [each for each in TABLE.values() if any(field.is_array for field in each.fields)]


@pytest.mark.parametrize("message", ARRAYS, ids=lambda each: each.name)
def test_memory_is_bounded_by_the_bytes(message: table.Message) -> None:
    """Arrays with as many of the smallest elements as their bytes can hold."""
    kind, version = message_class(message), message.versions.high
    sent = kind()
    for each in message.fields:
        if each.is_array and each.kind == "struct":
            setattr(sent, each.name, [getattr(kind, class_name(each))()] * ELEMENTS)
        elif each.is_array:
            setattr(sent, each.name, ["" if each.kind == "str" else 0] * ELEMENTS)
    data = encoded(sent, version)
    tracemalloc.start()
    try:
        kind.decode(Reader(data), version)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MEMORY + MEMORY_PER_BYTE * len(data)
    with pytest.raises(InvalidMessageError, match="too many"):
        kind.decode(Reader(data, max_items=ELEMENTS // 2), version)
