"""Valid and invalid batches from clients of all versions."""

import gzip
import struct

from oracle.crc import crc32
from oracle.plain import LOG_APPEND_TIME, PlainRecord
from oracle.writer import batch, marker, message, wrapper

NOW = 1_700_000_000_000


def rows(count: int, first: int = 0, **changed: object) -> list[PlainRecord]:
    return [
        PlainRecord(first + n, NOW + (n * 7) % 5, b"k%d" % n, b"%d" % n * 9)._replace(**changed)
        for n in range(count)
    ]


def plain(records: list[PlainRecord], magic: int, **fields: object) -> bytes:
    return b"".join(
        message(r.offset, r.key, r.value, magic=magic, timestamp=r.timestamp, **fields)
        for r in records
    )


def sent(magic: int, codec: int, records: list[PlainRecord]) -> bytes:
    """Records as a client of that message format sends them."""
    if magic == 2:
        return batch(records, codec=codec)
    return wrapper(records, magic=magic, codec=codec) if codec else plain(records, magic)


def packed(inner: bytes, magic: int = 1, offset: int = 0, **fields: object) -> bytes:
    """A wrapper message around any bytes."""
    fields = {"timestamp": NOW, "codec": 1} | fields
    return message(offset, None, gzip.compress(inner, mtime=0), magic=magic, **fields)


def zeros(magic: int) -> bytes:
    """A wrapper message of an old client, whose inner messages all have offset 0."""
    inner = [message(0, b"k", b"%d" % n, magic=magic, timestamp=NOW) for n in range(4)]
    return packed(b"".join(inner), magic)


def sealed(body: bytes) -> bytes:
    """A message with a valid CRC around any bytes from the magic byte on."""
    return struct.pack(">qiI", 0, 4 + len(body), crc32(body)) + body


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


ONE = message(0, b"k", b"v", magic=1, timestamp=NOW)
KEYLESS = message(0, None, b"v", magic=1, timestamp=NOW)
STAMPED = message(0, b"k", b"v", magic=1, timestamp=NOW, timestamp_type=LOG_APPEND_TIME)
PRODUCER = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
HEADED = [PlainRecord(0, NOW, b"k", b"v", (("h", b"1"),))]

