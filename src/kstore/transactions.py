"""Transactions of a store: producers that write to several partitions all or nothing.

The coordinator (:mod:`kstore.txn.coordinator`) decides; here are its hands: it keeps its states
in ``__transaction_state``, and its markers go to the logs of the store.
"""

import logging
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING

from kstore.config import CODECS, LogConfig
from kstore.errors import (
    ClosedError,
    CorruptFileError,
    CorruptRecordError,
    ForkedError,
    InvalidConfigError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KStoreError,
    ProducerFencedError,
    RecoveryNeededError,
    TransactionCoordinatorFencedError,
    UnknownTopicOrPartitionError,
)
from kstore.group.fields import partition_for_name
from kstore.log.manager import LogManager
from kstore.log.transactions import last_marker_time
from kstore.log.upkeep import Chore
from kstore.record.builder import BatchBuilder
from kstore.record.timestamp import to_milliseconds
from kstore.topic import Headers, TopicPartition, as_place
from kstore.txn.coordinator import Coordinator
from kstore.txn.messages import (
    LOWEST_PRODUCER_ID,
    SEQUENCES,
    Metadata,
    Place,
    State,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    is_commit,
    new_producer_id,
    next_sequence,
)

if TYPE_CHECKING:
    from kstore.consumer import Consumer
    from kstore.log.log import Log
    from kstore.log.producer_snapshot import ProducerEntry
    from kstore.store import Store

_LOGGER = logging.getLogger("kstore")

STATE_TOPIC = "__transaction_state"
STATE_PARTITIONS = 50  # transaction.state.log.num.partitions
STATE_PROPERTIES = {"cleanup.policy": "compact", "segment.bytes": "104857600"}
# transaction.abort.timed.out.transaction.cleanup.interval.ms
CHECK_INTERVAL_MS = 10_000
_TRANSACTIONAL = 0x10
_UNREADABLE = (
    "Until the states of transactions can be read, nothing in this store is written: what was "
    "decided there might be lost. Reading goes on with mode='r'; restore the folder {0}, or let "
    "`kstore repair` make a copy of the store without what is damaged; or move {0} away, if what "
    "was decided and not finished may count as aborted"
)


