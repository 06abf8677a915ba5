"""The result of sending a record, and its batch."""

import logging
import threading
from bisect import bisect_right
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from kstore._native.append.encode import BatchBuffer
from kstore.client.record_metadata import RecordMetadata, metadata_of
from kstore.hints.kafka_names import FLUSH_IN_ASYNCIO, OF_DELIVERIES
from kstore.hints.missing_names import answer_names, no_asyncio
from kstore.integers import check_seconds, count_of
from kstore.log.append_split import AppendedBatch

if TYPE_CHECKING:
    from asyncio import Future

    from kstore.client.topic_batches import TopicBatches
    from kstore.integers import Seconds

_LOGGER = logging.getLogger("kstore")

# (error, metadata): one of the two is None
OnDelivery = Callable[[BaseException | None, RecordMetadata | None], object]


class Delivery:
    """The result of sending a record; a light variant of ``concurrent.futures.Future``.

    ``await delivery`` gives the record's position in a coroutine of asyncio. Safe to share between
    threads.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: "ProducerBatch", index: int) -> None:
        self._batch = batch
        self._index = index

    def done(self) -> bool:
        return self._batch.done

    def result(self, timeout: "Seconds" = None) -> RecordMetadata:
        """The record's topic, partition and offset; raises the error if it was not appended.

        Waits up to timeout seconds (TimeoutError). With ``acks=0`` it does not wait for the log,
        so the offset is -1, as in Kafka.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        batch = self._batch
        return metadata_of(batch.of_topic.topic, batch.partition, batch.offset_of(self._index))

    def exception(self, timeout: "Seconds" = None) -> BaseException | None:
        """The error, or None for an appended record."""
        self._batch.wait(check_seconds("timeout", timeout))
        self._batch.error_seen = True
        return self._batch.error_of(self._index)

    def add_done_callback(self, callback: Callable[["Delivery"], object]) -> None:
        """Call ``callback(delivery)`` once the result is known; now if it is already known.

        It runs on the producer's thread, which waits for it. The first of its exceptions is logged
        with a traceback; more of the same type are counted.
        """
        self._batch.when_done(self, callback)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        """Wait without blocking the event loop; like :meth:`result`.

        Cancelling the wait does not cancel the record, which is still appended.
        """
        if not self.done():
            from asyncio import get_running_loop

            loop = get_running_loop()
            waiter: Future[None] = loop.create_future()

            def wake(_: Delivery) -> None:  # in the producer's thread
                if not loop.is_closed():
                    loop.call_soon_threadsafe(_finish, waiter)

            self.add_done_callback(wake)
            yield from waiter
        return self.result()


answer_names(Delivery, OF_DELIVERIES)


class InFlight(int):
    """The number of records in flight; ``await`` on it raises an error that names asyncio's
    call."""

    if not TYPE_CHECKING:
        __await__ = no_asyncio(FLUSH_IN_ASYNCIO, "flush()")


class Committed:
    """The result of a ``commit``, which is complete when it returns: awaiting it does not wait."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


def _finish(waiter: "Future[None]") -> None:
    if not waiter.done():  # the waiter may be cancelled
        waiter.set_result(None)


async def run_in_thread(call: Callable[[], object]) -> None:
    """Call in a thread of the event loop's executor; a cancelled wait does not stop the call."""
    from asyncio import to_thread  # imported here, as it takes tens of milliseconds

    await to_thread(call)


async def give_way(seconds: float) -> None:
    """Let the other tasks of the event loop run, for a number of seconds."""
    from asyncio import sleep

    await sleep(seconds)


def report_delivery(delivery: Delivery, on_delivery: OnDelivery) -> None:
    """Call ``on_delivery(error, position)`` when the result is known."""

    def report(done: Delivery) -> None:
        error = done.exception()
        on_delivery(error, done.result() if error is None else None)

    delivery.add_done_callback(report)


class CallbackErrors:
    """Logs the first error of each type that the delivery callbacks of a topic raise.

    The others are counted, and reported at every power of ten and at the producer's close: a
    callback that always fails would fill the log with its tracebacks. Thread safe.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._lock = threading.Lock()
        self._types: set[type[BaseException]] = set()
        self._more = self._reported = 0
        self._next_report = 10
        self._last = ""

    def add(self, error: BaseException) -> None:
        kind = type(error)
        with self._lock:
            is_known = kind in self._types
            self._types.add(kind)
            self._more += is_known
            self._last = kind.__name__
            is_due = self._more >= self._next_report
            if is_due:
                self._next_report *= 10
        if not is_known:
            _LOGGER.error(
                "a delivery callback of topic %r failed; more %s are counted",
                self._topic, kind.__name__, exc_info=error,
            )  # fmt: skip
        elif is_due:
            self.report()

    def report(self) -> None:
        """Log how many errors have no line of their own, if there are new ones."""
        with self._lock:
            more, last = self._more, self._last
            is_new, self._reported = more > self._reported, more
        if is_new:
            _LOGGER.error(
                "%s of topic %r failed, the last one with %s",
                count_of(more, "more delivery callback"), self._topic, last,
            )  # fmt: skip


class ProducerBatch:
    """Unwritten records of one partition. Guarded by the sender's condition."""

    __slots__ = (
        "_changed",
        "_count",
        "appended",
        "base_offset",
        "buffer",
        "callbacks",
        "deadline",
        "done",
        "error",
        "error_seen",
        "of_topic",
        "partition",
        "size",
        "sync_error",
    )  # fmt: skip

    def __init__(
        self,
        of_topic: "TopicBatches",
        partition: int,
        buffer: BatchBuffer | None,
        deadline: float,
        changed: threading.Condition,
    ) -> None:
        self.of_topic = of_topic
        self.partition = partition
        self.buffer = buffer
        self.deadline = deadline
        self.size = 0
        self.base_offset = -1
        self.error: BaseException | None = None
        self.sync_error: BaseException | None = None
        self.appended: list[AppendedBatch] = []  # if it was split into smaller batches
        self.error_seen = False
        self.done = False
        self.callbacks: list[tuple[Delivery, Callable[[Delivery], object]]] = []
        self._changed = changed
        self._count = 0  # number of its records, once it is done

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
        self.of_topic.check_wait(self.partition)
        with self._changed:
            if not self._changed.wait_for(lambda: self.done, timeout):
                raise TimeoutError(f"the record is not delivered after {timeout} seconds")

    def record_count(self) -> int:
        return self._count if self.buffer is None else len(self.buffer)

    def when_done(self, delivery: Delivery, callback: Callable[[Delivery], object]) -> None:
        with self._changed:
            if not self.done:
                self.callbacks.append((delivery, callback))
                return
        try:
            callback(delivery)
        except Exception as error:  # an interrupt of the calling thread continues
            self.of_topic.callback_errors.add(error)

    def finish(self) -> BatchBuffer | None:
        """Mark the batch as done and return its buffer for reuse. The caller holds the
        condition."""
        self._count = self.record_count()
        buffer, self.buffer = self.buffer, None
        self.done = True
        return buffer

    def call_back(self) -> None:
        """Call the callbacks on the producer's thread, which none of their errors may end."""
        for delivery, callback in self.callbacks:
            try:
                callback(delivery)
            except BaseException as error:  # also of sys.exit(), and of an asyncio loop that ends
                self.of_topic.callback_errors.add(error)
        self.callbacks = []
