"""Kafka's primitive types: a bounds-checked reader, and a writer of chunks.

Type names follow Kafka's protocol guide. The parameter ``compact`` selects the encoding of flexible
versions (KIP-482): lengths are unsigned varints of length + 1, and 0 is null.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct, pack, unpack_from
from struct import error as StructError  # noqa: N812
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

from kstore.errors import InvalidMessageError

if TYPE_CHECKING:
    from kstore._native.read.segment_view import Slice

Records: TypeAlias = "bytes | bytearray | memoryview | Slice"
Chunk: TypeAlias = "bytes | bytearray | memoryview | Slice"

MAX_ITEMS = 1_000_000
MAX_TAGS = 1_000
MAX_STRING_SIZE = 0x7FFF
ZERO_UUID = bytes(16)

_TOO_SHORT = "the message ends within its fields"
_COPIED_SIZE = 2048  # smaller records are copied into the surrounding chunk
_ITEM_SIZE = {"b": 1, "h": 2, "i": 4, "q": 8}

Item = TypeVar("Item")


class Encodable(Protocol):
    """A generated struct."""

    def encode(self, writer: "Writer", version: int) -> None: ...


def _scalar_reader(code: str) -> "Callable[[Reader], Any]":
    """A method of Reader for a number; saves a call over ``fixed`` for these frequent fields."""
    layout = Struct(f">{code}")
    unpack, size = layout.unpack_from, layout.size

    def read(self: "Reader") -> Any:
        try:
            value = unpack(self.data, self.position)[0]
        except StructError:
            raise self.error(_TOO_SHORT) from None
        self.position += size
        return value

    return read


def _scalar_writer(code: str) -> "Callable[[Writer, Any], None]":
    """A method of Writer for a number."""
    pack_value = Struct(f">{code}").pack

    def write(self: "Writer", value: Any) -> None:
        try:
            self._buffer += pack_value(value)
        except StructError as error:
            raise InvalidMessageError(f"a field cannot hold its value: {error}") from None

    return write


class Reader:
    """Reads a message sequentially.

    It checks each length and count against the remaining bytes before allocating anything. All
    arrays of a message together may have at most ``max_items`` elements. All methods raise
    InvalidMessageError for invalid bytes. Not thread-safe.
    """

    __slots__ = ("data", "end", "items_left", "position")

    def __init__(
        self, data: bytes | memoryview, position: int = 0, *, max_items: int = MAX_ITEMS
    ) -> None:
        self.data = memoryview(data)
        self.end = len(self.data)
        self.position = position
        self.items_left = max_items

    @property
    def remaining(self) -> int:
        """The number of unread bytes."""
        return self.end - self.position

    def error(self, reason: str) -> InvalidMessageError:
        return InvalidMessageError(reason, position=self.position)

    def fixed(self, layout: Struct) -> tuple[Any, ...]:
        """Read consecutive fields of fixed size."""
        try:
            values = layout.unpack_from(self.data, self.position)
        except StructError:
            raise self.error(_TOO_SHORT) from None
        self.position += layout.size
        return values

    # As in Kafka, any byte other than 0 is True.
    boolean: ClassVar[Callable[["Reader"], bool]] = _scalar_reader("?")
    int8: ClassVar[Callable[["Reader"], int]] = _scalar_reader("b")
    int16: ClassVar[Callable[["Reader"], int]] = _scalar_reader("h")
    uint16: ClassVar[Callable[["Reader"], int]] = _scalar_reader("H")
    int32: ClassVar[Callable[["Reader"], int]] = _scalar_reader("i")
    int64: ClassVar[Callable[["Reader"], int]] = _scalar_reader("q")
    float64: ClassVar[Callable[["Reader"], float]] = _scalar_reader("d")

    def uuid(self) -> bytes:
        return self._take(16).tobytes()

    def unsigned_varint(self) -> int:
        """Read an unsigned varint of up to five bytes (35 bits)."""
        if self.position < self.end and (byte := self.data[self.position]) < 0x80:
            self.position += 1
            return byte
        value = 0
        for shift in (0, 7, 14, 21, 28):
            if self.position >= self.end:
                raise self.error("a variable-length number does not end")
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise self.error("a variable-length number does not end within five bytes")

    def string(self, compact: bool) -> str:
        size = self.unsigned_varint() - 1 if compact else self.int16()
        return self._text(size)

    def nullable_string(self, compact: bool) -> str | None:
        size = self.unsigned_varint() - 1 if compact else self.int16()
        return None if size == -1 else self._text(size)

    def lenient_string(self) -> str | None:
        """A client id: bytes that are not UTF-8 become U+FFFD, as in Kafka. It names nothing."""
        size = self.int16()
        return None if size == -1 else str(self._take(size), "utf-8", "replace")

    def bytes_(self, compact: bool) -> bytes:
        return self._take(self._size(compact)).tobytes()

    def nullable_bytes(self, compact: bool) -> bytes | None:
        size = self._size(compact)
        return None if size == -1 else self._take(size).tobytes()

    def records(self, compact: bool) -> memoryview | None:
        """Read records as a view of the message's bytes, without copying."""
        size = self._size(compact)
        return None if size == -1 else self._take(size)

    def integers(self, code: str, compact: bool) -> list[int]:
        """An array of integers; ``code`` is that of ``struct``: b, h, i or q."""
        return self._integers(code, self.count(compact))

    def nullable_integers(self, code: str, compact: bool) -> list[int] | None:
        count = self.nullable_count(compact)
        return None if count < 0 else self._integers(code, count)

    def strings(self, compact: bool) -> list[str]:
        return [self.string(compact) for _ in range(self.count(compact))]

    def nullable_strings(self, compact: bool) -> list[str] | None:
        count = self.nullable_count(compact)
        return None if count < 0 else [self.string(compact) for _ in range(count)]

    def structs(
        self, decode: "Callable[[Reader, int], Item]", version: int, compact: bool
    ) -> list[Item]:
        return [decode(self, version) for _ in range(self.count(compact))]

    def nullable_structs(
        self, decode: "Callable[[Reader, int], Item]", version: int, compact: bool
    ) -> list[Item] | None:
        count = self.nullable_count(compact)
        return None if count < 0 else [decode(self, version) for _ in range(count)]

    def nullable_struct(self, decode: "Callable[[Reader, int], Item]", version: int) -> Item | None:
        """Read a struct after a byte that is negative for null."""
        return None if self.int8() < 0 else decode(self, version)

    def tagged_struct(self, decode: "Callable[[Reader, int], Item]", version: int) -> Item | None:
        """Read a nullable struct that is a tagged field, where Kafka writes 0 for null."""
        return None if self.int8() <= 0 else decode(self, version)

    def count(self, compact: bool) -> int:
        """Read the number of elements of a non-null array."""
        count = self.nullable_count(compact)
        if count < 0:
            raise self.error("a non-nullable array is null")
        return count

    def nullable_count(self, compact: bool) -> int:
        """Read the number of elements of an array, -1 for null."""
        count = self._size(compact)
        if count < -1 or count > self.end - self.position:
            raise self.error(f"an array claims {count} elements, {self.remaining} bytes are left")
        if count > self.items_left:
            raise self.error("the message has too many array elements")
        self.items_left -= max(count, 0)
        return count

    def tags(self) -> Iterable[int]:
        """Yield the number of each tagged field; skip fields that the caller does not read.

        Raises InvalidMessageError if the caller reads more or fewer bytes than the field has.
        """
        if self.position < self.end and self.data[self.position] == 0:
            self.position += 1
            return ()
        return self._each_tag()

    def skip_tags(self) -> None:
        """Skip the tagged fields of a struct without known tagged fields."""
        for _ in self.tags():
            pass

    def _each_tag(self) -> Iterator[int]:
        for _ in range(self._tag_count()):
            tag = self.unsigned_varint()
            size = self.unsigned_varint()
            start = self.position
            if size > self.end - start:
                raise self.error("a tagged field is longer than the message")
            yield tag
            if self.position == start:
                self.position = start + size
            elif self.position != start + size:
                raise self.error(f"tagged field {tag} does not fit its size")

    def _tag_count(self) -> int:
        count = self.unsigned_varint()
        if count > MAX_TAGS:
            raise self.error(f"a struct has {count} tagged fields, more than {MAX_TAGS}")
        return count

    def _size(self, compact: bool) -> int:
        return self.unsigned_varint() - 1 if compact else self.int32()

    def _take(self, size: int) -> memoryview:
        start = self.position
        if size < 0 or size > self.end - start:
            raise self.error(
                "a non-nullable value is null"
                if size == -1
                else f"{_TOO_SHORT}: a value claims {size} bytes, {self.remaining} are left"
            )
        self.position = start + size
        return self.data[start : start + size]

    def _text(self, size: int) -> str:
        if size > MAX_STRING_SIZE:
            raise self.error(f"a string claims {size} bytes, Kafka allows {MAX_STRING_SIZE}")
        try:
            return str(self._take(size), "utf-8")
        except UnicodeDecodeError:
            raise self.error("a string is not UTF-8") from None

    def _integers(self, code: str, count: int) -> list[int]:
        size = count * _ITEM_SIZE[code]
        if size > self.end - self.position:
            raise self.error(f"an array claims {count} integers, {self.remaining} bytes are left")
        values = unpack_from(f">{count}{code}", self.data, self.position)
        self.position += size
        return list(values)