class StoreTransactions:
    """The coordinator of a store that is open for writing, with its hands. Thread safe.

    Made when it is first needed: at opening, if the store has ``__transaction_state``.
    """

    def __init__(self, store: "Store", manager: LogManager) -> None:
        self._store: Store = weakref.proxy(store)  # which has this, and must not be kept by it
        self.coordinator = Coordinator(
            self,
            max_timeout_ms=store.config.transaction_max_timeout_ms,
            lowest_producer_id=LOWEST_PRODUCER_ID,
        )
        self._epoch = 0  # the coordinator's, in markers
        self._decided: dict[str, Metadata] = {}  # the last PrepareCommit of each id that was read
        manager.loaded = self.settle
        if STATE_TOPIC in store:
            self._load()
        for log in manager.logs:
            self.settle(log)
        manager.more_chores.append(Chore("transactions", CHECK_INTERVAL_MS, self.do_upkeep))

    def _load(self) -> None:
        """Read the last state of every id; finish what kstore's own producers had decided.

        What a Kafka broker's producers had decided is the broker's to finish, unless one of its
        ids is used here.
        """
        for place, end in self._store.end_offsets(STATE_TOPIC).items():
            if end > 0:
                try:
                    self._take_states(self._store._log(*place))
                except (CorruptRecordError, CorruptFileError, RecoveryNeededError) as error:
                    name = f"{place.topic}-{place.partition}"
                    raise type(error)(
                        f"{error.reason}. {_UNREADABLE.format(name)}",
                        path=error.path or name,
                        position=error.position,
                        offset=error.offset,
                    ) from error
        self.coordinator.finish()
        self.do_upkeep()

    def _take_states(self, log: "Log") -> None:
        """The last state of every id that has its states in this partition."""
        states: dict[bytes | None, bytes | None] = {}
        commits: dict[bytes | None, bytes] = {}
        for columns in log.view().scan():
            rows = list(zip(columns.keys, columns.values, strict=True))
            states.update(rows)
            for key, value in rows:
                if value is not None and is_commit(value):
                    commits[key] = value
        for key, value in states.items():
            transactional_id = None if key is None else decode_key(key)
            if transactional_id is not None and value is not None:
                self.coordinator.load(decode_value(transactional_id, value))
                if key in commits:
                    self._decided[transactional_id] = decode_value(transactional_id, commits[key])

    def do_upkeep(self) -> None:
        """Abort what ran into its timeout; forget ids that were not used for a week."""
        self.coordinator.abort_timed_out()
        self.coordinator.expire(self._store.config.transactional_id_expiration_ms)

    def settle(self, log: "Log") -> None:
        """Abort open transactions of kstore's own producers that no state knows of.

        A power cut may take the state and leave the records. They were never committed, unless
        what it took is the marker of the last commit, which then is written again. Of a broker's
        producers neither can be told. Those hang, as they do in Kafka, and are named.
        """
        place = (log.topic, log.partition)
        for entry in log.producers():
            offset = entry.current_transaction_first_offset
            if (
                offset < 0
                or not self.coordinator.knows(entry.producer_id)
                or self.coordinator.is_open(entry.producer_id, place)
            ):
                continue
            if entry.producer_id < LOWEST_PRODUCER_ID:
                _LOGGER.warning(
                    "%s-%d: a transaction hangs (producer id %d, from offset %d): it has no end "
                    "in the log, and by the broker's %s it has none open. read_committed stops "
                    "there until Log.append_end_marker or Kafka's kafka-transactions ends it",
                    *place, entry.producer_id, offset, STATE_TOPIC,
                )  # fmt: skip
                continue
            lost = [
                decided
                for decided in self._decided.values()
                if decided[1:3] == (entry.producer_id, entry.producer_epoch)
                and place in decided.partitions
                and not _is_later(log, entry, decided)
            ]
            if lost:
                _LOGGER.warning(
                    "%s-%d: the marker of a committed transaction was lost; it is written again "
                    "(producer id %d, from offset %d)", *place, entry.producer_id, offset,
                )  # fmt: skip
                self._end(log, *lost[0][1:3], lost[0].last_update_ms, commit=True)
                continue
            _LOGGER.warning(
                "%s-%d: a transaction that nobody knows of is aborted (producer id %d, from "
                "offset %d)", *place, entry.producer_id, offset,
            )  # fmt: skip
            now = self.now_ms()
            self._end(log, entry.producer_id, entry.producer_epoch, now, commit=False)

    # --- what the coordinator needs done ----------------------------------------------------

    def now_ms(self) -> int:
        return time_ns() // 1_000_000

    def new_producer_id(self) -> int:
        return new_producer_id()

    def store(self, metadata: Metadata) -> None:
        self._put(metadata.transactional_id, encode_value(metadata))

    def forget(self, transactional_id: str) -> None:
        self._put(transactional_id, None)

    def _put(self, transactional_id: str, value: bytes | None) -> None:
        log = self._state_log(transactional_id)
        log.append(value, key=encode_key(transactional_id))

    def flush_state(self, transactional_id: str) -> None:
        self._state_log(transactional_id).flush()

    def flush(self, places: Iterable[Place]) -> None:
        for place in places:
            log = self._log(place)
            if log is not None:
                log.flush()

    def mark(self, place: Place, metadata: Metadata, *, commit: bool) -> None:
        """As the coordinator says; but where a decision was read from the disk its marker may
        be there already, and what is open the next transaction, whose state a power cut took.
        """
        log = self._log(place)
        if log is None:
            return
        if commit and self._decided.get(metadata.transactional_id) == metadata:
            commit = not any(
                entry.producer_id == metadata.producer_id and _is_later(log, entry, metadata)
                for entry in log.producers()
            )
        self._end(log, *metadata[1:3], metadata.last_update_ms, commit=commit)

    def _end(
        self, log: "Log", producer_id: int, producer_epoch: int, timestamp: int, *, commit: bool
    ) -> None:
        """Append a marker, under a coordinator's epoch that the log does not refuse.

        A broker that had the directory in between may have ended this producer's transactions
        under a higher one. Whoever holds the directory is the coordinator: there is no other
        to be fenced.
        """
        append = partial(
            log.append_end_marker, producer_id, producer_epoch, commit=commit, timestamp=timestamp
        )
        try:
            append(coordinator_epoch=self._epoch)
        except TransactionCoordinatorFencedError:
            seen = [e.coordinator_epoch for e in log.producers() if e.producer_id == producer_id]
            self._epoch = max(self._epoch, *seen)
            append(coordinator_epoch=self._epoch)

    def _log(self, place: Place) -> "Log | None":
        """None where the topic was deleted while the transaction was open.

        With a directory offline nobody can tell: it may be there (LogDirOfflineError).
        """
        try:
            return self._store._log(*place)
        except UnknownTopicOrPartitionError:
            for each in self._store._catalog.offline:
                raise each.refusal() from None
            return None

    def _state_log(self, transactional_id: str) -> "Log":
        if STATE_TOPIC not in self._store:
            self._store.create_topic(
                STATE_TOPIC,
                STATE_PARTITIONS,
                config=LogConfig.from_properties(STATE_PROPERTIES),
                exist_ok=True,
            )
        topic = self._store.topic(STATE_TOPIC)
        return topic[partition_for_name(transactional_id, len(topic))]