# A leader rejects these for any message format of the topic.
WRONG = {
    "crc": flipped(ONE, 30),
    "second crc": ONE + flipped(ONE, 30),
    "size": ONE + bytes(60),
    "magic": ONE + ONE[:16] + b"\x05" + ONE[17:],
    "mixed": ONE + message(0, b"k", b"v", magic=0),
    "v2 behind": ONE + batch(rows(1)),
    "wrapper behind": ONE + packed(ONE),
    "two wrappers": packed(ONE) * 2,
    "wrapped twice": packed(packed(ONE)),
    "another inside": packed(message(0, b"k", b"v", magic=0)),
    "v2 inside": packed(batch(rows(1))),
    "inner crc": packed(flipped(ONE, 30)),
    "inner size": packed(ONE[:8] + bytes(60)),
    "nothing inside": packed(b""),
    "null inside": message(0, None, None, magic=1, timestamp=NOW, codec=1),
    "wrapper below": packed(message(9, b"k", b"v", magic=1, timestamp=NOW), offset=4),
    "zstd": message(0, None, b"any", magic=1, timestamp=NOW, codec=4),
    "v2, empty": batch([], base_offset=0, last_offset=0, max_timestamp=NOW),
    "v2, empty, packed": batch([], base_offset=0, last_offset=3, max_timestamp=NOW, codec=1),
    "v2, a gap": batch([*rows(1), *rows(1, 3)]),
    "v2, a gap at the end": batch(rows(2), last_offset=4),
    "v2, control": marker(0, 1, timestamp=NOW, producer_id=7, producer_epoch=0),
    "v2, control, packed": batch(rows(1), codec=1, control=True, **PRODUCER),
    "not gzip": message(0, None, b"not gzip", magic=1, timestamp=NOW, codec=1),
    "no codec": message(0, None, b"any", magic=1, timestamp=NOW, codec=5),
}
# kstore rejects these, since it could not read them back; Kafka accepts them if it does not
# decompress them.
WORSE = {
    "inner cut": packed(ONE + ONE[:-1]),
    "key too long": sealed(struct.pack(">bbqi", 1, 0, NOW, 100) + bytes(8)),
    "value too long": sealed(struct.pack(">bbqiqi", 1, 0, NOW, 8, 0, 9) + bytes(8)),
    "value too short": sealed(struct.pack(">bbqiqi", 1, 0, NOW, 8, 0, 7) + bytes(8)),
}
# v2 batches that a log with message format v0 or v1 cannot store.
NOT_OLD = {
    "headers": batch(HEADED),
    "packed headers": batch(HEADED, codec=1),
    "idempotent": batch(rows(2), **PRODUCER),
    "idempotent, no key": batch(rows(2, key=None), **PRODUCER),
    "transaction": batch(rows(2), transactional=True, **PRODUCER),
    "control": marker(0, 1, timestamp=NOW, producer_id=7, producer_epoch=0),
    "zstd": batch(rows(2), codec=4),
    "base offset": batch(rows(2, first=5)),
    "two": batch(rows(2)) * 2,
    "crc": flipped(batch(rows(2)), 70),
}
# Valid batches that a leader modifies or checks in an unusual way.
ODD = {
    "a cut message at the end": plain(rows(3), 1)[:-1],
    "relative from 3": wrapper(rows(5, 10), magic=1, codec=1, first_relative=3),
    "zeros v0": zeros(0),
    "zeros v1": zeros(1),
    "wrapper of an older time": wrapper(rows(5), magic=1, codec=2, timestamp=NOW - 7),
    "wrapper of no time": wrapper(rows(5, timestamp=-1), magic=1, codec=3),
    "wrapper, append time": wrapper(
        rows(5), magic=1, codec=1, timestamp=NOW + 50, timestamp_type=LOG_APPEND_TIME
    ),
    "append time": STAMPED,
    "no time, append time": message(
        0, b"k", b"v", magic=1, timestamp=-1, timestamp_type=LOG_APPEND_TIME
    ),
    "no time": plain(rows(3, timestamp=-1), 1),
    "below -1": plain(rows(2, timestamp=-9), 1),
    "no keys": plain(rows(3, key=None), 1),
    "no keys v0": plain(rows(3, key=None), 0),
    "no keys inside": wrapper(rows(3, key=None), magic=1, codec=1),
    "no values": plain(rows(3, value=None), 1),
    "unknown bits": message(0, b"k", b"v", magic=1, timestamp=NOW, codec=0xF0),
    "v2, unknown time": batch(rows(3, timestamp=-1)),
    "v2, largest time wrong": batch(rows(3), max_timestamp=NOW + 99),
    "v2, append time": batch(rows(3), timestamp_type=LOG_APPEND_TIME, max_timestamp=NOW + 3),
    "v2, append time, packed": batch(
        rows(3), codec=2, timestamp_type=LOG_APPEND_TIME, max_timestamp=NOW + 3
    ),
    "v2, delete horizon": batch(rows(3), base_timestamp=NOW + 9, delete_horizon=True),
    "v2, delete horizon, packed": batch(
        rows(3), base_timestamp=NOW + 9, delete_horizon=True, codec=1
    ),
    "v2, delete horizon, time": batch(
        rows(3), base_timestamp=NOW + 9, delete_horizon=True, max_timestamp=NOW
    ),
    "v2, no keys": batch(rows(3, key=None), codec=1),
    "wrapper with a key": message(
        0, b"key", gzip.compress(ONE, mtime=0), magic=1, timestamp=NOW, codec=1
    ),
    "far ahead": plain(rows(2, timestamp=NOW + 86_400_000), 1),
    "far ahead inside": wrapper(rows(2, timestamp=NOW + 86_400_000), magic=1, codec=1),
    "long ago": plain(rows(2, timestamp=NOW - 86_400_000), 1),
    "large": plain(rows(2, value=b"x" * 1500), 1),
    "large when unpacked": batch(rows(2, value=b"x" * 1500), codec=1),
    "nothing": plain(rows(1), 0)[:-1],
}
