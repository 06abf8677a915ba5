"""Batches of any magic, read back: against the oracle, against damage, against real files."""

import mmap
import pickle
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_files import data_sets
from kstore._native.read.decode import Scanner
from kstore.errors import CorruptRecordError
from kstore.record import Record
from kstore.record.codec import decompress
from oracle import reader, writer
from oracle.plain import LOG_APPEND_TIME, PlainRecord

T = 1_700_000_000_000
field = st.one_of(st.none(), st.binary(max_size=150))
headers = st.lists(st.tuples(st.text(max_size=10), field), max_size=3).map(tuple)


def scan(data, *span, **options):
    return Scanner(data, *span, decompress=decompress, **options)


def all_records(data, **options):
    scanner = scan(data, **options)
    found = []
    while (records := scanner.next_records()) is not None:
        found += records
    return found


def all_values(data, **options):
    scanner = scan(data, values_only=True, **options)
    found = []
    while (values := scanner.next_values()) is not None:
        found += values
    return found


def all_rows(data, **options):
    """(offset, timestamp, key, value, header count) of every row of every block."""
    rows = []
    for block in scan(data, **options):
        column = {
            name: np.frombuffer(block, dtype, len(block), start).tolist()
            for name, (dtype, start) in block.layout.items()
        }
        source = memoryview(block.data)

        def cut(position, length, source=source):
            return None if length < 0 else bytes(source[position : position + length])

        rows += [
            (
                column["offsets"][n],
                column["timestamps"][n],
                cut(column["key_positions"][n], column["key_lengths"][n]),
                cut(column["value_positions"][n], column["value_lengths"][n]),
                column["header_counts"][n],
            )
            for n in range(len(block))
        ]
    return rows


def seen(record):
    return PlainRecord(
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        tuple(record.headers),
        record.timestamp_type,
    )


def without_control(record):
    return record._replace(control=False)


@st.composite
def logs(draw):
    """Some batches and messages of all magics and codecs, as the oracle writes them."""
    offset = draw(st.integers(1, 2**40))
    parts, expected = [], []
    for _ in range(draw(st.integers(1, 4))):
        magic = draw(st.integers(0, 2))
        codec = draw(st.integers(0, 4 if magic == 2 else 3))
        kind = draw(st.sampled_from(["CreateTime", LOG_APPEND_TIME])) if magic else "CreateTime"
        records = []
        for _ in range(1 if magic < 2 and codec == 0 else draw(st.integers(1, 5))):
            record = PlainRecord(
                offset,
                draw(st.integers(0, 2**50)),
                draw(field),
                draw(field),
                draw(headers) if magic == 2 else (),
            )
            offset += draw(st.integers(1, 3))
            records.append(record)
        if magic == 2:
            parts.append(writer.batch(records, codec=codec, timestamp_type=kind))
        elif codec:
            parts.append(writer.wrapper(records, magic=magic, codec=codec, timestamp_type=kind))
        else:
            only = records[0]
            parts.append(
                writer.message(
                    only.offset,
                    only.key,
                    only.value,
                    magic=magic,
                    timestamp=only.timestamp,
                    timestamp_type=kind,
                )
            )
        expected += reader.read_log(parts[-1]).records
    return b"".join(parts), expected


@given(log=logs())
def test_every_sink_agrees_with_the_oracle(log):
    data, expected = log
    assert [seen(r) for r in all_records(data)] == expected
    assert all_values(data) == [r.value for r in expected]
    rows = [(r.offset, r.timestamp, r.key, r.value, len(r.headers)) for r in expected]
    assert all_rows(data) == rows
    assert all_rows(data, row_target=1) == rows


@given(log=logs(), bounds=st.tuples(st.integers(-2, 25), st.integers(-2, 25)))
def test_a_window_has_the_records_between_its_offsets(log, bounds):
    data, expected = log
    start, stop = (expected[0].offset + bound for bound in bounds)
    kept = [r for r in expected if start <= r.offset < stop]
    window = {"start_offset": start, "stop_offset": stop}
    assert [seen(r) for r in all_records(data, **window)] == kept
    assert all_values(data, **window) == [r.value for r in kept]
    assert [row[0] for row in all_rows(data, **window)] == [r.offset for r in kept]


