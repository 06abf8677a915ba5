"""A log: one partition, the thing that is appended to and read.

Offsets are labels: they never repeat and may have gaps, so a log has no length. Reading takes
no lock; it sees an immutable list of segments and an end that was published after its bytes.

:class:`Log` is the interface. A store that is open for writing has
:class:`kstore.log.writable_log.WritableLog`, a reader beside another process
:class:`kstore.log.read_only_log.ReadOnlyLog`.
"""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, overload

from kstore._native.read.segment_view import SegmentList, SegmentView, Slice
from kstore.config import LogConfig
from kstore.errors import ClosedError, OffsetOutOfRangeError
from kstore.files.files import Files
from kstore.integers import INT64_MAX, check_integer
from kstore.log import time_lookup
from kstore.log.read_committed import COMMITTED, UNCOMMITTED, check_isolation
from kstore.producer_state.snapshot import ProducerEntry
from kstore.record import Headers, Record, timestamp
from kstore.recovery.lost_segments import LostRecords
from kstore.segment.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from kstore.compaction.cleaner import CompactionReport
    from kstore.log.follow import Follower
    from kstore.log.view import LogView
    from kstore.log.writer import LogWriter
    from kstore.maintenance.reindex import ReindexReport
    from kstore.maintenance.rewrite import Progress, RewriteReport
    from kstore.recovery.report import RecoveryReport
    from kstore.verify.partition import VerifyReport

Result = TypeVar("Result")
Timestamp = datetime | int | None


class AppendInfo(NamedTuple):
    """What an append of whole batches did. Offsets are inclusive; -1 for none. Immutable."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    size: int


class SegmentSource(Protocol):
    """What has a log's segments while some of them leave it: its writer's, or its reader's part.

    Methods raise StorageError for a segment that is not part of the log any more.
    """

    @property
    def lost(self) -> LostRecords:
        """Records that are known to be lost."""
        ...

    def on_current_segments(self, use: Callable[[SegmentList], Result]) -> Result:
        """Call a function with the segments; again if it fails while the segments change."""
        ...

    def load_entries(self, view: SegmentView) -> None:
        """Have the index entries of a segment in memory."""
        ...

    def learn_times(self, view: SegmentView) -> None:
        """Learn a segment's largest timestamp."""
        ...

    def read_segment(self, view: SegmentView, offset: int, max_bytes: int) -> Slice | None:
        """As SegmentList.read, within one segment."""
        ...

    def check_lost(self, start: int, stop: int | None, ms: int) -> None:
        """Raise CorruptRecordError if lost records in [start, stop) may be at or after ms."""
        ...


