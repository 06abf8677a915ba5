"""A log: one partition, the thing that is appended to and read.

Offsets are labels: they never repeat and may have gaps, so a log has no length. Reading takes
no lock; it sees an immutable list of segments and an end that was published after its bytes.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from kstore._native.locate import SegmentList, SegmentView, Slice
from kstore._native.record import holds_records
from kstore.config import LogConfig
from kstore.errors import ClosedError, OffsetOutOfRangeError, PolicyViolationError, ReadOnlyError
from kstore.log import retention, search
from kstore.log.files import Files
from kstore.log.outside import OutsideState
from kstore.log.producer_snapshot import ProducerEntry
from kstore.log.producer_state import collect_aborted
from kstore.log.shared import SharedReader
from kstore.log.transaction_index import AbortedTransaction
from kstore.log.transactions import COMMITTED, UNCOMMITTED, StableEnd, check_isolation
from kstore.log.writer import LogWriter
from kstore.record import Record, timestamp

if TYPE_CHECKING:
    from kstore.log.cleaner import CompactionReport
    from kstore.log.follow import Follower
    from kstore.log.recovery_report import RecoveryReport
    from kstore.log.verify import VerifyReport
    from kstore.log.view import LogView

_CHUNK = 1000  # values taken from an iterable at a time

Headers = Sequence[tuple[str | bytes, bytes | None]]
Timestamp = datetime | int | None


class AppendInfo(NamedTuple):
    """What an append of whole batches did. Offsets are inclusive; -1 for none. Immutable."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    size: int


