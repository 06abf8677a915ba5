"""The oracle itself: worked examples of the format byte by byte, and two other readers."""

import struct
import zlib

import crc32c as crc32c_package
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import codec, files, plain, reader, writer
from oracle.client_parsers import READERS, read_by_aiokafka, read_by_kafka_python
from oracle.crc import crc32, crc32c
from oracle.plain import PlainRecord

T = 1_700_000_000_000

V0 = bytes.fromhex(
    "00000000000000050000 0014a4cdab3a 00000000 00016b0000000568656c6c6f".replace(" ", "")
)
V1 = bytes.fromhex(
    "00000000000000060000001caa1f6779010000 00018bcfe56800000000016b000000 0568656c6c6f".replace(
        " ", ""
    )
)
V1_APPEND_TIME = bytes.fromhex(
    "000000000000000700000017318ea9ce01080000018bcfe56800ffffffff0000000178"
)
V0_GZIP = bytes.fromhex(
    "00000000000000290000005b84599cee0001ffffffff0000004d1f8b08000000000004030136 00c9ff"
    "00000000000000280000000f51df3a320000ffffffff0000000161"
    "00000000000000290000000fc8d66b880000ffffffff00000001624eb4a5ac36000000".replace(" ", "")
)
V1_GZIP = bytes.fromhex(
    "000000000000006500000073cf83070f01010000018bcfe56801ffffffff0000005d1f8b080000000000"
    "0403014600b9ff00000000000000000000001742b4af0201000000018bcfe56800ffffffff0000000161"
    "000000000000000100000017347f958601000000018bcfe56801ffffffff0000000162"
    "87a51a0e46000000"
)
V2 = bytes.fromhex(
    "00000000000000080000004e00000003022f44a1c10000000000010000018bcfe568000000018bcfe56805"
    "ffffffffffffffffffffffffffff0000000220000000026b0a68656c6c6f02026802311600"
    "0a02010a776f726c6400"
)
V2_TRANSACTIONAL = bytes.fromhex(
    "000000000000000b0000003a0000000302a95a1ffe0010000000000000018bcfe568090000018bcfe56809"
    "0000000000000fa00001000000000000000110000000026102 6200".replace(" ", "")
)
V2_ABORT = bytes.fromhex(
    "000000000000000a000000420000000302a586a2a10030000000000000018bcfe568090000018bcfe56809"
    "0000000000000fa00001ffffffff000000012000000008000000000c00000000000700"
)
V2_EMPTY = bytes.fromhex(
    "000000000000001400000031000000030272f0727900000000000 4ffffffffffffffff0000018bcfe56809"
    "0000000000000fa000010000001100000000".replace(" ", "")
)
V2_HORIZON = bytes.fromhex(
    "00000000000000080000003c000000030241ab98340040000000000000018bd50bc7e80000018bcfe56800"
    "ffffffffffffffffffffffffffff000000011400cfffb25200026b0100"
)


def read_one(data):
    log = reader.read_log(data)
    assert log.tail_reason is None
    (batch,) = log.batches
    assert batch.crc_ok
    return batch


@pytest.mark.parametrize("data", [b"", b"123456789", bytes(range(256)) * 3])
def test_checksums_against_libraries(data):
    assert crc32(data) == zlib.crc32(data)
    assert crc32c(data) == crc32c_package.crc32c(data)


def test_the_oracles_checksums_have_the_published_check_values():
    assert crc32(b"123456789") == 0xCBF43926
    assert crc32c(b"123456789") == 0xE3069283


def test_the_oracle_reads_and_writes_a_v0_message():
    record = PlainRecord(5, -1, b"k", b"hello", timestamp_type=plain.NO_TIMESTAMP)
    assert read_one(V0).records == (record,)
    assert writer.message(5, b"k", b"hello", magic=0) == V0


def test_the_oracle_reads_and_writes_v1_messages():
    assert read_one(V1).records == (PlainRecord(6, T, b"k", b"hello"),)
    assert writer.message(6, b"k", b"hello", magic=1, timestamp=T) == V1
    record = PlainRecord(7, T, None, b"x", timestamp_type=plain.LOG_APPEND_TIME)
    assert read_one(V1_APPEND_TIME).records == (record,)
    written = writer.message(
        7, None, b"x", magic=1, timestamp=T, timestamp_type=plain.LOG_APPEND_TIME
    )
    assert written == V1_APPEND_TIME


