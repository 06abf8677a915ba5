"""The executors' side of a restore: reads and filters chunks, and stages or sends their records.

A chunk is a range of offsets of one partition of the source: segments, which the engine reads, or
Parquet files, whose rows are sorted by offset here. The result is a staged file of record batches
v2, or records that a cluster has acknowledged.
"""

import os
import re
import socket
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kstore._native.append.encode import BatchBuffer
from kstore._native.spark.encode_arrow import put_rows, sum_row_hashes
from kstore.errors import InvalidRecordError, KStoreError, MessageTooLargeError
from kstore.partition_files import StagedRange, absolute_paths, batch_fields, filenames
from kstore.record import codec
from kstore.record.split import split_to_fit
from kstore.spark.jobs.cluster_sender import Sender
from kstore.spark.jobs.restore_types import Chunk, Encoding, Filter, Written
from kstore.spark.local_disk import local_disk
from kstore.spark.sink.arrow_columns import binary_column, header_column
from kstore.spark.source.arrow_batches import BatchMaker
from kstore.spark.source.batch_plan import report_lost_segments
from kstore.spark.source.offset_ranges import OffsetRange, SegmentSpan
from kstore.spark.source.range_reader import RangeReader, check_visible, open_store

_COLUMNS = ("key", "value", "headers", "offset", "timestamp")
_MAX_PARTITIONS = 1 << 16  # of a topic; a Parquet file with a larger number is refused
_MS = pa.timestamp("ms", "UTC")
_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    "offset": pa.int64(),
    "timestamp": _MS,
    "topic": pa.string(),
}
_WRITE_SIZE = 1 << 20  # bytes of one write to the staged file
_ROWS = 1 << 16  # rows of Parquet read at a time


# --- reading --------------------------------------------------------------------------------------


def apply_filter(chosen: Filter, batch: Any) -> Any:
    """The rows of an Arrow batch or table that the filter accepts."""
    mask = None
    times = batch.column("timestamp").cast(pa.int64())
    tests = []
    if chosen.since is not None:
        tests.append(pc.greater_equal(times, chosen.since))
    if chosen.until is not None:
        tests.append(pc.less(times, chosen.until))
    if chosen.keys:
        keys = pa.array(chosen.keys, pa.binary())
        tests.append(pc.is_in(batch.column("key").cast(pa.binary()), value_set=keys))
    if chosen.key_pattern is not None:
        pattern = re.compile(chosen.key_pattern.encode())
        matches = [
            key is not None and pattern.search(key) is not None
            for key in batch.column("key").cast(pa.binary()).to_pylist()
        ]
        tests.append(pa.array(matches, pa.bool_()))
    for test in tests:
        mask = test if mask is None else pc.and_(mask, test)
    return batch if mask is None else batch.filter(mask)


def read_chunk(chunk: Chunk) -> Iterator[Any]:
    """Arrow batches of the chunk's records in the order of their offsets."""
    if chunk.parquet:
        yield from _read_parquet(chunk)
        return
    check_visible(local_disk(), chunk.paths)
    paths, fail = absolute_paths(list(chunk.paths)), chunk.fail_on_data_loss
    log = open_store(paths)[chunk.topic][chunk.partition]
    lost = report_lost_segments([(log, chunk.start, chunk.stop)], fail)
    start = max([chunk.start, *(each.stop for each in lost if each.start == chunk.start)])
    if start >= chunk.stop:
        return
    # Without a path the reader searches the log, and reports what retention deletes meanwhile.
    span = SegmentSpan(start, chunk.stop, "", 0, 0, 0, chunk.stop)
    wanted = OffsetRange(chunk.topic, chunk.partition, start, chunk.stop, (span,))
    maker = BatchMaker(_COLUMNS[:-1], chunk.topic, chunk.partition)
    reader = RangeReader(paths, chunk.isolation, fail, skip_damage=False)
    for _, columns in reader.read([wanted]):
        times = pa.array(columns.timestamps, _MS)  # BatchMaker's are limited to Spark's range
        rows = apply_filter(chunk.chosen, maker.make(columns).append_column("timestamp", times))
        if rows.num_rows:
            yield rows


