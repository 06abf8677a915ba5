"""A log: one partition, to append to and to read.

Offsets are labels: they never repeat and may have gaps, so a log has no length.

:class:`Log` is the interface; :class:`kstore.log.readable_log.ReadableLog` is its reading half. A
store that is open for writing has :class:`kstore.log.writable_log.WritableLog`, with the high
watermark, a reader beside another process :class:`kstore.log.read_only_log.ReadOnlyLog`.
"""

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kstore.config import LogConfig
from kstore.log.append_info import AppendInfo
from kstore.log.extend import TopicItems
from kstore.log.guessed_names import GuessedNames
from kstore.log.readable_log import ReadableLog
from kstore.record import Headers, Item, Timestamp

if TYPE_CHECKING:
    from kstore.compaction.compaction_report import CompactionReport
    from kstore.log.retention_report import RetentionReport
    from kstore.log.writer import LogWriter
    from kstore.maintenance.reindex import ReindexReport
    from kstore.maintenance.rewrite import Progress, RewriteReport


class Log(ReadableLog, GuessedNames):
    """One partition of a topic, open for writing or, in another process's directory, for reading.

    Thread safe. ``append``, ``extend`` and other changes take the log's lock; reading takes none.
    A :class:`kstore.Store` creates it.
    """

    if not TYPE_CHECKING:  # it would take them for arguments of every log

        def __new__(cls, *_: object, **__: object) -> "Log":
            if cls is Log:
                raise TypeError("a store opens its logs: kstore.open('data')['orders'][0]")
            return super().__new__(cls)

    # --- appends ---------------------------------------------------------------------------

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
            Any bytes-like object, or None for null. Of NumPy: ``np.bytes_`` and one-dimensional
            arrays of uint8; TypeError for numbers and other arrays, whose ``tobytes()`` or
            ``memoryview(array).cast("B")`` is their memory.
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
        is refused, and so is one that waits for a producer of this log. One that waits for another
        thread, which waits for this log, never ends. After an error in the middle the batches
        before it are in the log; the error says how many items that are, and their offsets, mostly
        in a note (``__notes__``).

        A single item beyond ``max.message.bytes`` or ``segment.bytes`` is refused with its index
        and the offsets that were appended (MessageTooLargeError, RecordListTooLargeError).

        InvalidTxnStateError, and nothing is appended, for a source that is a log or a view with
        records of aborted or open transactions: their copies would be committed. A copy of what
        is committed is ``extend(log.view(isolation_level="read_committed"))``.
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
    def set_high_watermark(self, offset: int) -> int:
        """Raise the high watermark, at most to the log end; returns it. A lower one is ignored.

        Only a truncation lowers it. Thread safe.
        """

    @abstractmethod
    def expire_producers(self) -> int:
        """Forget producers idle for ``producer.id.expiration.ms``; returns how many."""

    # --- replication -----------------------------------------------------------------------

    @abstractmethod
    def begin_epoch(self, epoch: int) -> None:
        """Begin a leader epoch at the log end: later batches are stamped with it.

        It is in ``leader-epoch-checkpoint``, on disk, when the call returns. The latest epoch
        again changes nothing. Nor does any call for a log of messages v0 or v1: they carry none.

        Raises
        ------
        FencedLeaderEpochError
            An epoch below the latest one; nothing was changed.
        StorageError
            The checkpoint could not be written.
        """

    @abstractmethod
    def append_as_follower(self, batches: Any) -> AppendInfo:
        """Append complete batches unchanged: a leader has checked them and assigned offsets.

        Any message format. Checked: structure, checksum, offsets at or beyond the log end
        and increasing (gaps are fine). An incomplete batch at the end is skipped.

        Raises
        ------
        CorruptRecordError
            With the position in ``batches``; nothing was appended.
        """

    @abstractmethod
    def truncate_to(self, offset: int) -> int:
        """Make offset the log end; removes all of the batch that contains it, and later ones.

        Returns the log end, which stays the same if offset is beyond it. If the end marker of a
        transaction of the store's own coordinator is removed, but not its records, the marker is
        written again at the new end, with a warning.
        Later appends still carry the epoch of :meth:`begin_epoch`.
        """

    @abstractmethod
    def truncate_to_epoch(self, epoch: int) -> int:
        """Remove what was written in later epochs than this one; returns the log end.

        For a follower whose leader's log diverges from it: the log ends at the first offset of the
        next known epoch, and those epochs leave ``leader-epoch-checkpoint``.
        """

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
    def apply_retention(self) -> "RetentionReport":
        """Drop the oldest segments that exceed ``retention.ms`` or ``retention.bytes``.

        Returns how many: a number that prints what was deleted. Drops nothing where neither is
        set (kstore's default).
        """

    @abstractmethod
    def compact(self, **options: Any) -> "CompactionReport":
        """Keep the latest record of every key, in all segments but the active one.

        Runs Kafka's log cleaner now; reads and appends continue. ``roll=True`` rolls the active
        segment first. If nothing was to compact, the report's ``reason`` says why. For options
        and errors see :func:`kstore.compaction.cleaner.compact`.
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

    # --- for the engine --------------------------------------------------------------------

    @abstractmethod
    def _extend(self, values: Iterable[Item], when: Timestamp, topic: TopicItems | None) -> range:
        """As :meth:`extend`; ``topic`` numbers the items, and gets their offsets also on errors."""

    @property
    @abstractmethod
    def _data_end(self) -> int:
        """The offset after the last batch, which a flush reaches: perhaps below the log end."""

    @abstractmethod
    def _require_writer(self) -> "LogWriter":
        """The log's writer; ReadOnlyError, ClosedError, ForkedError or LogFailedError if none."""
