"""The executors' side of a restore: chunks of a partition read, filtered, and written or sent.

A chunk is a range of offsets of one partition of the source: segments, read by the engine, or
Parquet files, sorted by offset here. What comes out of it are record batches v2 in a staged file,
or records that a cluster has acknowledged.
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
from kstore.spark.source.range_reader import check_visible, open_store

_COLUMNS = ("key", "value", "headers", "offset", "timestamp")
_MOST_PARTITIONS = 1 << 16  # that are made because a file names them
_MS = pa.timestamp("ms", "UTC")
_KINDS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    "offset": pa.int64(),
    "timestamp": _MS,
    "topic": pa.string(),
}
_PIECE = 1 << 20  # bytes written together
_ROWS = 1 << 16  # rows of Parquet read at a time


# --- reading --------------------------------------------------------------------------------------


def wanted(chosen: Filter, batch: Any) -> Any:
    """The rows of an Arrow batch or table that are wanted."""
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
        found = [
            key is not None and pattern.search(key) is not None
            for key in batch.column("key").cast(pa.binary()).to_pylist()
        ]
        tests.append(pa.array(found, pa.bool_()))
    for test in tests:
        mask = test if mask is None else pc.and_(mask, test)
    return batch if mask is None else batch.filter(mask)


def read_chunk(chunk: Chunk) -> Iterator[Any]:
    """Arrow batches of the chunk's records in the order of their offsets."""
    if chunk.parquet:
        yield from _read_parquet(chunk)
        return
    check_visible(local_disk(), chunk.paths)
    log = open_store(absolute_paths(list(chunk.paths)))[chunk.topic][chunk.partition]
    maker = BatchMaker(_COLUMNS[:-1], chunk.topic, chunk.partition)
    for columns in log.view(chunk.start, chunk.stop, isolation=chunk.isolation).scan():
        times = pa.array(columns.timestamps, _MS)  # the connector's would end where Spark's do
        rows = wanted(chunk.chosen, maker.make(columns).append_column("timestamp", times))
        if rows.num_rows:
            yield rows


def _read_parquet(chunk: Chunk) -> Iterator[Any]:
    found = []
    for path in chunk.paths:
        with open_parquet(path) as file:
            groups = [n for n in range(file.num_row_groups) if _overlaps(file, n, chunk)]
            names = file.schema_arrow.names
            columns = [name for name in (*_COLUMNS, "partition") if name in names]
            has_topic = "topic" in names
            for batch in file.iter_batches(
                _ROWS, row_groups=groups, columns=[*columns, *["topic"] * has_topic]
            ):
                rows = _of_partition(batch, chunk, has_topic, path)
                if rows.num_rows:
                    found.append(wanted(chunk.chosen, _in_our_types(rows, path)))
    if not found:
        return
    table = pa.Table.from_batches(found)
    table = table.take(pc.sort_indices(table, [("offset", "ascending")]))
    for batch in _once_each(table).combine_chunks().to_batches(_ROWS):
        yield batch


def _overlaps(file: Any, group: int, chunk: Chunk) -> bool:
    """Whether a row group may have offsets of the chunk, by its statistics."""
    about = file.metadata.row_group(group)
    for n in range(about.num_columns):
        column = about.column(n)
        if column.path_in_schema == "offset" and column.statistics is not None:
            found = column.statistics
            if found.has_min_max:
                return bool(found.max >= chunk.start and found.min < chunk.stop)
    return True


def _of_partition(batch: Any, chunk: Chunk, has_topic: bool, path: str) -> Any:
    offsets = batch.column("offset")
    mask = pc.and_(
        pc.equal(batch.column("partition"), chunk.partition),
        pc.and_(pc.greater_equal(offsets, chunk.start), pc.less(offsets, chunk.stop)),
    )
    if has_topic:
        mask = pc.and_(mask, pc.equal(_cast(batch.column("topic"), "topic", path), chunk.topic))
    return batch.filter(mask)