def test_logs_of_other_writers_are_read_as_by_the_oracle(fixtures):
    files = fixtures.logs
    assert len(files) > 50
    for fixture in files:
        log = reader.read_log(fixture.data)
        expected = [without_control(r) for r in log.records]
        skip = partial(all_records, control=True, on_damage="skip")
        assert [seen(r) for r in skip(fixture.data)] == expected, fixture.name


def test_logs_of_real_brokers_are_read_as_by_the_oracle(broker_set):
    for path in sorted(broker_set.root.rglob("*.log")):
        data = path.read_bytes()
        expected = [without_control(r) for r in reader.read_log(data).records]
        assert [seen(r) for r in all_records(data, control=True)] == expected, path


def test_decoded_records_are_those_of_kafkas_consumer(broker_set):
    for partition in broker_set.partitions:
        folder = broker_set.log_dir / partition.name
        found = []
        for path in sorted(folder.glob("*.log")):
            found += all_records(path.read_bytes(), start_offset=partition.beginning_offset)
        assert len(found) == len(partition.records)
        for record, expected in zip(found, partition.records, strict=True):
            assert (record.offset, record.timestamp) == (expected.offset, expected.timestamp)
            assert record.timestamp_type == expected.timestamp_type
            assert expected.key == record.key
            assert expected.value == record.value
            assert len(expected.headers) == len(record.headers)
            assert all(
                name == other and value == own
                for (name, value), (other, own) in zip(
                    expected.headers, record.headers, strict=True
                )
            )
            if expected.leader_epoch is not None:
                assert record.leader_epoch == expected.leader_epoch


def plain(count=5, first=10, size=20):
    return [PlainRecord(first + n, T + n, b"k%d" % n, b"v" * size) for n in range(count)]


def test_log_append_time_and_delete_horizon():
    records = plain()
    data = writer.batch(records, timestamp_type=LOG_APPEND_TIME, max_timestamp=T + 99)
    assert {r.timestamp for r in all_records(data)} == {T + 99}
    data = writer.batch(records, base_timestamp=T + 86_401_000, delete_horizon=True)
    assert [r.timestamp for r in all_records(data)] == [r.timestamp for r in records]


def test_empty_batches_and_gaps_are_passed_over():
    empty = writer.batch([], base_offset=20, last_offset=24)
    gappy = writer.batch([plain(1, 31)[0], plain(1, 37)[0]], base_offset=30, last_offset=40)
    assert [r.offset for r in all_records(empty + gappy + empty)] == [31, 37]


def test_control_batches_are_hidden_unless_asked_for():
    marker = writer.marker(15, 0, timestamp=T, producer_id=7, producer_epoch=0)
    data = writer.batch(plain()) + marker
    assert [r.offset for r in all_records(data)] == [10, 11, 12, 13, 14]
    assert all_records(data, control=True)[-1].key == b"\x00\x00\x00\x00"


def test_old_librdkafka_wrappers_at_offset_zero():
    records = plain(3, 0)
    inner = b"".join(
        writer.message(r.offset, r.key, r.value, magic=1, timestamp=r.timestamp) for r in records
    )
    from oracle import codec

    data = writer.message(0, None, codec.compress(1, inner, 1), magic=1, timestamp=T, codec=1)
    assert [r.offset for r in all_records(data)] == [0, 1, 2]


def test_inner_messages_of_the_other_magic():
    from oracle import codec

    inner = writer.message(0, b"a", b"1", magic=0) + writer.message(
        1, b"b", b"2", magic=1, timestamp=T
    )
    data = writer.message(101, None, codec.compress(1, inner, 1), magic=1, timestamp=T, codec=1)
    found = [(r.offset, r.timestamp, r.key, r.value) for r in all_records(data)]
    assert found == [(100, -1, b"a", b"1"), (101, T, b"b", b"2")]


