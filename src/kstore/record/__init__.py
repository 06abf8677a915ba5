"""What a record is: objects, columns, batches, codecs, times.

Modules:

- arrow: Columns as Arrow: values and keys are views into the log's own bytes, not copies
- builder: Records in, one complete batch of bytes out
- codec: The codecs of Kafka's batches by their ids: gzip 1, snappy 2, lz4 3, zstd 4
- columns: Records as columns: NumPy views of a run of records, keys and values left where they are
- dataframe: Columns as a pandas.DataFrame: one row a record, keys and values copied as bytes
- format_conversion: Batches of one message format turned into another: v0, v1 and v2, up and down
- guessed_names: Advice for names of Kafka's clients and data frames that headers and columns lack
- memory_size: How much memory an unwritten record is counted with
- scan: From file bytes to records, batch after batch, decompressing where needed
- split: A batch v2 as several smaller ones, where it is larger than a topic takes
- timestamp: Aware datetimes at the edge, milliseconds since 1970 (UTC) inside

Records are parsed and encoded by ``_native/format``, ``_native/read`` and ``_native/append``.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from kstore._native.format.record import Record as Record
from kstore.record import guessed_names as guessed_names

# The time of a record, as a caller gives it: aware, or milliseconds since 1970; None: now.
Timestamp = datetime | int | None
# What extend takes for a record: a value, a pair (key, value), or a Record.
Item = bytes | tuple[bytes | None, bytes | None] | Record | None
# The headers of a record, as a caller gives them.
Headers = (
    Mapping[str, bytes | None]
    | Mapping[bytes, bytes | None]
    | Iterable[tuple[str | bytes, bytes | None]]
)


def header_pairs(headers: Headers) -> list[tuple[str | bytes, bytes | None]]:
    """Headers as (name, value) pairs, in order; the encoder checks the types of both.

    Raises TypeError for what has no pairs.
    """
    if isinstance(headers, Mapping):
        return list(headers.items())
    if not isinstance(headers, Iterable) or isinstance(headers, str | bytes):
        Record(headers=headers)  # raises the error
    return list(headers)


__all__ = ["Headers", "Item", "Record", "Timestamp", "header_pairs"]