def _read_parquet(chunk: Chunk) -> Iterator[Any]:
    batches = []
    for path in chunk.paths:
        with open_parquet(path) as file:
            groups = [n for n in range(file.num_row_groups) if _overlaps(file, n, chunk)]
            names = file.schema_arrow.names
            columns = [name for name in (*_COLUMNS, "partition") if name in names]
            has_topic = "topic" in names
            for batch in file.iter_batches(
                _ROWS, row_groups=groups, columns=[*columns, *["topic"] * has_topic]
            ):
                rows = _rows_of_chunk(batch, chunk, has_topic, path)
                if rows.num_rows:
                    batches.append(apply_filter(chunk.chosen, _cast_columns(rows, path)))
    if not batches:
        return
    table = pa.Table.from_batches(batches)
    table = table.take(pc.sort_indices(table, [("offset", "ascending")]))
    yield from _drop_duplicates(table).combine_chunks().to_batches(_ROWS)


def _overlaps(file: Any, group: int, chunk: Chunk) -> bool:
    """Whether a row group may have offsets of the chunk, by its statistics."""
    metadata = file.metadata.row_group(group)
    for n in range(metadata.num_columns):
        column = metadata.column(n)
        if column.path_in_schema == "offset" and column.statistics is not None:
            statistics = column.statistics
            if statistics.has_min_max:
                return bool(statistics.max >= chunk.start and statistics.min < chunk.stop)
    return True


def _rows_of_chunk(batch: Any, chunk: Chunk, has_topic: bool, path: str) -> Any:
    """The rows of the chunk's partition and offsets."""
    offsets = batch.column("offset")
    mask = pc.and_(
        pc.equal(batch.column("partition"), chunk.partition),
        pc.and_(pc.greater_equal(offsets, chunk.start), pc.less(offsets, chunk.stop)),
    )
    if has_topic:
        mask = pc.and_(mask, pc.equal(_cast(batch.column("topic"), "topic", path), chunk.topic))
    return batch.filter(mask)


def _cast_columns(batch: Any, path: str) -> Any:
    """The columns from which a batch is encoded, with the types of Spark's sink."""
    count, names = batch.num_rows, batch.schema.names
    columns = [
        _cast(batch.column(name), name, path) if name in names else pa.nulls(count, _TYPES[name])
        for name in _COLUMNS
    ]
    return pa.RecordBatch.from_arrays(columns, list(_COLUMNS))


def _cast(column: Any, name: str, path: str) -> Any:
    """A column of a file, cast to the type of its name; InvalidRecordError if that fails."""
    target = _TYPES[name]
    try:
        if name == "timestamp" and not pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64()).cast(pa.timestamp("ms"))
        return column.cast(target, safe=False)
    except (pa.ArrowException, TypeError) as error:
        if isinstance(error, MemoryError):
            raise
        raise InvalidRecordError(
            f"the column {name} is {_shorten(column.type)}, which cannot be cast to {target} "
            f"({_first_line(error)}): write the file with that column cast, or without it",
            path=path,
        ) from error


def _shorten(arrow_type: Any) -> str:
    text = str(arrow_type)
    return text if len(text) <= 100 else text[:100] + "..."


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


@contextmanager
def open_parquet(path: str) -> Iterator[Any]:
    """Open a Parquet file; errors of pyarrow become InvalidRecordError with the path."""
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except KStoreError:
        raise
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, MemoryError):
            raise
        raise InvalidRecordError(
            f"this is not a readable Parquet file ({type(error).__name__}: {_first_line(error)}): "
            "restore it from a copy, or remove it from the directory",
            path=path,
        ) from error


def _drop_duplicates(table: Any) -> Any:
    """The first of the rows with the same offset: files may overlap."""
    offsets = table.column("offset").to_numpy()
    keep = np.ones(len(offsets), bool)
    keep[1:] = offsets[1:] != offsets[:-1]
    return table if keep.all() else table.filter(pa.array(keep))


