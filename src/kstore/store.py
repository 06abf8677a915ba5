"""A store: one or several log directories of Kafka, opened by one writer and many readers."""

import os
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from kstore.config import LogConfig, StoreConfig, check_store_config
from kstore.errors import (
    ClosedError,
    ForkedError,
    InvalidConfigError,
    KStoreError,
    ReadOnlyError,
    TopicExistsError,
)
from kstore.log import lifetime
from kstore.log.catalog import check_partitions
from kstore.log.files import DISK, Files
from kstore.log.log import Log
from kstore.log.log_dir import absolute_paths
from kstore.log.manager import LogDirInfo, LogManager, attempt
from kstore.log.moves import MoveInfo
from kstore.log.publication import undo_unfinished
from kstore.log.recover_all import Progress, StoreRecovery
from kstore.topic import Partitioner, Topic, TopicPartition, as_place

if TYPE_CHECKING:
    from kstore.consumer import Consumer
    from kstore.producer import Producer
    from kstore.transactions import StoreTransactions, TransactionalProducer

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def open(
    path: Paths,
    mode: str = "a",
    *,
    config: StoreConfig | None = None,
    progress: Progress | None = None,
) -> "Store":
    """Open a log directory, or several that make one store.

    Raises StoreLockedError (naming the directory) where somebody else writes, CorruptFileError
    where two directories have the same partition, NewerFormatError where a newer kstore was
    here, StorageError for what the system says.

    Parameters
    ----------
    path
        A directory, or a sequence of them (Kafka's ``log.dirs``).
    mode
        ``"a"``: create or open for writing; one writer at a time, by Kafka's own ``.lock``.
        ``"r"``: read beside a writer or a running Kafka broker; no lock, no byte changed.
    config
        Settings of the store; those of its topics are given where they are created.
    progress
        Called while what was not closed cleanly is recovered, with the bytes looked at and the
        bytes in all; in one thread or another, one call at a time.
    """
    return Store(path, mode, config=config, progress=progress)