def _is_later(log: "Log", entry: "ProducerEntry", decided: Metadata) -> bool:
    """Whether a producer's open transaction began after one that was decided had ended here.

    A marker has the time of its decision (where the log appends its own times: a later one), and
    each decision of an id a later time than whatever came before it.
    """
    offset = entry.current_transaction_first_offset
    if offset < 0:
        return False
    return last_marker_time(log, entry.producer_id, offset) >= decided.last_update_ms


class TransactionalProducer:
    """Writes to several partitions all or nothing; made by
    :meth:`kstore.Store.transactional_producer`.

    ``with producer.transaction():`` commits when the block ends and aborts when it raises. What
    was sent shows to readers with ``read_committed`` after the commit, all of it at once; others
    see it before. One transaction at a time; safe to share between threads.

    A second producer with the same transactional id, in this process or after the next opening,
    ends what this one has open and takes its place: this one then raises ProducerFencedError.
    """

    def __init__(
        self,
        store: "Store",
        transactional_id: str,
        *,
        timeout_ms: int,
        batch_size: int | None,
        compression: str | None,
        acks: int | str,
    ) -> None:
        if acks not in (1, "all", -1):
            raise InvalidConfigError(f"acks must be 1 or 'all' for transactions, not {acks!r}")
        if compression is not None and compression not in CODECS:
            raise InvalidConfigError(
                f"compression must be one of {', '.join(CODECS)}, not {compression!r}"
            )
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise InvalidConfigError(f"batch_size must be a whole number from 1, not {batch_size}")
        self.transactional_id = transactional_id
        self._store = store
        self._coordinator = store._transactions().coordinator
        self._timeout_ms = timeout_ms
        self._batch_size = batch_size
        self._compression = compression
        self._durable = acks != 1
        self._lock = threading.RLock()
        self._open = False  # whether a transaction was begun
        self._failed: BaseException | None = None  # why it can only be aborted
        self._rewound: Consumer | None = None  # to be put back if the transaction is aborted
        self._builders: dict[TopicPartition, BatchBuilder] = {}
        self._joined: set[TopicPartition] = set()  # partitions of the transaction
        self._sequences: dict[TopicPartition, int] = {}  # of the next batch
        self._unsure: set[TopicPartition] = set()  # where the last append may have come through
        self._closed = False
        self._forked = False
        self.producer_id, self.producer_epoch = self._coordinator.init(transactional_id, timeout_ms)

    # --- the transaction ------------------------------------------------------------------

    @property
    def in_transaction(self) -> bool:
        return self._open

    def begin_transaction(self) -> None:
        """Begin; raises InvalidTxnStateError where one is open already.

        One whose commit or abort failed after it was decided is finished first.
        """
        with self._lock:
            self._check()
            if self._open and not self._finish_decided():
                raise InvalidTxnStateError("the producer has a transaction open already")
            self._coordinator.check(self.transactional_id, self.producer_id, self.producer_epoch)
            self._open, self._failed = True, None

    def commit_transaction(self) -> None:
        """Write what is still gathered and commit: all of it counts from now on, or none.

        With ``acks="all"`` it survives a power cut when this returns. After a StorageError it may
        be called again; where that came once the decision was written, nothing can take it back,
        and the next transaction, ``close`` or the next opening of the store finishes it.
        Raises ProducerFencedError, and InvalidTxnStateError without a transaction or where an
        earlier ``send`` failed: then it can only be aborted.
        """
        with self._lock:
            self._check_open()
            if self._failed is not None:
                raise InvalidTxnStateError(
                    f"the transaction can only be aborted: {self._failed}"
                ) from self._failed
            for place in list(self._builders):
                self._write(place)
            self._end(commit=True)

    def abort_transaction(self) -> None:
        """Let nothing of it count. Partitions of a consumer given to
        :meth:`send_offsets_to_transaction` go back to their committed offsets. After a
        StorageError it may be called again, and what comes next finishes it where it was decided.
        """
        with self._lock:
            self._check_open()
            for builder in self._builders.values():
                builder.clear()
            self._end(commit=False)

    @contextmanager
    def transaction(self) -> Iterator["TransactionalProducer"]:
        """A block that commits at its end, and aborts where it raises (also in the commit)."""
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except BaseException:
            if self._open:
                with suppress(KStoreError):  # the first error tells more
                    self.abort_transaction()
            raise

    def _finish_decided(self) -> bool:
        """Finish a commit or abort that failed after it was decided; False: none was."""
        if not self._joined:
            return False
        state = self._coordinator.check(
            self.transactional_id, self.producer_id, self.producer_epoch
        ).state
        if state is State.ONGOING:
            return False
        self._end(commit=state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT))
        return True

    def _end(self, *, commit: bool) -> None:
        """The outcome; what is to be done after an abort is kept until the abort came through."""
        if self._joined:
            self._coordinator.end(
                self.transactional_id, self.producer_id, self.producer_epoch,
                commit=commit, durable=self._durable,
            )  # fmt: skip
        if self._rewound is not None and not commit:
            with suppress(ClosedError):  # then it has no positions
                self._rewound.seek_to_committed()
        self._open, self._failed, self._rewound = False, None, None
        self._joined.clear()

    # --- what goes into it ----------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        timestamp: datetime | int | None = None,
        partition: int | None = None,
    ) -> TopicPartition:
        """Put one record into the transaction; returns the partition that it goes to.

        It is written when a batch is full, or by ``commit_transaction``. Raises
        InvalidTxnStateError outside a transaction, ProducerFencedError, and the errors of
        :meth:`kstore.Log.append_as_leader`.
        """
        with self._lock:
            self._check_open()
            known = self._store.topic(topic)
            if partition is None:
                partition = known.partition_for(key, value)
            elif partition not in known.partitions:
                known[partition]  # raises by name
            when = time_ns() // 1_000_000 if timestamp is None else to_milliseconds(timestamp)
            place = TopicPartition(topic, partition)
            self._put(place, value, key, headers, when)
            return place

    def send_offsets_to_transaction(
        self,
        offsets: "Consumer | Mapping[TopicPartition | tuple[str, int], int]",
        group: str | None = None,
    ) -> None:
        """Commit offsets of a group with the transaction: consume, transform, produce, once.

        Parameters
        ----------
        offsets
            The next offset to read of each partition, or a consumer: then its positions, for
            its group. It must not commit by itself.
        group
            Whose offsets; not needed with a consumer.
        """
        from kstore.consumer import Consumer, StoreGroup
        from kstore.group.offsets import OFFSETS_TOPIC

        with self._lock:
            self._check_open()
            if isinstance(offsets, Consumer):
                wanted = list(offsets.positions().items())
                members = offsets._group
                if members is None or (group is not None and group != members.name):
                    raise InvalidConfigError("the consumer has no group, or another one")
                self._rewound = offsets
            else:
                if group is None:
                    raise InvalidConfigError("offsets are committed for a group: name it")
                wanted = [(as_place(place), offset) for place, offset in offsets.items()]
                members = StoreGroup(self._store, group)
            partition = members.make_topic()
            for record in members.transactional_records(wanted):
                place = TopicPartition(OFFSETS_TOPIC, partition)
                self._put(place, record.value, record.key, None, record.timestamp)

    def _put(
        self,
        place: TopicPartition,
        value: bytes | None,
        key: bytes | None,
        headers: Headers | None,
        timestamp: int,
    ) -> None:
        if place not in self._joined:
            self._coordinator.add_partitions(
                self.transactional_id, self.producer_id, self.producer_epoch, [place]
            )
            self._joined.add(place)
        builder = self._builder(place)
        while not builder.append(value, key=key, headers=headers, timestamp=timestamp):
            self._write(place)
        if builder.is_full:
            self._write(place)

    def _builder(self, place: TopicPartition) -> BatchBuilder:
        builder = self._builders.get(place)
        if builder is None:
            config = self._store._log_config(place.topic)
            size = config.batch_size if self._batch_size is None else self._batch_size
            builder = self._builders[place] = BatchBuilder(
                size_limit=min(size, config.max_message_bytes),
                compression=self._compression or config.batch_compression,
            )
        return builder

    def flush(self) -> None:
        """Write all batches that are begun; their records show to read_uncommitted."""
        with self._lock:
            self._check_open()
            for place in list(self._builders):
                self._write(place)

    def _write(self, place: TopicPartition) -> None:
        builder = self._builders[place]
        count = len(builder)
        if not count:
            return
        log = self._store._log(*place)
        sequence = self._sequences.get(place, 0)
        if place in self._unsure:
            sequence = next_sequence(log.producers(), self.producer_id, self.producer_epoch)
        builder.set_producer(self.producer_id, self.producer_epoch, sequence)
        try:
            batch = builder.build(attributes=_TRANSACTIONAL)
            self._unsure.add(place)
            log.append_as_leader(batch)
        except InvalidProducerEpochError as error:
            self._failed = error
            raise ProducerFencedError(
                f"another producer with transactional.id {self.transactional_id!r} was started, "
                "or the transaction took longer than its timeout"
            ) from error
        except BaseException as error:
            self._failed = error
            raise
        self._sequences[place] = (sequence + count) % SEQUENCES
        self._unsure.discard(place)

    # --- the end --------------------------------------------------------------------------

    def close(self) -> None:
        """Abort what is open. Again is harmless."""
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
            raise ForkedError("this producer was made before a fork; make a new one here")
        if self._closed:
            raise ClosedError("the producer is closed")

    def _check_open(self) -> None:
        self._check()
        if not self._open:
            raise InvalidTxnStateError(
                "there is no transaction: begin_transaction(), or with producer.transaction()"
            )

    def _after_fork(self) -> None:
        self._forked = self._closed = True

    def __enter__(self) -> "TransactionalProducer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " closed" if self._closed else " in a transaction" if self._open else ""
        return f"<kstore.TransactionalProducer {self.transactional_id!r}{state}>"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a TransactionalProducer cannot be pickled; make one where it is needed")