@pytest.mark.parametrize("codec", [0, 4])
def test_one_bad_batch_costs_one_batch(codec):
    parts = [writer.batch(plain(first=10 * n), codec=codec) for n in (1, 2, 3)]
    broken = bytearray(parts[1])
    broken[-1] ^= 1
    data = parts[0] + bytes(broken) + parts[2]
    with pytest.raises(CorruptRecordError) as caught:
        all_records(data, path="x.log", position_base=1000)
    assert caught.value.path == "x.log"
    assert caught.value.position == 1000 + len(parts[0])
    assert caught.value.offset == 20
    scanner = scan(data, on_damage="skip", position_base=1000)
    offsets = [r.offset for r in scanner.next_records()]
    assert offsets == [10, 11, 12, 13, 14, 30, 31, 32, 33, 34]
    ((position, size, offset, reason),) = scanner.skipped
    assert (position, size, offset) == (1000 + len(parts[0]), len(parts[1]), 20)
    assert "checksum" in reason


def test_a_damaged_codec_stream_is_reported_with_its_position():
    data = writer.batch(plain(), codec=1)
    from oracle.crc import crc32c

    broken = bytearray(data)
    broken[61] ^= 0xFF
    broken[17:21] = crc32c(bytes(broken[21:])).to_bytes(4, "big")
    with pytest.raises(CorruptRecordError) as caught:
        all_records(bytes(data) + bytes(broken))
    assert (caught.value.position, caught.value.offset) == (len(data), 10)
    scanner = scan(bytes(broken) + data, on_damage="skip")
    assert len(scanner.next_records()) == 5
    assert len(scanner.skipped) == 1


def test_a_compressed_batch_without_a_decompressor_is_a_valueerror():
    with pytest.raises(ValueError, match="decompress"):
        Scanner(writer.batch(plain(), codec=4)).next_block()


SAMPLES = {
    "v2": writer.batch(
        [PlainRecord(5, T, b"k", b"value", (("h", b"1"),)), PlainRecord(6, T + 1, None, b"w")]
    ),
    "v2 zstd": writer.batch(plain(3), codec=4),
    "v1": writer.message(6, b"k", b"hello", magic=1, timestamp=T),
    "v0": writer.message(5, b"k", b"hello", magic=0),
    "v1 gzip": writer.wrapper(plain(2), magic=1, codec=1),
    "v0 snappy": writer.wrapper(plain(2), magic=0, codec=2),
}


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_every_cut_is_a_tail(sample):
    complete = writer.batch(plain(2, 1))
    for cut in range(len(sample)):
        data = complete + sample[:cut]
        scanner = scan(data)
        assert len(scanner.next_records()) == 2
        assert scanner.position == len(complete)
        assert scanner.at_end == (cut == 0)
        if cut:
            with pytest.raises(CorruptRecordError):
                all_records(data, on_tail="damage")


