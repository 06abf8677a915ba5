"""Producers, which collect records into batches by partition; a thread writes the batches."""

from datetime import datetime
from time import time_ns
from typing import TYPE_CHECKING, Never, Self, cast
from weakref import finalize

from kstore._native.append.encode import BatchBuffer
from kstore.client.argument_errors import wrong_send
from kstore.client.block_errors import close_block, close_block_in_thread
from kstore.client.delivery import (
    Delivery,
    OnDelivery,
    ProducerBatch,
    report_delivery,
)
from kstore.client.partitioner import Partitioner, choose
from kstore.client.sender import Sender
from kstore.client.topic_batches import TopicBatches, check_batch_settings
from kstore.hints.kafka_names import OF_PRODUCERS
from kstore.hints.missing_names import answer_names
from kstore.record import Headers, header_pairs
from kstore.record.memory_size import RECORD_OVERHEAD, headers_size
from kstore.record.timestamp import to_record_timestamp
from kstore.topic_partition import as_partition

if TYPE_CHECKING:
    from datetime import timedelta

    from kstore.integers import Seconds
    from kstore.store.store import Store
    from kstore.store.topic import Topic

Acks = int | str


class _OwnsSender:
    """Closing of a producer, and waiting for the records that it has sent."""

    _sender: Sender

    def _start(self) -> None:
        """Start the thread, which ends when the producer is closed or dropped."""
        self._sender.start()
        finalize(self, self._sender.abandon).atexit = False  # then the store closes it

    def flush(self, timeout: "Seconds" = None) -> int:
        """Wait until all earlier records are delivered, at most ``timeout`` seconds (None: no
        limit).

        A record is delivered when its callbacks have returned, as in Kafka. Returns how many of
        them are still in flight, as confluent-kafka's ``flush``: 0 without a timeout. Raises the
        first error of the others, if no call has returned it, InvalidConfigError for a negative
        timeout, and ForkedError. Safe to call from any thread but the producer's: a callback that
        calls it gets a KStoreError, because it would wait for itself.
        """
        return self._sender.flush(timeout)

    def close(self) -> None:
        """Deliver all sent records and end the thread; raises the first error not yet raised.

        A producer that is dropped without ``close`` delivers its records too; the store's
        ``close`` raises its errors.
        """
        self._sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        close_block(error, self.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Close it without blocking the event loop."""
        await close_block_in_thread(error, self.close)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError(f"a {type(self).__name__} cannot be pickled; create one where it is needed")


class Producer(_OwnsSender):
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
        linger_ms: "float | timedelta" = 5,
        compression: str | None = None,
        acks: Acks = "all",
        buffer_memory: int = 32 << 20,
        max_block_ms: "float | timedelta" = 60_000,
        partitioner: Partitioner | None = None,
        enable_idempotence: bool = False,
        sender: Sender | None = None,
    ) -> None:
        self.topic = topic
        self._batches = TopicBatches(
            topic,
            batch_size=batch_size,
            compression=compression,
            enable_idempotence=enable_idempotence,
        )
        self._partitioner = partitioner
        self._sender = sender or Sender(
            f"kstore-producer-{topic.name}",
            linger_ms=linger_ms,
            acks=acks,
            buffer_memory=buffer_memory,
            max_block_ms=max_block_ms,
        )
        self._changed = self._sender.changed
        self._sender.add(self._batches)
        if sender is None:
            self._start()

    def send(
        self,
        value: bytes | None,
        *unexpected: Never,
        key: bytes | None = None,
        headers: Headers | None = None,
        timestamp: datetime | int | None = None,
        partition: int | None = None,
        on_delivery: OnDelivery | None = None,
        **unknown: Never,
    ) -> Delivery:
        """Add a record to its batch and return its delivery.

        Waits while ``buffer_memory`` bytes are in flight, at most ``max_block_ms``
        (BufferExhaustedError). Raises TypeError for text, and ClosedError after ``close``.
        ``on_delivery(error, position)`` is called in the producer's thread when the result is
        known; one of the two is None.
        """
        if unexpected or unknown:
            raise wrong_send("send(value, key=...)", self.topic.name, unknown)
        topic, sender = self._batches, self._sender
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
        pairs = None if headers is None else header_pairs(headers)
        size = RECORD_OVERHEAD + _size(value) + _size(key)
        if pairs is not None:
            size += headers_size(pairs)
        with self._changed:
            sender.wait_for_room(size)
            batch = sender.batch_for(topic, partition, size)
            buffer = cast(BatchBuffer, batch.buffer)
            if not buffer.put_within(value, key, pairs, when, topic.batch_size):
                sender.close_batch(topic, batch)  # the record does not fit, given its exact size
                self._changed.notify_all()
                batch = sender.batch_for(topic, partition, size)
                buffer = cast(BatchBuffer, batch.buffer)
                buffer.put(value, key, pairs, when)
            index = len(buffer) - 1
            batch.size += size
            sender.buffered += size
            if buffer.byte_size >= topic.batch_size:
                sender.close_batch(topic, batch)
                self._changed.notify_all()
            elif index == 0:
                self._changed.notify_all()  # the thread waits for a new deadline
        if sender.acks == 0:
            batch, index = ProducerBatch(topic, partition, None, 0.0, self._changed), 0
            batch.done = True
        delivery = Delivery(batch, index)
        if on_delivery is not None:
            report_delivery(delivery, on_delivery)
        return delivery

    def __repr__(self) -> str:
        return f"<kstore.Producer to {self.topic.name!r}{' closed' * self._sender.closed}>"


answer_names(Producer, OF_PRODUCERS)


class MultiTopicProducer(_OwnsSender):
    """Sends records to any topics; created by :meth:`kstore.Store.producer` without a topic.

    As :class:`Producer`, with one thread and one ``buffer_memory`` for all topics. Safe to share
    between threads.
    """

    def __init__(
        self,
        store: "Store",
        *,
        batch_size: int | None = None,
        linger_ms: "float | timedelta" = 5,
        compression: str | None = None,
        acks: Acks = "all",
        buffer_memory: int = 32 << 20,
        max_block_ms: "float | timedelta" = 60_000,
        partitioner: Partitioner | None = None,
        enable_idempotence: bool = False,
    ) -> None:
        self._store = store
        self._batch_size = batch_size
        self._compression = compression
        self._partitioner = partitioner
        self._enable_idempotence = enable_idempotence
        self._producers: dict[str, Producer] = {}
        check_batch_settings(batch_size, compression)
        self._sender = Sender(
            "kstore-producer",
            linger_ms=linger_ms,
            acks=acks,
            buffer_memory=buffer_memory,
            max_block_ms=max_block_ms,
        )
        self._start()

    def send(
        self,
        topic: str,
        value: bytes | None,
        *unexpected: Never,
        key: bytes | None = None,
        headers: Headers | None = None,
        timestamp: datetime | int | None = None,
        partition: int | None = None,
        on_delivery: OnDelivery | None = None,
        **unknown: Never,
    ) -> Delivery:
        """Add a record to its batch and return its delivery; as :meth:`Producer.send`.

        Raises UnknownTopicOrPartitionError, and the errors of :meth:`Producer.send`.
        """
        if unexpected or unknown:
            raise wrong_send("send(topic, value, key=...)", None, unknown)
        producer = self._producers.get(topic) or self._producer_of(topic)
        return producer.send(
            value,
            key=key,
            headers=headers,
            timestamp=timestamp,
            partition=partition,
            on_delivery=on_delivery,
        )

    def _producer_of(self, topic: str) -> Producer:
        handle = self._store.topic(topic)
        with self._sender.changed:
            producer = self._producers.get(topic)
            if producer is None:
                producer = self._producers[topic] = Producer(
                    handle,
                    batch_size=self._batch_size,
                    compression=self._compression,
                    partitioner=self._partitioner,
                    enable_idempotence=self._enable_idempotence,
                    sender=self._sender,
                )
            return producer

    def __repr__(self) -> str:
        topics = ", ".join(self._producers) or "no topic yet"
        return f"<kstore.MultiTopicProducer to {topics}{' closed' * self._sender.closed}>"


answer_names(MultiTopicProducer, OF_PRODUCERS)


def _size(data: bytes | str | None) -> int:
    try:
        return 0 if data is None else len(data)
    except TypeError:  # no bytes: the batch refuses it, with advice
        return 0
