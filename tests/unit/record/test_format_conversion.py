"""Conversions between message formats: the oracle's, kafka-python's, and hostile bytes."""

import struct
import warnings
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kstore.config import CODECS
from kstore.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    KStoreError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
)
from kstore.record.format_conversion import convert, down_convert, rebuild
from oracle import convert as oracle
from oracle import writer
from oracle.client_parsers import READERS
from oracle.crc import crc32
from oracle.plain import CREATE_TIME, LOG_APPEND_TIME, PlainRecord
from oracle.reader import read_log

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # its way of loading its own files
    from kafka.record.legacy_records import LegacyRecordBatchBuilder

T = 1_700_000_000_000
LEGAL = [(magic, codec) for magic in range(3) for codec in range(5) if codec < 4 or magic == 2]
SLOW = [HealthCheck.too_slow]  # the oracle makes the inputs
field = st.one_of(st.none(), st.binary(max_size=40))


@st.composite
def batches(draw, magics=(0, 1, 2)):
    """One batch of any magic and codec, whose offsets may have gaps."""
    magic, codec = draw(st.sampled_from([pair for pair in LEGAL if pair[0] in magics]))
    offset = draw(st.integers(0, 2**40))
    records = []
    count = 1 if magic < 2 and not codec else draw(st.integers(1, 6))
    for _ in range(count):
        headers = draw(st.lists(st.tuples(st.text(max_size=3), field), max_size=2))
        timestamp = draw(st.integers(-1, 2**45)) if magic else -1
        records.append(PlainRecord(offset, timestamp, draw(field), draw(field), tuple(headers)))
        offset += draw(st.integers(1, 5))
    kind = draw(st.sampled_from([CREATE_TIME, LOG_APPEND_TIME])) if magic else CREATE_TIME
    if magic == 2:
        control = draw(st.booleans()) and codec == 0
        return writer.batch(
            records, codec=codec, timestamp_type=kind, control=control, leader_epoch=3,
            base_offset=records[0].offset - min(records[0].offset, draw(st.integers(0, 3))),
            last_offset=records[-1].offset + draw(st.integers(0, 3)),
        )  # fmt: skip
    if codec:
        first = draw(st.integers(0, 3)) if magic == 1 and records[0].offset > 3 else 0
        return writer.wrapper(
            records, magic=magic, codec=codec, timestamp_type=kind, first_relative=first
        )
    (record,) = records
    return writer.message(
        record.offset, record.key, record.value, magic=magic, timestamp=record.timestamp,
        timestamp_type=kind,
    )  # fmt: skip


def sample(first=100, step=1, count=5, headers=()):
    return [
        PlainRecord(first + n * step, T + n, (None, b"k")[n % 2], b"v" * n or None, headers)
        for n in range(count)
    ]


def rows(data):
    return [tuple(record) for record in read_log(data).records]


def expect(expected, ours):
    """The work gives what the oracle gives; both refuse zstd below v2."""
    try:
        wanted = expected()
    except ValueError:
        with pytest.raises(UnsupportedCompressionTypeError):
            ours()
        return
    assert list(oracle.unpacked(ours())) == list(oracle.unpacked(wanted))


@given(parts=st.lists(batches(), max_size=4), magic=st.integers(0, 2))
@settings(max_examples=150, suppress_health_check=SLOW)
def test_conversion_of_any_magic_to_any_agrees_with_the_oracle(parts, magic):
    data = b"".join(parts)
    expect(lambda: oracle.convert(data, magic), lambda: convert(data, magic))


@given(
    parts=st.lists(batches(), max_size=4),
    magic=st.integers(0, 2),
    first_offset=st.integers(0, 2**40),
)
@settings(max_examples=100, suppress_health_check=SLOW)
def test_down_conversion_agrees_with_the_oracle(parts, magic, first_offset):
    data = b"".join(parts)
    expect(
        lambda: oracle.convert(data, magic, keep_lower=True, first_offset=first_offset),
        lambda: down_convert(data, magic, first_offset=first_offset),
    )