class Store(Mapping[str, Topic]):
    """A mapping of topic name to :class:`Topic`, over one or several log directories.

    Logs are opened when they are first used; beyond ``config.max_open_logs`` the ones that were
    idle longest give their files back. Safe to share between threads; not to be used in a forked
    child (ForkedError), nor pickled. ``close`` it, or use it as a context manager: what is left
    open is closed at exit.
    """

    def __init__(
        self,
        path: Paths,
        mode: str = "a",
        *,
        config: StoreConfig | None = None,
        files: Files = DISK,
        progress: Progress | None = None,
    ) -> None:
        self._closed = True  # until everything stands
        self._forked = False
        if mode not in ("a", "r"):
            raise InvalidConfigError(f"mode must be 'a' or 'r', not {mode!r}")
        self.paths: tuple[str, ...] = absolute_paths(path)
        self.mode = mode
        self.config = StoreConfig() if config is None else check_store_config(config)
        self._files = files
        self._dependants: weakref.WeakSet[lifetime.Closable] = weakref.WeakSet()
        self._topics: dict[str, Topic] = {}
        self._known_transactions: StoreTransactions | None = None
        self._manager = LogManager(
            files, self.paths, self.config, writable=self.writable, keeper=weakref.ref(self)
        )
        self._lock, self._logs = self._manager.lock, self._manager.logs
        self._catalog = self._manager.catalog
        self._closed = False
        lifetime.opened(self)
        if self.writable:
            try:
                self._manager.recover(progress)
                undo_unfinished(files, self._catalog.loose_files, self._log, self._live)
                self._take_over_offsets()
                if "__transaction_state" in self._catalog.places:
                    self._transactions()  # finishes what a crash interrupted
            except BaseException:
                self.close()
                raise

    @property
    def writable(self) -> bool:
        return self.mode == "a"

    @property
    def strangers(self) -> tuple[str, ...]:
        """Directories that are nobody's partition: a Kafka broker refuses to start on them."""
        return self._catalog.strangers

    @property
    def recovery(self) -> StoreRecovery:
        """What became of the partitions opened so far, for a writer; ``str`` tells it.

        After an unclean stop all of them were opened with the store. One that could not be
        recovered is in ``failed``, and raises its error when it is asked for.
        """
        return self._manager.recovery

    @property
    def closed(self) -> bool:
        return self._closed

    # --- the mapping ----------------------------------------------------------------------

    def topic(self, name: str) -> Topic:
        """A topic by name; UnknownTopicOrPartitionError (a LookupError) suggests close names."""
        self._check()
        topic = self._topics.get(name)
        if topic is not None:
            return topic
        with self._lock:
            self._look_again(name)
            places = self._catalog.places.get(name)
            if places is None:
                raise self._catalog.unknown(name)
            topic = Topic(self, name, places, self._catalog.partition_count(name))
            return self._topics.setdefault(name, topic)

    def _look_again(self, name: object) -> None:
        """A reader has no part in what a writer elsewhere makes: it looks when it misses."""
        if name not in self._catalog.places and not self.writable:
            self._refresh()

    def _refresh(self) -> None:
        """List the directories again; a topic that has other partitions now is made anew."""
        self._catalog.refresh()
        places = self._catalog.places
        for name, topic in list(self._topics.items()):
            if topic.partitions != tuple(sorted(places.get(name, ()))):
                del self._topics[name]

    def __getitem__(self, name: str) -> Topic:
        return self.topic(name)

    def __iter__(self) -> Iterator[str]:
        self._check()
        with self._lock:
            if not self.writable:
                self._refresh()
            return iter(sorted(self._catalog.places))

    def __len__(self) -> int:
        self._check()
        return len(self._catalog.places)

    def __contains__(self, name: object) -> bool:
        self._check()
        with self._lock:
            self._look_again(name)
            return name in self._catalog.places

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    # --- topics come and go ---------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        config: LogConfig | None = None,
        topic_id: str | None = None,
        exist_ok: bool = False,
    ) -> Topic:
        """Make a topic and return it.

        Raises TopicExistsError, InvalidTopicError, InvalidConfigError, ReadOnlyError.

        Parameters
        ----------
        name
            1 to 249 of ``[a-zA-Z0-9._-]``; Kafka refuses two that differ only in ``.`` and ``_``.
        partitions
            How many; each goes where the fewest partition directories are.
        config
            The topic's settings, kept in ``kstore.topics``; the store's by default.
        topic_id
            Kafka's id in 22 characters, where the directory shall be handed over to a broker
            that knows the topic; random by default.
        exist_ok
            Return the topic that is there, if it has as many partitions.
        """
        self._check_writable()
        with self._lock:
            if exist_ok and name in self._catalog.places:
                check_partitions(partitions)
                topic = self.topic(name)
                if len(topic) == partitions:
                    return topic
                raise TopicExistsError(
                    f"topic {name!r} exists with {len(topic)} partitions, not {partitions}",
                    path=self.paths[0],
                )
            self._catalog.create(name, partitions, config, topic_id)
            return self.topic(name)

    def add_partitions(self, name: str, partitions: int) -> Topic:
        """Give a topic more partitions, so that it has this many (Kafka's CreatePartitions).

        Records stay where they are; of later ones a key may go to another partition.
        """
        self._check_writable()
        with self._lock:
            self._catalog.grow(name, partitions)
            self._topics.pop(name, None)
            return self.topic(name)

    def configure_topic(self, name: str, config: LogConfig) -> None:
        """Give a topic other settings; a topic of Kafka's becomes one that retention may touch.

        Logs that are open take the settings over at once.
        """
        self._check_writable()
        with self._lock:
            self.topic(name)
        self._manager.configure(name, config)

    def delete_topic(self, name: str, *, foreign: bool = False) -> None:
        """Delete a topic: its directories are renamed as Kafka does, then removed.

        A topic that has no entry in ``kstore.topics`` was made by Kafka: it is deleted only with
        ``foreign=True`` (PolicyViolationError otherwise). Its logs must not be used any more;
        views of them that are still open keep what they show.
        """
        self._check_writable()
        self._manager.delete(name, foreign=foreign)
        self._topics.pop(name, None)

    # --- log directories ------------------------------------------------------------------

    @property
    def log_dirs(self) -> tuple[LogDirInfo, ...]:
        """The store's directories in their order: what is in each, and which are offline."""
        self._check()
        return tuple(self._manager.log_dirs())

    def move(
        self,
        topic: str,
        partition: int,
        path: str | os.PathLike[str],
        *,
        max_bytes_per_second: int | None = None,
        progress: Progress | None = None,
    ) -> MoveInfo:
        """Move a partition to another directory of the store (Kafka's alterReplicaLogDirs).

        The partition is read and appended meanwhile; appends wait only for the last piece. A
        move that was cut short, Kafka's too, is gone on with where it stands. To "move" a
        partition to where it is drops what an earlier move left.

        Returns when the new copy is on disk and counts, and the old one is gone. Raises
        InvalidConfigError for a path that is not the store's, LogDirOfflineError, StorageError;
        PolicyViolationError where the partition is being moved already.

        Parameters
        ----------
        path
            One of the paths that the store was opened with.
        max_bytes_per_second
            How fast to copy, to leave some of the disks for others; None: as fast as it goes.
        progress
            Called with (bytes in place, bytes of the log) after each piece.
        """
        self._check_writable()
        if max_bytes_per_second is not None and max_bytes_per_second <= 0:
            raise InvalidConfigError(
                f"max_bytes_per_second must be above 0, not {max_bytes_per_second!r}"
            )
        return self._manager.move(topic, partition, path, max_bytes_per_second, progress)

    # --- producers and consumers ----------------------------------------------------------

    def producer(
        self,
        topic: str,
        *,
        batch_size: int | None = None,
        linger_ms: float = 5,
        compression: str | None = None,
        acks: int | str = "all",
        buffer_memory: int = 32 << 20,
        max_block_ms: float = 60_000,
        partitioner: Partitioner | None = None,
        enable_idempotence: bool = False,
    ) -> "Producer":
        """A producer for a topic; close it, or use it as a context manager.

        Parameters
        ----------
        batch_size, compression
            Of a batch, in bytes before compression; the topic's ``batch.size`` and
            ``batch.compression`` by default.
        linger_ms
            How long a record may wait for others to share its batch.
        acks
            ``"all"``: a record counts when it is on disk; ``1``: when the operating system has
            it; ``0``: at once.
        buffer_memory, max_block_ms
            How many bytes may be under way, and how long ``send`` waits for room.
        partitioner
            ``(key, value, count) -> partition``; the topic's by default.
        enable_idempotence
            Number the batches under a producer id, as Kafka's producers do by default. Here
            nothing is sent twice, for there is no network between producer and log, so the
            numbers keep nothing from being doubled; they cost an entry in the log's state.
        """
        self._check_writable()
        from kstore.producer import Producer

        made = Producer(
            self.topic(topic),
            batch_size=batch_size,
            linger_ms=linger_ms,
            compression=compression,
            acks=acks,
            buffer_memory=buffer_memory,
            max_block_ms=max_block_ms,
            partitioner=partitioner,
            enable_idempotence=enable_idempotence,
        )
        self._dependants.add(made)
        return made

    def consumer(
        self,
        group: str | None = None,
        *,
        topics: Iterable[str] = (),
        assignment: Iterable[tuple[str, int]] = (),
        auto_offset_reset: str = "earliest",
        max_poll_records: int = 500,
        timeout: float | None = None,
        isolation_level: str = "read_uncommitted",
    ) -> "Consumer":
        """A consumer of all partitions of topics, and of those in assignment.

        Raises GroupConflictError where another consumer of the group, in any process, reads one
        of the partitions.

        Parameters
        ----------
        group
            Whose committed offsets to use; None reads without any.
        auto_offset_reset
            Where to begin without a committed offset, or with one outside the log:
            ``"earliest"`` (Kafka's clients say ``latest`` by default), ``"latest"``, or
            ``"none"`` for an error.
        max_poll_records
            The most records in one batch.
        timeout
            Seconds without a record after which iteration ends; None waits for more.
        isolation_level
            ``"read_committed"``: only what transactions have committed, and what belongs to none.
        """
        self._check()
        from kstore.consumer import Consumer, StoreGroup

        wanted = [
            TopicPartition(topic, partition)
            for topic in ([topics] if isinstance(topics, str) else topics)
            for partition in self.topic(topic).partitions
        ]
        wanted += (as_place(place) for place in assignment)
        made = Consumer(
            self,
            None if group is None else StoreGroup(self, group),
            dict.fromkeys(wanted),
            auto_offset_reset=auto_offset_reset,
            max_poll_records=max_poll_records,
            timeout=timeout,
            isolation_level=isolation_level,
        )
        self._dependants.add(made)
        return made

    def transactional_producer(
        self,
        transactional_id: str,
        *,
        timeout_ms: int = 60_000,
        batch_size: int | None = None,
        compression: str | None = None,
        acks: int | str = "all",
    ) -> "TransactionalProducer":
        """A producer that writes to any partitions of any topics, all or nothing.

        Raises InvalidConfigError, InvalidTransactionTimeoutError, ReadOnlyError.

        Parameters
        ----------
        transactional_id
            A name that stays the same over restarts. Who had it before is fenced, and what it
            left open is aborted.
        timeout_ms
            How long a transaction may take before it is aborted and its producer fenced.
        batch_size, compression
            Of a batch, as for :meth:`producer`.
        acks
            ``"all"``: a commit returns when it is on disk; ``1``: when the operating system has
            it.
        """
        self._check_writable()
        from kstore.transactions import TransactionalProducer

        made = TransactionalProducer(
            self,
            transactional_id,
            timeout_ms=timeout_ms,
            batch_size=batch_size,
            compression=compression,
            acks=acks,
        )
        self._dependants.add(made)
        return made

    def _transactions(self) -> "StoreTransactions":
        """The transaction coordinator, made when it is first needed."""
        with self._lock:
            if self._known_transactions is None:
                from kstore.transactions import StoreTransactions

                self._known_transactions = StoreTransactions(self, self._manager)
            return self._known_transactions

    def _take_over_offsets(self) -> None:
        """What readers committed while nobody could write ``__consumer_offsets`` goes there."""
        files = self._manager.loose_files
        if files:
            from kstore.consumer import fold_files

            fold_files(self, files)

    @property
    def _live(self) -> list[str]:
        """The directories that are not offline."""
        return [each.path for each in self._catalog.live]

    # --- logs -----------------------------------------------------------------------------

    def _log(self, topic: str, partition: int) -> Log:
        """The log of a partition, loaded on first use."""
        self._check()
        return self._logs.get((topic, partition)) or self._manager.log(topic, partition)

    def _log_config(self, topic: str) -> LogConfig:
        with self._lock:
            return self._catalog.config(topic)

    def _topic_id(self, topic: str) -> str | None:
        with self._lock:
            return self._catalog.topic_id(topic)

    def _loaded(self, topic: str) -> list[Log]:
        self._check()
        return self._logs.of_topic(topic)

    def end_offsets(self, topic: str | None = None) -> dict[TopicPartition, int]:
        """The end offset of every partition (of one topic), without keeping files open.

        After a clean stop, and in mode "r", a partition that is not open yet is only looked at.
        After an unclean one a writer has opened each, which recovered it.
        """
        self._check()
        ends = self._manager.end_offsets(topic)
        return {TopicPartition(*key): offset for key, offset in ends.items()}

    # --- upkeep ---------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write recovery points, log starts and high watermarks, as Kafka does every minute."""
        self._check_writable()
        self._manager.checkpoint()

    def apply_retention(self) -> None:
        """Delete what retention allows, in topics whose entry in ``kstore.topics`` sets it.

        Files of dropped segments go when ``file.delete.delay.ms`` is over.
        """
        self._check_writable()
        self._manager.apply_retention()

    # --- the end --------------------------------------------------------------------------

    def close(self) -> None:
        """Close consumers and producers, then logs, then write checkpoints and the marker.

        Again is harmless. The first error is raised after everything else was closed; a
        directory in which a log did not close cleanly gets no marker, so that the next to open
        it recovers. LogDirOfflineError names the records of a directory that went offline of
        which nobody knows whether they are on its disk.
        """
        if self._forked or self._closed:
            self._closed = True
            return
        errors: list[BaseException] = []
        for dependant in list(self._dependants):
            attempt(errors, dependant.close)
        attempt(errors, self._manager.stop_upkeep)
        with self._lock:
            if self._closed:
                return
            self._closed = True
            lifetime.closed(self)
        self._manager.close(errors)
        if errors:
            raise errors[0]

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._closed and not self._forked and self.writable:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=1)
            with suppress(KStoreError):
                self.close()

    def __repr__(self) -> str:
        state = " closed" if self._closed else ""
        return f"<kstore.Store {', '.join(self.paths)} mode={self.mode!r}{state}>"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a Store cannot be pickled; open it where it is needed")

    def _check(self) -> None:
        if self._closed or self._forked:
            if self._forked:
                raise ForkedError("this store was opened before a fork; open a new one here")
            raise ClosedError("the store is closed", path=self.paths[0])
        self._manager.raise_upkeep_error()

    def _check_writable(self) -> None:
        self._check()
        if not self.writable:
            raise ReadOnlyError("the store was opened with mode='r'", path=self.paths[0])

    def _after_fork(self) -> None:
        """In a child: the parent's lock is shared, and must not outlive the parent.

        Logs refuse by themselves what is asked of them.
        """
        self._forked = True
        self._manager.release()
        for dependant in self._dependants:
            dependant._after_fork()