class Writer:
    """Writes a message sequentially, as chunks to send in order.

    Methods raise InvalidMessageError for a value that the type cannot hold, including null.
    Not thread-safe.
    """

    __slots__ = ("_buffer", "_chunks", "_closed_size")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._chunks: list[Chunk] = []
        self._closed_size = 0

    @property
    def size(self) -> int:
        """The number of written bytes."""
        return self._closed_size + len(self._buffer)

    def chunks(self) -> list[Chunk]:
        """The written message. Records of a ``Slice`` and large records are separate chunks."""
        self._close_buffer()
        return list(self._chunks)

    def to_bytes(self) -> bytes:
        """The written message, copied into one object."""
        if not self._chunks:
            return bytes(self._buffer)
        return b"".join(bytes(chunk) for chunk in self.chunks())

    def fixed(self, layout: Struct, *values: Any) -> None:
        """Write consecutive fields of fixed size."""
        try:
            self._buffer += layout.pack(*values)
        except StructError as error:
            raise InvalidMessageError(f"a field cannot hold its value: {error}") from None

    boolean: ClassVar[Callable[["Writer", bool], None]] = _scalar_writer("?")
    int8: ClassVar[Callable[["Writer", int], None]] = _scalar_writer("b")
    int16: ClassVar[Callable[["Writer", int], None]] = _scalar_writer("h")
    uint16: ClassVar[Callable[["Writer", int], None]] = _scalar_writer("H")
    int32: ClassVar[Callable[["Writer", int], None]] = _scalar_writer("i")
    int64: ClassVar[Callable[["Writer", int], None]] = _scalar_writer("q")
    float64: ClassVar[Callable[["Writer", float], None]] = _scalar_writer("d")

    def encoded(self, data: bytes) -> None:
        """Write a struct that is already encoded, in the same version."""
        self._buffer += data

    def uuid(self, value: bytes) -> None:
        if len(value) != 16:
            raise InvalidMessageError(f"a uuid has 16 bytes, not {len(value)}")
        self._buffer += value

    def unsigned_varint(self, value: int) -> None:
        if 0 <= value < 0x80:
            self._buffer.append(value)
            return
        if value < 0:
            raise InvalidMessageError(f"{value} is not an unsigned number")
        while value > 0x7F:
            self._buffer.append(value & 0x7F | 0x80)
            value >>= 7
        self._buffer.append(value)

    def string(self, value: str | None, compact: bool) -> None:
        if value is None:
            raise InvalidMessageError("a non-nullable string is null")
        self.nullable_string(value, compact)

    def nullable_string(self, value: str | None, compact: bool) -> None:
        try:
            encoded = None if value is None else value.encode()
        except UnicodeEncodeError:
            raise InvalidMessageError("a string holds a lone surrogate") from None
        if encoded is not None and len(encoded) > MAX_STRING_SIZE:
            raise InvalidMessageError(
                f"a string of {len(encoded)} bytes; Kafka allows {MAX_STRING_SIZE}"
            )
        size = -1 if encoded is None else len(encoded)
        if compact:
            self.unsigned_varint(size + 1)
        else:
            self.int16(size)
        if encoded:
            self._buffer += encoded

    def bytes_(self, value: bytes | None, compact: bool) -> None:
        if value is None:
            raise InvalidMessageError("non-nullable bytes are null")
        self.nullable_bytes(value, compact)

    def nullable_bytes(self, value: bytes | None, compact: bool) -> None:
        self._length(-1 if value is None else len(value), compact)
        if value:
            self._buffer += value

    def records(self, value: "Records | None", compact: bool) -> None:
        """Write records; a ``Slice`` and more than 2 KiB become a separate chunk without
        copying."""
        if value is None:
            self._length(-1, compact)
            return
        size = value.nbytes if isinstance(value, memoryview) else len(value)
        self._length(size, compact)
        if not isinstance(value, bytes | bytearray | memoryview) or size > _COPIED_SIZE:
            self._close_buffer()
            self._chunks.append(value)
            self._closed_size += size
        else:
            self._buffer += value

    def integers(self, code: str, values: Sequence[int] | None, compact: bool) -> None:
        """An array of integers; ``code`` is that of ``struct``: b, h, i or q."""
        if values is None:
            raise InvalidMessageError("a non-nullable array is null")
        self.nullable_integers(code, values, compact)

    def nullable_integers(self, code: str, values: Sequence[int] | None, compact: bool) -> None:
        if values is None:
            self._length(-1, compact)
            return
        self._length(len(values), compact)
        try:
            self._buffer += pack(f">{len(values)}{code}", *values)
        except StructError as error:
            raise InvalidMessageError(f"an array cannot hold its values: {error}") from None

    def strings(self, values: Sequence[str] | None, compact: bool) -> None:
        if values is None:
            raise InvalidMessageError("a non-nullable array is null")
        self.nullable_strings(values, compact)

    def nullable_strings(self, values: Sequence[str] | None, compact: bool) -> None:
        self._length(-1 if values is None else len(values), compact)
        for value in values or ():
            self.string(value, compact)

    def structs(self, values: Sequence[Encodable] | None, version: int, compact: bool) -> None:
        if values is None:
            raise InvalidMessageError("a non-nullable array is null")
        self.nullable_structs(values, version, compact)

    def nullable_structs(
        self, values: Sequence[Encodable] | None, version: int, compact: bool
    ) -> None:
        self._length(-1 if values is None else len(values), compact)
        for value in values or ():
            value.encode(self, version)

    def nullable_struct(self, value: Encodable | None, version: int) -> None:
        """Write the byte 1 and the struct, or the byte -1 for null."""
        if value is None:
            self.int8(-1)
        else:
            self.int8(1)
            value.encode(self, version)

    def no_tags(self) -> None:
        """Write the empty tagged fields at the end of a struct in flexible versions."""
        self._buffer.append(0)

    def tags(self, tags: "Sequence[tuple[int, Writer]]") -> None:
        """Write tagged fields in ascending order of numbers, each from its own writer."""
        if not tags:
            self._buffer.append(0)
            return
        self.unsigned_varint(len(tags))
        for tag, content in tags:
            encoded = content.to_bytes()
            self.unsigned_varint(tag)
            self.unsigned_varint(len(encoded))
            self._buffer += encoded

    def _length(self, size: int, compact: bool) -> None:
        if compact:
            self.unsigned_varint(size + 1)
        else:
            self.int32(size)

    def _close_buffer(self) -> None:
        if self._buffer:
            self._chunks.append(bytes(self._buffer))
            self._closed_size += len(self._buffer)
            self._buffer = bytearray()