def test_the_oracle_reads_wrappers():
    assert [(r.offset, r.value) for r in read_one(V0_GZIP).records] == [(40, b"a"), (41, b"b")]
    batch = read_one(V1_GZIP)
    assert [(r.offset, r.timestamp, r.value) for r in batch.records] == [
        (100, T, b"a"),
        (101, T + 1, b"b"),
    ]
    assert (batch.base_offset, batch.last_offset, batch.max_timestamp) == (100, 101, T + 1)


def test_the_oracle_reads_and_writes_a_v2_batch():
    records = (
        PlainRecord(8, T, b"k", b"hello", (("h", b"1"),)),
        PlainRecord(9, T + 5, None, b"world"),
    )
    batch = read_one(V2)
    assert batch.records == records
    assert (batch.base_offset, batch.last_offset, batch.leader_epoch) == (8, 9, 3)
    assert writer.batch(records, leader_epoch=3) == V2


def test_the_oracle_reads_and_writes_transactional_batches_and_markers():
    batch = read_one(V2_TRANSACTIONAL)
    assert batch.transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4000, 1, 0)
    written = writer.batch(
        [PlainRecord(11, T + 9, b"a", b"b")],
        leader_epoch=3,
        producer_id=4000,
        producer_epoch=1,
        base_sequence=0,
        transactional=True,
    )
    assert written == V2_TRANSACTIONAL
    assert read_one(V2_ABORT).control
    assert read_one(V2_ABORT).records[0].control
    written = writer.marker(
        10,
        plain.ABORT,
        timestamp=T + 9,
        producer_id=4000,
        producer_epoch=1,
        coordinator_epoch=7,
        leader_epoch=3,
    )
    assert written == V2_ABORT


def test_the_oracle_reads_and_writes_an_empty_v2_batch():
    batch = read_one(V2_EMPTY)
    assert (batch.base_offset, batch.last_offset, batch.records) == (20, 24, ())
    written = writer.batch(
        [],
        base_offset=20,
        last_offset=24,
        max_timestamp=T + 9,
        leader_epoch=3,
        producer_id=4000,
        producer_epoch=1,
        base_sequence=17,
    )
    assert written == V2_EMPTY
    batch = read_one(V2_HORIZON)
    assert batch.delete_horizon == T + 86_401_000
    assert batch.records == (PlainRecord(8, T, b"k", None),)
    written = writer.batch(
        batch.records, base_timestamp=T + 86_401_000, leader_epoch=3, delete_horizon=True
    )
    assert written == V2_HORIZON


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (300, "d804"),
        (2147483647, "feffffff0f"),
        (-2147483648, "ffffffff0f"),
    ],
)
def test_the_oracle_reads_varints(number, encoded):
    assert writer.variable(number).hex() == encoded
    assert reader.Cursor(bytes.fromhex(encoded)).variable() == number
    assert reader.Cursor(writer.variable(number, 64)).variable(64) == number


def test_the_oracle_reads_and_writes_index_entries():
    assert files.read_offset_index(bytes.fromhex("0000003900001018") + bytes(16)) == [(57, 4120)]
    assert writer.offset_index([(1057, 4120)], 1000).hex() == "0000003900001018"
    entry = bytes.fromhex("0000018bcfe5680000000039")
    assert files.read_time_index(entry + bytes(24), 1000) == [(T, 1057)]
    assert writer.time_index([(T, 1057)], 1000) == entry
    entry = bytes.fromhex("00000000000000000fa0000000000000000b000000000000000c000000000000000d")
    assert files.read_transaction_index(entry) == [(4000, 11, 12, 13)]
    assert files.floor([(3, 30), (7, 70)], 6) == (3, 30)
    assert files.floor([(3, 30)], 2) is None


