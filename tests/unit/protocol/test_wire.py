"""The reader believes no length; the writer refuses what a type cannot hold."""

import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from kstore.errors import InvalidMessageError
from kstore.protocol.wire import MAX_TAGS, Reader, Writer

HUGE = struct.pack(">i", 2**31 - 1)
HUGE_COMPACT = b"\xff\xff\xff\xff\x07"  # 2^31 - 1

EXAMPLES: list[tuple[str, tuple[Any, ...], Any, str]] = [
    ("boolean", (), True, "01"),
    ("int8", (), -2, "fe"),
    ("int16", (), -2, "fffe"),
    ("uint16", (), 65534, "fffe"),
    ("int32", (), -2, "fffffffe"),
    ("int64", (), 258, "0000000000000102"),
    ("float64", (), 1.5, "3ff8000000000000"),
    ("uuid", (), bytes(range(16)), "000102030405060708090a0b0c0d0e0f"),
    ("unsigned_varint", (), 300, "ac02"),
    ("unsigned_varint", (), 2**32 - 1, "ffffffff0f"),
    ("string", (False,), "aä", "000361c3a4"),
    ("string", (True,), "aä", "0461c3a4"),
    ("nullable_string", (False,), None, "ffff"),
    ("nullable_string", (True,), None, "00"),
    ("nullable_string", (True,), "", "01"),
    ("bytes_", (False,), b"ab", "000000026162"),
    ("bytes_", (True,), b"ab", "036162"),
    ("nullable_bytes", (False,), None, "ffffffff"),
    ("nullable_bytes", (True,), None, "00"),
    ("records", (False,), b"ab", "000000026162"),
    ("records", (True,), None, "00"),
    ("strings", (False,), ["a", ""], "00000002" + "000161" + "0000"),
    ("strings", (True,), ["a", ""], "03" + "0261" + "01"),
    ("nullable_strings", (True,), None, "00"),
    ("nullable_strings", (False,), None, "ffffffff"),
]


