"""Fields of the records in Kafka's internal topics, and the partition that a name belongs to."""

from struct import Struct

from kstore.errors import CorruptRecordError, InvalidRecordError

_INT8 = Struct(">b")
INT16 = Struct(">h")
INT32 = Struct(">i")
INT64 = Struct(">q")


def java_hash(text: str) -> int:
    """Java's ``String.hashCode``: over UTF-16 units, wrapped to a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8) + units[index + 1]) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def partition_for_name(name: str, partition_count: int) -> int:
    """The partition of an internal topic that keeps a group or a transactional id.

    ``Utils.abs`` of Java's hash: that of the smallest number is 0.
    """
    value = java_hash(name)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count


def encode_string(text: str) -> bytes:
    """Kafka's STRING. Raises InvalidRecordError for what does not fit its int16 length."""
    encoded = text.encode()
    if len(encoded) > 0x7FFF:
        raise InvalidRecordError(f"a name of {len(encoded)} bytes; Kafka allows 32767")
    return INT16.pack(len(encoded)) + encoded


class FieldReader:
    """A cursor that knows its end: every length is checked before it is used."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._what = what
        self._position = 0

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self._position:
            raise CorruptRecordError(f"a {self._what} ends too early", position=self._position)
        start = self._position
        self._position = start + size
        return self._data[start : self._position]

    def int8(self) -> int:
        return int(_INT8.unpack(self._take(1))[0])

    def int16(self) -> int:
        return int(INT16.unpack(self._take(2))[0])

    def int32(self) -> int:
        return int(INT32.unpack(self._take(4))[0])

    def int64(self) -> int:
        return int(INT64.unpack(self._take(8))[0])

    def string(self) -> str:
        return self._text(self.int16())

    def compact_string(self) -> str:
        return self._text(self.unsigned_varint() - 1)

    def count(self) -> int:
        """The length of an ARRAY, -1 for null; no more than there are bytes left."""
        return self._checked(self.int32())

    def compact_count(self) -> int:
        """As ``count``, of a COMPACT_ARRAY."""
        return self._checked(self.unsigned_varint() - 1)

    def tags(self) -> dict[int, bytes]:
        """Tagged fields, by number."""
        found: dict[int, bytes] = {}
        for _ in range(self.unsigned_varint()):
            tag = self.unsigned_varint()
            found[tag] = self._take(self.unsigned_varint())
        return found

    def finish(self) -> None:
        left = len(self._data) - self._position
        if left:
            raise CorruptRecordError(f"a {self._what} has {left} bytes too many")

    def _checked(self, count: int) -> int:
        if not -1 <= count <= len(self._data) - self._position:
            raise CorruptRecordError(
                f"a {self._what} claims {count} items", position=self._position
            )
        return count

    def _text(self, size: int) -> str:
        try:
            return self._take(size).decode()
        except UnicodeDecodeError:
            raise CorruptRecordError(
                f"a {self._what} holds text that is not UTF-8", position=self._position
            ) from None

    def unsigned_varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise CorruptRecordError(f"a {self._what} holds an endless varint")
