"""Columns as Arrow: values and keys are views into the log's own bytes, not copies.

The schema of a table of records:

=========== ============================= ==============================================
offset      int64
timestamp   timestamp[ms, tz=UTC]         null where the record has none
key         binary_view                   null where Kafka has null
value       binary_view                   null where Kafka has null
headers     list<struct<key, value>>      key: large_string, value: large_binary
=========== ============================= ==============================================

Arrow's binary_view holds rows of at most 12 bytes inside itself and points to longer ones, so
only short rows are copied. A table keeps the mapped segment (or the decompressed bytes) alive.
Cast a column with ``column.cast("binary")`` for tools that do not know views. Headers are copied:
pyarrow's Parquet writer does not write views inside lists.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from kstore._native.format import ragged_bytes

if TYPE_CHECKING:
    from kstore.record.columns import Columns, Headers, Ragged

try:
    import pyarrow as pa
except ImportError as error:
    raise ImportError(
        "Arrow tables need pyarrow: install it by `pip install kstore[arrow]`"
    ) from error

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("key", pa.binary_view()),
        pa.field("value", pa.binary_view()),
        pa.field(
            "headers",
            pa.list_(
                pa.struct(
                    [
                        pa.field("key", pa.large_string(), nullable=False),
                        pa.field("value", pa.large_binary()),
                    ]
                )
            ),
            nullable=False,
        ),
    ]
)


def to_record_batch(columns: "Columns") -> Any:
    """A ``pyarrow.RecordBatch`` of :data:`SCHEMA`."""
    missing = columns.timestamps < 0
    return pa.RecordBatch.from_arrays(
        [
            _number_array(pa.int64(), columns.offsets, None),
            _number_array(pa.timestamp("ms", tz="UTC"), columns.timestamps, missing),
            _view_array(columns.keys, pa.binary_view()),
            _view_array(columns.values, pa.binary_view()),
            _header_array(columns.headers),
        ],
        schema=SCHEMA,
    )


def to_table(parts: Iterable["Columns"]) -> Any:
    """A ``pyarrow.Table`` of :data:`SCHEMA`, one chunk for each of the Columns."""
    return pa.Table.from_batches([to_record_batch(columns) for columns in parts], SCHEMA)


def to_table_of_partitions(parts: Iterable[tuple[int, Iterable["Columns"]]]) -> Any:
    """A table of (partition, Columns): a column ``partition``, then those of :data:`SCHEMA`."""
    schema = SCHEMA.insert(0, pa.field("partition", pa.int32(), nullable=False))
    batches = []
    for partition, blocks in parts:
        for columns in blocks:
            numbers = pa.array(np.full(len(columns), partition, np.int32))
            arrays = [numbers, *to_record_batch(columns).columns]
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema)


def _validity(missing: Any) -> Any:
    """Arrow's bitmap of rows that are not null; None if none is null."""
    if missing is None or not missing.any():
        return None
    return pa.py_buffer(np.packbits(~missing, bitorder="little"))


def _number_array(kind: Any, values: Any, missing: Any) -> Any:
    buffers = [_validity(missing), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(kind, len(values), buffers)


def _view_array(rows: "Ragged", kind: Any) -> Any:
    views = np.empty(16 * len(rows), np.uint8)
    ragged_bytes.binary_views(rows.data, rows.positions, rows.lengths, views)
    buffers = [_validity(rows.is_null), pa.py_buffer(views), pa.py_buffer(rows.data)]
    return pa.Array.from_buffers(kind, len(rows), buffers)


def _header_array(headers: "Headers") -> Any:
    names, values = headers.names_and_values()
    starts = np.zeros(len(headers) + 1, np.int32)
    np.cumsum(headers.counts, out=starts[1:])
    kind = SCHEMA.field("headers").type
    try:
        text = _view_array(names, pa.binary_view()).cast(pa.large_string())  # checks the UTF-8
    except pa.ArrowInvalid:  # a name that is not UTF-8 is kept readable by replacement
        replaced = [(name or b"").decode("utf-8", "replace") for name in names.to_list()]
        text = pa.array(replaced, pa.large_string())
    contents = _view_array(values, pa.binary_view()).cast(pa.large_binary())
    pairs = pa.StructArray.from_arrays([text, contents], fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array(starts), pairs, type=kind)
