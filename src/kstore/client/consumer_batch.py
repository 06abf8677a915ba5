"""The records of one read of a consumer, and their commit."""

import weakref
from collections.abc import AsyncIterator, Iterator
from itertools import chain
from operator import length_hint
from time import monotonic
from typing import TYPE_CHECKING, SupportsIndex, overload

from kstore.client.delivery import give_way
from kstore.client.loop_signal import LoopSignal
from kstore.errors import ClosedError, UnknownTopicIdError
from kstore.hints.kafka_names import CONSUMER_IN_ASYNCIO, OF_BATCHES, OF_POLLED_RECORDS
from kstore.hints.missing_names import answer_names, no_asyncio
from kstore.topic_partition import ByPartition, TopicPartition

if TYPE_CHECKING:
    from kstore.client.consumer import Consumer
    from kstore.client.fetcher import Fetched
    from kstore.log.view import LogView
    from kstore.record import Record


class ConsumerBatch:
    """Records of one partition, from ``start_offset`` up to but excluding ``stop_offset``.

    Iterating gives :class:`kstore.Record`; ``view`` is the same range as columns or Arrow.
    As a context manager it gives at-least-once delivery: leaving the block commits
    ``stop_offset``; an exception commits nothing and resets the consumer to ``start_offset``. If
    no loop in the block reached the last record (``break``, ``return``), only the records that a
    loop was given are committed, and the consumer continues after them, unless it has read on or
    sought elsewhere meanwhile: process a batch before the next one is read.
    If the topic was deleted and recreated meanwhile, committing the batch and ``view`` raise
    UnknownTopicIdError. A batch does not keep its consumer open: after the consumer is dropped or
    closed, it cannot be committed (ClosedError). Any thread may read it; one processes it.
    """

    __slots__ = (
        "_consumer", "_given", "_isolation_level", "_iterator", "_records", "_source", "_store",
        "partition", "start_offset", "stop_offset", "topic",
    )  # fmt: skip

    def __init__(self, consumer: "Consumer", fetched: "Fetched") -> None:
        self._consumer = weakref.ref(consumer)
        self._store = consumer._store
        self._isolation_level = consumer.isolation_level
        tp, self._source, self._records, self.start_offset, self.stop_offset = fetched
        self.topic, self.partition = tp
        self._iterator: Iterator[Record] | None = None  # of the latest loop
        self._given = 0  # the most records that a loop before it was given

    @property
    def view(self) -> "LogView":
        """The records as a view of the log: ``scan()``, ``to_arrow()``."""
        store = self._store
        log = store._log(self.topic, self.partition)
        store._follow_writer()  # after the log is opened
        if not store._manager.identities.is_same(self.topic, self._source.topic_id):
            raise UnknownTopicIdError(
                f"topic {self.topic!r} was deleted since this batch was read, and its name is "
                "another topic's now. The batch itself has the records",
                path=log.path,
            )
        return log.view(self.start_offset, self.stop_offset, isolation=self._isolation_level)

    def __iter__(self) -> Iterator["Record"]:
        self._given = self._most_given()
        self._iterator = iterator = iter(self._records)  # the list's own knows how many are left
        return iterator

    def __contains__(self, record: object) -> bool:
        return record in self._records

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: SupportsIndex) -> "Record": ...
    @overload
    def __getitem__(self, index: slice) -> list["Record"]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> "Record | list[Record]":
        """A record by its index in the batch (not by its offset), or a list of them."""
        return self._records[index]

    def __enter__(self) -> "ConsumerBatch":
        self._open_consumer()._reads.note_commit()
        self._iterator, self._given = None, 0  # a look at a record before the block is no loop
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        tp = TopicPartition(self.topic, self.partition)
        if kind is None:
            reader, offset = self._open_consumer(), self._next_offset()
            reader._commit_batch(tp, self._source, offset)
            if offset != self.stop_offset:
                reader._rewind(tp, self._source, offset, self.stop_offset)
        elif (consumer := self._consumer()) is not None:
            consumer._rewind(tp, self._source, self.start_offset, self.stop_offset)

    def _next_offset(self) -> int:
        """The offset after what was processed: ``stop_offset`` unless every loop ended early."""
        given = self._most_given()
        return self._records[given].offset if 0 < given < len(self._records) else self.stop_offset

    def _most_given(self) -> int:
        """The most records that one of the loops was given."""
        if self._iterator is None:
            return self._given
        return max(self._given, len(self._records) - length_hint(self._iterator))

    def _open_consumer(self) -> "Consumer":
        consumer = self._consumer()
        if consumer is None:
            raise ClosedError(
                "the consumer of this batch was dropped, so the batch cannot be committed: keep "
                "it, `with store.consumer(...) as consumer:`"
            )
        return consumer

    def __repr__(self) -> str:
        return (
            f"<kstore.ConsumerBatch {self.topic}-{self.partition} "
            f"[{self.start_offset}, {self.stop_offset})>"
        )


class PolledRecords(ByPartition[list["Record"]]):
    """Records by partition: a dict that explains a record's attributes, and an ``await``."""

    if not TYPE_CHECKING:
        __await__ = no_asyncio(CONSUMER_IN_ASYNCIO, "poll()")


answer_names(ConsumerBatch, OF_BATCHES)
answer_names(PolledRecords, OF_POLLED_RECORDS)


_RECORDS_AT_ONCE = 500  # before other tasks of an event loop run


class ConsumerRecords(chain["Record"]):
    """Records of a consumer, for ``for`` (as fast as the generator in it) and ``async for``."""

    _consumer: "Consumer"

    async def __aiter__(self) -> "AsyncIterator[Record]":
        """Reads on the event loop, as ``async for`` over ``follow`` does; waits without a thread.

        So a cancelled wait leaves nothing behind.
        """
        consumer, changed = self._consumer, LoopSignal()
        timeout, count, last = consumer._timeout, 0, monotonic()
        with consumer._waits.begin(changed.set) as wait:
            while not consumer._closed:
                changed.clear()
                wait.clear()
                before = count
                for record in consumer._records(0.0):
                    count += 1
                    yield record
                    if count % _RECORDS_AT_ONCE == 0:
                        await give_way(0)
                if count > before:
                    last = monotonic()
                left = None if timeout is None else timeout - monotonic() + last
                if left is not None and left <= 0:
                    return
                if wait.watch(consumer._awaited()):
                    await give_way(0)
                    continue
                await changed.wait(consumer._longest_wait(wait, left))


def records_of(consumer: "Consumer") -> "ConsumerRecords":
    """The records of a consumer one by one, for ``for`` and ``async for``."""
    records = ConsumerRecords(consumer._records(consumer._timeout))
    records._consumer = consumer
    return records
