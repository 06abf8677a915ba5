"""Records that try every shape a field can have, as text of one line so that tools show them."""

from kstore.record.builder import BatchBuilder
from oracle.plain import PlainRecord

T0 = 1_700_000_000_000

# (base offset, records) of batches: single ones, many, across the borders of varint sizes
SAMPLES = ((0, 1), (1, 2), (3, 63), (66, 65), (131, 1000), (1131, 1), (1132, 8192 + 3))


def sample_records(start: int, count: int) -> list[PlainRecord]:
    """Null, empty and long keys and values, headers without value, times that go back."""
    records = []
    for offset in range(start, start + count):
        key = (None, b"", f"key-{offset % 97}".encode())[offset % 3]
        value = (f"value-{offset}".encode(), None, b"", b"v" * (offset % 300))[offset % 4]
        headers = (
            (),
            (("h", b"1"),),
            (("trace-id", f"{offset:x}".encode()), ("empty", b""), ("none", None)),
            (("ключ", "значение".encode()),),
        )[offset % 5 % 4]
        timestamp = T0 + offset * 7 - (5000 if offset % 11 == 0 else 0)
        records.append(PlainRecord(offset, timestamp, key, value, headers))
    return records


def batch_bytes(records, *, leader_epoch: int = 0, codec: str = "none") -> bytes:
    """The records as one batch by kstore's builder, compressed if a codec is named."""
    builder = BatchBuilder(size_limit=1 << 30, compression=codec)
    for record in records:
        assert builder.append(
            record.value, key=record.key, headers=record.headers, timestamp=record.timestamp
        )
    return builder.build(base_offset=records[0].offset, leader_epoch=leader_epoch)