@given(part=batches(), magic=st.integers(0, 2), codec=st.sampled_from(CODECS))
@settings(max_examples=100, suppress_health_check=SLOW)
def test_a_conversion_may_change_the_codec(part, magic, codec):
    if magic < 2 and codec == "zstd":
        with pytest.raises(UnsupportedCompressionTypeError):
            convert(part, magic, compression=codec)
        return
    (source,) = read_log(part).batches
    made = read_log(convert(part, magic, compression=codec))
    if source.control:
        assert [batch.codec for batch in made.batches] == ([0] if magic == 2 else [])
        return
    assert all(CODECS[batch.codec] == codec for batch in made.batches)
    assert [record[2:4] for record in made.records] == [record[2:4] for record in source.records]
    assert [record.offset for record in made.records] == [r.offset for r in source.records]
    if source.magic == magic == 2:
        (batch,) = made.batches
        assert batch._replace(size=0, codec=0, attributes=0) == source._replace(
            size=0, codec=0, attributes=0
        )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_kafka_python_builds_the_same_messages(magic, codec):
    builder = LegacyRecordBatchBuilder(magic, CODECS.index(codec), 1 << 20)
    records = sample(0, count=40)
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value)
    theirs = bytes(builder.build())
    ours = rebuild(writer.batch(records), magic, base_offset=0, compression=codec)
    if codec == "none":
        assert ours == theirs
    else:
        # A client leaves offset and time of its wrapper to the broker; what is inside is equal.
        ((_, inside),) = oracle.unpacked(ours)
        ((_, expected),) = oracle.unpacked(theirs)
        assert inside == expected
    times = [None if magic == 0 else record.timestamp for record in records]
    seen = [(r.offset, time, r.key, r.value, []) for r, time in zip(records, times, strict=True)]
    readers = READERS[:1] if (magic, codec) == (0, "lz4") else READERS  # aiokafka has no such lz4
    for read in readers:
        assert read(ours) == seen
    assert rows(convert(theirs, 2)) == [
        tuple(r._replace(timestamp=-1 if magic == 0 else r.timestamp)) for r in records
    ]


def test_conversions_give_the_documented_bytes():
    v0 = bytes.fromhex("000000000000000500000014a4cdab3a0000000000016b0000000568656c6c6f")
    v1 = bytes.fromhex(
        "00000000000000060000001caa1f677901000000018bcfe56800000000016b0000000568656c6c6f"
    )
    one = writer.batch([PlainRecord(5, T, b"k", b"hello", (("h", b"1"),))])
    assert convert(one, 0) == v0
    assert convert(one[:7] + b"\x06" + one[8:], 1) == v1
    late = writer.batch(
        [PlainRecord(7, 5, None, b"x")], timestamp_type=LOG_APPEND_TIME, max_timestamp=T
    )
    assert convert(late, 1) == bytes.fromhex(
        "000000000000000700000017318ea9ce01080000018bcfe56800ffffffff0000000178"
    )


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", range(4))
def test_records_survive_conversion_to_v2_and_back(magic, codec):
    records = sample(step=3)
    if codec:
        data = writer.wrapper(records, magic=magic, codec=codec)
    else:
        data = b"".join(
            writer.message(r.offset, r.key, r.value, magic=magic, timestamp=r.timestamp)
            for r in records
        )
    up = convert(data, 2)
    assert len(read_log(up).batches) == (1 if codec else len(records))
    back = convert(up, magic)
    assert list(oracle.unpacked(back)) == list(oracle.unpacked(data))
    if not codec:
        assert back == data


def test_conversion_drops_fields_that_old_formats_do_not_have():
    data = writer.batch(
        sample(headers=(("h", b"1"),)), producer_id=7, producer_epoch=0, base_sequence=0,
        transactional=True,
    ) + writer.marker(105, 1, timestamp=T, producer_id=7, producer_epoch=0)  # fmt: skip
    data += writer.batch([], base_offset=106, last_offset=110)
    assert rows(convert(data, 1)) == [tuple(record) for record in sample()]
    assert convert(data, 2) == data


def test_batches_of_the_wanted_format_are_not_touched():
    data = writer.batch(sample(), base_offset=90, last_offset=300, delete_horizon=True, codec=2)
    data += writer.marker(301, 0, timestamp=T, producer_id=7, producer_epoch=0)
    assert convert(data, 2) == data
    empty = writer.batch([], base_offset=20, last_offset=24, producer_id=4, base_sequence=17)
    assert convert(empty, 2, compression="gzip") == empty
    old = writer.wrapper(sample(), magic=0, codec=1)
    assert down_convert(old + data[: len(data) - 78], 1).startswith(old)