def _in_our_types(batch: Any, path: str) -> Any:
    """The columns that a batch is encoded from, with the types of Spark's sink."""
    count, names = batch.num_rows, batch.schema.names
    columns = [
        _cast(batch.column(name), name, path) if name in names else pa.nulls(count, _KINDS[name])
        for name in _COLUMNS
    ]
    return pa.RecordBatch.from_arrays(columns, list(_COLUMNS))


def _cast(column: Any, name: str, path: str) -> Any:
    """A column of a file with our type; InvalidRecordError where its values have no such form."""
    kind = _KINDS[name]
    try:
        if name == "timestamp" and not pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64()).cast(pa.timestamp("ms"))
        return column.cast(kind, safe=False)
    except (pa.ArrowException, TypeError) as error:
        if isinstance(error, MemoryError):
            raise
        told = (str(error).splitlines() or [""])[0]
        raise InvalidRecordError(
            f"the column {name} is {_clip(column.type)}, which does not become {kind} ({told}): "
            "write the file with that column cast, or without it",
            path=path,
        ) from error


def _clip(kind: Any) -> str:
    text = str(kind)
    return text if len(text) <= 100 else text[:100] + "..."


@contextmanager
def open_parquet(path: str) -> Iterator[Any]:
    """A Parquet file; InvalidRecordError with its path for what pyarrow says of it meanwhile."""
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except KStoreError:
        raise
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, MemoryError):
            raise
        told = (str(error).splitlines() or [""])[0]
        raise InvalidRecordError(
            f"this is no readable Parquet file ({type(error).__name__}: {told}): bring it back "
            "from where it was made, or take it out of the folder",
            path=path,
        ) from error


def _once_each(table: Any) -> Any:
    """Of rows with the same offset the first: files may overlap."""
    offsets = table.column("offset").to_numpy()
    keep = np.ones(len(offsets), bool)
    keep[1:] = offsets[1:] != offsets[:-1]
    return table if keep.all() else table.filter(pa.array(keep))


def scan_parquet(path: str, topic: str | None) -> list[tuple[str, int, int, int, int]]:
    """(topic, partition, first offset, last offset, rows) of what a Parquet file holds.

    ``topic`` is what its folder says, or the user; else the column ``topic`` has to.
    """
    found: dict[tuple[str, int], list[int]] = {}
    with open_parquet(path) as file:
        names = file.schema_arrow.names
        missing = [name for name in ("partition", "offset", "value") if name not in names]
        if topic is None and "topic" not in names:
            missing.append("topic (or a folder topic=NAME)")
        if missing:
            raise InvalidRecordError(f"there is no column {', '.join(missing)}", path=path)
        columns = ["partition", "offset", *["topic"] * ("topic" in names)]
        for name in columns[:2]:
            kind = file.schema_arrow.field(name).type
            if not pa.types.is_integer(kind):
                raise InvalidRecordError(
                    f"the column {name} is {kind}, no integer: cast it", path=path
                )
        nothing = file.schema_arrow.empty_table()
        for name in (*_COLUMNS, "topic"):  # before a task stumbles over it
            if name in names:
                _cast(nothing.column(name), name, path)
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
                if not (0 <= low <= high < 2**63 - 1 and 0 <= key[1] < _MOST_PARTITIONS):
                    raise InvalidRecordError(
                        f"a row has partition {key[1]} and an offset from {low} to {high}: no log "
                        "has such",
                        path=path,
                    )
                known = found.setdefault(key, [low, high, 0])
                known[:] = [min(known[0], low), max(known[1], high), known[2] + count]
    return [(*key, *known) for key, known in found.items()]  # type: ignore[misc]


# --- to batches -----------------------------------------------------------------------------------


