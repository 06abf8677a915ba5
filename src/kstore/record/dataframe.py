"""Columns as a pandas.DataFrame: one row a record, keys and values copied as bytes."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from kstore.record.columns import Columns

try:
    import pandas as pd
except ImportError as error:
    raise ImportError(
        "DataFrames need pandas: install it by `pip install 'kstore[pandas]'`"
    ) from error


def to_dataframe(blocks: Iterable[Columns]) -> Any:
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
    moments[milliseconds < 0] = np.datetime64("NaT")
    return pd.DataFrame(
        {
            "offset": np.concatenate(offsets),
            "timestamp": pd.Series(moments).dt.tz_localize("UTC"),
            "key": pd.Series(keys, dtype=object),
            "value": pd.Series(values, dtype=object),
            "headers": pd.Series(headers, dtype=object),
        }
    )
