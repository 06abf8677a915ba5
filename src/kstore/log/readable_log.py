"""The interface for reading a partition: all that views, lookups by time and followers need.

Reading takes no lock: it uses an immutable list of segments, and an end that was published after
its bytes.
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack, overload

from kstore._native.read.segment_view import SegmentList, SegmentView, Slice
from kstore.config import LogConfig
from kstore.errors import ClosedError
from kstore.files.files import Files
from kstore.hints.keyword_names import (
    call_first,
    explain_count,
    explain_follow,
    explain_head,
    explain_latest,
    explain_records,
    explain_scan,
    explain_since,
    explain_table,
    explain_view,
)
from kstore.integers import INT64_MAX, check_integer
from kstore.log import time_lookup
from kstore.log.batch_headers import RecordBatchInfo, batches_of
from kstore.log.follow import Follower, first_to_follow
from kstore.log.offset_and_timestamp import OffsetAndTimestamp
from kstore.log.read_committed import COMMITTED, UNCOMMITTED, Isolation, end_at, isolation_of
from kstore.log.segment_source import SegmentSource
from kstore.log.view import LogView, no_record
from kstore.log.watch import Callback, Watch
from kstore.producer_state.snapshot import ProducerEntry
from kstore.record import Record, timestamp
from kstore.segment.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from kstore.integers import Seconds
    from kstore.log.reader import LogReader
    from kstore.record.columns import Columns
    from kstore.recovery.report import RecoveryReport
    from kstore.verify.partition import VerifyReport


class ReadableLog(metaclass=ABCMeta):
    """The reading half of :class:`kstore.Log`. Thread safe; reading takes no lock."""

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

    # --- start and end ---------------------------------------------------------------------

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

        The writer tracks it. A reader walks the headers after the newest producer snapshot the
        first time, and later only those of new batches.
        """

    @property
    @abstractmethod
    def high_watermark(self) -> int:
        """The offset below which records are replicated: the log end, unless a broker has set it.

        It bounds what consumers read, ``last_stable_offset``, retention and ``delete_records``, but
        not ``read``, views and ``follow``, which are what followers fetch. A reader of another
        process does not know it, and returns the log end.
        """

    @property
    @abstractmethod
    def segments(self) -> SegmentList:
        """The segments at this moment, oldest first; immutable."""

    @property
    @abstractmethod
    def recovery_point(self) -> int:
        """A writer's recovery point: all below it is on disk. A reader returns the log start."""

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

    # --- reading ---------------------------------------------------------------------------

    @abstractmethod
    def read(
        self,
        offset: int,
        max_bytes: int = 1 << 20,
        *,
        up_to: int | None = None,
        min_one_batch: bool = True,
    ) -> Slice | None:
        """File bytes from the batch that contains offset onwards, not copied, of one segment.

        The slice may begin with records before offset and end in an incomplete batch, as a fetch
        from Kafka does. None at the log end, or where compaction removed everything from offset
        on. Thread safe; takes no lock.

        With ``up_to`` (a last stable offset, a high watermark) it has only complete batches with
        offsets below that; None if there are none. With ``min_one_batch`` the first batch is
        complete even if it exceeds max_bytes (Kafka's minOneMessage); without, the slice has at
        most max_bytes, perhaps none, and ``first_batch_size`` is what the first batch needs.

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
        if self.closed:
            raise ClosedError("the log is closed", path=self.path)
        offset = index + self.end_offset if index < 0 else index
        for record in LogView(self, offset, min(offset + 1, INT64_MAX)):
            return record
        raise no_record(self, index, offset)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.view())

    @explain_view
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
        ``isolation_level``, the consumers' name for it, means the same.

        OffsetOutOfRangeError where it begins below ``start_offset``, unless it is empty: those
        records were deleted. It may begin beyond the end, where records are still to come.
        """
        if isolation_level is not None:
            isolation = isolation_of(isolation=isolation, isolation_level=isolation_level)
        if self.closed:
            raise ClosedError("the log is closed", path=self.path)
        found = LogView(self, start, stop, isolation=isolation)
        if start is not None:
            found.check_start()
        return found

    @explain_records
    def records(
        self,
        *,
        check_crc: bool = True,
        on_damage: str = "raise",
        skipped: list[Any] | None = None,
        **isolation: Unpack[Isolation],
    ) -> Iterator[Record]:
        """All records: ``log.records(isolation_level="read_committed")``.

        Like iterating the log, with an isolation level and the options of :meth:`LogView.records`.
        """
        return self.view(**isolation).records(
            check_crc=check_crc, on_damage=on_damage, skipped=skipped
        )

    def batches(self) -> Iterator[RecordBatchInfo]:
        """The record batches by their headers, in order; see :meth:`LogView.batches`."""
        return batches_of(self.view())

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

    @explain_count
    def count(
        self, where: Callable[[Any], Any] | None = None, **isolation: Unpack[Isolation]
    ) -> int:
        """The number of records, which it finds by reading them; see :meth:`LogView.count`."""
        return self.view(**isolation).count(where)

    @explain_head
    def head(self, count: int = 5) -> LogView:
        """The first records; see :meth:`LogView.head`."""
        return self.view().head(count)

    @explain_head
    def tail(self, count: int = 5) -> LogView:
        """The last records; see :meth:`LogView.tail`."""
        return self.view().tail(count)

    def settled(self, start: int) -> LogView:
        """From start to the log end, without the records of transactions not committed so far.

        Unlike read_committed it continues beyond open transactions, whose records appear in the
        same view once they are committed. For state by key, such as Kafka's group offsets.
        """
        return LogView(self, start, self.end_offset, isolation=COMMITTED, beyond_stable=True)

    def _settled_columns(self, start: int, stop: int) -> "Iterator[Columns]":
        """The records of such a view, below ``stop``, as columns."""
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
        timeout: "Seconds" = None,
        **isolation: Unpack[Isolation],
    ) -> Follower:
        """Iterate records from start and wait for more; by default new ones only, as ``tail -f``.

        ``start`` is an offset, an aware datetime, or Kafka's "earliest" or "latest".

        ``for`` and ``async for`` both work. Ends after timeout seconds without a new record; None
        waits until the log is closed. With read_committed, records appear when they are committed.

        Iterating raises OffsetOutOfRangeError if the log starts after the next offset (retention,
        ``delete_records``), or was truncated below it.
        """
        level = isolation_of(**isolation)
        return Follower(self, first_to_follow(self, start, level), timeout, level)

    @abstractmethod
    def watch(self, callback: Callback) -> Watch:
        """Call ``callback(log, events)`` after each change of the log, until ``Watch.close()``.

        It is called on the thread that made the change, without the log's lock, and must not block.
        ``events`` are :class:`LogEvents` of one or several changes. Its exceptions are logged.
        Raises ReadOnlyError for the log of another process, whose changes a reader sees only when
        it reads.
        """

    @abstractmethod
    def wait_beyond(self, offset: int, timeout: "Seconds" = None) -> bool:
        """Wait until the log end lies beyond offset; False after timeout seconds, or as soon as the
        log closes or its end is lowered."""

    def _wait_to_follow(self, offset: int, timeout: float | None) -> bool:
        """As :meth:`wait_beyond`; False also if the log may have been truncated meanwhile."""
        return self.wait_beyond(offset, timeout)

    # --- lookups by time -------------------------------------------------------------------

    @explain_since
    def since(
        self,
        when: datetime | int,
        until: datetime | int | None = None,
        **isolation: Unpack[Isolation],
    ) -> LogView:
        """A view that begins with the first record at or after a time (empty if there is none).

        It ends before the first record at or after ``until``, or at the present log end if there is
        none.
        """
        start = self.offset_at(when)
        stop = None if until is None else self.offset_at(until)
        return self.view(start, stop, **isolation)

    def offset_at(self, when: datetime | int, **isolation: Unpack[Isolation]) -> int:
        """Offset of the first record whose timestamp is at or after when; else the end.

        At the end there is no record yet: :meth:`find_time` is None there, :meth:`since` empty.
        The result is that of a scan of the entire log: transaction markers and records of aborted
        transactions count, as for Kafka's offsetsForTimes, and records without a timestamp never
        match. With ``isolation="read_committed"`` the end is the last stable offset. Raises
        CorruptRecordError if the answer may be among corrupt or lost records. Warns
        (TimestampUnitWarning) of a number that can only mean seconds, microseconds or nanoseconds.
        """
        end = end_at(self, isolation_of(**isolation))
        ms = timestamp.to_lookup_time(when)
        found = time_lookup.offset_for_time(self, ms)
        if found is None:
            timestamp.warn_nothing_that_late(ms)
        return end if found is None else min(found, end)

    def find_time(
        self, when: datetime | int, *, up_to: int | None = None, **isolation: Unpack[Isolation]
    ) -> OffsetAndTimestamp | None:
        """The first record whose timestamp is at or after when; None if it may not be read.

        As ListOffsets of a broker: that record if its offset is below the limit, and no later one
        instead. The limit is the log end, with ``isolation="read_committed"`` the last stable
        offset, or ``up_to`` (a high watermark) if that is lower. Control records count. Raises
        CorruptRecordError if the answer may be among corrupt or lost records.
        """
        limit = _limit(self, up_to, isolation_of(**isolation))
        found = time_lookup.find_record_at_time(self, timestamp.to_milliseconds(when))
        return found if found is not None and found.offset < limit else None

    @call_first
    def max_timestamp(
        self, *, up_to: int | None = None, **isolation: Unpack[Isolation]
    ) -> OffsetAndTimestamp | None:
        """The first record with the largest timestamp; None if no record has a timestamp.

        As ListOffsets with timestamp -3 in Kafka 3.9 (UnifiedLog.fetchOffsetByTimestamp): the
        first batch with the largest timestamp of the log, and in it the first record that has it.
        None also if that record is not below the limit of :meth:`find_time`. Raises
        CorruptRecordError if the answer may be among lost records.
        """
        limit = _limit(self, up_to, isolation_of(**isolation))
        found = time_lookup.find_newest(self)
        return found if found is not None and found.offset < limit else None

    # --- leader epochs ---------------------------------------------------------------------

    @property
    @abstractmethod
    def leader_epoch(self) -> int:
        """The latest leader epoch of ``leader-epoch-checkpoint``; -1 if none is known.

        Appended batches are stamped with it. The first append to a log without one begins epoch 0.
        """

    @abstractmethod
    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The largest known epoch up to this one, and its end offset (OffsetForLeaderEpoch).

        The end is the first offset of the next epoch, or the log end for the latest one; (-1, -1)
        for an epoch beyond it. An epoch below the first known one ends where that one starts, as
        in Kafka's LeaderEpochFileCache.endOffsetFor. Takes no lock.
        """

    @abstractmethod
    def epoch_at(self, offset: int) -> int:
        """The leader epoch in which an offset was written; -1 if it is unknown.

        From ``leader-epoch-checkpoint``, as Kafka's epochForOffset. Takes no lock.
        """

    # --- producers and transactions --------------------------------------------------------

    @abstractmethod
    def producers(self) -> list[ProducerEntry]:
        """The state of each idempotent or transactional producer, unordered.

        A reader derives it from the newest snapshot and the batches after it.
        """

    @abstractmethod
    def aborted_transactions(self, start: int, stop: int) -> list[AbortedTransaction]:
        """Aborted transactions that may have records in [start, stop), oldest abort first.

        What a broker adds to a read_committed fetch, from the transaction indexes, as Kafka's
        UnifiedLog.collectAbortedTransactions. A lost index is rebuilt from the log; a reader, which
        changes no file, rebuilds it in memory only.
        """

    # --- files -----------------------------------------------------------------------------

    def verify(self, **options: Any) -> "VerifyReport":
        """Check every batch, record, offset and index entry; see kstore.verify.partition.

        Starts again if the partition is moved to another log directory meanwhile.
        """
        from kstore.verify.moving_partition import verify_moving_partition

        return verify_moving_partition(self._files, self._locate, **options)

    def _reader_of_files(self) -> "LogReader | None":
        """What reads the files that another process writes; None if this process writes."""
        return None

    def _locate(self) -> str:
        """The partition's current directory."""
        return self.path

    @abstractmethod
    def park(self) -> bool:
        """Release descriptors and mappings until the next use (a store does so when it has many).

        False, with nothing changed, if the log is busy.
        """

    @abstractmethod
    def close(self) -> bool:
        """Flush and close; a second call does nothing. Returns whether it was a clean stop."""

    # --- for the engine --------------------------------------------------------------------

    @property
    @abstractmethod
    def _source(self) -> SegmentSource:
        """What accesses the segments: the writer's, or a reader's for another process's files."""

    @abstractmethod
    def _read_whole(self, view: SegmentView) -> Slice:
        """All bytes of a segment, mapped where that is safe."""

    @property
    @abstractmethod
    def _truncations(self) -> Sequence[int]:
        """The offsets to which this process truncated the log, in order; the same object always."""

    def _known_aborted(self, start: int, stop: int) -> list[AbortedTransaction] | None:
        """As :meth:`aborted_transactions`; a writer's log gives None where it would have to wait
        for a lock or for the disk."""
        return self.aborted_transactions(start, stop)


def _limit(log: ReadableLog, up_to: int | None, isolation: str) -> int:
    end = end_at(log, isolation)
    return end if up_to is None else min(end, check_integer("up_to", up_to))
