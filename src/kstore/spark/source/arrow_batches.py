"""Columns of the engine as Arrow batches with the types of Spark's Kafka connector.

Spark takes exactly its own types: no views, no dictionaries, microseconds. So keys, values and
headers are copied once, by a kernel, into Arrow's buffers; offsets are handed over as they are.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from kstore._native.format import ragged_bytes
from kstore.record.columns import Columns, Headers, Ragged
from kstore.spark.source.schema import HEADERS

MOST_MS = (2**63 - 1) // 1000  # of Spark's times, which are microseconds
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
    """Makes Arrow batches of some of the connector's columns, for one partition of a topic."""

    def __init__(self, columns: tuple[str, ...], topic: str, partition: int) -> None:
        self.schema = pa.schema([pa.field(name, _TYPES[name]) for name in columns])
        self._topic = topic
        self._partition = partition
        self._constant: dict[tuple[str, int], Any] = {}  # of as many rows as were needed so far

    def make(self, columns: Columns) -> Any:
        """A ``pyarrow.RecordBatch``; it owns its bytes but for the columns' own numbers."""
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
        """The same value in every row, made once and sliced."""
        found = self._constant.get((name, number))
        if found is None or len(found) < count:
            value = self._topic if name == "topic" else number
            found = pa.repeat(pa.scalar(value, _TYPES[name]), max(count, 1 << 14))
            self._constant[name, number] = found
        return found.slice(0, count)


def microseconds(timestamps: Any) -> Any:
    """Milliseconds as Spark counts time, within what it holds."""
    return within_spark(timestamps) * 1000


def within_spark(timestamps: Any) -> Any:
    """Milliseconds; what Spark's range does not hold is its first or last moment."""
    if len(timestamps) and (int(timestamps.max()) > MOST_MS or int(timestamps.min()) < -MOST_MS):
        return np.clip(timestamps, -MOST_MS, MOST_MS)
    return timestamps


def pack(rows: Ragged, kind: Any) -> Any:
    """Rows as an Arrow array with int32 offsets: the bytes copied, one after another."""
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
    """A list of name and value for each row; null for a row without, as the connector has it."""
    kind, count = _TYPES[HEADERS], len(headers)
    if not headers.counts.any():
        return pa.nulls(count, kind)
    names, values = headers.places()
    starts = np.zeros(count + 1, np.int32)
    np.cumsum(headers.counts, out=starts[1:])
    text = pack(names, pa.string())
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:  # not UTF-8: as Java decodes it
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
