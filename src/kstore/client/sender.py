"""Collects batches up to a memory limit; one thread appends them and syncs their logs."""

import logging
import threading
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, cast

from kstore._native.append.encode import BatchBuffer
from kstore.client.delivery import InFlight, ProducerBatch
from kstore.errors import (
    BufferExhaustedError,
    ClosedError,
    ForkedError,
    InvalidConfigError,
    KStoreError,
)
from kstore.integers import check_integer_setting, check_milliseconds, check_seconds
from kstore.record.memory_size import RECORD_OVERHEAD

if TYPE_CHECKING:
    from datetime import timedelta

    from kstore.client.topic_batches import TopicBatches
    from kstore.integers import Seconds
    from kstore.log.log import Log

_LOGGER = logging.getLogger("kstore")
_ERRORS_KEPT = 100


class Sender:
    """The memory, acknowledgements and thread that producers of several topics share.

    ``changed`` guards the batches. The methods marked so must be called with it held.
    """

    def __init__(
        self,
        name: str,
        *,
        linger_ms: "float | timedelta",
        acks: int | str,
        buffer_memory: int,
        max_block_ms: "float | timedelta",
    ) -> None:
        if isinstance(acks, bool) or acks not in (0, 1, "all", -1):
            raise InvalidConfigError(f"acks must be 0, 1 or 'all', not {acks!r}")
        self.acks = "all" if acks == -1 else acks
        self.closed = False
        self.changed = threading.Condition()
        self.buffered = 0
        self._linger = check_milliseconds("linger_ms", linger_ms)
        self._buffer_memory = check_integer_setting("buffer_memory", buffer_memory, 1)
        self._max_block = check_milliseconds("max_block_ms", max_block_ms)
        self._topics: list[TopicBatches] = []
        self._ready: deque[ProducerBatch] = deque()
        self._unfinished: set[ProducerBatch] = set()
        self._spare: list[BatchBuffer] = []
        self._errors: list[ProducerBatch] = []
        self._forked = False
        self._abandoned = False  # its producer was dropped without close
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, topic: "TopicBatches") -> None:
        """Add the batches of one more topic."""
        with self.changed:
            self._topics.append(topic)

    # --- while the condition is held ------------------------------------------------------

    def wait_for_room(self, size: int) -> None:
        """Wait while the memory is full; raises if the producer is closed."""
        if self.closed:  # also in a forked child
            self._check()
        if not self.buffered or self.buffered + size <= self._buffer_memory:
            return
        self._check_wait()
        self._close_batches()
        self.changed.notify_all()
        room = self.changed.wait_for(
            lambda: self.closed or not self.buffered
            or self.buffered + size <= self._buffer_memory,
            self._max_block,
        )  # fmt: skip
        self._check()
        if not room:
            raise BufferExhaustedError(
                f"{self.buffered} bytes are in flight and were not written within "
                f"{self._max_block} seconds; send less, or give the producer more buffer_memory"
            )

    def batch_for(self, topic: "TopicBatches", partition: int, size: int) -> ProducerBatch:
        """The open batch of a partition that has room, or a new one."""
        batch = topic.open.get(partition)
        if batch is not None:
            used = cast(BatchBuffer, batch.buffer).byte_size
            if batch.size and used + size - RECORD_OVERHEAD > topic.batch_size:
                self.close_batch(topic, batch)
                batch = None
        if batch is None:
            buffer = self._spare.pop() if self._spare else BatchBuffer()
            deadline = monotonic() + self._linger
            batch = ProducerBatch(topic, partition, buffer, deadline, self.changed)
            topic.open[partition] = batch
            self._unfinished.add(batch)
        return batch

    def close_batch(self, topic: "TopicBatches", batch: ProducerBatch) -> None:
        """Close a batch to further records."""
        del topic.open[batch.partition]
        if batch.size:
            self._ready.append(batch)
        else:  # its only record was refused
            self._unfinished.discard(batch)

    def _close_batches(self, due: float | None = None) -> None:
        """Close the batches that are due then, or (None) all."""
        for topic in self._topics:
            for batch in list(topic.open.values()):
                if due is None or batch.deadline <= due:
                    self.close_batch(topic, batch)

    # --- the caller's calls ---------------------------------------------------------------

    def flush(self, timeout: "Seconds" = None) -> int:
        """Wait until all earlier records are delivered, at most ``timeout`` seconds (None: no
        limit).

        Returns how many of them are still in flight; raises the first error of the others.
        """
        seconds = check_seconds("timeout", timeout)
        with self.changed:
            self._check_fork()
            if self._thread is threading.current_thread():
                raise KStoreError("flush() in a delivery callback would wait for that callback")
            self._check_wait()
            waiting = {batch for batch in self._unfinished if batch.size}  # 0: it was refused
            self._close_batches()
            self.changed.notify_all()
            self.changed.wait_for(lambda: waiting.isdisjoint(self._unfinished), seconds)
            left = sum(batch.record_count() for batch in waiting & self._unfinished)
        self._raise_errors()
        return InFlight(left)

    def close(self) -> None:
        """Deliver all sent records and end the thread; raises the first error not yet raised."""
        with self.changed:
            if self._forked:
                return
            if self._thread.is_alive():
                self._check_wait()
            self.closed = True
            self.changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._raise_errors()

    def abandon(self) -> None:
        """Deliver all sent records and end the thread, without waiting for it.

        For a producer that was dropped. With an error that no call has raised, the thread waits
        for ``close``: the store's raises it.
        """
        if self._forked:  # before the lock, which the thread of the parent may have held
            return
        with self.changed:
            self._abandoned = True
            self.changed.notify_all()

    def _check_wait(self) -> None:
        """Raise RuntimeError if the calling thread holds up a batch that it would wait for."""
        for batch in self._unfinished:
            batch.of_topic.check_wait(batch.partition)

    def _raise_errors(self) -> None:
        with self.changed:
            errors, self._errors = self._errors, []
        for batch in errors:
            if not batch.error_seen and batch.error is not None:
                raise batch.error

    def _check(self) -> None:
        self._check_fork()
        if self.closed:
            raise ClosedError("the producer is closed")

    def _check_fork(self) -> None:
        if self._forked:
            raise ForkedError("this producer was created before a fork; create a new one here")

    def _after_fork(self) -> None:
        self._forked = self.closed = True

    # --- the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while batches := self._next_batches():
                self._deliver(batches)
        except BaseException as error:
            _LOGGER.exception("a producer's thread ended")
            self._fail(error)
        for topic in self._topics:
            topic.callback_errors.report()

    def _next_batches(self) -> list[ProducerBatch]:
        """Wait for batches that are full or due; an empty list means that the thread must end."""
        with self.changed:
            while not (batches := self._take()):
                if self.closed or (self._abandoned and not self._errors):
                    return []
                self.changed.wait(self._until_due())
            return batches

    def _take(self) -> list[ProducerBatch]:
        """The batches that are full or due, in order within each partition."""
        self._close_batches(None if self.closed or self._abandoned else monotonic())
        batches = list(self._ready)
        self._ready.clear()
        return batches

    def _until_due(self) -> float | None:
        deadlines = [batch.deadline for topic in self._topics for batch in topic.open.values()]
        return max(0.0, min(deadlines) - monotonic()) if deadlines else None

    def _deliver(self, batches: list[ProducerBatch]) -> None:
        written: dict[Log, list[ProducerBatch]] = {}
        for batch in batches:
            log = batch.of_topic.append(batch)
            if log is not None:
                written.setdefault(log, []).append(batch)
        if self.acks == "all":
            for log, appended in written.items():
                try:
                    log.flush()
                except Exception as error:
                    for batch in appended:
                        batch.error = batch.sync_error = error
        self._finish(batches)

    def _finish(self, batches: list[ProducerBatch]) -> None:
        """Notify waiters of the batches, which stay in flight until their callbacks have run.

        The condition is not held while callbacks run.
        """
        with self.changed:
            kept = sum(topic.topic._length for topic in self._topics)
            for batch in batches:
                self.buffered -= batch.size
                buffer = batch.finish()
                if buffer is not None and len(self._spare) < kept:
                    buffer.reset()
                    self._spare.append(buffer)
                if not batch.callbacks:
                    self._forget(batch)
            self.changed.notify_all()
        for batch in batches:
            if batch.callbacks:
                batch.call_back()
                with self.changed:
                    self._forget(batch)
                    self.changed.notify_all()

    def _forget(self, batch: ProducerBatch) -> None:
        """Count a batch as delivered; its error is raised by the next flush or close."""
        self._unfinished.discard(batch)
        if batch.error is not None and not batch.error_seen and len(self._errors) < _ERRORS_KEPT:
            self._errors.append(batch)

    def _fail(self, cause: BaseException) -> None:
        """Close the producer with an error for each batch that is not delivered."""
        error = KStoreError(f"the producer's thread ended: {type(cause).__name__}: {cause}")
        error.__cause__ = cause
        with self.changed:
            self.closed = True
            self._close_batches()
            batches = list(self._unfinished)
            for batch in batches:
                if not batch.done:
                    batch.error, batch.sync_error = batch.error or error, error
        self._finish(batches)
