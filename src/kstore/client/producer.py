"""A producer: collects records into batches by partition; one thread writes them."""

import logging
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from datetime import datetime
from time import monotonic, time_ns
from typing import TYPE_CHECKING, cast

from kstore._native.append.encode import BatchBuffer
from kstore.client.partitioner import Partitioner, choose
from kstore.config import CODECS, codec_of_batches, warn_of_codec
from kstore.coordinator.transaction.transaction_state_records import (
    SEQUENCES,
    new_producer_id,
    next_sequence,
)
from kstore.errors import (
    BufferExhaustedError,
    ClosedError,
    ForkedError,
    InvalidConfigError,
)
from kstore.integers import check_integer_setting
from kstore.log.append_split import AppendedBatch, append_split
from kstore.record import Headers, codec
from kstore.record.split import NO_PRODUCER
from kstore.record.timestamp import to_record_timestamp
from kstore.topic_partition import Position, as_partition

if TYPE_CHECKING:
    from kstore.log.log import Log
    from kstore.store.topic import Topic

_LOGGER = logging.getLogger("kstore")
MAGIC = 2
_ERRORS_KEPT = 100
_LONGEST_WAIT = threading.TIMEOUT_MAX / 2 * 1000  # ms; a lock refuses to wait twice as long
_RECORD_OVERHEAD = 64  # what a record may take beyond its key, value and headers

Acks = int | str


class Delivery:
    """The result of sending a record; a light variant of ``concurrent.futures.Future``.

    Safe to share between threads.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: "_Batch", index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        return self._batch.done

    def result(self, timeout: float | None = None) -> Position:
        """The record's position; raises the error if it was not appended.

        Waits up to timeout seconds (TimeoutError). With ``acks=0`` it does not wait for the log,
        so the offset is -1, as in Kafka.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return Position(self._batch.partition, self._batch.offset_of(self._index))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error, or None for an appended record."""
        self._batch.wait(timeout)
        self._batch.error_seen = True
        return self._batch.error_of(self._index)

    def add_done_callback(self, callback: Callable[["Delivery"], object]) -> None:
        """Call ``callback(delivery)`` when the result is known; at once if it is.

        Runs in the producer's thread, which waits for it; its errors are logged.
        """
        self._batch.when_done(self, callback)


class _Batch:
    """Unwritten records of one partition. Guarded by the producer's condition."""

    __slots__ = (
        "_callbacks",
        "_changed",
        "appended",
        "base_offset",
        "buffer",
        "deadline",
        "done",
        "error",
        "error_seen",
        "partition",
        "size",
        "sync_error",
    )  # fmt: skip

    def __init__(
        self, partition: int, buffer: BatchBuffer, deadline: float, changed: threading.Condition
    ) -> None:
        self.partition = partition
        self.buffer: BatchBuffer | None = buffer
        self.deadline = deadline
        self.size = 0
        self.base_offset = -1
        self.error: BaseException | None = None
        self.sync_error: BaseException | None = None
        self.appended: list[AppendedBatch] = []  # if it was split into smaller batches
        self.error_seen = False
        self.done = False
        self._changed = changed
        self._callbacks: list[tuple[Delivery, Callable[[Delivery], object]]] = []

    def offset_of(self, index: int) -> int:
        """The offset of a record; -1 if unknown."""
        start, base = 0, self.base_offset
        if self.appended:
            start, base, _ = self._appended_batch_of(index)
        return base if base < 0 else base + index - start

    def error_of(self, index: int) -> BaseException | None:
        """The error of appending a record, or of its sync."""
        if not self.appended:
            return self.error
        return self._appended_batch_of(index).error or self.sync_error

    def _appended_batch_of(self, index: int) -> AppendedBatch:
        return self.appended[bisect_right(self.appended, index, key=lambda each: each.start) - 1]

    def wait(self, timeout: float | None) -> None:
        if self.done:
            return
        with self._changed:
            if not self._changed.wait_for(lambda: self.done, timeout):
                raise TimeoutError(f"the record is not delivered after {timeout} seconds")

    def when_done(self, delivery: Delivery, callback: Callable[[Delivery], object]) -> None:
        with self._changed:
            if not self.done:
                self._callbacks.append((delivery, callback))
                return
        _call(delivery, callback)

    def finish(self) -> None:
        """Notify all waiters; the condition is not held while callbacks run."""
        with self._changed:
            self.done = True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for delivery, callback in callbacks:
            _call(delivery, callback)


