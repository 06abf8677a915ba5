"""A topic: a sequence of logs, one for each partition."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, Never, Unpack, overload

from kstore.client.argument_errors import wrong_send
from kstore.client.partitioner import (
    PartialTopicPartitioner,
    Partitioner,
    StickyPartitioner,
    as_partitioner,
    choose,
)
from kstore.config import LogConfig, as_log_config
from kstore.errors import TopicExistsError
from kstore.hints.kafka_names import OF_TOPICS
from kstore.hints.keyword_names import (
    NO_DRY_RUN,
    explain_count,
    explain_extend,
    explain_keywords,
    explain_latest,
    explain_partition_count,
    explain_records,
    explain_scan,
    explain_table,
)
from kstore.hints.missing_names import answer_names
from kstore.integers import check_integer, count_of, list_numbers
from kstore.log.delete_segments import checked_log_start
from kstore.log.read_committed import Isolation
from kstore.record import Headers, Item, Record
from kstore.store.extend_topic import extend_topic
from kstore.store.topic_arguments import check_partitions
from kstore.topic_partition import PartitionNumber, Position, as_partition

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from kstore.compaction.compaction_report import CompactionReport
    from kstore.log.log import Log
    from kstore.log.retention_report import RetentionReport
    from kstore.maintenance.reindex import ReindexReport
    from kstore.maintenance.rewrite import RewriteReport
    from kstore.record.columns import Columns
    from kstore.store.log_manager import LogManager
    from kstore.store.store import Store
    from kstore.verify.partition import VerifyReport


_CALLER = 5  # frames up to the caller of Store.create_topic, which explain_keywords wraps


class Topic:
    """The partitions of one topic, as a sequence of :class:`kstore.Log`.

    ``topic[2]`` is the log of partition 2, opened on first use; ``len(topic)`` is the number of
    partitions; iterating gives the logs in order. Where the store has only some partitions (see
    :meth:`Store.create_partition`), or if a log directory is offline, the others are missing:
    ``partitions`` lists the present ones, and ``len()`` is the count in ``kstore.topics``, else the
    number of the highest present partition + 1.

    A handle is live: it has the partitions and settings that the topic of its name has now, also
    after :meth:`Store.add_partitions`, and in a store opened with ``mode="r"`` what a writer in
    another process has created. While there is no such topic it raises
    UnknownTopicOrPartitionError. Safe to share between threads.
    """

    @explain_keywords("use kstore.open('data')['orders']")
    def __init__(
        self, store: "Store", name: str, partitions: Iterable[int], count: int = 0
    ) -> None:
        self._store = store
        self.name = name
        self._partitioner: Partitioner | None = None
        self._default: Partitioner | None = None  # the partitioner that no caller has chosen
        self._partitions: tuple[int, ...]
        self._length: int
        self._update(partitions, count)

    def _update(self, partitions: Iterable[int], count: int) -> None:
        """Called by the store when the topic's partitions change; none: the topic was deleted."""
        present = tuple(sorted(partitions))
        if self._partitioner is self._default:  # a topic may become partial
            self._partitioner = None
        self._partitions, self._length = present, max(present[-1] + 1, count) if present else 0
        if not present:
            self._partitioner = None

    def _check(self) -> None:
        """Raise if the topic does not exist now."""
        self._store._follow_writer()
        if not self._length:
            raise self._store._catalog.unknown(self.name)

    @property
    def partitions(self) -> tuple[int, ...]:
        """The numbers of the present partitions, ascending; the topic itself has their logs."""
        self._check()
        return tuple(map(PartitionNumber, self._partitions))

    @property
    def num_partitions(self) -> int:
        """How many partitions the topic has: ``len(topic)``."""
        return len(self)

    @property
    def size(self) -> int:
        """Bytes of all log files of the present partitions; opens their logs."""
        return sum(log.size for log in self)

    @property
    def store(self) -> "Store":
        return self._store

    @property
    def config(self) -> LogConfig:
        """The topic's settings; those of the store if it has none of its own."""
        self._check()
        return self._store._log_config(self.name)

    @property
    def topic_id(self) -> str | None:
        """Kafka's id of the topic (22 characters), None if the directory has none."""
        return self._store._manager.identities.topic_id_of(self.name)

    @explain_keywords("use alter({'retention.ms': 3600000})")
    def alter(
        self, config: Mapping[str, object] | None = None, *, unset: Iterable[str] = ()
    ) -> None:
        """Change some settings and leave the others; as :meth:`Store.alter_topic`."""
        self._store.alter_topic(self.name, config=config, unset=unset)

    @explain_partition_count
    def add_partitions(self, partitions: int) -> "Topic":
        """Give the topic more partitions, and return it: ``partitions`` is the new total.

        ``topic.add_partitions(len(topic) + 2)`` adds two. As :meth:`Store.add_partitions`.
        """
        return self._store.add_partitions(self.name, partitions)

    def __len__(self) -> int:
        self._check()
        return self._length

    def __iter__(self) -> Iterator["Log"]:
        for partition in self.partitions:
            yield self._store._log(self.name, partition)

    def __contains__(self, log: object) -> bool:
        if isinstance(log, str | bytes | int):
            raise TypeError(
                f"a topic holds logs, not {type(log).__name__}: 0 in topic.partitions, b'key' in "
                "topic.latest()"
            )
        return any(log is own for own in self)

    @overload
    def __getitem__(self, partition: int) -> "Log": ...
    @overload
    def __getitem__(self, partition: slice) -> "list[Log]": ...
    def __getitem__(self, partition: int | slice) -> "Log | list[Log]":
        """The log of a partition; -1 is the last one. A slice is a list of logs.

        Raises UnknownTopicOrPartitionError for a missing partition, which a slice omits.
        """
        if isinstance(partition, slice):
            present = set(self.partitions)
            numbers = range(*partition.indices(len(self)))
            return [self[number] for number in numbers if number in present]
        partition = as_partition(partition)
        if partition < 0:
            partition += len(self)
        return self._store._log(self.name, partition)

    def append(
        self,
        value: bytes | None,
        *unexpected: Never,
        key: bytes | None = None,
        headers: Headers | None = None,
        timestamp: datetime | int | None = None,
        partition: int | None = None,
        **unknown: Never,
    ) -> Position:
        """Append one record and return its position.

        The partition is the given one, else the partitioner's choice: murmur2 of the key as in
        Java's client, and for records without a key one partition at a time
        (:class:`StickyPartitioner`). Errors are those of :meth:`kstore.Log.append`, and
        UnknownTopicOrPartitionError for a missing partition, and for a key where the store
        has only some partitions.
        """
        if unexpected or unknown:
            raise wrong_send("append(value, key=...)", None, unknown)
        partition = self.partition_for(key, value) if partition is None else as_partition(partition)
        log = self._store._log(self.name, partition)
        return Position(partition, log.append(value, key=key, headers=headers, timestamp=timestamp))

    @explain_extend
    def extend(
        self, values: Iterable[Item], *, timestamp: datetime | int | None = None
    ) -> dict[int, list[range]]:
        """Append many records in batches, each to the partition that :meth:`append` chooses.

        Items are values, pairs (key, value) or Records, as for :meth:`kstore.Log.extend`. Records
        of one key keep their order. Returns the offsets by partition, one range unless other
        threads append meanwhile: ``{0: [range(0, 2)], 3: [range(7, 8)]}``. Memory: 32 MiB of
        records, each counted as in a producer's ``buffer_memory``.

        After an error, of the source or of an item, some records before it may be missing in
        their partitions; a note of the error has the number and the offsets of those that were
        appended. A single item that does not fit is named by its number in the source
        (MessageTooLargeError).
        InvalidTxnStateError for a log or view that :meth:`kstore.Log.extend` refuses.
        """
        self._store._check_writable()
        return extend_topic(self, values, timestamp)

    def partition_for(self, key: bytes | None, value: bytes | None = None) -> int:
        """The partition that a record would go to."""
        partitioner = self._partitioner
        if partitioner is None:
            partitioner = self._default = self._partitioner = self._default_partitioner()
        return choose(partitioner, key, value, self._length or len(self))

    def _default_partitioner(self) -> Partitioner:
        batch_size = self.config.batch_size
        with self._store._lock:
            is_partial = self._store._catalog.is_partial(self.name)
        if is_partial:
            return PartialTopicPartitioner(batch_size, self.name, lambda: self._partitions)
        return StickyPartitioner(batch_size)

    def partition_by(self, partitioner: Partitioner | str | None) -> None:
        """Choose partitions by ``partitioner(key, value, count)``; None restores the default.

        Names and errors are those of the setting ``partitioner`` of :meth:`Store.producer`.
        """
        self._partitioner = as_partitioner(partitioner)

    def end_offsets(self) -> dict[int, int]:
        """The end offset of every partition, without keeping files open."""
        ends = self._store.end_offsets(self.name)
        return {tp.partition: offset for tp, offset in ends.items()}

    def start_offsets(self) -> dict[int, int]:
        """The start offset of every present partition; opens their logs."""
        return {log.partition: log.start_offset for log in self}

    def offsets_at(self, when: datetime | int, **isolation: Unpack[Isolation]) -> dict[int, int]:
        """The offset of a time in every partition, its end where no record is that late.

        As :meth:`kstore.Log.offset_at`.
        """
        return {log.partition: log.offset_at(when, **isolation) for log in self}

    # --- reading all partitions, one after the other ------------------------------------------

    @explain_scan
    def scan(
        self, where: Callable[[Any], Any] | None = None, **options: Any
    ) -> Iterator["Columns"]:
        """Columns of all partitions; options and errors are those of :meth:`kstore.LogView.scan`.

        Ordered by offset within a partition; :meth:`to_arrow` has a column that names it.
        """
        from kstore.log.view import compile_where

        predicate: Any = None if where is None else compile_where(where)
        return chain.from_iterable(log.scan(predicate, **options) for log in self)

    @explain_records
    def records(self, **options: Any) -> Iterator[Record]:
        """Records of all partitions; options and errors are those of :meth:`kstore.Log.records`.

        Ordered by offset within a partition. A record does not know its partition: iterate the
        logs where that matters, or read with a consumer.
        """
        return chain.from_iterable(log.records(**options) for log in self)

    @explain_count
    def count(
        self, where: Callable[[Any], Any] | None = None, **isolation: Unpack[Isolation]
    ) -> int:
        """The number of records, found by reading all partitions; :meth:`kstore.LogView.count`."""
        from kstore.log.view import compile_where

        predicate: Any = None if where is None else compile_where(where)
        return sum(log.count(predicate, **isolation) for log in self)

    @explain_latest
    def latest(self, **isolation: Unpack[Isolation]) -> dict[bytes, Record]:
        """The latest record of every key; :meth:`kstore.LogView.latest`.

        Where several partitions have the same key, the record with the largest timestamp counts.
        """
        from kstore.log.latest_records import latest_records

        return latest_records(log.view(**isolation) for log in self)

    @explain_table
    def to_arrow(self) -> "pa.Table":
        """All records as a pyarrow.Table: ``partition``, then :meth:`kstore.LogView.to_arrow`'s."""
        from kstore.record.arrow import to_table_of_partitions

        return to_table_of_partitions((log.partition, log.scan()) for log in self)

    @explain_table
    def to_pandas(self) -> "pd.DataFrame":
        """All records as a DataFrame: ``partition``, then :meth:`kstore.LogView.to_pandas`'s."""
        from kstore.record.dataframe import to_dataframe_of_partitions

        return to_dataframe_of_partitions((log.partition, log.scan()) for log in self)

    def flush(self) -> None:
        """Flush all logs of the topic that were opened."""
        for log in self._store._loaded(self.name):
            log.flush()

    # --- maintenance of all partitions, one after the other -----------------------------------

    @explain_keywords(
        "offsets differ by partition: delete_records({0: 1000}), or -1 for all records",
        before="use before_offsets: delete_records({0: 1000})",
        before_offset="use before_offsets: delete_records({0: 1000})",
    )
    def delete_records(self, before_offsets: Mapping[int, int] | int) -> dict[int, int]:
        """Raise the log starts of partitions; returns the new ones (Kafka's DeleteRecords).

        Nothing has changed if an offset is outside its log (OffsetOutOfRangeError). Other errors
        are those of :meth:`kstore.Log.delete_records`.

        Parameters
        ----------
        before_offsets
            The new log start by partition, -1 for the log's end: ``{0: 1000, 2: -1}``. The
            number -1 alone deletes every record of every partition.
        """
        if not isinstance(before_offsets, Mapping):
            if check_integer("before_offsets", before_offsets) != -1:
                raise TypeError(
                    "offsets differ by partition: delete_records({0: 1000}), or -1 for all records"
                )
            before_offsets = dict.fromkeys(self.partitions, -1)
        logs = {as_partition(number): self[number] for number in before_offsets}
        for number, log in logs.items():
            log._require_writer()
            checked_log_start(log, before_offsets[number])
        return {n: log.delete_records(before_offsets[n]) for n, log in logs.items()}

    @explain_keywords("it compares timestamps with the present time", dry_run=NO_DRY_RUN)
    def apply_retention(self) -> "RetentionReport":
        """Drop the segments that retention allows; :meth:`kstore.Log.apply_retention`.

        Returns how many, in all partitions: a number that prints what was deleted.
        """
        from kstore.log.retention_report import RetentionReport

        return RetentionReport.merge(log.apply_retention() for log in self)

    def compact(self, **options: Any) -> "CompactionReport":
        """Compact every partition: one report with the sums; :meth:`kstore.Log.compact`.

        The report's offsets are -1 if the topic has several partitions.
        """
        from kstore.store.merge_reports import merge_compactions

        return merge_compactions(log.compact(**options) for log in self)

    def recompress(self, compression: str, **options: Any) -> "RewriteReport":
        """Rewrite every partition with another codec: one report; :meth:`kstore.Log.recompress`."""
        from kstore.store.merge_reports import merge_rewrites

        return merge_rewrites(log.recompress(compression, **options) for log in self)

    def convert(self, message_format_version: str = "3.0", **options: Any) -> "RewriteReport":
        """Rewrite messages v0 and v1 of every partition: one report; :meth:`kstore.Log.convert`."""
        from kstore.store.merge_reports import merge_rewrites

        return merge_rewrites(log.convert(message_format_version, **options) for log in self)

    def reindex(self, **options: Any) -> "ReindexReport":
        """Rebuild the derived files of every partition: one report; :meth:`kstore.Log.reindex`."""
        from kstore.store.merge_reports import merge_reindexes

        return merge_reindexes(log.reindex(**options) for log in self)

    def verify(self, **options: Any) -> "VerifyReport":
        """Check every partition: one report; :meth:`kstore.Store.verify`."""
        from kstore.store.verify_topics import verify_topics

        self._check()
        return verify_topics(self._store, self._store._files, self.name, **options)

    def __repr__(self) -> str:
        return f"<kstore.Topic {self.name!r}, {count_of(self._length, 'partition')}>"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a Topic cannot be pickled; open the store where it is needed")


