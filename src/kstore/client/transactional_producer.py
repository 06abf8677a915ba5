"""A transactional producer: writes to several partitions atomically."""

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from time import time_ns
from typing import TYPE_CHECKING, Never

from kstore.client.argument_errors import wrong_send
from kstore.client.block_errors import close_block
from kstore.client.topic_batches import check_batch_settings
from kstore.config import codec_of_batches, warn_of_codec
from kstore.coordinator.transaction.transaction_state_records import TransactionState
from kstore.coordinator.transaction.transaction_topics import TransactionTopics
from kstore.errors import (
    ClosedError,
    ForkedError,
    InvalidConfigError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KStoreError,
    ProducerFencedError,
)
from kstore.files.filenames import INTERNAL_TOPICS
from kstore.hints.kafka_names import OF_TRANSACTIONS, TRANSACTION_IN_ASYNCIO
from kstore.hints.missing_names import answer_names, no_asyncio
from kstore.integers import as_milliseconds, check_integer, check_seconds
from kstore.log.append_split import append_all
from kstore.producer_state.producer_ids import SEQUENCES, next_sequence
from kstore.record import Headers
from kstore.record.builder import BatchBuilder
from kstore.record.timestamp import to_record_timestamp
from kstore.topic_partition import TopicPartition, as_partition, as_topic_partition

if TYPE_CHECKING:
    from datetime import timedelta

    from kstore.client.consumer import Consumer
    from kstore.coordinator.transaction.transaction_owner import TransactionOwner
    from kstore.integers import Seconds
    from kstore.store.store import Store

_LOGGER = logging.getLogger("kstore")

_TRANSACTIONAL = 0x10


