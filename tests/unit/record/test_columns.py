"""Columns, Ragged, Headers, and the builder of batches."""

import mmap
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore.errors import CorruptRecordError, InvalidTimestampError
from kstore.record import timestamp
from kstore.record.builder import BatchBuilder
from kstore.record.columns import ColumnScan, Ragged
from oracle import reader, writer
from oracle.client_parsers import READERS
from oracle.plain import PlainRecord

T = 1_700_000_000_000
field = st.one_of(st.none(), st.binary(max_size=60))
rows = st.lists(
    st.tuples(
        field,
        field,
        st.lists(st.tuples(st.text(max_size=8), field), max_size=2),
        st.integers(0, 2**45),
    ),
    min_size=1,
    max_size=20,
)


def plain(count, first=0):
    return [
        PlainRecord(first + n, T + n, b"k%d" % n, b"v" * n, (("h", None),) * (n % 3))
        for n in range(count)
    ]


def rows_of(columns):
    return list(
        zip(
            columns.offsets.tolist(),
            columns.timestamps.tolist(),
            columns.keys.to_list(),
            columns.values.to_list(),
            columns.headers.to_list(),
            strict=True,
        )
    )


@given(st.lists(field, max_size=30), st.one_of(field, st.none()))
def test_comparing_keys_gives_a_mask(keys, wanted):
    data = b"".join(key or b"" for key in keys)
    lengths = np.array([-1 if key is None else len(key) for key in keys], np.int32)
    positions = np.cumsum([0, *lengths.clip(0)])[:-1].astype(np.int64)
    ragged = Ragged(np.frombuffer(data, np.uint8), positions, lengths)
    for each in [wanted, *keys[:3]]:
        assert (ragged == each).tolist() == [key == each for key in keys]
        assert (ragged != each).tolist() == [key != each for key in keys]
        assert ragged[ragged == each].to_list() == [key for key in keys if key == each]


@pytest.mark.parametrize("other", ["alice", 5, [b"alice"]])
def test_comparing_keys_with_anything_but_bytes_is_an_error(other):
    ragged = Ragged(np.zeros(5, np.uint8), np.zeros(1, np.int64), np.full(1, 5, np.int32))
    for compare in (operator.eq, operator.ne):
        with pytest.raises(TypeError, match=r"compared with bytes or None, .*`columns.keys == b"):
            compare(ragged, other)


def test_columns_are_views_of_the_source():
    records = plain(30)
    with mmap.mmap(-1, 8192) as mapped:
        data = writer.batch(records)
        mapped[: len(data)] = data
        scan = ColumnScan(mapped, 0, len(data))
        (columns,) = scan
        assert rows_of(columns) == [tuple(r)[:5] for r in records]
        assert columns.data.base is not None
        assert columns.data.size == 8192
        assert not columns.data.flags.writeable
        assert scan.at_end
        assert scan.position == len(data)
        mapped[data.index(b"vvvvv")] = ord("X")  # seen through the view: nothing was copied
        assert any(b"X" in (value or b"") for value in columns.values)
        del columns
        scan.close()


def test_columns_are_selected_like_a_list_and_by_masks():
    records = plain(20, 100)
    (columns,) = ColumnScan(writer.batch(records))
    expected = [tuple(r)[:5] for r in records]
    assert rows_of(columns[3:7]) == expected[3:7]
    assert rows_of(columns[::-2]) == expected[::-2]
    assert rows_of(columns[columns.offsets % 2 == 0]) == expected[::2]
    assert rows_of(columns[np.array([5, 1])]) == [expected[5], expected[1]]
    assert columns.keys[-1] == expected[-1][2]
    assert columns.headers[2] == expected[2][4]
    assert "offsets 100 to 119" in repr(columns)
    assert len(columns[:0]) == 0
    assert "0 records" in repr(columns[:0])
    with pytest.raises(IndexError):
        columns.values[20]


def test_a_row_of_columns_is_an_error_that_names_its_fields():
    (columns,) = ColumnScan(writer.batch(plain(3)))
    for row in (0, -1, np.int64(2)):
        with pytest.raises(TypeError, match=rf"columns\.offsets\[{row}\], .*: records\(\)"):
            columns[row]
    with pytest.raises(TypeError, match="a row is columns"):
        next(iter(columns))


def test_keys_are_an_array_of_objects_for_numpy():
    keys = [b"alice", None, b"bob\0", b"bob", b""]
    data = b"".join(key or b"" for key in keys)
    lengths = np.array([-1 if key is None else len(key) for key in keys], np.int32)
    positions = np.cumsum([0, *lengths.clip(0)])[:-1].astype(np.int64)
    ragged = Ragged(np.frombuffer(data, np.uint8), positions, lengths)
    assert np.asarray(ragged).tolist() == keys  # zeros at the end, too
    assert np.isin(ragged, [b"alice", b"bob"]).tolist() == [True, False, False, True, False]
    assert ragged[np.isin(ragged, [b"bob"])].to_list() == [b"bob"]
    assert np.asarray(ragged[:1], dtype="S5").dtype == "S5"
    assert np.asarray(ragged[:0]).shape == (0,)
    with pytest.raises(ValueError, match="is a copy"):
        ragged.__array__(copy=False)