def _call(delivery: Delivery, callback: Callable[[Delivery], object]) -> None:
    try:
        callback(delivery)
    except Exception:
        _LOGGER.exception("a delivery callback failed")


class Producer:
    """Sends records to a topic; created by :meth:`kstore.Store.producer`.

    A batch is written when it has ``batch_size`` bytes, when its first record is ``linger_ms``
    old, or at ``flush``. With ``acks="all"`` a record is acknowledged when it is on disk
    (all batches written meanwhile share one sync), with ``1`` when the operating system has it,
    with ``0`` at once. Safe to share between threads; its own thread writes.
    """

    def __init__(
        self,
        topic: "Topic",
        *,
        batch_size: int | None = None,
        linger_ms: float = 5,
        compression: str | None = None,
        acks: Acks = "all",
        buffer_memory: int = 32 << 20,
        max_block_ms: float = 60_000,
        partitioner: Partitioner | None = None,
        enable_idempotence: bool = False,
    ) -> None:
        config = topic.config
        if compression is not None and compression not in CODECS:
            raise InvalidConfigError(
                f"compression must be one of {', '.join(CODECS)}, not {compression!r}"
            )
        warn_of_codec(config, compression, topic.name)
        if isinstance(acks, bool) or acks not in (0, 1, "all", -1):
            raise InvalidConfigError(f"acks must be 0, 1 or 'all', not {acks!r}")
        if not linger_ms >= 0 or not max_block_ms >= 0:  # NaN too
            raise InvalidConfigError("linger_ms and max_block_ms must be positive")
        size = check_integer_setting(
            "batch_size", config.batch_size if batch_size is None else batch_size, 1
        )
        self.topic = topic
        self._batch_size = min(size, config.max_message_bytes, config.segment_bytes)
        self._linger = min(linger_ms, _LONGEST_WAIT) / 1000
        self._codec = codec.codec_id(codec_of_batches(config, compression))
        self._acks = "all" if acks == -1 else acks
        self._buffer_memory = check_integer_setting("buffer_memory", buffer_memory, 1)
        self._max_block = min(max_block_ms, _LONGEST_WAIT) / 1000
        self._partitioner = partitioner
        self._producer_id = new_producer_id() if enable_idempotence else -1
        self._sequences: dict[int, int] = {}  # of the next batch, by partition
        self._unsure: set[int] = set()  # partitions where a failed append may have succeeded
        self._logs: dict[int, Log] = {}
        self._changed = threading.Condition()
        self._open: dict[int, _Batch] = {}
        self._ready: deque[_Batch] = deque()
        self._unfinished: set[_Batch] = set()
        self._spare: list[BatchBuffer] = []
        self._buffered = 0
        self._errors: list[_Batch] = []
        self._closed = False
        self._forked = False
        self._thread = threading.Thread(
            target=self._run, name=f"kstore-producer-{topic.name}", daemon=True
        )
        self._thread.start()

    # --- sending --------------------------------------------------------------------------

    def send(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        timestamp: datetime | int | None = None,
        partition: int | None = None,
    ) -> Delivery:
        """Add a record to its batch and return its delivery.

        Waits while ``buffer_memory`` bytes are in flight, at most ``max_block_ms``
        (BufferExhaustedError). Raises TypeError for text, and ClosedError after ``close``.
        """
        if partition is None:
            if self._partitioner is None:
                partition = self.topic.partition_for(key, value)
            else:
                partition = choose(
                    self._partitioner, key, value, self.topic._length or len(self.topic)
                )
        elif (partition := as_partition(partition)) not in self.topic._partitions:
            self.topic.store._log(self.topic.name, partition)  # raises, naming the partition
        when = time_ns() // 1_000_000 if timestamp is None else to_record_timestamp(timestamp)
        pairs = None if headers is None else list(headers)
        size = _RECORD_OVERHEAD + _size(value) + _size(key)
        if pairs is not None:
            size += sum(_size(name) + _size(content) + 10 for name, content in pairs)
        with self._changed:
            self._wait_for_room(size)
            batch = self._batch_for(partition, size)
            buffer = cast(BatchBuffer, batch.buffer)
            if not buffer.put_within(value, key, pairs, when, self._batch_size):
                self._close_batch(batch)  # by its exact size the record does not fit
                self._changed.notify_all()
                batch = self._batch_for(partition, size)
                buffer = cast(BatchBuffer, batch.buffer)
                buffer.put(value, key, pairs, when)
            index = len(buffer) - 1
            batch.size += size
            self._buffered += size
            if buffer.byte_size >= self._batch_size:
                self._close_batch(batch)
                self._changed.notify_all()
            elif index == 0:
                self._changed.notify_all()  # the thread waits for a new deadline
        if self._acks == 0:
            sent = _Batch(partition, buffer, 0.0, self._changed)
            sent.buffer, sent.done = None, True
            return Delivery(sent, 0)
        return Delivery(batch, index)

    def _wait_for_room(self, size: int) -> None:
        self._check()
        if not self._buffered or self._buffered + size <= self._buffer_memory:
            return
        for batch in list(self._open.values()):
            self._close_batch(batch)
        self._changed.notify_all()
        room = self._changed.wait_for(
            lambda: self._closed or not self._buffered
            or self._buffered + size <= self._buffer_memory,
            self._max_block,
        )  # fmt: skip
        self._check()
        if not room:
            raise BufferExhaustedError(
                f"{self._buffered} bytes are in flight and were not written within "
                f"{self._max_block} seconds; send less, or give the producer more buffer_memory"
            )

    def _batch_for(self, partition: int, size: int) -> _Batch:
        batch = self._open.get(partition)
        if batch is not None:
            used = cast(BatchBuffer, batch.buffer).byte_size
            if batch.size and used + size - _RECORD_OVERHEAD > self._batch_size:
                self._close_batch(batch)
                batch = None
        if batch is None:
            buffer = self._spare.pop() if self._spare else BatchBuffer()
            deadline = monotonic() + self._linger
            batch = self._open[partition] = _Batch(partition, buffer, deadline, self._changed)
            self._unfinished.add(batch)
        return batch

    def _close_batch(self, batch: _Batch) -> None:
        """Close a batch to further records; the condition is held."""
        del self._open[batch.partition]
        if batch.size:
            self._ready.append(batch)
        else:  # its only record was refused
            self._unfinished.discard(batch)

    def flush(self) -> None:
        """Wait until all earlier records are delivered; raises their first error."""
        with self._changed:
            self._check_fork()
            waiting = list(self._unfinished)
            for batch in list(self._open.values()):
                self._close_batch(batch)
            self._changed.notify_all()
            self._changed.wait_for(lambda: all(batch.done or not batch.size for batch in waiting))
        self._raise_errors()

    def close(self) -> None:
        """Deliver all sent records and end the thread; raises the first error not yet raised."""
        with self._changed:
            if self._forked:
                return
            self._closed = True
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._raise_errors()

    def _raise_errors(self) -> None:
        with self._changed:
            errors, self._errors = self._errors, []
        for batch in errors:
            if not batch.error_seen and batch.error is not None:
                raise batch.error

    def _check(self) -> None:
        self._check_fork()
        if self._closed:
            raise ClosedError("the producer is closed")

    def _check_fork(self) -> None:
        if self._forked:
            raise ForkedError("this producer was created before a fork; create a new one here")

    # --- the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                batches = self._take()
                while not batches:
                    if self._closed:
                        return
                    self._changed.wait(self._until_due())
                    batches = self._take()
            self._deliver(batches)

    def _take(self) -> list[_Batch]:
        """The batches that are full or due, in order within each partition."""
        now = monotonic()
        for batch in list(self._open.values()):
            if self._closed or batch.deadline <= now:
                self._close_batch(batch)
        batches = list(self._ready)
        self._ready.clear()
        return batches

    def _until_due(self) -> float | None:
        if not self._open:
            return None
        return max(0.0, min(batch.deadline for batch in self._open.values()) - monotonic())

    def _deliver(self, batches: list[_Batch]) -> None:
        written: dict[int, Log] = {}
        for batch in batches:
            try:
                log = self._log(batch.partition)
                self._append(batch, log)
                written[batch.partition] = log
            except Exception as error:
                batch.error = error
                self._unsure.add(batch.partition)
        if self._acks == "all":
            for partition, log in written.items():
                try:
                    log.flush()
                except Exception as error:
                    for batch in batches:
                        if batch.partition == partition:
                            batch.error = batch.sync_error = error
        with self._changed:
            for batch in batches:
                self._unfinished.discard(batch)
                self._buffered -= batch.size
                buffer, batch.buffer = batch.buffer, None
                if buffer is not None and len(self._spare) < self.topic._length:
                    buffer.reset()
                    self._spare.append(buffer)
                if batch.error is not None and len(self._errors) < _ERRORS_KEPT:
                    self._errors.append(batch)
        for batch in batches:
            batch.finish()

    def _append(self, batch: _Batch, log: "Log") -> None:
        encoded, count = self._encode(batch), len(cast(BatchBuffer, batch.buffer))
        producer = NO_PRODUCER
        if self._producer_id >= 0:
            producer = (self._producer_id, 0, self._sequences.get(batch.partition, 0))
        appended = append_split(log, encoded, producer)
        batch.base_offset = appended[0].base_offset
        if len(appended) > 1 or appended[0].error is not None:
            batch.appended = appended
            refused = [each.error for each in appended if each.error is not None]
            batch.error = refused[0] if refused else None
            count -= len(refused)
        if self._producer_id >= 0:
            self._advance_sequence(batch, count)

    def _log(self, partition: int) -> "Log":
        log = self._logs.get(partition)
        if log is None or log.closed:  # closed: the topic was deleted, and perhaps recreated
            log = self._logs[partition] = self.topic[partition]
        return log

    def _encode(self, batch: _Batch) -> bytes:
        """The complete batch, compressed; the log assigns offsets and leader epoch."""
        buffer = cast(BatchBuffer, batch.buffer)
        if self._producer_id >= 0:
            if batch.partition in self._unsure:
                known = self._log(batch.partition).producers()
                self._sequences[batch.partition] = next_sequence(known, self._producer_id, 0)
                self._unsure.discard(batch.partition)
            buffer.set_producer(self._producer_id, 0, self._sequences.get(batch.partition, 0))
        if self._codec:
            buffer.replace_records(codec.compress(self._codec, MAGIC, buffer.records))
        return buffer.to_bytes(attributes=self._codec)

    def _advance_sequence(self, batch: _Batch, count: int) -> None:
        """Advance by the appended records only; sequence numbers wrap at 2^31."""
        sequence = self._sequences.get(batch.partition, 0)
        self._sequences[batch.partition] = (sequence + count) % SEQUENCES

    def _after_fork(self) -> None:
        self._forked = self._closed = True

    def __repr__(self) -> str:
        return f"<kstore.Producer to {self.topic.name!r}{' closed' * self._closed}>"

    def __enter__(self) -> "Producer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a Producer cannot be pickled; make one where it is needed")


def _size(data: bytes | str | None) -> int:
    return 0 if data is None else len(data)