class Log(metaclass=ABCMeta):
    """One partition of a topic, open for writing or, in another process's directory, for reading.

    Thread safe. ``append``, ``extend`` and the other changes take the log's lock in turn;
    reading takes none. Made by a :class:`kstore.Store`, not by hand.
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

    # --- where it begins and ends ----------------------------------------------------------

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

        The writer knows it. A reader walks the headers behind the newest producer snapshot the
        first time, later only what was appended since.
        """

    @property
    @abstractmethod
    def segments(self) -> SegmentList:
        """The segments at this moment, oldest first; immutable."""

    @property
    @abstractmethod
    def recovery_point(self) -> int:
        """Everything below this offset is on disk (for a writer; the log start otherwise)."""

    @property
    def size(self) -> int:
        """Bytes of all segments' logs."""
        return sum(view.size for view in self.segments.views)

    @property
    @abstractmethod
    def writable(self) -> bool:
        """Whether the log is open for writing."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether the log was closed, by itself or with its store."""

    # --- appending -------------------------------------------------------------------------

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

        Returns after the bytes were handed to the operating system: they survive the process,
        and a power cut once :meth:`flush` has returned.

        Parameters
        ----------
        value, key
            Any bytes-like object, or None for null.
        headers
            (name, value) pairs; a value may be None.
        timestamp
            An aware datetime, or milliseconds since 1970; None: the clock's now.

        Raises
        ------
        MessageTooLargeError, InvalidTimestampError, InvalidRecordError
            The batch is beyond ``max.message.bytes``; before 1970, beyond the year 9999 (such as
            nanoseconds), or further from now than the topic allows; without a key, and the topic
            is compacted. Nothing was appended.
        StorageError
            The disk is full or failed; nothing was appended.
        """

    @abstractmethod
    def extend(
        self, values: Iterable[bytes | Record | None], *, timestamp: Timestamp = None
    ) -> range:
        """Append many records in batches of ``batch.size``; return their offsets, contiguous.

        Items are values (bytes-like or None) or Records, whose key, value, headers and timestamp
        are taken. The log keeps its turn until the source is exhausted, so feed it from a fast
        one; a source that appends to this log itself is refused. An error in the middle leaves
        the batches before it in the log.

        A single item beyond ``max.message.bytes`` or ``segment.bytes`` is refused with its index
        and the offsets that were appended (MessageTooLargeError, RecordListTooLargeError).
        """

    @abstractmethod
    def append_as_leader(self, batch: Any) -> AppendInfo:
        """Append what a stranger sent, with every check that Kafka's leader makes.

        The log gives it offsets; the bytes are stored as they came but for offset and leader
        epoch (and, where Kafka does so too, timestamp type and largest timestamp).

        Of an idempotent or transactional producer's batch epoch and sequence are checked. One of
        its last five batches, sent again, is answered with the offsets and timestamp it has in
        the log and ``size`` 0: nothing is written. A transactional batch opens its producer's
        transaction in this log, which :meth:`append_end_marker` ends.

        Parameters
        ----------
        batch
            A bytes-like object with exactly one record batch v2, base offset 0; or with messages
            v0 or v1, any number of them plain or one compressed, where a cut one at the end is
            left out. What the topic's ``message.format.version`` says is written.

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
        """As :meth:`append_as_leader`, for a batch of this process's own coordinator.

        Of a producer's batch only the epoch is checked: offsets committed within a transaction
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
        """End a producer's transaction in this log: append the control batch that says so.

        As a transaction coordinator has it written (WriteTxnMarkers; KIP-98). An aborted
        transaction goes into the transaction index of the marker's segment. Where the producer
        has none open the marker is written all the same and changes only its epochs.

        Parameters
        ----------
        producer_epoch
            The producer's, or a higher one, with which its next transaction begins (KIP-890).
        coordinator_epoch
            Leader epoch of the coordinator's partition of ``__transaction_state``.
        transaction_version
            From 2 on the epoch has to be higher than that of the records (KIP-1228).
        timestamp
            The marker's, in ms; -1 is now, which a log with LogAppendTime takes in any case.

        Raises
        ------
        InvalidProducerEpochError, TransactionCoordinatorFencedError
            An older epoch than the log has seen; nothing was appended.
        InvalidTimestampError
            Before 1970 or beyond the year 9999; likewise.
        """

    @abstractmethod
    def append_as_follower(self, batches: Any) -> AppendInfo:
        """Append whole batches as they are: a leader has checked them and given them offsets.

        Any message format. Checked here: structure, checksum, offsets at or beyond the log end
        and increasing (gaps are fine). A cut batch at the end is left out.

        Raises
        ------
        CorruptRecordError
            With the position in ``batches``; nothing was appended.
        """

    # --- reading ---------------------------------------------------------------------------

    @abstractmethod
    def read(self, offset: int, max_bytes: int = 1 << 20) -> Slice | None:
        """The one door out: file bytes from the batch that holds offset on, not copied.

        The slice may begin with records before offset and end in a cut batch, as a fetch from
        Kafka does. Its first batch is whole even where it is larger than max_bytes. None at the
        log end, or where compaction removed everything from offset on.

        Raises
        ------
        OffsetOutOfRangeError
            Below the log start or beyond the log end.
        CorruptRecordError
            The batches on the way are not what the format allows.
        """

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> "LogView": ...
    def __getitem__(self, index: int | slice) -> "Record | LogView":
        """``log[offset]`` is a record, ``log[a:b]`` a lazy view; negatives count from the end."""
        if isinstance(index, slice):
            return self.view()[index]
        if not hasattr(index, "__index__"):
            raise TypeError(f"a record is asked for by its offset, not {type(index).__name__}")
        index = check_integer("offset", index)
        offset = index + self.end_offset if index < 0 else index
        for record in self.view(offset, min(offset + 1, INT64_MAX)):
            return record
        self._source.lost.check_offset(offset)
        start, end = self.start_offset, self.end_offset
        reason = (
            "no record has this offset: it was compacted away, or belongs to a control batch"
            if start <= offset < end
            else f"the log holds offsets {start} to {end - 1}"
            if start < end
            else f"the log is empty; its next offset is {end}"
        )
        raise OffsetOutOfRangeError(reason, path=self.path, offset=index)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.view())

    def view(
        self, start: int | None = None, stop: int | None = None, *, isolation: str = UNCOMMITTED
    ) -> "LogView":
        """A lazy window of offsets [start, stop); None: the log's start, or its end as it grows.

        With ``isolation="read_committed"`` it ends at the last stable offset and leaves out the
        records of aborted transactions, as Kafka's consumer does; the default shows both.
        """
        from kstore.log.view import LogView

        if self.closed:
            raise ClosedError("the log is closed", path=self.path)
        return LogView(self, start, stop, isolation=isolation)

    def settled(self, start: int) -> "LogView":
        """From start to the log end, without the records of transactions not committed by now.

        Unlike read_committed it goes on behind open transactions: what becomes of them changes
        what lies before the end of this view. For state that is kept by key, as Kafka's group
        coordinator keeps its offsets.
        """
        from kstore.log.view import LogView

        return LogView(self, start, self.end_offset, isolation=COMMITTED, beyond_stable=True)

    def since(self, when: datetime | int, *, isolation: str = UNCOMMITTED) -> "LogView":
        """A view from the first record at or after a moment on (empty if there is none)."""
        return self.view(self.offset_at(when), None, isolation=isolation)

    def offset_at(self, when: datetime | int, *, isolation: str = UNCOMMITTED) -> int:
        """Offset of the first record whose timestamp is at or after when; the end if none is.

        What a scan of the whole log finds: transaction markers and records of aborted
        transactions count, as for Kafka's offsetsForTimes, and records without a timestamp never
        match. With ``isolation="read_committed"`` the end is the last stable offset. Raises
        CorruptRecordError where damage may hide the answer.
        """
        end = self._end_at(isolation)
        ms = timestamp.to_milliseconds(when)
        found = time_lookup.offset_for_time(self, ms)
        if found is None:
            timestamp.warn_nothing_that_late(ms)
        return end if found is None else min(found, end)

    def _end_at(self, isolation: str) -> int:
        return self.last_stable_offset if check_isolation(isolation) else self.end_offset

    def follow(
        self,
        *,
        start: int | None = None,
        timeout: float | None = None,
        isolation: str = UNCOMMITTED,
    ) -> "Follower":
        """Iterate records from start (default: the end) and wait for more.

        ``for`` and ``async for`` both work. Ends after timeout seconds without a new record;
        None waits for ever, or until the log is closed. With ``isolation="read_committed"``
        records of a transaction come when it is committed.
        """
        from kstore.log.follow import Follower

        first = self._end_at(isolation) if start is None else check_integer("start", start)
        return Follower(self, first, timeout, isolation)

    @abstractmethod
    def wait_beyond(self, offset: int, timeout: float | None = None) -> bool:
        """Sleep until the log end lies beyond offset; False when the time is over first."""

    # --- producers and transactions -----------------------------------------------------------

    @abstractmethod
    def producers(self) -> list[ProducerEntry]:
        """What the log knows of each idempotent or transactional producer, in no order.

        A reader, in another process, sees the newest snapshot and what the log has behind it.
        """

    @abstractmethod
    def aborted_transactions(self, start: int, stop: int) -> list[AbortedTransaction]:
        """Aborted transactions that may have records in [start, stop), oldest abort first.

        What a broker adds to a fetch with read_committed: from the transaction indexes, as
        Kafka's UnifiedLog.collectAbortedTransactions. An index that was lost is made anew from
        the log; a reader, which changes no file, does so in memory.
        """

    @abstractmethod
    def expire_producers(self) -> int:
        """Forget producers idle for ``producer.id.expiration.ms`` (a store does, by and by)."""

    # --- upkeep ----------------------------------------------------------------------------

    @abstractmethod
    def flush(self) -> None:
        """Return when everything appended before the call is on disk (survives a power cut).

        Concurrent calls share one sync. Raises StorageError; after a failed sync the log is
        read-only until reopened.
        """

    @abstractmethod
    def roll(self) -> None:
        """Seal the active segment and start a new one; nothing if it is empty."""

    @abstractmethod
    def truncate_to(self, offset: int) -> None:
        """Make offset the log end: whole batches from the one that holds it on are gone."""

    @abstractmethod
    def delete_records(self, before_offset: int) -> int:
        """Raise the log start to before_offset (-1: the end); returns the new log start.

        Raises PolicyViolationError where ``cleanup.policy`` lacks ``delete``, as Kafka.
        """

    @abstractmethod
    def apply_retention(self) -> int:
        """Drop the oldest segments that ``retention.ms`` or ``retention.bytes`` lets go.

        Returns how many. Nothing where neither is set (kstore's default).
        """

    @abstractmethod
    def compact(self, **options: Any) -> "CompactionReport":
        """Keep of every key the latest record, in all segments but the active one.

        Kafka's log cleaner, at once, while readers and appends go on. The options and errors are
        those of :func:`kstore.compaction.cleaner.compact`.
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
        compaction does it: reads and appends continue, and a kill leaves the old or the new one.
        A segment with damage stays as it was and is in the report's ``damages``.

        Parameters
        ----------
        compression, level
            Kafka's name of a codec, or none; level 1 to 9 of gzip, 1 to 22 of zstd.
        force
            Use the codec also for batches that it makes larger.
        merge
            Merge neighbouring batches, up to ``max.message.bytes``.
        roll
            Roll the active segment first, so that every batch is rewritten.
        progress
            Called with bytes done and bytes in all.

        Raises
        ------
        UnsupportedCompressionTypeError
            An unknown codec, or zstd for messages v0 or v1. Nothing was changed.
        InvalidConfigError
            A level that the codec does not have. Nothing was changed.
        CompactionAbandonedError
            The log was truncated or moved meanwhile. Segments replaced by then stay so.
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

        From the log alone, which is read and checked and does not change: what recovery makes of
        a directory that lost them. Only files that differ are replaced. Reads continue; appends
        wait while the active segment and the headers of producers' batches are read. A segment
        with damage keeps its files and is in the report's ``damages``; so does the producer
        state then. ``progress`` is called with bytes done and bytes in all.

        Raises CompactionAbandonedError where the log is moved meanwhile, StorageError.
        """

    def verify(self, **options: Any) -> "VerifyReport":
        """Check every batch, record, offset and index entry; see kstore.verify.partition."""
        from kstore.verify.partition import verify_partition

        return verify_partition(self._files, self.path, **options)

    @abstractmethod
    def seal(self) -> int:
        """Guard the headers of every rolled segment against flipped bits; returns how many.

        A log does so itself when what it rolled is synced; this is for segments that came
        otherwise, from Kafka or a copy. Verify first: what is wrong now would be taken for right.
        """

    @abstractmethod
    def configure(self, config: LogConfig) -> None:
        """Take other settings over, from the next append on (a store keeps them)."""

    @abstractmethod
    def remove_retired(self) -> None:
        """Remove files of dropped segments whose ``file.delete.delay.ms`` is over."""

    @abstractmethod
    def park(self) -> bool:
        """Give files and mappings back until the next use (a store does this when it has many).

        False where the log is busy; nothing has changed then.
        """

    @abstractmethod
    def close(self) -> bool:
        """Flush and close; again is harmless. Returns whether it was a clean stop."""

    # --- for the engine ----------------------------------------------------------------------

    @property
    @abstractmethod
    def _source(self) -> SegmentSource:
        """What has the log's segments: its writer, or the reader of another process's files."""

    @abstractmethod
    def _read_whole(self, view: SegmentView) -> Slice:
        """Everything of one of the log's segments, mapped where that is safe."""

    @abstractmethod
    def _require_writer(self) -> "LogWriter":
        """The log's writer. Raises ReadOnlyError where the log is open for reading, and what
        keeps the writer from writing (ClosedError, ForkedError, LogFailedError)."""