answer_names(Topic, OF_TOPICS)


def _warn_of_other_settings(topic: Topic, config: LogConfig | Mapping[str, object] | None) -> None:
    """Warn where an existing topic has other settings than those that it would be created with."""
    present = topic.config
    wanted = as_log_config(config, present)
    names = [name for name in present if present[name] != wanted[name]]
    if names:
        import warnings

        settings = ", ".join(f"{name}={present[name]}, not {wanted[name]}" for name in names)
        warnings.warn(
            f"topic {topic.name!r} exists with {settings}; exist_ok=True changes no setting: "
            "topic.alter(config) does",
            stacklevel=_CALLER,
        )


class TopicHandles:
    """The handles of a store's topics, one for each name, in step with the registry.

    Thread safe: changes are made under the store's lock.
    """

    def __init__(self, store: "Store", manager: "LogManager") -> None:
        self._store = store
        self._manager = manager
        self._lock, self._catalog = manager.lock, manager.catalog
        self._handles: dict[str, Topic] = {}
        self._version = -1  # of the registry, as of the last update

    def get(self, name: str) -> Topic:
        """The handle of a topic; UnknownTopicOrPartitionError suggests close names."""
        topic = self._handles.get(name)
        if topic is not None and topic._length:
            return topic
        with self._lock:
            if name not in self._catalog.topics:
                raise self._catalog.unknown(name)
            return self.update(name)

    def existing(
        self, name: str, partitions: int, config: LogConfig | Mapping[str, object] | None
    ) -> Topic:
        """The handle of an existing topic; TopicExistsError if it has another number of them.

        Warns where the topic has other settings than ``config``.
        """
        partitions = check_partitions(partitions)
        topic = self.get(name)
        if self._catalog.is_partial(name):
            raise TopicExistsError(
                f"topic {name!r} exists, but the store has only its partitions "
                f"{list_numbers(topic._partitions)}: create_partition() creates one more",
                path=self._store.paths[0],
            )
        if len(topic) == partitions:
            _warn_of_other_settings(topic, config)
            return topic
        raise TopicExistsError(
            f"topic {name!r} exists with {count_of(len(topic), 'partition')}, not {partitions}",
            path=self._store.paths[0],
        )

    def update(self, name: str) -> Topic:
        """Give a handle its partitions as they are now; the lock is held."""
        log_dirs = self._catalog.topics.get(name, {})
        count = self._catalog.partition_count(name) if log_dirs else 0
        topic = self._handles.get(name)
        if topic is None:
            topic = self._handles[name] = Topic(self._store, name, log_dirs, count)
        else:
            topic._update(log_dirs, count)
        return topic

    def follow_change(self, name: str) -> None:
        """Update the handle of a topic, if it has one, after a change that may have failed."""
        with self._lock:
            if name in self._handles:
                self.update(name)

    def follow(self) -> None:
        """Take over the topics that another process has created, extended or deleted."""
        with self._lock:
            self._manager.follow()
            if self._version != self._catalog.version:
                self._version = self._catalog.version
                for name in self._handles:
                    self.update(name)