def scan_parquet(path: str, topic: str | None) -> list[tuple[str, int, int, int, int]]:
    """The (topic, partition, first offset, last offset, rows) of each partition in a Parquet file.

    ``topic`` is the topic that its directory names; without one, the file needs a column ``topic``.
    """
    ranges: dict[tuple[str, int], list[int]] = {}
    with open_parquet(path) as file:
        names = file.schema_arrow.names
        missing = [name for name in ("partition", "offset", "value") if name not in names]
        if topic is None and "topic" not in names:
            missing.append("topic (or a folder topic=NAME)")
        if missing:
            raise InvalidRecordError(f"there is no column {', '.join(missing)}", path=path)
        columns = ["partition", "offset", *["topic"] * ("topic" in names)]
        for name in columns[:2]:
            column_type = file.schema_arrow.field(name).type
            if not pa.types.is_integer(column_type):
                raise InvalidRecordError(
                    f"the column {name} is {column_type}, not an integer: cast it", path=path
                )
        empty = file.schema_arrow.empty_table()
        for name in (*_COLUMNS, "topic"):  # report a wrong type before any task starts
            if name in names:
                _cast(empty.column(name), name, path)
        for batch in file.iter_batches(_ROWS, columns=columns):
            if batch.column("partition").null_count or batch.column("offset").null_count:
                raise InvalidRecordError("a row has no partition or no offset", path=path)
            table = pa.Table.from_batches([batch])
            keys = ["partition", *(["topic"] if "topic" in names else [])]
            sums = table.group_by(keys).aggregate(
                [("offset", "min"), ("offset", "max"), ("offset", "count")]
            )
            for row in sums.to_pylist():
                key = (row.get("topic") or topic or "", row["partition"])
                low, high, count = row["offset_min"], row["offset_max"], row["offset_count"]
                if not (0 <= low <= high < 2**63 - 1 and 0 <= key[1] < _MAX_PARTITIONS):
                    raise InvalidRecordError(
                        f"a row has partition {key[1]} and an offset from {low} to {high}: these "
                        "are not valid in a log",
                        path=path,
                    )
                known = ranges.setdefault(key, [low, high, 0])
                known[:] = [min(known[0], low), max(known[1], high), known[2] + count]
    return [(*key, *known) for key, known in ranges.items()]  # type: ignore[misc]


# --- staging batches ------------------------------------------------------------------------------


