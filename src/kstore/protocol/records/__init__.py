"""Records of the coordinators' topics, and the consumer protocol: generated modules.

A key and its value are in one module: ``OffsetCommitKey`` and ``OffsetCommitValue`` in
``offset_commit``. In ``__consumer_offsets`` and ``__transaction_state`` each has a two-byte prefix:
the key's ``RECORD_TYPE``, and the value's version. ``python tests/tidy/protocol_messages.py``
generates the modules from ``protocol/schema/records.txt``.
"""

from typing import Protocol, TypeVar

from kstore.errors import CorruptRecordError, InvalidMessageError, InvalidRecordError
from kstore.protocol.wire import Encodable, Reader, Writer

Record = TypeVar("Record", covariant=True)


class RecordClass(Protocol[Record]):
    """The class of a key or a value."""

    def decode(self, reader: Reader, version: int) -> Record: ...


def prefix_of(data: bytes) -> int:
    """The two-byte prefix of a record: a key's type or a value's version.

    Raises CorruptRecordError for less than two bytes.
    """
    try:
        return Reader(data).int16()
    except InvalidMessageError as error:
        raise CorruptRecordError(error.reason) from None


def decode_record(kind: RecordClass[Record], version: int, data: bytes) -> Record:
    """Decode the key or value after its prefix. Raises CorruptRecordError for a wrong size."""
    reader = Reader(data, 2)
    try:
        record = kind.decode(reader, version)
    except InvalidMessageError as error:
        raise CorruptRecordError(error.reason, position=error.position) from None
    if reader.remaining:
        raise CorruptRecordError(f"a record has {reader.remaining} bytes too many")
    return record


def first_string(data: bytes) -> str:
    """The first string of a key, which is the group for all types in ``__consumer_offsets``.

    Raises CorruptRecordError for too few bytes.
    """
    try:
        return Reader(data, 2).string(False)
    except InvalidMessageError as error:
        raise CorruptRecordError(error.reason, position=error.position) from None


def encode_record(record: Encodable, prefix: int, version: int) -> bytes:
    """Encode a key or value with its prefix. Raises InvalidRecordError for an oversized value."""
    writer = Writer()
    writer.int16(prefix)
    try:
        record.encode(writer, version)
    except InvalidMessageError as error:
        raise InvalidRecordError(error.reason) from None
    return writer.to_bytes()