class TransactionalProducer:
    """Writes to several partitions atomically; created by
    :meth:`kstore.Store.transactional_producer`.

    ``with producer.transaction():`` commits when the block ends and aborts when it raises.
    Readers with ``read_committed`` see all records of a transaction after its commit, others
    before. One transaction at a time; safe to share between threads.

    A second producer with the same transactional id, in this process or after the next opening,
    aborts this one's open transaction and fences it: it then raises ProducerFencedError.
    """

    def __init__(
        self,
        store: "Store",
        transactional_id: str,
        *,
        timeout_ms: "int | timedelta",
        batch_size: int | None,
        compression: str | None,
        acks: int | str,
    ) -> None:
        if isinstance(acks, bool) or acks not in (1, "all", -1):
            raise InvalidConfigError(f"acks must be 1 or 'all' for transactions, not {acks!r}")
        check_batch_settings(batch_size, compression)
        self.transactional_id = transactional_id
        self._store = store
        self._timeout_ms = check_integer("timeout_ms", as_milliseconds(timeout_ms))
        self._batch_size = None if batch_size is None else int(batch_size)
        self._compression = compression
        self._durable = acks != 1
        self._lock = threading.RLock()
        self._open = False  # whether a transaction is open
        self._failed: BaseException | None = None  # the reason that it can only be aborted
        self._rewound: Consumer | None = None  # the consumer whose positions an abort resets
        self._builders: dict[TopicPartition, BatchBuilder] = {}
        self._joined: set[TopicPartition] = set()  # partitions of the transaction
        self._written: dict[TopicPartition, int] = {}  # number of its records written so far
        self._sequences: dict[TopicPartition, int] = {}  # of the next batch
        self._truncations: dict[TopicPartition, int] = {}  # of the log before the last batch
        # partitions where a failed append may have succeeded
        self._unsure: set[TopicPartition] = set()
        self._topics = TransactionTopics(store)
        self._closed = False
        self._forked = False
        self.producer_id, self.producer_epoch = self._coordinator.init(
            transactional_id, self._timeout_ms
        )

    @property
    def _coordinator(self) -> "TransactionOwner":
        """The current owner of the store's transactions, which may be a broker that serves it."""
        return self._store._transaction_coordinator()

    # --- the transaction ------------------------------------------------------------------

    @property
    def in_transaction(self) -> bool:
        return self._open

    def init_transactions(self, timeout: "Seconds" = None) -> None:
        """Kafka's first call of a producer; opening this one has done it, so nothing is left.

        Raises ProducerFencedError if a newer producer of the transactional id was opened since.
        """
        check_seconds("timeout", timeout)
        with self._lock:
            self._check()
            self._coordinator.check(self.transactional_id, self.producer_id, self.producer_epoch)

    def begin_transaction(self) -> None:
        """Begin a transaction; raises InvalidTxnStateError if one is open.

        First completes a transaction whose commit or abort failed after its outcome was written.
        """
        with self._lock:
            self._check()
            if self._open and not self._finish_decided():
                raise InvalidTxnStateError("the producer already has an open transaction")
            self._coordinator.check(self.transactional_id, self.producer_id, self.producer_epoch)
            self._open, self._failed = True, None

    def commit_transaction(self) -> None:
        """Write the buffered records and commit atomically.

        With ``acks="all"`` the commit survives a power failure once this returns. After a
        StorageError it may be called again; if the outcome had been written, it is final, and
        the next transaction, ``close`` or the next opening of the store finishes it.
        Raises ProducerFencedError, and InvalidTxnStateError without a transaction, or if it can
        only be aborted: an earlier ``send`` failed, a topic or partition was deleted, or this
        process has truncated records of the transaction.
        """
        with self._lock:
            self._check_open()
            if self._failed is not None:
                raise InvalidTxnStateError(
                    f"the transaction can only be aborted: {self._failed}"
                ) from self._failed
            self._topics.check()
            for tp in list(self._builders):
                self._write(tp)
            self._topics.check_records()
            self._end(commit=True)

    def abort_transaction(self) -> None:
        """Abort the transaction. Partitions of a consumer given to
        :meth:`send_offsets_to_transaction` return to their committed offsets. After a
        StorageError it may be called again; the next call finishes it if the outcome was written.
        """
        with self._lock:
            self._check_open()
            for builder in self._builders.values():
                builder.clear()
            self._end(commit=False)

    @contextmanager
    def transaction(self) -> Iterator["TransactionalProducer"]:
        """A context manager that commits at the end of its block, and aborts on an exception.

        The block may end the transaction earlier: ``abort_transaction()``.
        """
        self.begin_transaction()
        try:
            yield self
            if self._open:
                self.commit_transaction()
        except BaseException:
            if self._open:
                with suppress(KStoreError):  # raise the first error
                    self.abort_transaction()
            raise

    def _finish_decided(self) -> bool:
        """Finish a commit or abort that failed after its outcome was written; False: none."""
        if not self._joined:
            return False
        state = self._coordinator.check(
            self.transactional_id, self.producer_id, self.producer_epoch
        ).state
        if state is TransactionState.ONGOING:
            return False
        self._end(
            commit=state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
        )
        return True

    def _end(self, *, commit: bool) -> None:
        """End the transaction; the state stays until the coordinator has succeeded."""
        if self._joined:
            self._coordinator.end(
                self.transactional_id, self.producer_id, self.producer_epoch,
                commit=commit, durable=self._durable,
            )  # fmt: skip
        if self._rewound is not None and not commit:
            with suppress(ClosedError):  # a closed consumer has no positions
                self._rewound.seek_to_committed()
        self._open, self._failed, self._rewound = False, None, None
        self._joined.clear()
        self._written.clear()
        self._topics.clear()

    # --- its records ----------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: bytes | None,
        *unexpected: Never,
        key: bytes | None = None,
        headers: Headers | None = None,
        timestamp: datetime | int | None = None,
        partition: int | None = None,
        **unknown: Never,
    ) -> TopicPartition:
        """Add a record to the transaction; returns its partition.

        The record is written when its batch is full, or by ``commit_transaction``. Raises
        InvalidTxnStateError outside a transaction, ProducerFencedError, and the errors of
        :meth:`kstore.Log.append_as_leader`.
        """
        if unexpected or unknown:
            raise wrong_send("send(topic, value, key=...)", None, unknown)
        with self._lock:
            self._check_open()
            known = self._store.topic(topic)
            self._topics.add(topic)
            if partition is None:
                partition = known.partition_for(key, value)
            elif (partition := as_partition(partition)) not in known._partitions:
                self._store._log(topic, partition)  # raises, naming the partition
            when = time_ns() // 1_000_000 if timestamp is None else to_record_timestamp(timestamp)
            tp = TopicPartition(topic, partition)
            self._put(tp, value, key, headers, when)
            return tp

    def send_offsets_to_transaction(
        self,
        offsets: "Consumer | Mapping[TopicPartition | tuple[str, int], int]",
        group: str | None = None,
    ) -> None:
        """Commit a group's offsets with the transaction: exactly-once consume, transform, produce.

        Parameters
        ----------
        offsets
            The next offset to read of each partition, or a consumer: then its positions, for
            its group. The consumer must not commit by itself.
        group
            Whose offsets; not needed with a consumer.
        """
        from kstore.client.consumer import Consumer
        from kstore.client.uncommitted_reads import note_commit_of_group
        from kstore.coordinator.group.offsets_table import OFFSETS_TOPIC
        from kstore.coordinator.group.store_group import (
            StoreGroup,
            check_offset,
            check_topic_ids,
        )

        with self._lock:
            self._check_open()
            if isinstance(offsets, Consumer):
                wanted = list(offsets.positions().items())
                members = offsets._group
                if members is None or (group is not None and group != members.name):
                    raise InvalidConfigError("the consumer has no group, or another one")
                topic_ids = offsets._assignment.topic_ids()
                check_topic_ids(self._store, topic_ids, {t for (t, _), _ in wanted})
                offsets._partitions.check_transaction()
                self._rewound = offsets
            else:
                if group is None:
                    raise InvalidConfigError("offsets are committed for a group: name it")
                wanted = [
                    (as_topic_partition(at), check_offset(offset)) for at, offset in offsets.items()
                ]
                members = StoreGroup(self._store, group)
                members.check_members()
                note_commit_of_group(self._store, group)
            for tp, _ in wanted:
                self._topics.add(tp.topic)
            partition = members.make_topic()
            for record in members.transactional_records(wanted):
                tp = TopicPartition(OFFSETS_TOPIC, partition)
                self._put(tp, record.value, record.key, None, record.timestamp)
            if wanted and isinstance(offsets, Consumer) and offsets._partitions.is_member:
                # In the log, so that a member that gets a partition waits for the transaction.
                self._write(TopicPartition(OFFSETS_TOPIC, partition))

    def _put(
        self,
        tp: TopicPartition,
        value: bytes | None,
        key: bytes | None,
        headers: Headers | None,
        timestamp: int,
    ) -> None:
        if tp not in self._joined:
            self._coordinator.add_partitions(
                self.transactional_id, self.producer_id, self.producer_epoch, [tp]
            )
            self._topics.add_partition(tp)
            self._joined.add(tp)
        builder = self._builder(tp)
        while not builder.append(value, key=key, headers=headers, timestamp=timestamp):
            self._write(tp)
        if builder.is_full:
            self._write(tp)

    def _builder(self, tp: TopicPartition) -> BatchBuilder:
        builder = self._builders.get(tp)
        if builder is None:
            config = self._store._log_config(tp.topic)
            size = config.batch_size if self._batch_size is None else self._batch_size
            asked = self._compression
            if tp.topic in INTERNAL_TOPICS:  # committed offsets keep their codec
                config, asked = replace(config, compression_type="producer"), None
            elif all(tp.topic != other.topic for other in self._builders):
                warn_of_codec(config, asked, tp.topic)
            builder = self._builders[tp] = BatchBuilder(
                size_limit=min(size, config.max_message_bytes, config.segment_bytes),
                compression=codec_of_batches(config, asked),
            )
        return builder

    def flush(self, timeout: "Seconds" = None) -> int:
        """Write all open batches; readers with read_uncommitted see their records.

        Returns 0, the number of records still in flight: this thread writes them, however long
        it takes. ``timeout`` exists for code that flushes any producer.
        """
        check_seconds("timeout", timeout)
        with self._lock:
            self._check_open()
            for tp in list(self._builders):
                self._write(tp)
        return 0

    def _write(self, tp: TopicPartition) -> None:
        builder = self._builders[tp]
        count = len(builder)
        if not count:
            return
        log = self._store._log(*tp)
        sequence, truncations = self._sequences.get(tp, 0), len(log._truncations)
        if tp in self._unsure or self._truncations.get(tp, truncations) != truncations:
            sequence = next_sequence(log.producers(), self.producer_id, self.producer_epoch)
        producer = (self.producer_id, self.producer_epoch, sequence)
        builder.set_producer(*producer)
        try:
            batch = builder.build(attributes=_TRANSACTIONAL)
            self._unsure.add(tp)
            written = self._written.get(tp, 0)
            self._topics.append(tp, log, lambda: append_all(log, batch, producer, written))
        except InvalidProducerEpochError as error:
            self._failed = error
            raise ProducerFencedError(
                f"another producer with transactional.id {self.transactional_id!r} was started, "
                "or the transaction took longer than its timeout"
            ) from error
        except BaseException as error:
            self._failed = error
            raise
        self._truncations[tp] = truncations
        self._sequences[tp] = (sequence + count) % SEQUENCES
        self._written[tp] = self._written.get(tp, 0) + count
        self._unsure.discard(tp)

    # --- the end --------------------------------------------------------------------------

    def close(self) -> None:
        """Abort an open transaction. A second call is harmless."""
        with self._lock:
            if self._closed or self._forked:
                return
            try:
                if self._open:
                    with suppress(ProducerFencedError, InvalidProducerIdMappingError):
                        if not self._finish_decided():
                            self.abort_transaction()
            finally:
                self._closed = True

    def _check(self) -> None:
        if self._forked:
            raise ForkedError("this producer was created before a fork; create a new one here")
        if self._closed:
            raise ClosedError("the producer is closed")

    def _check_open(self) -> None:
        self._check()
        if not self._open:
            raise InvalidTxnStateError(
                "no transaction is open: begin_transaction(), or with producer.transaction()"
            )

    def _after_fork(self) -> None:
        self._forked = self._closed = True

    def __enter__(self) -> "TransactionalProducer":
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        close_block(error, self.close)

    if not TYPE_CHECKING:  # type checkers would treat them as usable methods
        __aenter__ = __aexit__ = no_asyncio(TRANSACTION_IN_ASYNCIO)

    def __repr__(self) -> str:
        state = " closed" if self._closed else " in a transaction" if self._open else ""
        return f"<kstore.TransactionalProducer {self.transactional_id!r}{state}>"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a TransactionalProducer cannot be pickled; create one where it is needed")


answer_names(TransactionalProducer, OF_TRANSACTIONS)
