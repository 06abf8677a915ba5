"""Columns as a pandas.DataFrame: one row a record, keys and values copied as bytes."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from kstore.record.columns import Columns

try:
    import pandas as pd
except ImportError as error:
    raise ImportError(
        "DataFrames need pandas: install it by `pip install 'kstore[pandas]'`"
    ) from error


def to_dataframe(blocks: Iterable["Columns"]) -> Any:
    """A ``pandas.DataFrame`` with offset, timestamp (UTC), key, value and headers."""
    offsets: list[Any] = [np.empty(0, np.int64)]
    times: list[Any] = [np.empty(0, np.int64)]
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    headers: list[Any] = []
    for columns in blocks:
        offsets.append(columns.offsets)
        times.append(columns.timestamps)
        keys += columns.keys.to_list()
        values += columns.values.to_list()
        has_headers = columns.headers.counts.any()
        headers += columns.headers.to_list() if has_headers else [()] * len(columns)
    milliseconds = np.concatenate(times)
    moments = milliseconds.astype("datetime64[ms]")
    moments[milliseconds < 0] = np.datetime64("NaT", "ms")
    return pd.DataFrame(
        {
            "offset": np.concatenate(offsets),
            "timestamp": pd.Series(moments).dt.tz_localize("UTC"),
            "key": pd.Series(keys, dtype=object),
            "value": pd.Series(values, dtype=object),
            "headers": pd.Series(headers, dtype=object),
        }
    )


def to_dataframe_of_partitions(parts: Iterable[tuple[int, Iterable["Columns"]]]) -> Any:
    """A frame of (partition, Columns): a column ``partition``, then those of a log's frame."""
    numbers: list[Any] = [np.empty(0, np.int32)]

    def blocks() -> "Iterator[Columns]":
        for partition, found in parts:
            for columns in found:
                numbers.append(np.full(len(columns), partition, np.int32))
                yield columns

    frame = to_dataframe(blocks())
    frame.insert(0, "partition", np.concatenate(numbers))
    return frame
