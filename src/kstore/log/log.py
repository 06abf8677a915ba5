"""A log: one partition, to append to and to read.

Offsets are labels: they never repeat and may have gaps, so a log has no length. Reading takes
no lock; it sees an immutable list of segments and an end that was published after its bytes.

:class:`Log` is the interface. A store that is open for writing has
:class:`kstore.log.writable_log.WritableLog`, a reader beside another process
:class:`kstore.log.read_only_log.ReadOnlyLog`.
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack, overload

from kstore._native.read.segment_view import SegmentList, SegmentView, Slice
from kstore.config import LogConfig
from kstore.errors import ClosedError
from kstore.files.files import Files
from kstore.integers import INT64_MAX, check_integer
from kstore.keyword_names import explain_follow, explain_latest, explain_scan, explain_table
from kstore.log.append_info import AppendInfo
from kstore.log.extend import TopicItems
from kstore.log.follow import Follower, first_to_follow
from kstore.log.guessed_names import GuessedNames
from kstore.log.log_reads import _LogReads
from kstore.log.read_committed import COMMITTED, UNCOMMITTED, Isolation, isolation_of
from kstore.log.replicated_log import _ReplicatedLog
from kstore.log.segment_source import SegmentSource
from kstore.log.timed_log import _TimedLog
from kstore.log.view import LogView, no_record
from kstore.log.watch import Callback, Watch
from kstore.producer_state.snapshot import ProducerEntry
from kstore.record import Headers, Item, Record, Timestamp
from kstore.segment.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from kstore.compaction.compaction_report import CompactionReport
    from kstore.log.writer import LogWriter
    from kstore.maintenance.reindex import ReindexReport
    from kstore.maintenance.rewrite import Progress, RewriteReport
    from kstore.record.columns import Columns
    from kstore.recovery.report import RecoveryReport
    from kstore.verify.partition import VerifyReport


class Log(_ReplicatedLog, _TimedLog, _LogReads, GuessedNames, metaclass=ABCMeta):
    """One partition of a topic, open for writing or, in another process's directory, for reading.

    Thread safe. ``append``, ``extend`` and other changes take the log's lock; reading takes none.
    A :class:`kstore.Store` creates it.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        path: str,
        config: LogConfig,
        files: Files,
        recovery: "RecoveryReport | None" = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.path = path
        self.config = config
        self.recovery = recovery
        self._files = files

    def __repr__(self) -> str:
        return (
            f"<kstore.Log {self.topic}-{self.partition} [{self.start_offset}, {self.end_offset})>"
        )

    @property
    def start_offset(self) -> int:
        """The log start offset: the lowest offset that may be read."""
        return self.segments.start_offset

    @property
    def end_offset(self) -> int:
        """The log end offset: the offset that the next record gets."""
        return self.segments.end_offset

    @property
    @abstractmethod
    def last_stable_offset(self) -> int:
        """Where read_committed ends: first offset of the earliest open transaction, or the end.

        The writer tracks it. A reader walks the headers behind the newest producer snapshot the
        first time, and later only those of new batches.
        """

    @property
    @abstractmethod
    def high_watermark(self) -> int:
        """The offset below which records are replicated: the log end until someone sets it.

        It bounds ``last_stable_offset``, retention and ``delete_records``. A reader of another
        process does not know it, and returns the log end.
        """

    @abstractmethod
    def set_high_watermark(self, offset: int) -> int:
        """Raise the high watermark, at most to the log end; returns it. A lower one is ignored.

        Only a truncation lowers it. Thread safe.
        """

    @abstractmethod
    def watch(self, callback: Callback) -> Watch:
        """Call ``callback(log, events)`` after each change of the log, until ``Watch.close()``.

        On the thread that made the change, without the log's lock; so it must not block. ``events``
        are :class:`LogEvents` of one or several changes. What it raises is logged. ReadOnlyError
        for the log of another process, whose reader sees changes only when it looks.
        """

    @property
    @abstractmethod
    def segments(self) -> SegmentList:
        """The segments at this moment, oldest first; immutable."""

    @property
    @abstractmethod
    def recovery_point(self) -> int:
        """A writer's recovery point: all below is on disk. A reader returns the log start."""

    @property
    def size(self) -> int:
        """Bytes of all log files."""
        return sum(view.size for view in self.segments.views)

    @property
    @abstractmethod
    def writable(self) -> bool:
        """Whether the log is open for writing."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether the log was closed, by itself or with its store."""

    @abstractmethod
    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        timestamp: Timestamp = None,
    ) -> int:
        """Append one record as a batch of its own; return its offset.

        Returns when the operating system has the bytes: they survive the process,
        and a power cut once :meth:`flush` has returned.

        Parameters
        ----------
        value, key
            Any bytes-like object, or None for null.
        headers
            A dict, or (name, value) pairs; a value may be None.
        timestamp
            An aware datetime, or milliseconds since 1970; None: the current time.

        Raises
        ------
        MessageTooLargeError, InvalidTimestampError, InvalidRecordError
            A batch larger than ``max.message.bytes``; a timestamp before 1970, after 9999, or
            outside ``message.timestamp.{before,after}.max.ms``; no key in a compacted topic.
            Nothing was appended.
        StorageError
            The disk is full or failed; nothing was appended.
        """

    @abstractmethod
    def extend(self, values: Iterable[Item], *, timestamp: Timestamp = None) -> range:
        """Append many records in batches of ``batch.size``; return their offsets, contiguous.

        Items are values (bytes-like or None), pairs (key, value), or Records, whose key, value,
        headers and timestamp are used; a source may mix them. The log stays locked until the
        source is exhausted, so it should be a fast one. A source that appends to this log itself
        is refused. After an error in the middle the batches before it are in the log.

        A single item beyond ``max.message.bytes`` or ``segment.bytes`` is refused with its index
        and the offsets that were appended (MessageTooLargeError, RecordListTooLargeError).
        """

    @abstractmethod
    def append_as_leader(self, batch: Any, *, flush: bool = True) -> AppendInfo:
        """Append a client batch, with every check that Kafka's leader makes.

        The log assigns offsets. The bytes are stored as they came except for offset and leader
        epoch (and, as in Kafka, timestamp type and largest timestamp). A batch that differs from
        ``message.format.version`` or ``compression.type`` is rebuilt.

        For an idempotent or transactional producer, epoch and sequence are checked. A repeated
        one of its last five batches is answered with its offsets and timestamp in
        the log and ``size`` 0: nothing is written. A transactional batch opens its producer's
        transaction in this log, which :meth:`append_end_marker` ends.

        Parameters
        ----------
        batch
            A bytes-like object with exactly one record batch v2, base offset 0; or with messages
            v0 or v1, any number of uncompressed ones or a single compressed one. An incomplete
            message at the end is skipped. The log has the format of ``message.format.version``.
        flush
            Whether to sync where ``flush.messages`` asks for it. False leaves it to the caller,
            so that many partitions share a sync (:class:`kstore.SharedCommitter`). Either way,
            what was appended is on disk when ``recovery_point`` reaches the result's
            ``sync_offset``. That holds for a duplicate, too, whose first copy may not be there yet.

        Raises
        ------
        CorruptRecordError, InvalidRecordError, InvalidTimestampError, MessageTooLargeError,
        UnsupportedCompressionTypeError, UnsupportedForMessageFormatError
            As Kafka's LogValidator; nothing was appended. ``code`` is Kafka's error code.
        OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTxnStateError
            As Kafka's ProducerAppendInfo; likewise.
        """

    @abstractmethod
    def append_as_coordinator(self, batch: Any) -> AppendInfo:
        """As :meth:`append_as_leader`, for a batch of a coordinator in this process.

        For a producer's batch only the epoch is checked: offsets committed within a transaction
        carry no sequence (Kafka's AppendOrigin.COORDINATOR).
        """

    @abstractmethod
    def append_end_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
        timestamp: int = -1,
    ) -> AppendInfo:
        """End a producer's transaction in this log: append the control batch.

        As for a transaction coordinator (WriteTxnMarkers; KIP-98). An aborted transaction goes
        into the transaction index of the marker's segment. Where the producer has no open
        transaction the marker is appended too and changes only its epochs.

        Parameters
        ----------
        producer_epoch
            The producer's, or a higher one for its next transaction (KIP-890).
        coordinator_epoch
            Leader epoch of the coordinator's partition of ``__transaction_state``.
        transaction_version
            From 2 on the epoch must be higher than that of the records (KIP-1228).
        timestamp
            In ms; -1: now. A log with LogAppendTime always uses now.

        Raises
        ------
        InvalidProducerEpochError, TransactionCoordinatorFencedError
            An older epoch than the log has seen; nothing was appended.
        InvalidTimestampError
            Before 1970 or beyond the year 9999; likewise.
        """

    @abstractmethod
    def read(
        self,
        offset: int,
        max_bytes: int = 1 << 20,
        *,
        up_to: int | None = None,
        min_one_batch: bool = True,
    ) -> Slice | None:
        """File bytes from the batch that holds offset on, not copied; never of two segments.

        The slice may begin with records before offset and end in an incomplete batch, as a fetch
        from Kafka does. None at the log end, or where compaction removed everything from offset
        on. Thread safe; takes no lock.

        With ``up_to`` (a last stable offset, a high watermark) it has complete batches only, of
        offsets below that; None where none are. With ``min_one_batch`` the first batch is complete
        even where it exceeds max_bytes (Kafka's minOneMessage); without, the slice has at most
        max_bytes, perhaps none, and ``first_batch_size`` is what the first batch needs.

        Raises
        ------
        OffsetOutOfRangeError
            Below the log start or beyond the log end.
        CorruptRecordError
            A batch before the offset is invalid.
        """

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> LogView: ...
    def __getitem__(self, index: int | slice) -> Record | LogView:
        """``log[offset]`` is a record, ``log[a:b]`` a lazy view; negatives count from the end.

        OffsetOutOfRangeError where no record has the offset, and where a slice begins below
        ``start_offset`` or beyond ``end_offset``; :meth:`head` gives the first records.
        """
        if isinstance(index, slice):
            return self.view()[index]
        if not hasattr(index, "__index__"):
            raise TypeError(f"a record is read by its offset, not {type(index).__name__}")
        index = check_integer("offset", index)
        offset = index + self.end_offset if index < 0 else index
        for record in self.view(offset, min(offset + 1, INT64_MAX)):
            return record
        raise no_record(self, index, offset)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.view())

    def view(
        self,
        start: int | None = None,
        stop: int | None = None,
        *,
        isolation: str = UNCOMMITTED,
        isolation_level: str | None = None,
    ) -> LogView:
        """A lazy window of offsets [start, stop); None: the log's start, or its end as it grows.

        With ``isolation="read_committed"`` it ends at the last stable offset and omits the
        records of aborted transactions, as Kafka's consumer does; the default shows both.
        ``isolation_level``, a consumer's name of it, is the same.
        """
        if isolation_level is not None:
            isolation = isolation_of(isolation=isolation, isolation_level=isolation_level)
        if self.closed:
            raise ClosedError("the log is closed", path=self.path)
        return LogView(self, start, stop, isolation=isolation)

    @explain_scan
    def scan(
        self,
        where: Callable[[Any], Any] | None = None,
        *,
        check_crc: bool = True,
        threads: int = 1,
        on_damage: str = "raise",
        skipped: list[Any] | None = None,
    ) -> "Iterator[Columns]":
        """Columns of all records; options and errors are those of :meth:`LogView.scan`."""
        return self.view().scan(
            where=where, check_crc=check_crc, threads=threads, on_damage=on_damage, skipped=skipped
        )

    @explain_table
    def to_arrow(self) -> "pa.Table":
        """All records as a pyarrow.Table; see :meth:`LogView.to_arrow`."""
        return self.view().to_arrow()

    @explain_table
    def to_pandas(self) -> "pd.DataFrame":
        """All records as a pandas.DataFrame; see :meth:`LogView.to_pandas`."""
        return self.view().to_pandas()

    def head(self, count: int = 5) -> LogView:
        """The first records; see :meth:`LogView.head`."""
        return self.view().head(count)

    def tail(self, count: int = 5) -> LogView:
        """The last records; see :meth:`LogView.tail`."""
        return self.view().tail(count)

    def settled(self, start: int) -> LogView:
        """From start to the log end, without the records of transactions not committed so far.

        Unlike read_committed it continues behind open transactions, whose records appear in the
        same view once committed. For state by key, such as Kafka's group offsets.
        """
        return LogView(self, start, self.end_offset, isolation=COMMITTED, beyond_stable=True)

    def _settled_columns(self, start: int, stop: int) -> "Iterator[Columns]":
        """The same records below an offset, as columns."""
        return LogView(self, start, stop, isolation=COMMITTED, beyond_stable=True).scan()

    @explain_latest
    def latest(self, **isolation: Unpack[Isolation]) -> dict[bytes, Record]:
        """The latest record of every key; see :meth:`LogView.latest`."""
        return self.view(**isolation).latest()

    @explain_follow
    def follow(
        self,
        *,
        start: int | datetime | str | None = None,
        timeout: float | None = None,
        **isolation: Unpack[Isolation],
    ) -> Follower:
        """Iterate records from start and wait for more; by default new ones only, as ``tail -f``.

        ``start`` is an offset, an aware datetime, or Kafka's "earliest" or "latest".

        ``for`` and ``async for`` both work. Ends after timeout seconds without a new record; None
        waits until the log is closed. With read_committed, records come at their commit.

        Iterating raises OffsetOutOfRangeError where the log starts behind the next offset
        (retention, ``delete_records``), or was truncated below it.
        """
        level = isolation_of(**isolation)
        return Follower(self, first_to_follow(self, start, level), timeout, level)

    @abstractmethod
    def wait_beyond(self, offset: int, timeout: float | None = None) -> bool:
        """Wait until the log end lies beyond offset; False after timeout seconds."""

    @abstractmethod
    def producers(self) -> list[ProducerEntry]:
        """The state of each idempotent or transactional producer, unordered.

        A reader derives it from the newest snapshot and the batches behind it.
        """

    @abstractmethod
    def aborted_transactions(self, start: int, stop: int) -> list[AbortedTransaction]:
        """Aborted transactions that may have records in [start, stop), oldest abort first.

        What a broker adds to a read_committed fetch: from the transaction indexes, as
        Kafka's UnifiedLog.collectAbortedTransactions. A lost index is rebuilt from the log; a
        reader, which changes no file, rebuilds it in memory only.
        """

    @abstractmethod
    def expire_producers(self) -> int:
        """Forget producers idle for ``producer.id.expiration.ms``; returns how many."""

    # --- maintenance -----------------------------------------------------------------------

    @abstractmethod
    def flush(self) -> None:
        """Return when everything appended before the call is on disk (survives a power cut).

        Concurrent calls share one sync. Raises StorageError; after a failed sync the log is
        read-only until reopened.
        """

    @abstractmethod
    def roll(self) -> None:
        """Roll the active segment; nothing if it is empty."""

    @abstractmethod
    def delete_records(self, before_offset: int) -> int:
        """Raise the log start to before_offset (-1: the end); returns the new log start.

        Raises PolicyViolationError where ``cleanup.policy`` lacks ``delete``, as Kafka.
        """

    @abstractmethod
    def apply_retention(self) -> int:
        """Drop the oldest segments that exceed ``retention.ms`` or ``retention.bytes``.

        Returns how many. Drops nothing where neither is set (kstore's default).
        """

    @abstractmethod
    def compact(self, **options: Any) -> "CompactionReport":
        """Keep the latest record of every key, in all segments but the active one.

        Runs Kafka's log cleaner now; reads and appends continue. For options and errors see
        :func:`kstore.compaction.cleaner.compact`.
        """

    @abstractmethod
    def recompress(
        self,
        compression: str,
        *,
        level: int | None = None,
        force: bool = False,
        merge: bool = False,
        roll: bool = False,
        progress: "Progress | None" = None,
    ) -> "RewriteReport":
        """Rewrite the batches of all segments but the active one with another codec.

        Records keep offset, timestamp and headers; batches keep producer fields, transaction and
        message format; control batches do not change. Segments are replaced one by one as a
        compaction does: reads and appends continue, and a kill leaves the old or the new one.
        A corrupt segment is not changed and is in the report's ``damages``.

        ``compression`` is Kafka's name of a codec, or none; ``level`` is 1 to 9 of gzip, 1 to 22
        of zstd. ``force`` uses the codec also for batches that grow by it, ``merge`` merges
        neighbouring batches up to ``max.message.bytes``, ``roll`` rolls the active segment first,
        so that every batch is rewritten. ``progress`` is called with bytes done and in total.

        Raises
        ------
        UnsupportedCompressionTypeError, InvalidConfigError
            An unknown codec, or zstd for messages v0 or v1; a level that the codec does not have.
            Nothing was changed.
        CompactionAbandonedError
            The log was truncated or moved meanwhile. Segments already replaced stay so.
        """

    @abstractmethod
    def convert(
        self,
        message_format_version: str = "3.0",
        *,
        compression: str | None = None,
        level: int | None = None,
        force: bool = False,
        roll: bool = False,
        progress: "Progress | None" = None,
    ) -> "RewriteReport":
        """Rewrite messages v0 and v1 in all segments but the active one as record batches v2.

        A message becomes a batch of one record, a compressed set of messages one batch; offsets
        and timestamps stay (v0 has none: -1). The version is one of Kafka's from 0.11.0 on; for a
        lower one UnsupportedForMessageFormatError is raised. Otherwise as :meth:`recompress`;
        without ``compression`` each batch keeps its codec.
        """

    @abstractmethod
    def reindex(self, *, progress: "Progress | None" = None) -> "ReindexReport":
        """Rebuild indexes, header checksums, producer snapshots and transaction indexes.

        Reads and checks the log, which does not change; the result is that of a recovery without
        those files. Only files that differ are replaced. Reads continue; appends
        wait while the active segment and the headers of producers' batches are read. A corrupt
        segment keeps its files and is in the report's ``damages``; the producer state is kept
        then, too. ``progress`` is called with bytes done and bytes in total.

        Raises CompactionAbandonedError where the log is moved meanwhile, StorageError.
        """

    def verify(self, **options: Any) -> "VerifyReport":
        """Check every batch, record, offset and index entry; see kstore.verify.partition.

        Starts again where the partition is moved to another log directory meanwhile.
        """
        from kstore.verify.beside_moves import verify_beside_moves

        return verify_beside_moves(self._files, self._locate, **options)

    def _locate(self) -> str:
        """The partition's current directory."""
        return self.path

    @abstractmethod
    def seal(self) -> int:
        """Write header checksums of every rolled segment; returns how many have them.

        A log does so when it has synced rolled segments. This is for segments from elsewhere.
        Verify first: a header that is corrupt now would count as valid.
        """

    @abstractmethod
    def configure(self, config: LogConfig) -> None:
        """Apply other settings, from the next append on (a store saves them)."""

    @abstractmethod
    def remove_retired(self) -> None:
        """Remove files of dropped segments whose ``file.delete.delay.ms`` is over."""

    @abstractmethod
    def park(self) -> bool:
        """Release descriptors and mappings until the next use (a store does so when it has many).

        False, with nothing changed, where the log is busy.
        """

    @abstractmethod
    def close(self) -> bool:
        """Flush and close; a second call does nothing. Returns whether it was a clean stop."""

    # --- for the engine ----------------------------------------------------------------------

    @abstractmethod
    def _extend(self, values: Iterable[Item], when: Timestamp, topic: TopicItems | None) -> range:
        """As :meth:`extend`; ``topic`` numbers the items, and gets their offsets also on errors."""

    @property
    @abstractmethod
    def _source(self) -> SegmentSource:
        """Accesses the segments: the writer's, or that of a reader of another process's files."""

    @abstractmethod
    def _read_whole(self, view: SegmentView) -> Slice:
        """All bytes of a segment, mapped where that is safe."""

    @abstractmethod
    def _require_writer(self) -> "LogWriter":
        """The log's writer; ReadOnlyError, ClosedError, ForkedError or LogFailedError if none."""