def test_null_and_empty_keys_and_values_are_distinct():
    (columns,) = ColumnScan(
        writer.batch([PlainRecord(0, T, None, b""), PlainRecord(1, T, b"", None)])
    )
    assert columns.keys.is_null.tolist() == [True, False]
    assert columns.values[1] is None
    assert columns.values[0] == b""
    assert list(columns.keys) == [None, b""]


def test_compressed_batches_get_data_of_their_own():
    parts = [writer.batch(plain(5, 10 * n), codec=codec) for n, codec in enumerate((0, 4, 3, 0))]
    found = list(ColumnScan(b"".join(parts)))
    assert [len(columns) for columns in found] == [5, 10, 5]
    assert [c.offsets[0] for c in found] == [0, 10, 30]
    assert found[0].data is found[2].data
    assert found[1].data is not found[0].data


def test_skipping_damage_is_reported():
    parts = [bytearray(writer.batch(plain(5, 10 * n))) for n in range(3)]
    parts[1][70] ^= 4
    scan = ColumnScan(b"".join(parts), on_damage="skip")
    assert [c.offsets.tolist() for c in scan] == [[0, 1, 2, 3, 4, 20, 21, 22, 23, 24]]
    assert [entry[:3] for entry in scan.skipped] == [(len(parts[0]), len(parts[1]), 10)]
    with pytest.raises(CorruptRecordError):
        list(ColumnScan(b"".join(parts)))


@pytest.mark.parametrize(("position", "length"), [(-1, 1), (3, 1), (0, 4), (2**62, 1)])
def test_positions_outside_the_data_are_refused(position, length):
    bad = Ragged(
        np.frombuffer(b"abc", np.uint8),
        np.array([position], np.int64),
        np.array([length], np.int32),
    )
    with pytest.raises(ValueError):
        bad.to_list()


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@given(rows=rows)
def test_built_batches_are_read_by_everyone(compression, rows):
    builder = BatchBuilder(compression=compression)
    for value, key, headers, when in rows:
        assert builder.append(value, key=key, headers=headers, timestamp=when)
    data = builder.build(7, 3)
    expected = [
        (7 + n, when, key, value, headers) for n, (value, key, headers, when) in enumerate(rows)
    ]
    for read in READERS:
        assert read(data) == expected
    (batch,) = reader.read_log(data).batches
    assert batch.leader_epoch == 3
    assert [tuple(r)[:4] for r in batch.records] == [row[:4] for row in expected]
    assert len(builder) == 0


def test_a_full_builder_takes_no_record_but_the_first():
    builder = BatchBuilder(size_limit=300)
    added = 0
    while builder.append(bytes(100), timestamp=T):
        added += 1
    assert added == 2
    assert builder.size <= 300
    assert not builder.is_full
    builder.clear()
    assert builder.append(bytes(1000), timestamp=T)  # the first record always
    assert builder.is_full
    assert not builder.append(b"", timestamp=T)
    assert builder.extend([b"a"], timestamp=T) == 0
    builder.build()
    assert builder.extend([b"a", b"b", bytes(400)], timestamp=T + 1) == 2
    assert builder.max_timestamp == T + 1


def test_a_builder_writes_its_producers_fields():
    builder = BatchBuilder(compression="zstd")
    builder.set_producer(9, 1, 5)
    builder.append(b"v", timestamp=T)
    (batch,) = reader.read_log(builder.build(attributes=0x10)).batches
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 1, 5)
    assert batch.transactional
    assert batch.codec == 4


def test_a_datetime_of_any_zone_becomes_its_milliseconds():
    from datetime import UTC, datetime, timedelta, timezone

    when = datetime(2023, 11, 14, 22, 13, 20, 999, tzinfo=UTC)
    assert timestamp.to_milliseconds(when) == T
    assert timestamp.to_milliseconds(when.astimezone(timezone(timedelta(hours=5)))) == T
    assert timestamp.to_milliseconds(T) == T
    for bad in (datetime(2023, 1, 1), datetime(1960, 1, 1, tzinfo=UTC), -5, 2**63):
        with pytest.raises(InvalidTimestampError):
            timestamp.to_milliseconds(bad)
    for wrong in ("now", 1.5, True):
        with pytest.raises(TypeError):
            timestamp.to_milliseconds(wrong)