def test_the_oracle_reads_a_producer_snapshot():
    data = bytes.fromhex(
        "0001 00a07b80 00000001 0000000000000fa0 0001 00000011 0000000000000018 00000004"
        "0000018bcfe56809 00000007 ffffffffffffffff".replace(" ", "")
    )
    assert files.read_producer_snapshot(data) == [(4000, 1, 17, 24, 4, T + 9, 7, -1)]
    assert files.read_producer_snapshot(bytes.fromhex("000148674bc700000000")) == []
    with pytest.raises(ValueError, match="checksum"):
        files.read_producer_snapshot(data[:-1] + b"\x00")


def test_the_oracle_frames_each_codec_as_kafka():
    text = b"hello hello hello"
    raw = struct.pack("<I", 1 << 31 | 17) + text + bytes(4)
    assert codec.compress(codec.LZ4, text, 2) == bytes.fromhex("04224d18604082") + raw
    assert codec.compress(codec.LZ4, text, 0) == bytes.fromhex("04224d1860401a") + raw
    assert codec.compress(codec.SNAPPY, text, 2)[:16] == bytes.fromhex(
        "82534e41505059000000000100000001"
    )
    for magic in (0, 1, 2):
        for number in range(1, 5 if magic == 2 else 4):
            packed = codec.compress(number, text * 9000, magic)
            assert codec.decompress(number, packed, magic) == text * 9000
    with pytest.raises(ValueError, match="codec 4"):
        codec.decompress(codec.ZSTD, b"", 1)


@pytest.mark.parametrize("cut", range(1, len(V2)))
def test_a_cut_batch_is_a_tail(cut):
    log = reader.read_log(V0 + V2[:cut])
    assert len(log.batches) == 1
    assert log.tail_position == len(V0)
    assert log.tail_reason == ("shorter than a frame" if cut <= 17 else "truncated frame")


def test_corruption_is_reported():
    with pytest.raises(reader.CorruptError, match="size 0"):
        reader.read_log(V0 + bytes(100))
    flipped = V2[:-1] + b"\x01"
    batch = reader.read_log(flipped).batches[0]
    assert (batch.crc_ok, batch.records) == (False, ())
    with pytest.raises(reader.CorruptError, match="magic 3"):
        reader.read_log(V2[:16] + b"\x03" + V2[17:])


NAMES = st.text(max_size=9)
FIELDS = st.none() | st.binary(max_size=40)
RECORDS = st.lists(
    st.tuples(
        st.integers(0, 2**40), FIELDS, FIELDS, st.lists(st.tuples(NAMES, FIELDS), max_size=3)
    ),
    min_size=1,
    max_size=9,
)


def plain_records(drawn, start):
    return [
        PlainRecord(start + number, timestamp, key, value, tuple(headers))
        for number, (timestamp, key, value, headers) in enumerate(drawn)
    ]


def as_others_see(records):
    return [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in records]


@settings(max_examples=60, deadline=None)
@given(drawn=RECORDS, start=st.integers(0, 2**40), number=st.integers(0, 4))
def test_v2_round_trip_and_two_other_readers(drawn, start, number):
    records = plain_records(drawn, start)
    data = writer.batch(records, codec=number)
    assert read_one(data).records == tuple(records)
    for read in READERS:
        assert read(data) == as_others_see(records)


@settings(max_examples=60, deadline=None)
@given(
    drawn=RECORDS,
    start=st.integers(1, 2**40),
    magic=st.integers(0, 1),
    number=st.integers(0, 3),
)
def test_old_formats_round_trip_and_two_other_readers(drawn, start, magic, number):
    kind = plain.CREATE_TIME if magic else plain.NO_TIMESTAMP
    records = [
        record._replace(
            headers=(), timestamp_type=kind, timestamp=record.timestamp if magic else -1
        )
        for record in plain_records(drawn, start)
    ]
    if number:
        data = writer.wrapper(records, magic=magic, codec=number)
    else:
        data = b"".join(
            writer.message(r.offset, r.key, r.value, magic=magic, timestamp=r.timestamp)
            for r in records
        )
    assert reader.read_log(data).records == tuple(records)
    seen = [(r.offset, r.timestamp if magic else None, r.key, r.value, []) for r in records]
    assert read_by_kafka_python(data) == seen
    if (magic, number) != (0, codec.LZ4):  # aiokafka refuses these
        assert read_by_aiokafka(data) == seen
