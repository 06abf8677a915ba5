"""Writes a task's records to Parquet files: pyarrow, from the engine's columns, without the JVM.

There is one file for each range and date. A task writes it into the staging directory, under a name
that no other attempt uses; the driver renames finished files
(:mod:`kstore.spark.jobs.export_target`). Columns and types are those of Spark's Kafka connector,
except that the directory names the topic and timestamps are milliseconds.
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

from kstore.partition_files import OpenFile
from kstore.record.columns import Columns
from kstore.spark.local_disk import local_disk
from kstore.spark.source.arrow_batches import BatchMaker, within_spark
from kstore.spark.source.offset_ranges import OffsetRange
from kstore.spark.source.schema import HEADERS

NO_DATE = "__HIVE_DEFAULT_PARTITION__"  # Hive's name of a null partition value
COMPRESSIONS = ("snappy", "zstd", "lz4", "gzip", "none")
_MAX_BUFFERED = 32 << 20  # bytes of records in memory, of all open files
_MAX_OPEN = 8  # files; more interleaved dates give several files per date
_DAY_MS = 86_400_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # of the years 1 and 9999
_ORDER = ("key", "value", HEADERS, "partition", "offset", "timestamp", "timestampType")
_TIMES = pa.timestamp("ms", "UTC")
_STATISTICS = ["partition", "offset", "timestamp", "timestampType"]
# Values rarely repeat: pyarrow would spend time on a dictionary of them and then drop it.
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
    """A finished file of a task."""

    staged: str  # path in the staging directory
    name: str  # path below the target
    topic: str
    partition: int
    first: int
    last: int
    records: int
    size: int
    host: str = ""  # of the task


def date_of(day: int) -> str:
    """The date of a day, counted from 1970, in a path; NO_DATE outside the years 1 to 9999."""
    if not _FIRST_DAY <= day <= _LAST_DAY:
        return NO_DATE
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)
    return f"{moment:%Y-%m-%d}".rjust(10, "0")


def file_name(topic: str, date: str, partition: int, first: int, last: int) -> str:
    """The path, below the target, of a file with a partition's records of one date."""
    name = f"{partition:05}-{first:020}-{last:020}.parquet"
    return os.path.join(f"topic={topic}", f"date={date}", name)


def write_ranges(
    records: Iterable[tuple[OffsetRange, Columns]], folder: str, tag: str, compression: str
) -> list[Written]:
    """Write all records, and return the files when they are on disk.

    Peak memory: 32 MiB of records as Arrow, the same records encoded, and one batch.
    """
    written: list[Written] = []
    current: OffsetRange | None = None
    writer: _RangeWriter | None = None
    try:
        for offsets, columns in records:
            if writer is None or offsets is not current:
                if writer is not None:
                    written += writer.finish()
                writer, current = _RangeWriter(offsets, folder, tag, compression), offsets
            writer.add(columns)
        if writer is not None:
            written += writer.finish()
            writer = None
    finally:
        if writer is not None:
            writer.abandon()
    return written


class _RangeWriter:
    """Writes the files of one range, one for each day."""

    def __init__(self, offsets: OffsetRange, folder: str, tag: str, compression: str) -> None:
        self._offsets = offsets
        self._folder = folder
        self._tag = tag
        self._compression = compression
        self._maker = BatchMaker(
            tuple(name for name in _ORDER if name != "timestamp"), offsets.topic, offsets.partition
        )
        fields = list(self._maker.schema)
        fields.insert(_ORDER.index("timestamp"), pa.field("timestamp", _TIMES))
        self._schema = pa.schema(fields)
        self._open: dict[int, _File] = {}  # by day, least recently written first
        self._finished: list[Written] = []

    def add(self, columns: Columns) -> None:
        for day, columns_of_day in _by_day(columns):
            file = self._open.pop(day, None)
            if file is None:
                file = self._create()
            self._open[day] = file
            file.add(self._to_batch(columns_of_day))
        buffered = sum(file.buffered for file in self._open.values())
        while buffered > _MAX_BUFFERED:
            fullest = max(self._open.values(), key=lambda file: file.buffered)
            buffered -= fullest.buffered
            fullest.write_group()

    def finish(self) -> list[Written]:
        for day in list(self._open):
            self._close(day)
        return self._finished

    def abandon(self) -> None:
        """Close the open files; the next export removes them from the staging directory."""
        for file in self._open.values():
            file.abandon()

    def _create(self) -> "_File":
        if len(self._open) >= _MAX_OPEN:
            self._close(next(iter(self._open)))
        path = os.path.join(self._folder, f"{self._tag}-{uuid.uuid4().hex}.parquet")
        return _File(path, self._schema, self._compression)

    def _close(self, day: int) -> None:
        file, of = self._open.pop(day), self._offsets
        size = file.close()
        name = file_name(of.topic, date_of(day), of.partition, file.first, file.last)
        self._finished.append(
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

    def _to_batch(self, columns: Columns) -> Any:
        arrays = list(self._maker.make(columns).columns)
        times = within_spark(columns.timestamps)
        buffer = pa.py_buffer(np.ascontiguousarray(times))
        timestamps = pa.Array.from_buffers(_TIMES, len(columns), [None, buffer], 0)
        arrays.insert(_ORDER.index("timestamp"), timestamps)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _by_day(columns: Columns) -> Iterator[tuple[int, Columns]]:
    """The columns of each day (UTC), in order of the first record of each day."""
    times = columns.timestamps
    low, high = int(times.min()) // _DAY_MS, int(times.max()) // _DAY_MS
    if low == high:
        yield low, columns
        return
    days = times // _DAY_MS
    for day in dict.fromkeys(days.tolist()):
        yield day, columns[np.flatnonzero(days == day)]


class _File:
    """One open Parquet file, which buffers the batches of its next row group."""

    def __init__(self, path: str, schema: Any, compression: str) -> None:
        self.path = path
        self.first = self.last = -1
        self.records = 0
        self.buffered = 0  # bytes
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
        self.buffered += batch.nbytes
        self._batches.append(batch)

    def write_group(self) -> None:
        if self._batches:
            self._writer.write_table(pa.Table.from_batches(self._batches, self._schema))
            self._batches, self.buffered = [], 0

    def close(self) -> int:
        """Finish and sync the file, and return its size."""
        self.write_group()
        self._writer.close()
        files = local_disk()
        with OpenFile(files, self.path) as fd:
            files.fsync(fd)
            return files.size(fd)

    def abandon(self) -> None:
        self._batches = []
        self._writer.close()
