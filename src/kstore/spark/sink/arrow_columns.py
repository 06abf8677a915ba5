"""Columns of Arrow batches as arguments of the kernels that encode rows as records."""

from typing import Any

import numpy as np
import pyarrow as pa

from kstore._native.spark.encode_arrow import ArrowBinary, ArrowHeaders
from kstore.errors import InvalidRecordError

_NO_TIME = -(1 << 63)


def given_times(batch: Any, times: Any) -> Any:
    """The timestamps of the rows; INT64_MIN for a row without: staging sets the current time."""
    if "timestamp" not in batch.schema.names:
        return np.full(batch.num_rows, _NO_TIME, np.int64)
    column = batch.column("timestamp")
    if not column.null_count:
        return times
    return np.where(column.is_null().to_numpy(zero_copy_only=False), _NO_TIME, times)


def as_binary(column: Any) -> Any:
    """The column, cast to binary if its buffers are not a bitmap, offsets and data."""
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return column
    if pa.types.is_large_binary(kind) or pa.types.is_large_string(kind):
        return column
    return column.cast(pa.binary())


def binary_column(column: Any) -> ArrowBinary:
    """The buffers of a column of bytes or text."""
    column = as_binary(column)
    validity, offsets, data = column.buffers()
    wide = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    if column.null_count == 0:
        validity = None
    return ArrowBinary(len(column), column.offset, validity, offsets, data, wide)


def header_column(column: Any) -> ArrowHeaders | None:
    """The buffers of a column of headers; None if no row has headers."""
    if column.null_count == len(column):
        return None
    pairs = column.values
    if pairs.null_count:
        raise InvalidRecordError("a header is null: remove it from the row's array")
    validity, offsets = column.buffers()[:2]
    wide = pa.types.is_large_list(column.type)
    lists = ArrowBinary(len(column), column.offset, validity, offsets, None, wide)
    return ArrowHeaders(lists, binary_column(pairs.field(0)), binary_column(pairs.field(1)))