def test_conversion_writes_the_lz4_header_of_each_magic():
    data = writer.batch(sample(), codec=3)
    assert convert(data, 0)[26:].startswith(bytes.fromhex("04224d1860401a"))
    assert convert(data, 1)[34:].startswith(bytes.fromhex("04224d18604082"))


def test_a_leader_rebuilds_messages_as_one_batch():
    data = convert(writer.batch(sample(step=4)), 1) + writer.wrapper(
        sample(900, 2), magic=1, codec=1
    )
    (batch,) = read_log(
        rebuild(data, 2, base_offset=7, compression="zstd", log_append_time=T, leader_epoch=9)
    ).batches
    assert (batch.base_offset, batch.last_offset, batch.leader_epoch) == (7, 16, 9)
    assert (batch.timestamp_type, batch.max_timestamp) == (LOG_APPEND_TIME, T)
    assert [r.value for r in batch.records] == [r.value for r in sample() * 2]
    (wrapper,) = read_log(rebuild(data, 1, base_offset=7, compression="gzip")).batches
    assert [r.offset for r in wrapper.records] == list(range(7, 17))
    assert wrapper.max_timestamp == T + 4
    assert rebuild(b"", 1, base_offset=0) == b""
    assert rebuild(b"", 2, base_offset=0, compression="gzip") == b""


def test_rebuilding_keeps_the_producer():
    data = writer.batch(
        sample(headers=(("h", None),)), producer_id=7, producer_epoch=1, base_sequence=20,
        transactional=True,
    )  # fmt: skip
    for codec in CODECS:
        (batch,) = read_log(rebuild(data, 2, base_offset=50, compression=codec)).batches
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 1, 20)
        assert batch.transactional
        assert [r.headers for r in batch.records] == [(("h", None),)] * 5


PRODUCER = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}


@pytest.mark.parametrize(
    ("data", "magic", "error"),
    [
        (writer.batch(sample(headers=(("h", b""),))), 1, UnsupportedForMessageFormatError),
        (writer.batch(sample(), **PRODUCER), 0, UnsupportedForMessageFormatError),
        (writer.batch(sample(), transactional=True), 1, UnsupportedForMessageFormatError),
        (writer.batch(sample(), control=True), 2, InvalidRecordError),
        (writer.batch(sample(), **PRODUCER) * 2, 2, InvalidRecordError),
        (
            writer.batch(sample(), **PRODUCER) + writer.message(1, b"", b"", magic=0),
            2,
            InvalidRecordError,
        ),
    ],
)
def test_a_batch_that_a_leader_cannot_rebuild_is_an_error(data, magic, error):
    with pytest.raises(error) as caught:
        rebuild(data, magic, base_offset=0)
    assert caught.value.position is not None


def test_invalid_arguments_of_a_conversion_are_errors():
    data = writer.batch(sample())
    with pytest.raises(InvalidRecordError):
        rebuild(data, 2, base_offset=-1)
    with pytest.raises(InvalidTimestampError):
        rebuild(data, 2, base_offset=0, log_append_time=-1)
    with pytest.raises(UnsupportedCompressionTypeError):
        rebuild(data, 1, base_offset=0, compression="zstd")
    with pytest.raises(UnsupportedCompressionTypeError):
        convert(data, 2, compression="brotli")
    with pytest.raises(UnsupportedCompressionTypeError):
        convert(b"", 0, compression="zstd")
    for magic in (-1, 3):
        with pytest.raises(ValueError, match="magic"):
            convert(data, magic)


def test_conversion_refuses_batches_that_kafka_would_not_write():
    for timestamps in ((-2,), (5, -7)):
        data = writer.batch([PlainRecord(n, t, None, b"") for n, t in enumerate(timestamps)])
        with pytest.raises(InvalidTimestampError) as caught:
            convert(data, 1)
        assert (caught.value.position, caught.value.offset) == (0, 0)
    far = writer.wrapper(
        [PlainRecord(0, -1, None, b""), PlainRecord(2**31, -1, None, b"")], magic=0, codec=1
    )
    assert rows(convert(far, 1))[-1][0] == 2**31
    with pytest.raises(InvalidRecordError, match="apart"):
        convert(far, 2)


