"""Encodes Arrow batches as record batches v2 in staged files, in a task.

The staged files, ``kstore.staged.*`` in the first log directory, are named by their job and
attempt, and readers ignore them until a commit publishes them. Only the commit knows which attempts
Spark counts as successful; a killed or cancelled attempt may have staged files like any other.

The first batches of a partition go to a file that all partitions of the attempt share. A partition
with more data gets files of its own, no larger than a segment. The commit can make such a file a
segment without a copy, so the task syncs it while it writes.
"""

import os
import random
import socket
import uuid
from collections.abc import Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kstore._native.append.encode import BatchBuffer
from kstore._native.format.crc import crc32
from kstore._native.format.murmur2 import partitions_for_keys
from kstore._native.spark.encode_arrow import ArrowBinary, ArrowHeaders, put_rows, sum_row_hashes
from kstore.clock import now_ms
from kstore.config import LogConfig, codec_of_batches
from kstore.errors import (
    InvalidConfigError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    StorageError,
    UnknownPartitionError,
    UnknownTopicOrPartitionError,
)
from kstore.integers import list_numbers
from kstore.partition_files import DISK, Files, StagedRange, filenames
from kstore.record import codec
from kstore.record.split import Data, count_of, split_to_fit
from kstore.record.timestamp import LAST_RECORD_TIMESTAMP, unit_advice
from kstore.spark.sink.arrow_columns import as_binary, binary_column, given_times, header_column
from kstore.spark.sink.options import ABSENT, SinkOptions, Staged, StagedPartition, refuse_internal
from kstore.spark.source.range_reader import open_store

_WRITE_SIZE = 1 << 20  # bytes of a partition's batches that one write takes
_MAX_WAITING = 64 << 20  # bytes of batches of all partitions that wait for a write
_MIN_WRITE = 64 << 10  # bytes; below it a partition waits, if writing the larger ones frees enough
_MAX_KEPT_BUFFERS = 16  # with more partitions, buffers are freed after each write
_SYNC_THREADS = 4
_MAX_OWN_FILES = 64  # open files of single partitions
_SYNC_SIZE = 32 << 20  # bytes of such a file that one sync takes


@dataclass(slots=True)
class _Target:
    """The properties of a topic that a task needs."""

    partitions: tuple[int, ...]
    count: int
    config: LogConfig
    codec: int
    batch_size: int
    identity: str | None  # id or creation stamp; None: it has neither; or ABSENT
    is_partial: bool = False  # the store has single partitions, and the topic more
    sticky: int = -1  # the current partition of records without a key
    filled: int = 0  # bytes of the current batch of that partition


class _OwnFile:
    """A file with batches of one partition only, synced while it grows."""

    def __init__(self, files: Files, directory: str, name: str) -> None:
        self.name = name
        self.size = 0
        self._files = files
        self._unsynced = 0
        self._syncing: Future[None] | None = None
        path = os.path.join(directory, name)
        self._fd = files.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)

    def write(self, data: memoryview, threads: Executor) -> StagedRange:
        self._files.write(self._fd, data)
        written = StagedRange(self.name, self.size, len(data), crc32(data), alone=True)
        self.size += len(data)
        self._unsynced += len(data)
        if self._unsynced >= _SYNC_SIZE and (self._syncing is None or self._syncing.done()):
            self._unsynced = 0
            self._wait()
            self._syncing = threads.submit(self._files.fdatasync, self._fd)
        return written

    def finish(self, threads: Executor) -> "Future[None]":
        """Sync the rest and close the file in a thread; the future is done after that."""
        return threads.submit(self._finish)

    def _finish(self) -> None:
        try:
            self._wait()
            self._files.fdatasync(self._fd)
        finally:
            self._files.close(self._fd)

    def _wait(self) -> None:
        syncing, self._syncing = self._syncing, None
        if syncing is not None:
            syncing.result()

    def discard(self) -> None:
        with suppress(StorageError, OSError):
            self._wait()
        self._files.close(self._fd)


