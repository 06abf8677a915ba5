"""A task's records as Parquet files, written by pyarrow from the engine's columns; no JVM.

One file for each range and date, under a name of this attempt's own in the staging folder; the
driver puts finished ones in place (:mod:`kstore.spark.jobs.export_target`). Columns and types are
those of Spark's Kafka connector, but for the topic, which the layout names, and milliseconds.
"""

import os
import socket
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from kstore.record.columns import Columns
from kstore.spark.local_disk import local_disk
from kstore.spark.source.arrow_batches import BatchMaker, within_spark
from kstore.spark.source.offset_ranges import OffsetRange
from kstore.spark.source.schema import HEADERS

NO_DATE = "__HIVE_DEFAULT_PARTITION__"  # how such layouts name what is null
COMPRESSIONS = ("snappy", "zstd", "lz4", "gzip", "none")
_GROUP_SIZE = 32 << 20  # bytes of records in memory, of all open files
_OPEN = 8  # files at a time: records of more dates than that in turn make more files
_DAY_MS = 86_400_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # of the years 1 and 9999
_ORDER = ("key", "value", HEADERS, "partition", "offset", "timestamp", "timestampType")
_TIMES = pa.timestamp("ms", "UTC")
_STATISTICS = ["partition", "offset", "timestamp", "timestampType"]
# Values rarely repeat: a dictionary of them costs time and is given up on the way.
_DICTIONARIES = ["partition", "timestampType", "headers.list.element.key"]
_ENCODINGS = {
    "offset": "DELTA_BINARY_PACKED",
    "timestamp": "DELTA_BINARY_PACKED",
    "key": "PLAIN",
    "value": "PLAIN",
    "headers.list.element.value": "PLAIN",
}


@dataclass(frozen=True, slots=True)
class Written:
    """A finished file: where a task put it, and where it belongs below the target."""

    staged: str
    name: str
    topic: str
    partition: int
    first: int
    last: int
    records: int
    size: int
    host: str = ""  # of the task


def date_of(day: int) -> str:
    """A day since 1970 as layouts write it; one that no calendar has is null."""
    if not _FIRST_DAY <= day <= _LAST_DAY:
        return NO_DATE
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)
    return f"{moment:%Y-%m-%d}".rjust(10, "0")


def place_of(topic: str, date: str, partition: int, first: int, last: int) -> str:
    """Where a file belongs: records of one partition and date, named by their offsets."""
    name = f"{partition:05}-{first:020}-{last:020}.parquet"
    return os.path.join(f"topic={topic}", f"date={date}", name)


def write_ranges(
    found: Iterable[tuple[OffsetRange, Columns]], folder: str, tag: str, compression: str
) -> list[Written]:
    """Write all records, and return the files once they are on disk.

    Memory: 32 MiB of records, as Arrow and once more as they are encoded, and a batch.
    """
    written: list[Written] = []
    of: OffsetRange | None = None
    writer: _RangeWriter | None = None
    try:
        for each, columns in found:
            if writer is None or each is not of:
                if writer is not None:
                    written += writer.finish()
                writer, of = _RangeWriter(each, folder, tag, compression), each
            writer.add(columns)
        if writer is not None:
            written += writer.finish()
            writer = None
    finally:
        if writer is not None:
            writer.abandon()
    return written


class _RangeWriter:
    """The files of one range, open ones by day."""

    def __init__(self, of: OffsetRange, folder: str, tag: str, compression: str) -> None:
        self._of = of
        self._folder = folder
        self._tag = tag
        self._compression = compression
        self._maker = BatchMaker(
            tuple(name for name in _ORDER if name != "timestamp"), of.topic, of.partition
        )
        fields = list(self._maker.schema)
        fields.insert(_ORDER.index("timestamp"), pa.field("timestamp", _TIMES))
        self._schema = pa.schema(fields)
        self._open: dict[int, _File] = {}  # the one written last at the end
        self._done: list[Written] = []

    def add(self, columns: Columns) -> None:
        for day, part in _by_day(columns):
            file = self._open.pop(day, None)
            if file is None:
                file = self._make(day)
            self._open[day] = file
            file.add(self._batch(part))
        held = sum(each.held for each in self._open.values())
        while held > _GROUP_SIZE:
            fullest = max(self._open.values(), key=lambda each: each.held)
            held -= fullest.held
            fullest.write_group()

    def finish(self) -> list[Written]:
        for day in list(self._open):
            self._close(day)
        return self._done

    def abandon(self) -> None:
        """Let go of what is open; the files go with the staging folder's next cleaning."""
        for file in self._open.values():
            file.abandon()

    def _make(self, day: int) -> "_File":
        if len(self._open) >= _OPEN:
            self._close(next(iter(self._open)))
        path = os.path.join(self._folder, f"{self._tag}-{uuid.uuid4().hex}.parquet")
        return _File(path, self._schema, self._compression)

    def _close(self, day: int) -> None:
        file, of = self._open.pop(day), self._of
        size = file.close()
        name = place_of(of.topic, date_of(day), of.partition, file.first, file.last)
        self._done.append(
            Written(
                file.path,
                name,
                of.topic,
                of.partition,
                file.first,
                file.last,
                file.records,
                size,
                socket.gethostname(),
            )
        )

    def _batch(self, columns: Columns) -> Any:
        arrays = list(self._maker.make(columns).columns)
        times = within_spark(columns.timestamps)
        buffer = pa.py_buffer(np.ascontiguousarray(times))
        made = pa.Array.from_buffers(_TIMES, len(columns), [None, buffer], 0)
        arrays.insert(_ORDER.index("timestamp"), made)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _by_day(columns: Columns) -> Iterator[tuple[int, Columns]]:
    """The columns in parts of one day (UTC) each, in order of the days' first record."""
    times = columns.timestamps
    low, high = int(times.min()) // _DAY_MS, int(times.max()) // _DAY_MS
    if low == high:
        yield low, columns
        return
    days = times // _DAY_MS
    for day in dict.fromkeys(days.tolist()):
        yield day, columns[np.flatnonzero(days == day)]


class _File:
    """One Parquet file; what it holds in memory is one row group in the making."""

    def __init__(self, path: str, schema: Any, compression: str) -> None:
        self.path = path
        self.first = self.last = -1
        self.records = 0
        self.held = 0
        self._schema = schema
        self._batches: list[Any] = []
        self._writer = parquet.ParquetWriter(
            path,
            schema,
            compression=compression,
            use_dictionary=_DICTIONARIES,
            column_encoding=_ENCODINGS,
            write_statistics=_STATISTICS,
            store_schema=False,
        )

    def add(self, batch: Any) -> None:
        offsets = batch.column(_ORDER.index("offset"))
        if self.first < 0:
            self.first = offsets[0].as_py()
        self.last = offsets[len(offsets) - 1].as_py()
        self.records += len(offsets)
        self.held += batch.nbytes
        self._batches.append(batch)

    def write_group(self) -> None:
        if self._batches:
            self._writer.write_table(pa.Table.from_batches(self._batches, self._schema))
            self._batches, self.held = [], 0

    def close(self) -> int:
        """The file's size, once it is on disk."""
        self.write_group()
        self._writer.close()
        files = local_disk()
        fd = files.open(self.path)
        try:
            files.fsync(fd)
            return files.size(fd)
        finally:
            files.close(fd)

    def abandon(self) -> None:
        self._batches = []
        self._writer.close()