class _StagedFile:
    """The file to which one attempt of a task writes the batches of its chunk."""

    def __init__(self, chunk: Chunk, encoding: Encoding) -> None:
        self._encoding = encoding
        self._chunk = chunk
        token = uuid.uuid4().hex[:12]
        self.file = (
            f"{filenames.STAGED_PREFIX}{encoding.job}.{chunk.partition}.{chunk.number}.{token}"
        )
        self.path = os.path.join(encoding.log_dirs[0], self.file)
        self._buffer = BatchBuffer()
        self._base = -1  # offset of the batch's first record
        self._unwritten = bytearray()
        self._files = local_disk()
        self._fd = -1
        self._size = 0
        self.ranges: list[StagedRange] = []
        self.count = 0
        self.last_offset = -1
        self._checksum = 0

    def add(self, batch: Any) -> None:
        keys, values = binary_column(batch.column("key")), binary_column(batch.column("value"))
        headers = header_column(batch.column("headers"))
        offsets = batch.column("offset").to_numpy()
        times = milliseconds(batch)
        partitions = np.full(len(offsets), self._chunk.partition, np.int32)
        topic = self._chunk.target.encode()
        added = sum_row_hashes(topic, None, times, partitions, keys, values, headers)
        self._checksum = (self._checksum + added) % (1 << 64)
        boundaries = [0, len(offsets)]
        if self._encoding.keeps_offsets:  # the offsets in a batch are consecutive
            boundaries[1:1] = (np.flatnonzero(np.diff(offsets) != 1) + 1).tolist()
        for start, stop in pairwise(boundaries):
            if self._encoding.keeps_offsets and int(offsets[start]) != self._base + len(
                self._buffer
            ):
                self._finish_batch()
            rows, done = np.arange(start, stop, dtype=np.int64), 0
            while done < len(rows):
                if not len(self._buffer):
                    self._base = int(offsets[start + done])
                done += put_rows(
                    self._buffer, rows, times, keys, values, headers, start=done,
                    size_limit=self._encoding.batch_size,
                )  # fmt: skip
                if done < len(rows) or self._buffer.byte_size >= self._encoding.batch_size:
                    self._finish_batch()
        self.count += len(offsets)
        self.last_offset = int(offsets[-1])

    def _finish_batch(self) -> None:
        buffer, compression = self._buffer, self._encoding.compression
        count = len(buffer)
        if not count:
            return
        if compression:
            with buffer.records as records:
                compressed = codec.compress(compression, 2, records)
            buffer.replace_records(compressed)
        base = self._base if self._encoding.keeps_offsets else 0
        data = buffer.to_bytes(base, self._encoding.leader_epoch, compression)
        buffer.reset()
        exact = self._base if self._encoding.keeps_offsets else None
        for batch in split_to_fit(data, self._encoding.max_batch_size, base_offset=exact):
            if len(batch) > self._encoding.max_batch_size:
                raise MessageTooLargeError(
                    f"a batch with one record for {self._chunk.target}-{self._chunk.partition} has "
                    f"{len(batch)} bytes, but the topic accepts {self._encoding.max_batch_size} "
                    "(max.message.bytes, segment.bytes): raise that limit",
                    offset=batch_fields.base_offset(batch)
                    if self._encoding.keeps_offsets
                    else None,
                )
            self._unwritten += batch
        if len(self._unwritten) >= _WRITE_SIZE:
            self._write()

    def _write(self) -> None:
        data, self._unwritten = self._unwritten, bytearray()
        if not data:
            return
        if self._fd < 0:
            self._fd = self._files.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        self._files.write(self._fd, data)
        self.ranges.append(StagedRange(self.file, self._size, len(data), zlib.crc32(data)))
        self._size += len(data)

    def finish(self) -> Written:
        self._finish_batch()
        self._write()
        self._close()
        host = socket.gethostname()
        return Written(
            tuple(self.ranges), self.count, self.last_offset, self.file, host, self._checksum
        )

    def discard(self) -> None:
        if self._fd >= 0:
            self._close()
            self._files.remove(self.path)

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._files.close(fd)


def milliseconds(batch: Any) -> Any:
    """The timestamps of a batch in ms; -1 for null."""
    numbers = pc.fill_null(batch.column("timestamp").cast(pa.int64()), -1)
    return np.ascontiguousarray(numbers.to_numpy(zero_copy_only=False), np.int64)


def encode(task: tuple[Chunk, Encoding]) -> Written:
    """In an executor: stage the batches of a chunk."""
    chunk, encoding = task
    check_visible(local_disk(), encoding.log_dirs)
    staged = _StagedFile(chunk, encoding)
    try:
        for batch in read_chunk(chunk):
            staged.add(batch)
        return staged.finish()
    except BaseException:
        staged.discard()
        raise


# --- sending to a cluster -------------------------------------------------------------------------


def send(task: tuple[Chunk, str, tuple[tuple[str, Any], ...], str]) -> Written:
    """In an executor: send a chunk's records in order, and wait for all acknowledgements."""
    chunk, servers, settings, compression = task
    count, last = 0, -1
    with Sender(servers, dict(settings), compression) as sender:
        for batch in read_chunk(chunk):
            times = milliseconds(batch).tolist()
            keys = batch.column("key").to_pylist()
            values = batch.column("value").to_pylist()
            headers = batch.column("headers").to_pylist()
            for n, (time, key, value, record_headers) in enumerate(
                zip(times, keys, values, headers, strict=True)
            ):
                pairs = [(header["key"], header["value"]) for header in record_headers or ()]
                if any(header_value is None for _, header_value in pairs):
                    raise InvalidRecordError(
                        "a header has a null value, which the client (kafka-python) cannot send",
                        offset=batch.column("offset")[n].as_py(),
                    )
                sender.send(chunk.target, chunk.partition, key, value, pairs, time)
            count += batch.num_rows
            last = int(batch.column("offset")[-1].as_py())
    return Written((), count, last)