@pytest.mark.parametrize(("method", "form", "value", "expected"), EXAMPLES)
def test_a_value_has_its_bytes_and_fewer_are_refused(
    method: str, form: Any, value: Any, expected: str
) -> None:
    writer = Writer()
    getattr(writer, method)(value, *form)
    assert writer.to_bytes().hex() == expected
    reader = Reader(bytes.fromhex(expected))
    assert getattr(reader, method)(*form) == value
    assert reader.remaining == 0
    for size in range(len(expected) // 2):
        with pytest.raises(InvalidMessageError):
            getattr(Reader(bytes.fromhex(expected)[:size]), method)(*form)


@pytest.mark.parametrize(("code", "size"), [("b", 1), ("h", 2), ("i", 4), ("q", 8)])
def test_arrays_of_integers_round_trip(code: str, size: int) -> None:
    writer = Writer()
    writer.integers(code, [1, -1], True)
    writer.nullable_integers(code, None, False)
    data = writer.to_bytes()
    assert len(data) == 1 + 2 * size + 4
    reader = Reader(data)
    assert reader.integers(code, True) == [1, -1]
    assert reader.nullable_integers(code, False) is None
    with pytest.raises(InvalidMessageError):
        Reader(data[: 2 * size]).integers(code, True)


def test_any_byte_but_0_is_true_as_kafka_reads_it() -> None:
    assert [Reader(bytes([byte])).boolean() for byte in (0, 1, 2, 255)] == [False, True, True, True]


REFUSED: dict[str, tuple[bytes, Callable[[Reader], object]]] = {
    "null string": (b"\xff\xff", lambda reader: reader.string(False)),
    "null compact string": (b"\0", lambda reader: reader.string(True)),
    "string of length -2": (b"\xff\xfe", lambda reader: reader.nullable_string(False)),
    "string that is not UTF-8": (b"\x02\xff", lambda reader: reader.string(True)),
    "surrogate": (b"\x04\xed\xa0\x80", lambda reader: reader.string(True)),
    "long string": (b"\x81\x80\x02" + bytes(32768), lambda reader: reader.string(True)),
    "null bytes": (b"\0", lambda reader: reader.bytes_(True)),
    "bytes of length -2": (b"\xff\xff\xff\xfe", lambda reader: reader.nullable_bytes(False)),
    "records of length -2": (b"\xff\xff\xff\xfe", lambda reader: reader.records(False)),
    "null array": (b"\xff" * 4, lambda reader: reader.count(False)),
    "array of length -2": (b"\xff\xff\xff\xfe", lambda reader: reader.nullable_count(False)),
    "varint of six bytes": (b"\x80\x80\x80\x80\x80\x01", lambda reader: reader.unsigned_varint()),
    "huge bytes": (HUGE + b"a", lambda reader: reader.bytes_(False)),
    "huge records": (HUGE_COMPACT + b"a", lambda reader: reader.records(True)),
    "huge array of integers": (HUGE, lambda reader: reader.integers("q", False)),
    "huge array of strings": (HUGE_COMPACT, lambda reader: reader.strings(True)),
    "huge array of empty structs": (
        HUGE,
        lambda reader: reader.structs(lambda inner, version: None, 0, False),
    ),
    "huge tag": (b"\x01\x05" + HUGE_COMPACT, lambda reader: reader.skip_tags()),
    "many tags": (b"\xe9\x07" + b"\0\0" * 2000, lambda reader: reader.skip_tags()),
}


@pytest.mark.parametrize(("data", "read"), REFUSED.values(), ids=REFUSED)
def test_refused_before_anything_is_allocated(
    data: bytes, read: Callable[[Reader], object]
) -> None:
    reader = Reader(data)
    with pytest.raises(InvalidMessageError) as caught:  # raised once, so that imports are done
        read(reader)
    assert caught.value.code == 42
    assert caught.value.position is not None
    tracemalloc.start()
    try:
        with pytest.raises(InvalidMessageError):
            read(Reader(data))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_all_arrays_of_a_message_share_a_limit() -> None:
    data = (b"\x04" + b"\x01" * 3) * 3  # three arrays of three empty strings
    reader = Reader(data, max_items=8)
    assert reader.strings(True) == ["", "", ""]
    assert reader.strings(True) == ["", "", ""]
    with pytest.raises(InvalidMessageError, match="too many"):
        reader.strings(True)


def test_unknown_tags_are_skipped_up_to_a_limit() -> None:
    tags = b"".join(bytes([number & 0x7F, 1, 7]) for number in range(MAX_TAGS))
    writer = Writer()
    writer.unsigned_varint(MAX_TAGS)
    reader = Reader(writer.to_bytes() + tags)
    reader.skip_tags()
    assert reader.remaining == 0


@pytest.mark.parametrize("size", [3, 5])
def test_a_tagged_field_fills_its_size(size: int) -> None:
    reader = Reader(bytes([1, 0, size]) + bytes(8))
    with pytest.raises(InvalidMessageError, match="tagged field 0"):
        [reader.int32() for _ in reader.tags()]


def test_records_are_views_of_the_frame() -> None:
    frame = b"\0\0\0\x03abc"
    records = Reader(frame).records(False)
    assert isinstance(records, memoryview)
    assert records.obj is frame


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_long_records_are_a_chunk_of_their_own(kind: Any) -> None:
    writer = Writer()
    records = kind(bytes(100_000))
    writer.int16(7)
    writer.records(records, False)
    writer.int8(1)
    before, chunk, after = writer.chunks()
    assert chunk is records
    assert (before, after) == (b"\0\x07" + struct.pack(">i", 100_000), b"\x01")
    assert writer.size == 100_007
    assert writer.to_bytes() == b"".join(bytes(each) for each in (before, chunk, after))


def test_short_records_are_copied_into_the_chunk_around_them() -> None:
    writer = Writer()
    writer.records(b"abc", True)
    writer.int8(1)
    assert writer.chunks() == [b"\x04abc\x01"]


def test_a_writer_continues_after_its_chunks() -> None:
    writer = Writer()
    writer.int8(1)
    assert writer.chunks() == [b"\x01"]
    writer.int8(2)
    assert writer.chunks() == [b"\x01", b"\x02"]
    assert writer.size == 2


UNWRITABLE: dict[str, Callable[[Writer], object]] = {
    "int8": lambda writer: writer.int8(128),
    "int16": lambda writer: writer.int16(-(1 << 15) - 1),
    "int32": lambda writer: writer.int32(1 << 31),
    "int64": lambda writer: writer.int64(1 << 63),
    "uint16": lambda writer: writer.uint16(-1),
    "uuid": lambda writer: writer.uuid(bytes(15)),
    "null string": lambda writer: writer.string(None, True),
    "null bytes": lambda writer: writer.bytes_(None, False),
    "null array": lambda writer: writer.structs(None, 0, True),
    "null strings": lambda writer: writer.strings(None, True),
    "null integers": lambda writer: writer.integers("i", None, True),
    "integers": lambda writer: writer.integers("b", [1, 200], True),
    "long string": lambda writer: writer.string("a" * 32768, True),
    "lone surrogate": lambda writer: writer.string("\ud800", True),
    "negative varint": lambda writer: writer.unsigned_varint(-1),
}


@pytest.mark.parametrize("write", UNWRITABLE.values(), ids=UNWRITABLE)
def test_a_value_that_a_type_cannot_hold_is_refused(write: Callable[[Writer], object]) -> None:
    with pytest.raises(InvalidMessageError):
        write(Writer())
