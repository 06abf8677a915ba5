"""A store: one or several Kafka log directories, opened by one writer and many readers."""

import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kstore.background.failures import attempt
from kstore.checkpoint.log_dir import absolute_paths
from kstore.client import group_methods, open_clients
from kstore.client.block_errors import close_block, close_block_in_thread
from kstore.compaction.throttler import Throttler
from kstore.config import (
    LogConfig,
    StoreConfig,
    as_store_config,
    check_changes,
    check_log_config,
    warn_of_replacing,
)
from kstore.errors import (
    BackgroundFailure,
    ClosedError,
    ForkedError,
    InvalidConfigError,
    ReadOnlyError,
)
from kstore.files import process_lifetime
from kstore.files.filenames import INTERNAL_TOPICS
from kstore.files.files import DISK, Files
from kstore.hints.keyword_names import NO_DRY_RUN, explain_keywords, explain_partition_count
from kstore.integers import INT64_MAX, check_integer
from kstore.log.log import Log
from kstore.store import partition_methods
from kstore.store.alter_log_dir import MoveInfo
from kstore.store.finish_interrupted import recover_first
from kstore.store.log_dir_info import LogDirInfo
from kstore.store.log_manager import LogManager
from kstore.store.parallel_recovery import Progress, StoreRecovery
from kstore.store.topic import Topic, TopicHandles
from kstore.store.topic_names import GuessedNamesOfStores, TopicNames
from kstore.store.topic_watch import watch_topics
from kstore.topic_partition import ByPartition, TopicName, TopicPartition, as_partition

if TYPE_CHECKING:
    from kstore.compaction.compaction_report import CompactionReport
    from kstore.coordinator.group.embedded_member import GroupOwner
    from kstore.coordinator.group.local_group import LocalGroup
    from kstore.coordinator.group.offsets_table import OffsetsTable
    from kstore.coordinator.transaction.store_transactions import StoreTransactions
    from kstore.coordinator.transaction.transaction_owner import TransactionOwner
    from kstore.log.retention_report import RetentionReport
    from kstore.verify.partition import VerifyReport

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_MISSING_OK = "use missing_ok=True"
_CREATE = "use create_topic(name, partitions=4, exist_ok=True)"


