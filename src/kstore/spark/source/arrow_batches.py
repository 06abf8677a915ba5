"""Columns of records as Arrow batches with the types of Spark's Kafka connector.

Spark accepts only its own types: no views, no dictionaries, microseconds. So a kernel copies keys,
values and headers once into Arrow buffers; offsets are passed on without a copy.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from kstore._native.format import ragged_bytes
from kstore.record.columns import Columns, Headers, Ragged
from kstore.spark.source.schema import HEADERS

MAX_MS = (2**63 - 1) // 1000  # the largest time of Spark, which counts microseconds
_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
    HEADERS: pa.list_(pa.field("element", _HEADER)),
}


class BatchMaker:
    """Converts columns to Arrow batches with some of the connector's columns, for a partition."""

    def __init__(self, columns: tuple[str, ...], topic: str, partition: int) -> None:
        self.schema = pa.schema([pa.field(name, _TYPES[name]) for name in columns])
        self._topic = topic
        self._partition = partition
        self._constant: dict[tuple[str, int], Any] = {}  # with the largest row count so far

    def make(self, columns: Columns) -> Any:
        """A ``pyarrow.RecordBatch``; it owns its bytes, but shares the columns' offsets."""
        arrays = [self._array(name, columns) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _array(self, name: str, columns: Columns) -> Any:
        if name == "key":
            return pack(columns.keys, _TYPES[name])
        if name == "value":
            return pack(columns.values, _TYPES[name])
        if name == "offset":
            return _numbers(_TYPES[name], columns.offsets)
        if name == "timestamp":
            return _numbers(_TYPES[name], microseconds(columns.timestamps))
        if name == HEADERS:
            return _headers(columns.headers)
        if name == "topic":
            return self._repeated(name, 0, len(columns))
        number = self._partition if name == "partition" else columns.timestamp_type
        return self._repeated(name, number, len(columns))

    def _repeated(self, name: str, number: int, count: int) -> Any:
        """The same value in every row: a slice of a cached array."""
        array = self._constant.get((name, number))
        if array is None or len(array) < count:
            value = self._topic if name == "topic" else number
            array = pa.repeat(pa.scalar(value, _TYPES[name]), max(count, 1 << 14))
            self._constant[name, number] = array
        return array.slice(0, count)


def microseconds(timestamps: Any) -> Any:
    """Milliseconds as microseconds, clipped to the range of Spark's timestamps."""
    return within_spark(timestamps) * 1000


def within_spark(timestamps: Any) -> Any:
    """Milliseconds, clipped to the range of Spark's timestamps."""
    if len(timestamps) and (int(timestamps.max()) > MAX_MS or int(timestamps.min()) < -MAX_MS):
        return np.clip(timestamps, -MAX_MS, MAX_MS)
    return timestamps


def pack(rows: Ragged, kind: Any) -> Any:
    """Copy rows into an Arrow array with int32 offsets."""
    count = len(rows)
    offsets = pa.allocate_buffer(4 * (count + 1))
    values = pa.allocate_buffer(ragged_bytes.total_size(rows.lengths))
    null_count = ragged_bytes.pack(
        rows.data,
        np.ascontiguousarray(rows.positions),
        np.ascontiguousarray(rows.lengths),
        offsets,
        values,
    )
    validity = None
    if null_count:
        validity = pa.py_buffer(np.packbits(~rows.is_null, bitorder="little"))
    return pa.Array.from_buffers(kind, count, [validity, offsets, values], null_count)


def _numbers(kind: Any, values: Any) -> Any:
    return pa.Array.from_buffers(
        kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))], 0
    )


def _headers(headers: Headers) -> Any:
    """A list of name and value for each row; null for a row without headers, as the connector."""
    kind, count = _TYPES[HEADERS], len(headers)
    if not headers.counts.any():
        return pa.nulls(count, kind)
    names, values = headers.names_and_values()
    starts = np.zeros(count + 1, np.int32)
    np.cumsum(headers.counts, out=starts[1:])
    text = pack(names, pa.string())
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:  # not UTF-8: replaced as Java does
        replaced = [(name or b"").decode("utf-8", "replace") for name in names.to_list()]
        text = pa.array(replaced, pa.string())
    pairs = pa.StructArray.from_arrays([text, pack(values, pa.binary())], fields=list(_HEADER))
    present = headers.counts > 0
    validity = None
    if not present.all():
        validity = pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.Array.from_buffers(
        kind, count, [validity, pa.py_buffer(starts)], -1, children=[pairs]
    )