class _Stream:
    """One partition's batches: the one under construction, and finished ones that wait."""

    def __init__(self, topic: str, partition: int, target: _Target) -> None:
        self.topic = topic
        self.partition = partition
        self.target = target
        self.buffer = BatchBuffer()
        self.waiting = bytearray()  # a reused buffer: its first ``filled`` bytes wait
        self.filled = 0
        self.ranges: list[StagedRange] = []
        self.count = 0
        self.largest = 0  # bytes of a batch
        self.keyless = False  # whether it may have records without a key
        self.own: _OwnFile | None = None
        config = target.config
        self.write_size = min(_WRITE_SIZE, max(config.segment_bytes // 4, 1))
        self.is_importable = config.message_timestamp_type != "LogAppendTime"

    def seal(self) -> None:
        """Finish the batch under construction."""
        buffer, config, compression = self.buffer, self.target.config, self.target.codec
        count = len(buffer)
        if not count:
            return
        if compression:
            with buffer.records as records:
                packed = codec.compress(compression, 2, records)
            buffer.replace_records(packed)
        with buffer.finish(attributes=compression) as batch:
            max_size = min(config.max_message_bytes, config.segment_bytes)
            if len(batch) <= max_size:
                self._add(batch)
            else:
                for smaller in split_to_fit(batch, max_size):
                    self._check_size(len(smaller), max_size)
                    self._add(smaller)
                    self.count += count_of(smaller)
                count = 0
        self.count += count
        buffer.reset()

    def _add(self, batch: Data) -> None:
        self.largest = max(self.largest, len(batch))
        end = self.filled + len(batch)
        self.waiting[self.filled : end] = batch
        self.filled = end

    def _check_size(self, size: int, max_size: int) -> None:
        if size > max_size:
            raise MessageTooLargeError(
                f"record {self.count} of this task for {self.topic}-{self.partition} has {size} "
                f"bytes as a batch of its own, and the topic allows {max_size} "
                "(max.message.bytes, segment.bytes): raise the limit, or omit the record; nothing "
                "of the job is published"
            )


class Stager:
    """Stages the Arrow batches of one task's attempt; ``finish`` returns what it staged."""

    def __init__(
        self,
        options: SinkOptions,
        job: str,
        task: str,
        files: Files = DISK,
        *,
        with_checksum: bool = False,
    ) -> None:
        self.checksum = 0 if with_checksum else None
        self.file = f"{filenames.STAGED_PREFIX}{job}.{task}.{uuid.uuid4().hex[:12]}"
        self._options = options
        self._files = files
        self._path = os.path.join(options.paths[0], self.file)
        self._fd = -1
        self._size = 0
        self._waiting_bytes = 0
        self._targets: dict[str, _Target] = {}
        self._streams: dict[tuple[str, int], _Stream] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._finishing: list[Future[None]] = []
        self._own_count = 0  # files of single partitions so far
        self._open_own_files = 0

    # --- rows to partitions -----------------------------------------------------------------

    def add(self, batch: Any) -> None:
        """Encode the rows of a ``pyarrow.RecordBatch``."""
        if batch.num_rows == 0:
            return
        names = batch.schema.names
        keys = binary_column(batch.column("key")) if "key" in names else None
        keyless = keys is None or batch.column("key").null_count > 0
        values = binary_column(batch.column("value"))
        headers = header_column(batch.column("headers")) if "headers" in names else None
        times = self._timestamps(batch)
        lengths = np.empty(batch.num_rows, np.int32)
        positions = np.empty(batch.num_rows, np.int64)
        values.locate_rows(positions, lengths)
        sizes = np.maximum(lengths, 0) + 1
        chosen = self._partitions(batch, keys, sizes)
        for topic, rows in self._by_topic(batch):
            target = self._target(topic)
            self._check_times(topic, target, times if rows is None else times[rows])
            if self.checksum is not None:
                given = given_times(batch, times)
                added = sum_row_hashes(topic.encode(), rows, given, chosen, keys, values, headers)
                self.checksum = (self.checksum + added) % (1 << 64)
            numbers = self._choose_partitions(topic, target, chosen, rows, sizes, keys, batch)
            for number, rows_of_partition in _group_by_partition(numbers, rows):
                stream = self._stream(topic, number, target)
                stream.keyless = stream.keyless or keyless
                self._encode(stream, rows_of_partition, times, keys, values, headers)
                if self._waiting_bytes > _MAX_WAITING:
                    self._write_out()

    def _by_topic(self, batch: Any) -> Iterable[tuple[str, Any]]:
        if self._options.topic is not None:
            return [(self._options.topic, None)]
        column = batch.column("topic")
        if column.null_count:
            raise InvalidRecordError(
                "a row has a null topic: fill the column, or set the option 'topic'"
            )
        coded = pc.dictionary_encode(column)
        codes = coded.indices.to_numpy(zero_copy_only=False)
        topics = coded.dictionary.to_pylist()
        if len(topics) == 1:
            return [(topics[0], None)]
        return [(topic, np.flatnonzero(codes == n)) for n, topic in enumerate(topics)]

    def _partitions(self, batch: Any, keys: ArrowBinary | None, sizes: Any) -> Any:
        """The partition column, with -1 for null; None without the column."""
        if "partition" not in batch.schema.names:
            return None
        column = batch.column("partition")
        if pc.any(pc.less(column, 0)).as_py():
            raise UnknownTopicOrPartitionError("a row has a partition below 0")
        numbers = pc.fill_null(column, -1).to_numpy(zero_copy_only=False)
        return np.ascontiguousarray(numbers, np.int32)

    def _choose_partitions(
        self, topic: str, target: _Target, chosen: Any, rows: Any, sizes: Any,
        keys: ArrowBinary | None, batch: Any,
    ) -> Any:  # fmt: skip
        """The partition of each row: that of its column, else by its key, else the sticky one."""
        count = len(sizes) if rows is None else len(rows)
        if keys is None:
            numbers = np.full(count, -1, np.int32)
        else:
            numbers = self._hashed(batch, keys, target.count)
            numbers = numbers if rows is None else numbers[rows]
        if chosen is not None:
            given = chosen if rows is None else chosen[rows]
            hashed = (numbers >= 0) & (given < 0)
            numbers = np.where(given >= 0, given, numbers).astype(np.int32)
        else:
            hashed = numbers >= 0
        if target.is_partial and hashed.any():
            raise UnknownPartitionError(
                f"the partition of a key depends on how many partitions topic {topic!r} has, and "
                f"the store has only {list_numbers(target.partitions)}: add the column 'partition'",
                path=self._options.paths[0],
            )
        keyless = np.flatnonzero(numbers < 0)
        if len(keyless):
            row_sizes = sizes if rows is None else sizes[rows]
            numbers[keyless] = _choose_sticky(target, np.cumsum(row_sizes[keyless], dtype=np.int64))
        unknown = np.flatnonzero(~np.isin(numbers, target.partitions))
        if len(unknown):
            raise UnknownTopicOrPartitionError(
                f"{topic} has no partition {numbers[unknown[0]]} here; there are "
                f"{', '.join(map(str, target.partitions[:20]))}",
                path=self._options.paths[0],
            )
        return numbers

    def _hashed(self, batch: Any, keys: ArrowBinary, count: int) -> Any:
        """Kafka's murmur2 partition of every row; -1 without a key."""
        positions: Any = np.empty(keys.count, np.int64)
        lengths: Any = np.empty(keys.count, np.int32)
        keys.locate_rows(positions, lengths)
        numbers: Any = np.empty(keys.count, np.int32)
        data: Any = as_binary(batch.column("key")).buffers()[2] or b""
        partitions_for_keys(data, positions, lengths, count, numbers)
        return numbers

    def _target(self, topic: str) -> _Target:
        target = self._targets.get(topic)
        if target is None:
            refuse_internal(topic)
            store = open_store(self._options.paths)
            options = self._options
            if not self._targets:
                iter(store)  # lists the directories again, if an earlier task opened the store
            if topic in store:
                found = store[topic]
                identity = store._manager.identities.identity_of(topic)
                numbers, count, config = found.partitions, len(found), found.config
                is_partial = store._catalog.is_partial(topic)
            elif options.num_partitions:
                count = options.num_partitions
                numbers, config = tuple(range(count)), store.config.log
                identity, is_partial = ABSENT, False
            else:
                raise UnknownTopicOrPartitionError(
                    f"there is no topic {topic!r}: create it (`kstore topics --create`), or set "
                    "the option numPartitions, with which the sink creates missing topics",
                    path=options.paths[0],
                )
            if config.message_magic != 2:
                raise InvalidConfigError(
                    f"{topic} has message.format.version {config.message_format_version}; the "
                    "sink writes record batches v2: set it to 0.11.0 or later"
                )
            target = _Target(
                numbers,
                count,
                config,
                codec.codec_id(codec_of_batches(config, options.compression)),
                min(
                    options.batch_size or config.batch_size,
                    config.max_message_bytes,
                    config.segment_bytes,
                ),
                identity,
                is_partial,
            )
            self._targets[topic] = target
        return target

    def _stream(self, topic: str, number: int, target: _Target) -> _Stream:
        stream = self._streams.get((topic, number))
        if stream is None:
            stream = self._streams[topic, number] = _Stream(topic, number, target)
        return stream

    # --- times ------------------------------------------------------------------------------

    def _timestamps(self, batch: Any) -> Any:
        """The timestamp of each row in ms; the current time for a row without, as a producer."""
        if "timestamp" not in batch.schema.names:
            return np.full(batch.num_rows, now_ms(), np.int64)
        column = batch.column("timestamp")
        micros = pc.fill_null(column.cast(pa.int64()), now_ms() * 1000)
        times: Any = np.floor_divide(micros.to_numpy(zero_copy_only=False), 1000)
        return np.ascontiguousarray(times, np.int64)

    def _check_times(self, topic: str, target: _Target, times: Any) -> None:
        """Raise InvalidTimestampError for times that a leader rejects (Kafka's LogValidator)."""
        if not len(times):
            return
        low, high = int(times.min()), int(times.max())
        config, now = target.config, now_ms()
        if low < 0:
            raise InvalidTimestampError(f"a row for {topic} has a timestamp before 1970: {low} ms")
        if high > LAST_RECORD_TIMESTAMP:
            raise InvalidTimestampError(
                f"a row for {topic} has a timestamp beyond the year 9999: {high} ms"
                f"{unit_advice(high)} before it is cast to a timestamp"
            )
        if config.message_timestamp_type == "LogAppendTime":
            return
        if now - low > config.message_timestamp_before_max_ms:
            raise InvalidTimestampError(
                f"a row for {topic} has timestamp {low}, more than "
                f"{config.message_timestamp_before_max_ms} ms ago: raise the topic's "
                "message.timestamp.before.max.ms"
            )
        if high - now > config.message_timestamp_after_max_ms:
            raise InvalidTimestampError(
                f"a row for {topic} has timestamp {high}, more than "
                f"{config.message_timestamp_after_max_ms} ms ahead: raise the topic's "
                "message.timestamp.after.max.ms"
            )

    # --- rows to bytes ----------------------------------------------------------------------

    def _encode(
        self, stream: _Stream, rows: Any, times: Any, keys: ArrowBinary | None,
        values: ArrowBinary, headers: ArrowHeaders | None,
    ) -> None:  # fmt: skip
        if "compact" in stream.target.config.cleanup_policy:
            _check_keys(stream.topic, keys, rows)
        done = 0
        while done < len(rows):
            done += put_rows(
                stream.buffer, rows, times, keys, values, headers, start=done,
                size_limit=stream.target.batch_size,
            )  # fmt: skip
            if done < len(rows) or stream.buffer.byte_size >= stream.target.batch_size:
                before = stream.filled
                stream.seal()
                self._waiting_bytes += stream.filled - before
                if stream.filled >= stream.write_size:
                    self._write(stream)

    def _write(self, stream: _Stream) -> None:
        size = stream.filled
        if not size:
            return
        own = self._own_file(stream, size)
        with memoryview(stream.waiting) as held, held[:size] as data:
            if own is not None:
                assert self._threads is not None
                stream.ranges.append(own.write(data, self._threads))
            else:
                if self._fd < 0:
                    self._fd = self._files.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
                self._files.write(self._fd, data)
                stream.ranges.append(StagedRange(self.file, self._size, size, crc32(data)))
                self._size += size
        self._waiting_bytes -= size
        stream.filled = 0
        if len(self._streams) > _MAX_KEPT_BUFFERS:
            stream.waiting = bytearray()

    def _own_file(self, stream: _Stream, size: int) -> _OwnFile | None:
        """The partition's own file for its next bytes; None: they go to the shared file.

        The first bytes of a partition always go to the shared file. A file leaves room in the
        segment that it becomes for the first bytes of another file.
        """
        max_size = stream.target.config.segment_bytes - stream.write_size
        own = stream.own
        if own is not None and own.size + size > max_size:
            stream.own = None
            self._finish_own(own)
            own = None
        is_large = stream.write_size <= size <= max_size
        if own is None and stream.ranges and stream.is_importable and is_large:
            if self._open_own_files >= _MAX_OWN_FILES:
                return None
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_SYNC_THREADS, "kstore-sync")
            self._own_count += 1
            self._open_own_files += 1
            name = f"{self.file}.{self._own_count}"
            stream.own = own = _OwnFile(self._files, self._options.paths[0], name)
        return own

    def _finish_own(self, own: _OwnFile) -> None:
        assert self._threads is not None
        self._finishing.append(own.finish(self._threads))
        self._open_own_files -= 1

    def _write_out(self) -> None:
        """Write waiting batches; those of partitions with few bytes only if that is not enough."""
        for min_size in (_MIN_WRITE, 1):
            for stream in self._streams.values():
                if stream.filled >= min_size:
                    self._write(stream)
            if self._waiting_bytes <= _MAX_WAITING // 2:
                return

    def finish(self) -> tuple[StagedPartition, ...]:
        """Write and sync the rest; returns the staged batches of each partition."""
        for stream in self._streams.values():
            stream.seal()
            self._write(stream)
            if stream.own is not None:
                self._finish_own(stream.own)
                stream.own = None
        self._close()
        for future in self._finishing:
            future.result()
        if self._threads is not None:
            self._files.sync_directory(self._options.paths[0])
        return tuple(
            StagedPartition(
                stream.topic,
                stream.partition,
                tuple(stream.ranges),
                stream.count,
                stream.target.identity,
                stream.largest,
                stream.keyless,
                stream.target.codec,
            )
            for stream in self._streams.values()
            if stream.ranges
        )

    def discard(self) -> None:
        """Remove the files of an attempt that failed."""
        for stream in self._streams.values():
            if stream.own is not None:
                stream.own.discard()
        self._close()
        wait(self._finishing)
        for name in self._names():
            path = os.path.join(self._options.paths[0], name)
            if self._files.kind(path) is not None:
                self._files.remove(path)

    def _names(self) -> list[str]:
        return [self.file, *(f"{self.file}.{n + 1}" for n in range(self._own_count))]

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._files.close(fd)
        if self._threads is not None:
            self._threads.shutdown()


def stage(
    options: SinkOptions,
    job: str,
    batches: Iterable[Any],
    *,
    task: int = 0,
    attempt: int = 0,
    query: str | None = None,
    run: str | None = None,
    with_checksum: bool = False,
) -> Staged:
    """The body of a task: stage all batches of an attempt, in files that only it writes."""
    stager = Stager(options, job, f"{task}.{attempt}", with_checksum=with_checksum)
    try:
        for batch in batches:
            stager.add(batch)
        partitions = stager.finish()
    except BaseException:
        stager.discard()
        raise
    host = socket.gethostname()
    return Staged(task, attempt, query, stager.file, host, partitions, run, stager.checksum)


# --- helpers --------------------------------------------------------------------------------


def _group_by_partition(numbers: Any, rows: Any) -> Iterable[tuple[int, Any]]:
    """Each partition with its rows in order."""
    first = int(numbers[0])
    if (numbers == first).all():
        yield first, np.arange(len(numbers), dtype=np.int64) if rows is None else rows
        return
    small = numbers.astype(np.uint16) if numbers.max() < 65536 else numbers  # sorts by radix
    order = np.argsort(small, kind="stable")
    boundaries = np.flatnonzero(np.diff(numbers[order])) + 1
    for group in np.split(order, boundaries):
        yield int(numbers[group[0]]), np.ascontiguousarray(group if rows is None else rows[group])


def _choose_sticky(target: _Target, sizes: Any) -> Any:
    """Partitions of rows without a key, by their running sizes: another partition every batch."""
    if target.sticky < 0:
        target.sticky = random.choice(target.partitions)
    steps = (target.filled + sizes) // target.batch_size
    drawn = [target.sticky]
    for _ in range(int(steps[-1])):
        others = [number for number in target.partitions if number != drawn[-1]]
        drawn.append(random.choice(others) if others else drawn[-1])
    target.sticky = drawn[-1]
    target.filled = int((target.filled + sizes[-1]) % target.batch_size)
    return np.asarray(drawn, np.int32)[steps]


def _check_keys(topic: str, keys: ArrowBinary | None, rows: Any) -> None:
    """Raise InvalidRecordError for a row without a key in a compacted topic, as a leader does."""
    if keys is not None:
        positions, lengths = np.empty(keys.count, np.int64), np.empty(keys.count, np.int32)
        keys.locate_rows(positions, lengths)
        if (lengths[rows] >= 0).all():
            return
    raise InvalidRecordError(f"a row for {topic}, which is compacted, has no key")