class Store(Mapping[str, Topic], GuessedNamesOfStores):
    """A mapping of topic name to :class:`Topic`, over one or several log directories.

    Logs are opened on first use; beyond ``config.max_open_logs`` the least recently used ones
    close their files. Safe to share between threads; not usable in a forked child (ForkedError),
    not picklable. ``close`` it, or use it as a context manager: stores that are still open are
    closed at exit.
    """

    def __init__(
        self,
        path: Paths,
        mode: str = "a",
        *,
        config: StoreConfig | Mapping[str, object] | None = None,
        files: Files = DISK,
        progress: Progress | None = None,
    ) -> None:
        self._open(path, mode, config, files, partial(recover_first, progress=progress))

    def _open(
        self,
        path: Paths,
        mode: str,
        config: StoreConfig | Mapping[str, object] | None,
        files: Files,
        recover: "Callable[[Store], object]",
    ) -> None:
        """Open the directories; for writing ``recover`` then makes the logs usable."""
        self._closed = True  # until everything is initialized
        self._forked = False
        # The source of a ResourceWarning, so that tracemalloc shows where the store was opened.
        # As the source, the store itself would be kept alive, and locked, by recorded warnings.
        self._allocation = object()
        if mode not in ("a", "r"):
            raise InvalidConfigError(
                f"mode must be 'a' or 'r', not {mode!r}: 'a' creates a store or opens it for "
                "writing, 'r' opens it for reading; nothing is emptied"
            )
        self.paths: tuple[str, ...] = absolute_paths(path)
        self.mode = mode
        self.config = as_store_config(config)
        self._files = files
        self._dependants: weakref.WeakSet[process_lifetime.Closable] = weakref.WeakSet()
        self._known_transactions: StoreTransactions | None = None
        self._transaction_owner: TransactionOwner | None = None  # a broker that serves the store
        self._manager = LogManager(
            files, self.paths, self.config, writable=self.writable, store_ref=weakref.ref(self)
        )
        self._deletion_lock = threading.RLock()  # before all others: one deletion at a time
        self._offsets_lock = threading.RLock()  # before the manager's: commits, and deletions
        self._offsets_tables: dict[int, OffsetsTable] = {}  # by partition, for deletions
        self._server: process_lifetime.Server | None = None  # a broker that serves the store
        # The groups of this process that have open consumers, by name.
        self._local_groups: weakref.WeakValueDictionary[str, LocalGroup] = (
            weakref.WeakValueDictionary()
        )
        self._group_owner: GroupOwner | None = None  # of embedded members: a broker's coordinator
        # Whether consumers share a group through the broker that serves the store, if one does.
        self._has_group_members: Callable[[str], bool] | None = None
        self._lock, self._logs = self._manager.lock, self._manager.logs
        self._catalog = self._manager.catalog
        self._topics = TopicHandles(self, self._manager)
        self._closed = self._is_closing = False
        process_lifetime.opened(self)
        if self.writable:
            try:
                recover(self)
            except BaseException:
                self.close()
                raise

    @property
    def writable(self) -> bool:
        return self.mode == "a"

    @property
    def strangers(self) -> tuple[str, ...]:
        """Unrecognized directories: a Kafka broker refuses to start on them."""
        return self._catalog.unrecognized

    @property
    def recovery(self) -> StoreRecovery:
        """The recovery of the partitions opened so far, for a writer; ``str`` describes it.

        After an unclean stop all of them were opened with the store. One that could not be
        recovered is in ``failed``, and raises its error when it is asked for.
        """
        return self._manager.recovery

    @property
    def background_failures(self) -> tuple[BackgroundFailure, ...]:
        """Background work that failed and has not succeeded since, oldest failure first.

        Each was logged, and given to ``config.on_background_error``; callers never get it.
        """
        return self._manager.background.current

    @property
    def closed(self) -> bool:
        return self._closed

    # --- the mapping ----------------------------------------------------------------------

    @property
    def topics(self) -> TopicNames:
        """The names of the topics, sorted, as of now; ``store[name]`` is the topic.

        Without Kafka's internal topics, which :attr:`internal_topics` lists; iterating the store
        gives both.
        """
        return TopicNames(name for name in self if name not in INTERNAL_TOPICS)

    @property
    def internal_topics(self) -> TopicNames:
        """The names of Kafka's internal topics in this store, such as ``__consumer_offsets``."""
        return TopicNames(name for name in self if name in INTERNAL_TOPICS)

    @explain_keywords(
        **dict.fromkeys(("create", "exist_ok", "partitions", "config"), _CREATE),
    )
    def topic(self, name: str) -> Topic:
        """A topic by name; UnknownTopicOrPartitionError (a KeyError) suggests close names."""
        self._follow_writer()
        return self._topics.get(name)

    def _follow_writer(self) -> None:
        """In mode "r", load the topics that a writer in another process has changed."""
        self._check()
        if not self.writable:
            self._topics.follow()

    def __getitem__(self, name: str) -> Topic:
        self._follow_writer()
        return self._topics.get(name)

    def __iter__(self) -> Iterator[str]:
        self._follow_writer()
        with self._lock:
            return map(TopicName, sorted(self._catalog.topics))

    def __len__(self) -> int:
        self._follow_writer()
        return len(self._catalog.topics)

    def __contains__(self, name: object) -> bool:
        self._follow_writer()
        return name in self._catalog.topics

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    # --- changes of topics ----------------------------------------------------------------

    @explain_keywords(
        "settings are config={'retention.ms': 3600000}",
        configs="use config={'retention.ms': 3600000}",
        num_partitions="use partitions",
        replication_factor="a store has no replicas: leave it out",
        topic_configs="use config={'retention.ms': 3600000}",
    )
    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        config: LogConfig | Mapping[str, object] | None = None,
        topic_id: str | None = None,
        exist_ok: bool = False,
    ) -> Topic:
        """Create a topic and return it.

        Raises TopicExistsError, InvalidTopicError, InvalidConfigError, ReadOnlyError.

        Parameters
        ----------
        name
            1 to 249 of ``[a-zA-Z0-9._-]``; Kafka refuses two that differ only in ``.`` and ``_``.
        partitions
            How many; each goes to the log directory with the fewest partitions.
        config
            The topic's settings, kept in ``kstore.topics``. A mapping, by Kafka's names
            (``{"retention.ms": 3600000}``) or Python's, changes some of the store's
            ``config.log``, the default; a LogConfig replaces them all.
        topic_id
            Kafka's id in 22 characters, for handing the directory over to a broker that knows
            the topic; random by default.
        exist_ok
            Return the existing topic, if it has as many partitions. Its settings stay as they
            are, with a warning if ``config`` differs: ``topic.alter(config)`` changes them.
        """
        self._check_writable()
        while True:
            with self._lock:
                self._catalog.partition_changes.end_emptied(name)
                if self._catalog.offline or not self._catalog.is_being_deleted(name):
                    if exist_ok and name in self._catalog.topics:
                        return self._topics.existing(name, partitions, config)
                    self._catalog.create(name, partitions, config, topic_id)
                    return self._topics.update(name)
            self._finish_delete(name)  # waits for another thread's, repeats one that failed

    create_partition = partition_methods.create_partition
    partition = partition_methods.partition
    delete_partition = partition_methods.delete_partition

    @explain_partition_count
    def add_partitions(self, name: str, partitions: int) -> Topic:
        """Give a topic more partitions: ``partitions`` is the new total (Kafka's CreatePartitions).

        Existing records stay in their partitions; later ones with the same key may go to another
        one. Open handles, producers and consumers continue with the new number. As in Kafka,
        InvalidPartitionsError for the present number, too, and for a lower one.
        """
        self._check_writable()
        with self._lock:
            try:
                self._catalog.grow(name, partitions)
            finally:
                self._topics.follow_change(name)
            return self._topics.get(name)

    @explain_keywords("use alter_topic('orders', {'retention.ms': 3600000})")
    def alter_topic(
        self,
        name: str,
        config: Mapping[str, object] | None = None,
        *,
        unset: Iterable[str] = (),
    ) -> None:
        """Change some settings of a topic and leave the others (Kafka's IncrementalAlterConfigs).

        Open logs apply them at once. A topic that Kafka created gets an entry of its own, so that
        retention and compaction apply to it. Raises InvalidConfigError (nothing has changed),
        UnknownTopicOrPartitionError, ReadOnlyError.

        Parameters
        ----------
        config
            Settings by name, Kafka's (``retention.ms``) or Python's (``retention_ms``); None
            unsets one.
        unset
            Names of settings to reset to those of the store's ``config.log``.
        """
        self._check_writable()
        check_changes(config, unset)
        changes = dict(config or {})
        unset = (*unset, *(key for key, value in changes.items() if value is None))
        changes = {key: value for key, value in changes.items() if value is not None}
        self._manager.settings.alter(name, changes, unset)

    def configure_topic(self, name: str, config: LogConfig) -> None:
        """Deprecated: replace all settings of a topic; use :meth:`alter_topic` to change some.

        Warns (UserWarning) if that resets a setting that ``config`` leaves at its default.
        """
        self._check_writable()
        warn_of_replacing(name, self._manager.settings.configure(name, check_log_config(config)))

    @explain_keywords(**dict.fromkeys(("exist_ok", "if_exists", "ignore_missing"), _MISSING_OK))
    def delete_topic(self, name: str, *, foreign: bool = False, missing_ok: bool = False) -> None:
        """Delete a topic: its directories are renamed as Kafka does, then removed.

        Deletes the groups' committed offsets of the topic, too; a transaction that is open in it
        can only be aborted. A topic without an entry in ``kstore.topics`` was created by Kafka: it
        is deleted only with ``foreign=True`` (PolicyViolationError otherwise). Its logs must not
        be used any more; open views of them stay readable. Raises UnknownTopicOrPartitionError;
        with ``missing_ok=True`` does nothing where no such topic exists.
        """
        self._check_writable()
        with self._deletion_lock:
            with self._lock:
                self._catalog.partition_changes.end_emptied(name)
                is_missing = name not in self and not self._catalog.lost.of(name)
            if missing_ok and is_missing and not self._catalog.is_being_deleted(name):
                return
            from kstore.store.topic_deletion import delete_topic

            delete_topic(self, name, foreign=foreign)
        self._manager.deleted_folders.remove()

    def _finish_delete(self, name: str) -> None:
        from kstore.store.topic_deletion import finish_delete

        finish_delete(self, name)
        self._manager.deleted_folders.start()

    # --- log directories ------------------------------------------------------------------

    @property
    def log_dirs(self) -> tuple[LogDirInfo, ...]:
        """The store's directories in order: the contents of each, and whether it is offline."""
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

        Reads and appends continue meanwhile; appends wait only while the last bytes are copied.
        An interrupted move, Kafka's too, continues where it stopped. To cancel a move, pass the
        partition's current directory.

        Returns when the new copy is on disk and in use, and the old one is removed. Raises
        InvalidConfigError for a path of no directory of the store, LogDirOfflineError,
        StorageError; PolicyViolationError if the partition is being moved already.

        Parameters
        ----------
        path
            One of the paths that the store was opened with.
        max_bytes_per_second
            The limit for copying, so that other I/O is not starved; None: no limit.
        progress
            Called with (bytes copied, bytes of the log) after each chunk.
        """
        self._check_writable()
        pace = None
        if max_bytes_per_second is not None:
            rate = check_integer("max_bytes_per_second", max_bytes_per_second, 1, INT64_MAX)
            pace = Throttler(rate)
        return self._manager.move(topic, as_partition(partition), path, pace, progress)

    # --- producers and consumers ----------------------------------------------------------

    watch = watch_topics
    producer = open_clients.producer
    consumer = open_clients.consumer
    transactional_producer = open_clients.transactional_producer
    transaction = open_clients.transaction

    groups = group_methods.groups
    group = group_methods.group
    alter_group_offsets = group_methods.alter_group_offsets
    delete_group_offsets = group_methods.delete_group_offsets
    delete_group = group_methods.delete_group

    def _transaction_coordinator(self) -> "TransactionOwner":
        """What decides about transactions: the broker that serves the store, else the store."""
        return self._transaction_owner or self._transactions().coordinator

    def _transactions(self) -> "StoreTransactions":
        """The store's own transaction coordinator, created on first use."""
        self._manager.recoveries.wait_for_all()
        with self._lock:
            if self._known_transactions is None or self._known_transactions.is_retired:
                from kstore.coordinator.transaction.store_transactions import StoreTransactions

                self._known_transactions = StoreTransactions(self, self._manager)
            return self._known_transactions

    # --- logs -----------------------------------------------------------------------------

    def _log(self, topic: str, partition: int) -> Log:
        """The log of a partition, loaded on first use."""
        self._check()
        return self._logs.get((topic, partition)) or self._manager.log(topic, partition)

    def _log_config(self, topic: str) -> LogConfig:
        with self._lock:
            return self._catalog.config(topic)

    def _loaded(self, topic: str) -> list[Log]:
        self._check()
        return self._logs.of_topic(topic)

    def end_offsets(self, topic: str | None = None) -> ByPartition[int]:
        """The end offset of every partition, or those of one topic, without keeping files open.

        Kafka's internal topics, such as ``__consumer_offsets``, are included if they are named.

        After a clean stop, and in mode "r", a closed partition is only read, not opened. After an
        unclean stop a writer has opened each, which recovered it. One with a corrupt end is
        opened: the result is the end of its log, or the log's error is raised.
        """
        self._check()
        ends = self._manager.end_offsets(topic)
        return ByPartition((TopicPartition(*key), offset) for key, offset in ends.items())

    # --- upkeep ---------------------------------------------------------------------------

    def flush(self) -> None:
        """Flush all logs that were opened: what was appended before the call is on disk then.

        Every log is flushed, then the first error is raised (StorageError). Records that a
        producer still holds are its own: :meth:`kstore.Producer.flush`.
        """
        self._check_writable()
        errors: list[BaseException] = []
        for log in self._logs:
            attempt(errors, log.flush)
        for error in errors:
            if not isinstance(error, ClosedError):  # its topic is being deleted
                raise error

    def checkpoint(self) -> None:
        """Write recovery points, log starts and high watermarks, as Kafka does every minute."""
        self._check_writable()
        self._manager.checkpoints.write()

    @explain_keywords(topics="topic= is one topic; without it, all are checked")
    def verify(self, topic: str | None = None, **options: Any) -> "VerifyReport":
        """Check every batch, record, offset and index entry of all topics, or of one: one report.

        Includes partitions whose folder is missing. Options are those of
        :meth:`kstore.Log.verify`. Changes nothing. Raises StorageError for a failed read.
        """
        from kstore.store.verify_topics import verify_topics

        self._check()
        if topic is not None:
            return self.topic(topic).verify(**options)
        return verify_topics(self, self._files, **options)

    def compact(self, **options: Any) -> "CompactionReport":
        """Compact every topic whose ``cleanup.policy`` has ``compact``: one merged report.

        Options and errors are those of :meth:`kstore.Log.compact`. Where no topic has the
        policy, nothing is done, and the report says so (``passes`` is 0).
        """
        from kstore.store.merge_reports import compact_topics

        self._check_writable()
        return compact_topics(self.values(), **options)

    @explain_keywords("it compares timestamps with the present time", dry_run=NO_DRY_RUN)
    def apply_retention(self) -> "RetentionReport":
        """Delete what retention allows, in topics whose entry in ``kstore.topics`` sets it.

        Returns how many segments: a number that prints what was deleted. Removes their files after
        ``file.delete.delay.ms``.
        """
        self._check_writable()
        return self._manager.apply_retention()

    # --- the end --------------------------------------------------------------------------

    def close(self) -> None:
        """Close consumers and producers, a broker that serves the store, then logs, then write
        checkpoints and clean-shutdown files.

        The broker first completes the requests in progress, as in its own ``close``, so that all
        acknowledged records are in the logs.

        A second call is harmless. The first error is raised after everything else was closed; a
        directory in which a log did not close cleanly gets no clean-shutdown file, so that the
        next opening recovers it. LogDirOfflineError names the records of an offline directory that
        may not be on its disk. Raises PolicyViolationError, and closes nothing, on a thread of the
        broker.
        """
        if self._forked or self._closed:
            self._closed = True
            return
        errors: list[BaseException] = []
        if (server := self._server) is not None:
            server._check_can_close()  # before anything is closed under it
        self._manager.spare.release()
        with self._lock:
            self._is_closing = True  # no client is added to those that are closed now
            dependants = list(self._dependants)
        for dependant in dependants:
            attempt(errors, dependant.close)
        if (server := self._server) is not None:  # after them: it may coordinate transactions
            attempt(errors, server.close)
        attempt(errors, self._manager.stop_background)
        with self._lock:
            if self._closed:
                return
            self._closed = True
            process_lifetime.closed(self)
        self._manager.close(errors)
        if errors:
            raise errors[0]

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        close_block(error, self.close)

    async def __aenter__(self) -> "Store":
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Close it without blocking the event loop."""
        await close_block_in_thread(error, self.close)

    def __del__(self) -> None:
        """Warn and release files. A finalizer may interrupt any locked code: nothing is closed.

        The operating system has all appended records; the next opening recovers.
        """
        if not self._closed and not self._forked and self.writable:
            self._manager.request_stop()  # first: where warnings are errors, the next line raises
            message = f"{self!r} was not closed: the next opening recovers it"
            warnings.warn(message, ResourceWarning, source=self._allocation, stacklevel=1)

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

    def _check_not_closing(self) -> None:
        self._check()
        if self._is_closing:
            raise ClosedError("the store is closed", path=self.paths[0])

    def _check_writable(self) -> None:
        self._check()
        if not self.writable:
            raise ReadOnlyError("the store was opened with mode='r'", path=self.paths[0])

    def _after_fork(self) -> None:
        """In a forked child: the parent's file lock is shared and must not outlive the parent.

        Logs check for a fork themselves.
        """
        self._forked = True
        self._manager.release()
        for dependant in self._dependants:
            dependant._after_fork()