def test_offsets_below_zero_are_kept_but_not_wrapped():
    """Clients write -1 into what a leader will number; a wrapper would not be readable."""
    data = writer.message(-1, None, b"x", magic=0)
    assert rows(convert(data, 2)) == [(-1, -1, None, b"x", (), CREATE_TIME, False)]
    assert convert(convert(data, 2), 0) == data
    assert rows(rebuild(data, 2, base_offset=4))[0][0] == 4
    for magic in (0, 1):
        with pytest.raises(InvalidRecordError, match="0 or more"):
            convert(convert(data, 2), magic, compression="gzip")
    with pytest.raises(InvalidRecordError, match="0 or more"):
        rebuild(data * 2, 0, base_offset=2**63 - 1)


def test_times_at_the_ends_of_time():
    records = [PlainRecord(0, -1, None, b""), PlainRecord(1, 2**63 - 1, None, b"")]
    data = writer.wrapper(records, magic=1, codec=1)
    up = convert(data, 2)
    assert convert(up, 1, compression="none") == convert(data, 1, compression="none")


SOURCES = [
    writer.batch(sample(), codec=codec, timestamp_type=kind, leader_epoch=4)
    for codec in (0, 1, 4)
    for kind in (CREATE_TIME, LOG_APPEND_TIME)
] + [
    source
    for magic in (0, 1)
    for source in (
        writer.message(9, b"key", b"value", magic=magic, timestamp=T),
        writer.wrapper(sample(), magic=magic, codec=2),
        writer.wrapper(sample(), magic=magic, codec=3, timestamp_type=LOG_APPEND_TIME),
    )
]


def works(data, magic):
    yield lambda: convert(data, magic)
    yield lambda: convert(data, magic, compression="gzip")
    yield lambda: rebuild(data, magic, base_offset=3)


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("source", SOURCES)
def test_every_cut_is_an_error(source, magic):
    for size in range(1, len(source)):
        for prefix in (b"", writer.message(1, b"k", b"v", magic=1)):
            for work in works(prefix + source[:size], magic):
                with pytest.raises(CorruptRecordError) as caught:
                    work()
                assert caught.value.position == len(prefix)


def contents(data):
    """What a checksum guards: everything but offsets and the leader's epoch."""
    return [
        (record.timestamp, record.key, record.value, record.headers, record.timestamp_type)
        for record in read_log(data).records
    ]


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("source", SOURCES)
def test_every_flipped_bit_is_an_error_or_harmless(source, magic):
    expected_answers = []
    for work in works(source, magic):
        try:
            expected_answers.append(contents(work()))
        except KStoreError:
            expected_answers.append(None)  # zstd below v2
    harmless = 0
    for bit in range(8 * len(source)):
        flipped = bytearray(source)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        for expected, work in zip(expected_answers, works(bytes(flipped), magic), strict=True):
            try:
                found = work()
            except KStoreError:
                continue
            assert bit < 16 * 8  # offset and leader epoch are outside of every checksum
            assert found == flipped or contents(found) == expected
            harmless += 1
    assert (harmless > 0) == any(expected_answers)


@given(
    magic=st.integers(0, 1),
    target=st.integers(0, 2),
    at=st.integers(0, 10_000),
    bit=st.integers(0, 7),
    cut=st.booleans(),
)
@settings(max_examples=300)
def test_damage_inside_a_wrapper_is_not_converted(magic, target, at, bit, cut):
    """The outer checksum is right, the messages inside are not."""
    inner = bytearray(
        b"".join(
            writer.message(n, b"key", b"value", magic=magic, timestamp=T + n) for n in range(3)
        )
    )
    at %= len(inner)
    if cut:
        del inner[at:]
    else:
        inner[at] ^= 1 << bit
    packed = zlib.compressobj(9, zlib.DEFLATED, 31)
    value = packed.compress(inner) + packed.flush()
    data = writer.message(10, None, value, magic=magic, timestamp=T, codec=1)
    assert struct.unpack_from(">I", data, 12)[0] == crc32(data[16:])
    try:
        found = convert(data, target)
    except (CorruptRecordError, InvalidRecordError):
        return
    if target == magic:
        assert found == data
        return
    assert cut or at % (len(inner) // 3) < 8  # an inner offset: no checksum covers it
    assert {tuple(r)[2:4] for r in rows(found)} == {(b"key", b"value")}


@given(data=st.binary(max_size=200), magic=st.integers(0, 2))
@settings(max_examples=200)
def test_any_bytes_are_converted_or_refused(data, magic):
    for work in works(data, magic):
        try:
            assert work() == b"" or data
        except KStoreError:
            assert data