class Log:
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
        writer: LogWriter | None,
        reader: SharedReader | None,
        recovery: "RecoveryReport | None" = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.path = path
        self.config = config
        self.recovery = recovery
        self._files = files
        self._writer = writer
        self._reader = reader
        self._stable_end = StableEnd(self, files)
        self._outside = OutsideState(self, files)
        if writer is not None:
            appender = writer.appender
            appender.answer_with(AppendInfo)
            # The kernel's own methods: a frame of Python would be a tenth of a small append.
            self.append = appender.append  # type: ignore[method-assign]
            self.append_as_leader = appender.append_as_leader  # type: ignore[method-assign]
            self.append_as_coordinator = (  # type: ignore[method-assign]
                appender.append_as_coordinator
            )
            self.append_end_marker = appender.append_end_marker  # type: ignore[method-assign]
            self.append_as_follower = appender.append_as_follower  # type: ignore[method-assign]

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
    def last_stable_offset(self) -> int:
        """Where read_committed ends: first offset of the earliest open transaction, or the end.

        The writer knows it. A reader walks the headers behind the newest producer snapshot the
        first time, later only what was appended since.
        """
        if self._writer is not None and not self._writer.producers.stale:
            return self._writer.producers.last_stable_offset(self._writer.segments)
        return self._stable_end.offset()

    @property
    def segments(self) -> SegmentList:
        """The segments at this moment, oldest first; immutable."""
        if self._writer is not None:
            return self._writer.segments
        assert self._reader is not None
        return self._reader.refresh()

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is on disk (for a writer; the log start otherwise)."""
        return self.start_offset if self._writer is None else self._writer.recovery_point

    @property
    def size(self) -> int:
        """Bytes of all segments' logs."""
        return sum(view.size for view in self.segments.views)

    @property
    def writable(self) -> bool:
        return self._writer is not None

    @property
    def closed(self) -> bool:
        """Whether the log was closed, by itself or with its store."""
        if self._writer is not None:
            return self._writer.closed
        assert self._reader is not None
        return self._reader.closed

    # --- appending -------------------------------------------------------------------------

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
            The batch is beyond ``max.message.bytes``; before 1970, or further from now than the
            topic allows; without a key, and the topic is compacted. Nothing was appended.
        StorageError
            The disk is full or failed; nothing was appended.
        """
        raise self._read_only()

    def extend(
        self, values: Iterable[bytes | Record | None], *, timestamp: Timestamp = None
    ) -> range:
        """Append many records in batches of ``batch.size``; return their offsets, contiguous.

        Items are values (bytes-like or None) or Records, whose key, value, headers and timestamp
        are taken. The log keeps its turn until the source is exhausted, so feed it from a fast
        one; a source that appends to this log itself is refused. An error in the middle leaves
        the batches before it in the log.
        """
        writer = self._writing()
        with writer.lock:
            if writer.extending:
                raise RuntimeError("the source of an extend must not append to the same log")
            try:
                writer.extending = True
                writer.appender.make_ready()
                first = writer.appender.next_offset
                for chunk in _chunks(values):
                    _extend_chunk(writer, chunk, timestamp)
                last = writer.appender.next_offset
                due = last >= writer.appender.flush_at
            finally:
                writer.extending = False
        if due:
            writer.flush()
        return range(first, last)

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
        raise self._read_only()

    def append_as_coordinator(self, batch: Any) -> AppendInfo:
        """As :meth:`append_as_leader`, for a batch of this process's own coordinator.

        Of a producer's batch only the epoch is checked: offsets committed within a transaction
        carry no sequence (Kafka's AppendOrigin.COORDINATOR).
        """
        raise self._read_only()

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
        """
        raise self._read_only()

    def append_as_follower(self, batches: Any) -> AppendInfo:
        """Append whole batches as they are: a leader has checked them and given them offsets.

        Any message format. Checked here: structure, checksum, offsets at or beyond the log end
        and increasing (gaps are fine). A cut batch at the end is left out.

        Raises
        ------
        CorruptRecordError
            With the position in ``batches``; nothing was appended.
        """
        raise self._read_only()

    # --- reading ---------------------------------------------------------------------------

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
        try:
            if self._writer is not None:
                return self._writer.segments.read(offset, max_bytes)
            assert self._reader is not None
            return self._reader.read(offset, max_bytes)
        except LookupError:
            raise OffsetOutOfRangeError(
                f"the log holds offsets from {self.start_offset} to {self.end_offset}",
                path=self.path,
                offset=offset,
            ) from None

    def _read_whole(self, view: SegmentView) -> Slice:
        """Everything of one of the log's segments, mapped where that is safe."""
        return view.whole() if self._reader is None else self._reader.read_whole(view)

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
        offset = index + self.end_offset if index < 0 else index
        for record in self.view(offset, offset + 1):
            return record
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

        The rule of Kafka's offsetsForTimes: segments by their largest timestamp, then batches,
        then records (of aborted transactions too). With ``isolation="read_committed"`` the end
        is the last stable offset.
        """
        found = search.offset_for_time(self, timestamp.to_milliseconds(when), self._files)
        end = self._end_at(isolation)
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

        first = self._end_at(isolation) if start is None else start
        return Follower(self, first, timeout, isolation)

    def wait_beyond(self, offset: int, timeout: float | None = None) -> bool:
        """Sleep until the log end lies beyond offset; False when the time is over first."""
        if self._writer is not None:
            return self._writer.wait_beyond(offset, timeout)
        assert self._reader is not None
        return self._reader.wait_beyond(offset, timeout)

    # --- producers and transactions -----------------------------------------------------------

    def producers(self) -> list[ProducerEntry]:
        """What the log knows of each idempotent or transactional producer, in no order.

        A reader, in another process, sees the newest snapshot and what the log has behind it.
        """
        if self._writer is not None:
            with self._writer.lock:
                self._writer.producers.refresh(self._writer.segments, self._writer.now_ms())
                entries = self._writer.producers.table.entries()
        else:
            entries = self._outside.at(self.segments).table.entries()
        return [ProducerEntry(*entry) for entry in entries]

    def aborted_transactions(self, start: int, stop: int) -> list[AbortedTransaction]:
        """Aborted transactions that may have records in [start, stop), oldest abort first.

        What a broker adds to a fetch with read_committed: from the transaction indexes, as
        Kafka's UnifiedLog.collectAbortedTransactions. An index that was lost is made anew from
        the log; a reader, which changes no file, does so in memory.
        """
        segments = self.segments
        if self._writer is not None:
            return collect_aborted(self._writer.producers, segments, start, stop)
        return collect_aborted(self._outside.at(segments), segments, start, stop)

    def expire_producers(self) -> int:
        """Forget producers idle for ``producer.id.expiration.ms`` (a store does, by and by)."""
        return self._writing().expire_producers()

    # --- upkeep ----------------------------------------------------------------------------

    def flush(self) -> None:
        """Return when everything appended before the call is on disk (survives a power cut).

        Concurrent calls share one sync. Raises StorageError; after a failed sync the log is
        read-only until reopened.
        """
        self._writing().flush()

    def roll(self) -> None:
        """Seal the active segment and start a new one; nothing if it is empty."""
        self._writing().roll()

    def truncate_to(self, offset: int) -> None:
        """Make offset the log end: whole batches from the one that holds it on are gone."""
        self._writing().truncate_to(offset)
        if "compact" in self.config.cleanup_policy:
            from kstore.log import cleaner

            cleaner.lower_checkpoint(self._files, self)

    def delete_records(self, before_offset: int) -> int:
        """Raise the log start to before_offset (-1: the end); returns the new log start.

        Raises PolicyViolationError where ``cleanup.policy`` lacks ``delete``, as Kafka.
        """
        writer = self._writing()
        if "delete" not in self.config.cleanup_policy:
            raise PolicyViolationError("records of a compacted topic cannot be deleted by offset")
        with writer.lock:
            end = self.end_offset
            offset = end if before_offset == -1 else before_offset
            if not 0 <= offset <= end:
                raise OffsetOutOfRangeError(
                    "delete_records takes an offset from 0 to the log end",
                    path=self.path,
                    offset=before_offset,
                )
            writer.raise_start(offset)
        return self.start_offset

    def apply_retention(self) -> int:
        """Drop the oldest segments that ``retention.ms`` or ``retention.bytes`` lets go.

        Returns how many. Nothing where neither is set (kstore's default).
        """
        writer = self._writing()
        with writer.cleaning.attempt() as idle:  # if it is being compacted: next time
            return self._apply_retention(writer) if idle else 0

    def _apply_retention(self, writer: LogWriter) -> int:
        with writer.lock:
            doomed = retention.segments_to_delete(
                search.segment_facts(self, self._files),
                self.config,
                log_start_offset=self.start_offset,
                end_offset=self.end_offset,
                now_ms=writer.now_ms(),
            )
            writer.drop_oldest(len(doomed))
        return len(doomed)

    def compact(self, **options: Any) -> "CompactionReport":
        """Keep of every key the latest record, in all segments but the active one.

        Kafka's log cleaner, at once, while readers and appends go on. The options and errors are
        those of :func:`kstore.log.cleaner.compact`.
        """
        from kstore.log import cleaner

        return cleaner.compact(self, self._writing(), self._files, **options)

    def verify(self, **options: Any) -> "VerifyReport":
        """Check every batch, record, offset and index entry; see kstore.log.verify."""
        from kstore.log import verify

        return verify.verify_partition(self._files, self.path, **options)

    def seal(self) -> int:
        """Guard the headers of every rolled segment against flipped bits; returns how many.

        A log does so itself when what it rolled is synced; this is for segments that came
        otherwise, from Kafka or a copy. Verify first: what is wrong now would be taken for right.
        """
        return self._writing().seal_all()

    def configure(self, config: LogConfig) -> None:
        """Take other settings over, from the next append on (a store keeps them)."""
        self._writing().configure(config)
        self.config = config

    def remove_retired(self) -> None:
        """Remove files of dropped segments whose ``file.delete.delay.ms`` is over."""
        self._writing().remove_retired()

    def park(self) -> bool:
        """Give files and mappings back until the next use (a store does this when it has many).

        False where the log is busy; nothing has changed then.
        """
        if self._writer is not None:
            return self._writer.park()
        assert self._reader is not None
        return self._reader.park()

    def close(self) -> bool:
        """Flush and close; again is harmless. Returns whether it was a clean stop."""
        if self._writer is not None:
            return self._writer.close()
        assert self._reader is not None
        self._reader.close()
        return True

    # --- helpers ---------------------------------------------------------------------------

    def _writing(self) -> LogWriter:
        if self._writer is None:
            raise self._read_only()
        if not self._writer.appender.ready:
            self._writer.check_usable()
        return self._writer

    def _read_only(self) -> ReadOnlyError:
        return ReadOnlyError("the store was opened with mode='r'", path=self.path)


def _chunks(values: Iterable[Any]) -> Iterator[list[Any]]:
    if isinstance(values, bytes | bytearray | memoryview | str):
        raise TypeError("extend takes many values, not one: use append, or put it in a list")
    if isinstance(values, list):
        yield values
        return
    source = iter(values)
    while chunk := list(islice(source, _CHUNK)):
        yield chunk


def _extend_chunk(writer: LogWriter, chunk: list[Any], when: Timestamp) -> None:
    """Append a chunk of values, of Records, or of both, batch by batch."""
    appender = writer.appender
    put = appender.append_records if holds_records(chunk) else appender.append_values
    done = 0
    while done < len(chunk):
        done += put(chunk, done, when)