class _Staged:
    """Batches of one chunk in a file of this attempt's own."""

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
        self._waiting = bytearray()
        self._files = local_disk()
        self._fd = -1
        self._size = 0
        self.pieces: list[StagedRange] = []
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
        borders = [0, len(offsets)]
        if self._encoding.exact:  # a batch has no gaps
            borders[1:1] = (np.flatnonzero(np.diff(offsets) != 1) + 1).tolist()
        for start, stop in pairwise(borders):
            if self._encoding.exact and int(offsets[start]) != self._base + len(self._buffer):
                self._seal()
            rows, done = np.arange(start, stop, dtype=np.int64), 0
            while done < len(rows):
                if not len(self._buffer):
                    self._base = int(offsets[start + done])
                done += put_rows(
                    self._buffer, rows, times, keys, values, headers, start=done,
                    size_limit=self._encoding.batch_size,
                )  # fmt: skip
                if done < len(rows) or self._buffer.byte_size >= self._encoding.batch_size:
                    self._seal()
        self.count += len(offsets)
        self.last_offset = int(offsets[-1])

    def _seal(self) -> None:
        buffer, compression = self._buffer, self._encoding.compression
        count = len(buffer)
        if not count:
            return
        if compression:
            with buffer.records as records:
                packed = codec.compress(compression, 2, records)
            buffer.replace_records(packed)
        base = self._base if self._encoding.exact else 0
        data = buffer.to_bytes(base, self._encoding.leader_epoch, compression)
        buffer.reset()
        exact = self._base if self._encoding.exact else None
        for part in split_to_fit(data, self._encoding.most, base_offset=exact):
            if len(part) > self._encoding.most:
                raise MessageTooLargeError(
                    f"a record for {self._chunk.target}-{self._chunk.partition} takes {len(part)} "
                    f"bytes as a batch of its own, and the topic takes {self._encoding.most} "
                    "(max.message.bytes, segment.bytes): raise that",
                    offset=batch_fields.base_offset(part) if self._encoding.exact else None,
                )
            self._waiting += part
        if len(self._waiting) >= _PIECE:
            self._write()

    def _write(self) -> None:
        data, self._waiting = self._waiting, bytearray()
        if not data:
            return
        if self._fd < 0:
            self._fd = self._files.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        self._files.write(self._fd, data)
        self.pieces.append(StagedRange(self.file, self._size, len(data), zlib.crc32(data)))
        self._size += len(data)

    def finish(self) -> Written:
        self._seal()
        self._write()
        self._close()
        host = socket.gethostname()
        return Written(
            tuple(self.pieces), self.count, self.last_offset, self.file, host, self._checksum
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
    """The timestamps of a batch, -1 where there is none."""
    numbers = pc.fill_null(batch.column("timestamp").cast(pa.int64()), -1)
    return np.ascontiguousarray(numbers.to_numpy(zero_copy_only=False), np.int64)


def encode(task: tuple[Chunk, Encoding]) -> Written:
    """In an executor: stage the batches of a chunk."""
    chunk, encoding = task
    check_visible(local_disk(), encoding.log_dirs)
    staged = _Staged(chunk, encoding)
    try:
        for batch in read_chunk(chunk):
            staged.add(batch)
        return staged.finish()
    except BaseException:
        staged.discard()
        raise


# --- over the wire --------------------------------------------------------------------------------


def send(task: tuple[Chunk, str, tuple[tuple[str, Any], ...], str]) -> Written:
    """In an executor: send a chunk's records, in order; returns when all are acknowledged."""
    chunk, servers, settings, compression = task
    count, last = 0, -1
    with Sender(servers, dict(settings), compression) as sender:
        for batch in read_chunk(chunk):
            times = milliseconds(batch).tolist()
            keys = batch.column("key").to_pylist()
            values = batch.column("value").to_pylist()
            headers = batch.column("headers").to_pylist()
            for n, (when, key, value, pairs) in enumerate(
                zip(times, keys, values, headers, strict=True)
            ):
                named = [(each["key"], each["value"]) for each in pairs or ()]
                if any(each is None for _, each in named):
                    raise InvalidRecordError(
                        "a header has a null value, which the client (kafka-python) cannot send",
                        offset=batch.column("offset")[n].as_py(),
                    )
                sender.send(chunk.target, chunk.partition, key, value, named, when)
            count += batch.num_rows
            last = int(batch.column("offset")[-1].as_py())
    return Written((), count, last)
