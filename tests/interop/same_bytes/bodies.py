"""Records of Produce requests, good ones and those with one fault each."""

import struct
from collections.abc import Sequence

from oracle.crc import crc32c
from oracle.plain import PlainRecord
from oracle.writer import batch, message, variable, wrapper

T0 = 1_700_000_000_000
_CHECKED = 21  # the checksum of a v2 batch covers what follows


def records(
    count: int, *, key: bytes | None = b"k", first: int = 0, size: int = 10
) -> list[PlainRecord]:
    """Records of one millisecond after another."""
    return [
        PlainRecord(first + n, T0 + first + n, key, b"%0*d" % (size, first + n), (("h", b"1"),))
        for n in range(count)
    ]


def good(count: int = 3, **options: object) -> bytes:
    """A batch as a client sends it."""
    return batch(records(count), leader_epoch=-1, **options)


def sequenced(producer_id: int, epoch: int, sequence: int, count: int = 3) -> bytes:
    """A batch of an idempotent producer."""
    return good(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def message_set(magic: int, count: int = 3, key: bytes | None = b"k") -> bytes:
    """Uncompressed messages of v0 or v1."""
    return b"".join(
        message(each.offset, each.key, each.value, magic=magic, timestamp=each.timestamp)
        for each in records(count, key=key)
    )


def wrapped(magic: int, codec: int, count: int = 3) -> bytes:
    """The same in one compressed message."""
    return wrapper(records(count), magic=magic, codec=codec)


def resealed(data: bytes) -> bytes:
    """A v2 batch whose checksum is computed again."""
    return data[:17] + struct.pack(">I", crc32c(data[_CHECKED:])) + data[_CHECKED:]


def patched(data: bytes, position: int, value: bytes) -> bytes:
    """A v2 batch with other bytes at a position and a valid checksum."""
    return resealed(data[:position] + value + data[position + len(value) :])


def bad_checksum() -> bytes:
    """One bit of the last record is another."""
    data = bytearray(good())
    data[-1] ^= 1
    return bytes(data)


def huge_varint() -> bytes:
    """A record that claims to be longer than the batch."""
    data = batch(records(1), leader_epoch=-1)
    return resealed(data[:61] + variable(1 << 20) + data[62:])


FAULTY: Sequence[tuple[str, bytes]] = (
    ("no bytes", b""),
    ("ten bytes", good()[:10]),
    ("a batch without its last byte", good()[:-1]),
    ("a byte behind the batch", good() + b"\0"),
    ("two batches", good() + good()),
    ("a batch and a half", good() + good()[:40]),
    ("a wrong checksum", bad_checksum()),
    ("magic 0", message_set(0)),
    ("magic 1", message_set(1)),
    ("magic 3", patched(good(), 16, b"\x03")),
    ("magic -1", patched(good(), 16, b"\xff")),
    ("a size of 0", patched(good(), 8, struct.pack(">i", 0))),
    ("a negative size", patched(good(), 8, struct.pack(">i", -5))),
    ("a size too large", patched(good(), 8, struct.pack(">i", 1 << 20))),
    ("no record", batch([], base_offset=0, last_offset=0, base_timestamp=T0, max_timestamp=T0)),
    ("a count of 0", patched(good(), 57, struct.pack(">i", 0))),
    ("a count of -1", patched(good(), 57, struct.pack(">i", -1))),
    ("a count too small", patched(good(), 57, struct.pack(">i", 2))),
    ("a count too large", patched(good(), 57, struct.pack(">i", 4))),
    ("a last offset delta too large", patched(good(), 23, struct.pack(">i", 9))),
    ("a negative last offset delta", patched(good(), 23, struct.pack(">i", -1))),
    ("a base offset of 7", batch(records(3, first=7), leader_epoch=-1)),
    ("a leader epoch of 9", batch(records(3), leader_epoch=9)),
    ("a wrong largest timestamp", good(max_timestamp=T0 + 99)),
    ("no timestamp", batch([each._replace(timestamp=-1) for each in records(3)], leader_epoch=-1)),
    ("a timestamp of -2", batch([each._replace(timestamp=-2) for each in records(3)])),
    ("a timestamp in the year 3000", batch([r._replace(timestamp=1 << 45) for r in records(1)])),
    ("append time", good(timestamp_type="LogAppendTime")),
    ("a control batch", good(control=True)),
    ("a transactional batch", good(transactional=True)),
    (
        "a transactional batch of a producer",
        good(transactional=True, producer_id=5, producer_epoch=0, base_sequence=0),
    ),
    ("a producer without a sequence", good(producer_id=5, producer_epoch=0)),
    ("a producer without an epoch", good(producer_id=5, base_sequence=0)),
    ("a sequence without a producer", good(base_sequence=0)),
    ("an unknown producer's sequence 7", sequenced(912_345, 0, 7)),
    ("a delete horizon", good(delete_horizon=True)),
    ("codec 5", patched(good(), 21, struct.pack(">h", 5))),
    ("codec 7", patched(good(), 21, struct.pack(">h", 7))),
    ("gzip that is none", patched(good(), 21, struct.pack(">h", 1))),
    ("snappy that is none", patched(good(), 21, struct.pack(">h", 2))),
    ("lz4 that is none", patched(good(), 21, struct.pack(">h", 3))),
    ("zstd that is none", patched(good(), 21, struct.pack(">h", 4))),
    ("an unused attribute", patched(good(), 21, struct.pack(">h", 0x80))),
    ("a record that is too long", huge_varint()),
    ("offsets with a gap", batch([records(1)[0], records(3)[2]], last_offset=1, leader_epoch=-1)),
    ("null keys", batch(records(2, key=None), leader_epoch=-1)),
    ("a null and a good key", batch([records(1, key=None)[0], records(2)[1]], leader_epoch=-1)),
    ("a null value", batch([records(1)[0]._replace(value=None)], leader_epoch=-1)),
    ("1001 bytes of value", batch(records(1, size=1001), leader_epoch=-1)),
    ("gzip", good(codec=1)),
    ("snappy", good(codec=2)),
    ("lz4", good(codec=3)),
    ("zstd", good(codec=4)),
)
MESSAGE_SETS: Sequence[tuple[str, bytes]] = (
    ("v0", message_set(0)),
    ("v1", message_set(1)),
    ("v0 null keys", message_set(0, key=None)),
    ("v1 null keys", message_set(1, key=None)),
    ("v0 gzip", wrapped(0, 1)),
    ("v1 gzip", wrapped(1, 1)),
    ("v0 snappy", wrapped(0, 2)),
    ("v1 snappy", wrapped(1, 2)),
    ("v0 lz4", wrapped(0, 3)),
    ("v1 lz4", wrapped(1, 3)),
    ("v0 wrong checksum", message_set(0)[:-1] + b"x"),
    ("v1 wrong checksum", message_set(1)[:-1] + b"x"),
    ("v0 behind v1", message_set(1) + message_set(0)),
    ("v2", good()),
    ("v2 twice", good() + good()),
    ("v2 behind v1", message_set(1) + good()),
    ("v1 cut", message_set(1)[:-1]),
    ("no bytes", b""),
    ("v1 of no size", struct.pack(">qi", 0, 0)),
    ("v1 of 13 bytes", struct.pack(">qi", 0, 13) + b"\0\0\0\0\x01" + b"\0" * 8),
    ("v0 key too long", struct.pack(">qiIbbi", 0, 18, 0, 0, 0, 1 << 20) + b"\0" * 8),
)