@pytest.mark.parametrize("check_crc", [True, False])
@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_every_bit_flip_is_an_error_or_the_right_answer(sample, check_crc):
    """With the CRC off the bytes are taken at their word; the walk must still keep its bounds."""
    right = [r.value for r in all_records(sample)]
    silent = 0
    for bit in range(len(sample) * 8):
        data = bytearray(sample)
        data[bit // 8] ^= 1 << bit % 8
        try:
            values = [r.value for r in all_records(bytes(data), check_crc=check_crc)]
            assert all_values(bytes(data), check_crc=check_crc) == values
            assert [row[3] for row in all_rows(bytes(data), check_crc=check_crc)] == values
        except CorruptRecordError:
            continue
        if check_crc:
            # What no checksum covers: offset and leader epoch; a longer size reads as a tail.
            assert bit // 8 < 16
            assert values in (right, [])
        silent += 1
    assert silent < len(sample) * 8 / (2 if check_crc else 1)


@given(data=st.binary(max_size=200))
def test_noise_is_refused(data):
    with pytest.raises(CorruptRecordError):
        all_records(b"\x00" * 16 + b"\x02" + data, on_tail="damage", check_crc=False)


@given(
    position=st.integers(57, 110),
    replacement=st.binary(min_size=1, max_size=10),
    skip=st.booleans(),
)
def test_hostile_records_under_a_right_crc(position, replacement, skip):
    from oracle.crc import crc32c

    data = bytearray(SAMPLES["v2"])
    data[position : position + len(replacement)] = replacement
    del data[len(SAMPLES["v2"]) :]
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    try:
        expected = reader.read_log(bytes(data)).records
    except (reader.CorruptError, UnicodeDecodeError):
        expected = None
    try:
        found = [seen(r) for r in all_records(bytes(data))]
    except CorruptRecordError:
        found = None
    if found is not None and expected is not None:
        assert found == list(expected)
    if expected is None and found is not None:
        # The oracle refuses header names that are not UTF-8; Java and kstore replace.
        assert any("\ufffd" in name for r in found for name, _ in r.headers)


# Sizes and deltas on both sides of where a varint grows by a byte, runs of equal ones among them.
WIDTHS = [0, 1, 5, 63, 63, 64, 64, 64, 100, 100, 8191, 8191, 8192, 8192, 8192, 3]
DELTAS = [0, 1, -1, 63, -64, 64, 8191, 8192, 1 << 20, 1 << 27, -(1 << 27), 1 << 40, 0]


@pytest.mark.parametrize("key_size", [None, 0, 1, 30, 70, 9000])
def test_records_of_every_size_are_decoded(key_size):
    key = None if key_size is None else b"k" * key_size
    records = [
        PlainRecord(9 + 3 * n, T + DELTAS[n % len(DELTAS)], key, b"v" * size)
        for n, size in enumerate([*WIDTHS * 9, 1 << 20])
    ]
    data = writer.batch(records)
    assert [seen(r) for r in all_records(data)] == records
    assert all_values(data) == [r.value for r in records]
    assert all_rows(data) == [(r.offset, r.timestamp, r.key, r.value, 0) for r in records]


@pytest.mark.parametrize("key", [None, b"key"])
@pytest.mark.parametrize("size", [0, 30, 100])
def test_every_byte_of_a_record_between_others(key, size):
    """The record in the middle has room around it: a length may point beyond it, and stay inside
    the batch. Its bytes are changed in every way; rows are what the oracle reads, or none."""
    from oracle.crc import crc32c

    records = [PlainRecord(n, T + n, key, b"\x00" * size) for n in range(9)]
    complete = writer.batch(records)
    width = (len(complete) - 61) // 9
    fields = 10 + (len(key) if key else 0)
    first = 61 + 4 * width
    right = 0
    for byte_position in [*range(first, first + fields), first + width - 1]:
        for byte in range(256):
            data = bytearray(complete)
            data[byte_position] = byte
            data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
            try:
                expected = reader.read_log(bytes(data)).records
            except (reader.CorruptError, UnicodeDecodeError):
                expected = None
            try:
                found = [seen(r) for r in all_records(bytes(data))]
            except CorruptRecordError:
                found = None
            if found is not None:
                assert expected is not None
                assert found == list(expected)
                assert all_values(bytes(data)) == [r.value for r in found]
                right += 1
    assert right >= 9


def test_a_count_that_the_bytes_contradict_allocates_no_memory():
    from oracle.crc import crc32c

    data = bytearray(writer.batch(plain(1)))
    data[57:61] = (2**31 - 1).to_bytes(4, "big")
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    with pytest.raises(CorruptRecordError) as caught:
        all_records(bytes(data))
    assert "count" in caught.value.reason


def test_blocks_keep_their_data_and_their_memory():
    data = bytearray(writer.batch(plain()))
    scanner = scan(data)
    block = scanner.next_block()
    array = np.frombuffer(block, "int64", len(block), block.layout["offsets"][1])
    assert not array.flags.writeable
    scanner.close()
    del block
    scan(bytes(data)).next_block()
    assert array.tolist() == [10, 11, 12, 13, 14]
    assert scanner.next_block() is None


def test_a_closed_scanner_releases_its_map():
    with mmap.mmap(-1, 4096) as mapped:
        mapped[: len(SAMPLES["v2"])] = SAMPLES["v2"]
        scanner = scan(mapped, 0, len(SAMPLES["v2"]))
        assert len(scanner.next_records()) == 2
        with pytest.raises(BufferError):
            mapped.close()
        scanner.close()


@pytest.mark.parametrize("codec", [0, 4])
def test_records_come_one_by_one_from_a_copy(codec):
    first, second = plain(5), plain(5, 5)
    data = bytearray(writer.batch(first, codec=codec) + writer.batch(second, codec=codec))
    scanner = scan(data)
    records = scanner.records()
    found = [next(records)]
    data[61:] = b"\xee" * (len(data) - 61)  # another process writes over the file
    found += [next(records) for _ in range(4)]
    assert [seen(r) for r in found] == first
    with pytest.raises(CorruptRecordError):
        next(records)
    with pytest.raises(CorruptRecordError):  # and it stays where the damage is
        next(records)


def test_records_outlive_the_scanner():
    scanner = scan(writer.batch(plain(3)) + writer.batch(plain(3, 3)))
    records = scanner.records()
    found = [next(records)]
    scanner.close()
    found += records
    assert [seen(r) for r in found] == plain(3)


def test_records_before_damage_are_handed_out():
    damaged = bytearray(writer.batch(plain(2, 2)))
    damaged[-1] ^= 1
    records = scan(writer.batch(plain(2)) + damaged).records()
    assert [seen(next(records)) for _ in range(2)] == plain(2)
    with pytest.raises(CorruptRecordError):
        next(records)
    options = {"on_damage": "skip"}
    data = writer.batch(plain(2)) + damaged + writer.batch(plain(2, 4))
    assert [seen(r) for r in scan(data, **options).records()] == plain(2) + plain(2, 4)


def test_records_are_for_one_thread_at_a_time():
    def inside(*_):
        next(records)

    records = Scanner(writer.batch(plain(2), codec=1), decompress=inside).records()
    with pytest.raises(ValueError, match="another thread"):
        next(records)


def test_a_batch_larger_than_a_block():
    records = [PlainRecord(n, T + n, None, b"%d" % n) for n in range(40_000)]
    data = writer.batch(records[:10]) + writer.batch(records[10:]) * 1
    assert [row[3] for row in all_rows(data)] == [r.value for r in records]
    assert all_values(data) == [r.value for r in records]


@pytest.mark.parametrize(
    "arguments",
    [
        {"start": 5, "end": 2},
        {"end": 9999},
        {"start": -1},
        {"on_damage": "ignore"},
        {"on_tail": "ignore"},
    ],
)
def test_invalid_offsets_and_positions_are_errors(arguments):
    with pytest.raises(ValueError):
        scan(SAMPLES["v2"], **arguments)


def test_records_compare_by_value_and_show_their_fields():
    (record, other) = all_records(SAMPLES["v2"])
    assert record.datetime == datetime.fromtimestamp(T / 1000, UTC)
    assert record.headers == (("h", b"1"),)
    assert record == Record(5, T, b"k", b"value", [("h", b"1")], leader_epoch=0)
    assert record != other
    assert record != "x"
    assert pickle.loads(pickle.dumps(record)) == record
    assert len({record, pickle.loads(pickle.dumps(record)), other}) == 2
    assert hash(record.headers) == hash((("h", b"1"),))
    assert "value=b'value'" in repr(record)
    with pytest.raises(AttributeError):
        record.offset = 3
    with pytest.raises(AttributeError):
        record.__init__(1, 2, None, None)
    assert all_records(SAMPLES["v0"])[0].datetime is None
    assert all_records(SAMPLES["v0"])[0].timestamp_type == "NoTimestampType"


def test_records_are_built_from_right_types_only():
    for arguments in [
        (1, T, "text", None),
        (1, T, None, None, [("h", "text")]),
        (1, T, None, None, [(b"h", None)]),
    ]:
        with pytest.raises(TypeError):
            Record(*arguments)
    with pytest.raises(ValueError):
        Record(1, T, None, None, timestamp_type="Other")


def test_files_of_brokers_are_found():
    assert data_sets.BROKER_SETS


def test_a_pickle_that_an_earlier_kstore_wrote_loads():
    """It names the class by its old module."""
    old = (
        b"\x80\x02ckstore._native.record\n_restore\n(K\x05\x8a\x06\x00h\xe5\xcf\x8b\x01"
        b"c_codecs\nencode\nq\x01X\x01\x00\x00\x00kX\x06\x00\x00\x00latin1q\x03\x86R"
        b"h\x01X\x01\x00\x00\x00vh\x03\x86RX\x01\x00\x00\x00hh\x01X\x01\x00\x00\x00x"
        b"h\x03\x86R\x86\x85X\n\x00\x00\x00CreateTimeK\x03tR."
    )
    record = Record(5, T, b"k", b"v", (("h", b"x"),), leader_epoch=3)
    assert pickle.loads(old) == record
