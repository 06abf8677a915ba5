"""The columnar encoder and the placing of staged batches, against the row encoder."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore._native.append.encode import BatchBuffer
from kstore._native.format.batch_scan import scan
from kstore._native.spark.encode_arrow import ArrowBinary, ArrowHeaders, assign_offsets, put_rows
from kstore.errors import CorruptRecordError, InvalidRecordError

NULLABLE = st.none() | st.binary(max_size=40)
HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=5), NULLABLE), max_size=3)
ROW = st.tuples(NULLABLE, NULLABLE, HEADERS, st.integers(0, 2**45))


def column(array: pa.Array) -> ArrowBinary:
    validity, offsets, data = array.buffers()
    wide = pa.types.is_large_binary(array.type)
    return ArrowBinary(len(array), array.offset, validity, offsets, data, wide)


def lists(array: pa.Array) -> ArrowHeaders:
    validity, offsets = array.buffers()[:2]
    pairs = array.values
    return ArrowHeaders(
        ArrowBinary(len(array), array.offset, validity, offsets, None),
        column(pairs.field(0)),
        column(pairs.field(1)),
    )


@given(st.lists(ROW, min_size=1, max_size=30), st.integers(0, 3), st.booleans(), st.data())
def test_columns_give_the_bytes_that_rows_give(
    rows: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None, int]],
    skipped: int,
    wide: bool,
    data: st.DataObject,
) -> None:
    binary = pa.large_binary() if wide else pa.binary()
    front = [rows[0]] * skipped  # so that the arrays have an offset
    columns = list(zip(*front, *rows, strict=True))
    keys = pa.array(columns[0], binary).slice(skipped)
    values = pa.array(columns[1], binary).slice(skipped)
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    made = [
        None if each is None else [{"key": k, "value": v} for k, v in each] for each in columns[2]
    ]
    headers = pa.array(made, kind).slice(skipped)
    times = np.array(columns[3][skipped:], np.int64)
    order = data.draw(st.permutations(range(len(rows))))
    buffer, expected = BatchBuffer(), BatchBuffer()
    taken = put_rows(
        buffer, np.array(order, np.int64), times, column(keys), column(values), lists(headers)
    )
    assert taken == len(rows)
    for n in order:
        key, value, pairs, when = rows[n]
        expected.put(value, key, pairs, when)
    assert buffer.to_bytes() == expected.to_bytes()


def test_a_limit_ends_a_batch_and_the_next_continues() -> None:
    values = column(pa.array([b"x" * 100] * 10))
    times, rows = np.zeros(10, np.int64), np.arange(10, dtype=np.int64)
    buffer, done, batches = BatchBuffer(), 0, 0
    while done < 10:
        taken = put_rows(buffer, rows, times, None, values, None, start=done, size_limit=400)
        assert taken == 3 if done < 9 else 1
        done += taken
        assert len(buffer) == taken
        buffer.reset()
        batches += 1
    assert batches == 4
    assert put_rows(buffer, rows, times, None, values, None, size_limit=1) == 1  # always one


@pytest.mark.parametrize("offsets", [[0, 5, 3], [-1, 0, 1], [0, 1, 99], [0, 2**31 - 1, 2**31 - 1]])
def test_rows_outside_the_data_are_refused(offsets: list[int]) -> None:
    bad = ArrowBinary(2, 0, None, np.array(offsets, np.int32), b"abc")
    times, rows = np.zeros(2, np.int64), np.arange(2, dtype=np.int64)
    with pytest.raises(ValueError, match="outside the data"):
        put_rows(BatchBuffer(), rows, times, None, bad, None)
    with pytest.raises(ValueError, match="outside the data"):
        bad.locate_rows(np.zeros(2, np.int64), np.zeros(2, np.int32))


def test_short_buffers_and_wrong_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="too few offsets"):
        ArrowBinary(3, 0, None, np.zeros(3, np.int32), b"")
    with pytest.raises(ValueError, match="bitmap"):
        ArrowBinary(9, 0, b"\x00", np.zeros(10, np.int32), b"")
    for count, offset in ((-1, 0), (0, -1), (2**40, 0), (1, 2**62)):
        with pytest.raises(ValueError, match="from 0 to"):
            ArrowBinary(count, offset, None, np.zeros(3, np.int32), b"")
    good = column(pa.array([b"a", b"b"]))
    times = np.zeros(2, np.int64)
    for wrong in ([2], [-1]):
        with pytest.raises(ValueError, match="there is no row"):
            put_rows(BatchBuffer(), np.array(wrong, np.int64), times, None, good, None)
    with pytest.raises(ValueError, match="differ in length"):
        put_rows(BatchBuffer(), np.zeros(1, np.int64), np.zeros(3, np.int64), None, good, None)
    pairs = column(pa.array([b"k"]))
    outside = ArrowHeaders(
        ArrowBinary(2, 0, None, np.array([0, 1, 7], np.int32), None), pairs, pairs
    )
    with pytest.raises(ValueError, match="headers of row 1"):
        put_rows(BatchBuffer(), np.arange(2, dtype=np.int64), times, None, good, outside)
    nameless = ArrowHeaders(
        ArrowBinary(2, 0, None, np.array([0, 1, 1], np.int32), None),
        column(pa.array([None], pa.binary())),
        pairs,
    )
    with pytest.raises(InvalidRecordError, match="null key"):
        put_rows(BatchBuffer(), np.arange(2, dtype=np.int64), times, None, good, nameless)


def batch(*values: bytes) -> bytes:
    buffer = BatchBuffer()
    for value in values:
        buffer.put(value, None, None, 7)
    return buffer.to_bytes()


def test_batches_get_their_offsets() -> None:
    data = bytearray(batch(b"a", b"b") + batch(b"c") + batch(b"d", b"e", b"f"))
    end, following = assign_offsets(data, 0, 1, 100, 3)  # always one
    assert (end, following) == (len(batch(b"a", b"b")), 102)
    assert assign_offsets(data, end, len(data), following, 3) == (len(data), 106)
    table = scan(data)
    assert table.base_offset.tolist() == [100, 102, 103]
    assert table.leader_epoch.tolist() == [3, 3, 3]
    assert table.max_timestamp.tolist() == [7, 7, 7]
    stamped = bytearray(batch(b"a"))
    assign_offsets(stamped, 0, 1 << 20, 5, 0, 1234)
    assert scan(stamped).max_timestamp.tolist() == [1234]
    assign_offsets(stamped, 0, 1 << 20, 5, 0)  # the checksum is right


def test_cut_and_damaged_batches_are_refused() -> None:
    complete = batch(b"a", b"b")
    for size in range(1, len(complete)):
        with pytest.raises(CorruptRecordError):
            assign_offsets(bytearray(complete[:size]), 0, 1 << 20, 0, 0)
    for position in range(8, len(complete)):
        if not 12 <= position < 16:  # the epoch, which is written over
            data = bytearray(complete)
            data[position] ^= 4
            with pytest.raises(CorruptRecordError):
                assign_offsets(data, 0, 1 << 20, 0, 0)
    with pytest.raises(CorruptRecordError):
        assign_offsets(bytearray(complete), 0, 1 << 20, 2**63 - 1, 0)
