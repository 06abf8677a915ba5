"""Single fields of headers: the oracle's batches, bytes that end too early, positions behind."""

import struct

import pytest

from kstore._native.format import batch_fields as fields
from kstore._native.format.batch_scan import scan
from kstore.errors import CorruptRecordError
from oracle.plain import PlainRecord
from oracle.writer import batch, message

HEADER = struct.Struct(">qiiBIhiqqqhii")
NUMBERS = (5, 49, -7, 2, 0xDEADBEEF, 0x31, 6, 1000, 2000, 1 << 40, 9, 11, 7)
V2 = HEADER.pack(*NUMBERS)
EXPECTED = {
    "base_offset": 5,
    "frame_size": 61,
    "magic": 2,
    "leader_epoch": -7,
    "stored_crc": 0xDEADBEEF,
    "attributes": 0x31,
    "last_offset_delta": 6,
    "last_offset": 11,
    "producer_id": 1 << 40,
    "record_count": 7,
}
ENDS = {
    "base_offset": 8,
    "frame_size": 12,
    "magic": 17,
    "leader_epoch": 16,
    "stored_crc": 21,
    "attributes": 23,
    "last_offset_delta": 27,
    "last_offset": 27,
    "producer_id": 51,
    "record_count": 61,
}


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("name", EXPECTED)
def test_each_field_is_read_at_its_position(name, kind) -> None:
    field = getattr(fields, name)
    assert field(kind(V2)) == EXPECTED[name]
    assert field(kind(b"\xff" * 3 + V2), 3) == EXPECTED[name]


@pytest.mark.parametrize("name", ENDS)
def test_bytes_that_end_before_the_field_are_refused(name) -> None:
    field, end = getattr(fields, name), ENDS[name]
    assert field(V2[:end]) == EXPECTED[name]
    with pytest.raises(CorruptRecordError) as caught:
        field(b"--" + V2[: end - 1], 2)
    assert caught.value.position == 2
    for position in (62, 1 << 62):
        with pytest.raises(CorruptRecordError):
            field(V2, position)
    with pytest.raises(ValueError, match="not negative"):
        field(V2, -1)


def test_fields_agree_with_the_table_of_batches() -> None:
    rows = [PlainRecord(40 + n, 1000 + n, b"k", b"v") for n in range(3)]
    data = batch(rows) + message(43, None, b"v", magic=1, timestamp=5) + batch(rows)
    table, position = scan(data), 0
    assert len(table) == 3
    for n in range(3):
        assert position == table.position[n]
        assert fields.frame_size(data, position) == table.size[n]
        assert fields.magic(data, position) == table.magic[n]
        assert fields.last_offset(data, position) == table.last_offset[n]
        position = fields.next_position(data, position)
    assert position == len(data)


def test_a_size_that_cannot_be_ends_a_walk_at_the_end_of_the_data() -> None:
    for size in (-1, -(2**31), 50, 2**31 - 1):
        data = V2[:8] + struct.pack(">i", size) + V2[12:]
        assert fields.next_position(data) == len(data)
        assert fields.frame_size(data) == size + 12
    assert fields.next_position(V2[:8] + bytes(4) + V2[12:]) == 12
    with pytest.raises(CorruptRecordError):
        fields.next_position(V2[:11])


def test_the_declared_size_of_too_few_bytes_is_zero() -> None:
    assert fields.declared_size(V2) == 61
    assert fields.declared_size(V2[:12]) == 61
    assert fields.declared_size(V2[:11]) == 0
    assert fields.declared_size(V2, 50) == 0
    assert fields.declared_size(V2, 1 << 40) == 0


def test_a_stamp_changes_base_offset_and_leader_epoch_only() -> None:
    data = bytearray(b"--" + V2)
    fields.stamp(data, 2, 77, 3)
    assert data == b"--" + HEADER.pack(77, 49, 3, *NUMBERS[3:])
    with pytest.raises(BufferError):
        fields.stamp(V2, 0, 1, 1)
    with pytest.raises(CorruptRecordError):
        fields.stamp(bytearray(15), 0, 1, 1)
    with pytest.raises(OverflowError):
        fields.stamp(data, 2, 1 << 63, 1)
    assert data[2:10] == (77).to_bytes(8, "big")


def test_numbers_of_the_layout_are_kafkas() -> None:
    assert (fields.LOG_OVERHEAD, fields.HEADER_UP_TO_MAGIC, fields.V2_HEADER_SIZE) == (12, 17, 61)
    assert len(message(0, None, b"", magic=0)) == fields.LOG_OVERHEAD + fields.V0_OVERHEAD
    assert fields.CODEC_MASK | fields.TRANSACTIONAL_BIT | fields.CONTROL_BIT == 0x37
