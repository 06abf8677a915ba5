"""The error classes of kstore.

Each class has Kafka's error code if Kafka has one, and derives from the similar builtin class. An
error has the attributes ``path``, ``position`` (a byte in that file) and ``offset`` (of a record),
each None if it does not apply.
"""

from os import PathLike, fspath
from sys import _getframe, modules
from typing import TYPE_CHECKING, NamedTuple, Never


class RecordError(NamedTuple):
    """Why a leader refuses one record of a batch. Not an exception: an error lists them."""

    batch_index: int  # of the record in its batch, from 0
    message: str


class KStoreError(Exception):
    """Base of all errors of kstore.

    Parameters
    ----------
    reason
        What is wrong and, if possible, what to do about it.
    path, position, offset
        The file, the byte position in it, and the offset of the record.
    """

    code: int = -1  # Kafka's UNKNOWN_SERVER_ERROR
    server_message: str | None = None  # the sentence of the server that sent the code
    record_errors: tuple[RecordError, ...] = ()  # of a batch that a leader refuses, by index

    def __init__(
        self,
        reason: str,
        *,
        path: str | PathLike[str] | None = None,
        position: int | None = None,
        offset: int | None = None,
    ) -> None:
        self.reason = reason
        self.path = None if path is None else fspath(path)
        self.position = position
        self.offset = offset
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        where = [
            f"{name} {value}"
            for name, value in (
                ("file", self.path),
                ("position", self.position),
                ("offset", self.offset),
            )
            if value is not None
        ]
        return f"{self.reason} ({', '.join(where)})" if where else self.reason

    def at(
        self,
        *,
        path: str | PathLike[str] | None = None,
        position: int | None = None,
        offset: int | None = None,
    ) -> "KStoreError":
        """Set the attributes that were unknown where the error was raised; returns self."""
        if self.path is None and path is not None:
            self.path = fspath(path)
        if self.position is None:
            self.position = position
        if self.offset is None:
            self.offset = offset
        self.args = (self._sentence(),)
        return self


class CorruptRecordError(KStoreError, ValueError):
    """Bytes of a log that violate Kafka's format."""

    code = 2


class InvalidMessageError(KStoreError, ValueError):
    """A request or an answer that is no message of Kafka's protocol; ``position`` is in it."""

    code = 42


class CorruptFileError(KStoreError, ValueError):
    """A side file (index, checkpoint, metadata) that does not parse."""

    code = 56


class OffsetOutOfRangeError(KStoreError, IndexError):
    """An offset below the log start, beyond the log end, or compacted away.

    An IndexError, as ``log[offset]`` looks like a list's; a log's own ``__iter__`` never ends by
    one.
    """

    code = 1


class LogTruncationError(OffsetOutOfRangeError):
    """A log was truncated to ``offset``, below a consumer's position.

    Kafka's LogTruncationException (KIP-320).
    """


class UnknownTopicOrPartitionError(KStoreError, KeyError):
    """A topic or partition that is not in this store.

    A KeyError, so that ``store.get(name, default)`` returns the default; unlike KeyError's, its
    text is the sentence itself, not a quotation of it.
    """

    code = 3
    __str__ = Exception.__str__


class UnknownPartitionError(UnknownTopicOrPartitionError, IndexError):
    """A partition number that the topic does not have in this store.

    Also an IndexError, since a topic is a sequence of logs.
    """

    __str__ = Exception.__str__


class UnknownTopicIdError(UnknownTopicOrPartitionError):
    """The topic was deleted and created again: another topic has its name now."""

    code = 100


class TopicExistsError(KStoreError, ValueError):
    """A topic of that name exists, or one that Kafka could not distinguish from it."""

    code = 36


class InconsistentTopicIdError(TopicExistsError):
    """A partition belongs to another topic of the same name: its topic id is another one.

    Kafka's InconsistentTopicIdException. Topics are deleted and created again; each has its own id.
    """

    code = 103


class InvalidTopicError(KStoreError, ValueError):
    """A topic name outside Kafka's rules: 1 to 249 of ``[a-zA-Z0-9._-]``, not ``.`` or ``..``."""

    code = 17


class InvalidReplicationFactorError(KStoreError, ValueError):
    """A replication factor below 1, or beyond the number of brokers."""

    code = 38


class InvalidReplicaAssignmentError(KStoreError, ValueError):
    """An assignment of replicas that is empty, has gaps, or names an unknown broker."""

    code = 39


class InvalidRequestError(KStoreError, ValueError):
    """A request that contradicts itself, or that asks for what no broker does."""

    code = 42


class InvalidConfigError(KStoreError, ValueError):
    """A setting or argument that is unknown, or outside its range."""

    code = 40


class InvalidPartitionsError(InvalidConfigError):
    """A number of partitions that a topic cannot have."""

    code = 37


class UnknownSettingError(InvalidConfigError, KeyError):
    """A setting that does not exist.

    A KeyError, as ``topic.config["retention.ms"]`` looks settings up; its text stays a sentence.
    """

    __str__ = Exception.__str__


class MessageTooLargeError(KStoreError, ValueError):
    """A batch beyond ``max.message.bytes``."""

    code = 10


class RecordListTooLargeError(KStoreError, ValueError):
    """One append beyond ``segment.bytes``."""

    code = 18


class InvalidTimestampError(KStoreError, ValueError):
    """A timestamp before 1970, beyond the year 9999, without a time zone, or further from now than
    the topic allows."""

    code = 32


class UnsupportedForMessageFormatError(KStoreError, ValueError):
    """A field that the message format cannot carry."""

    code = 43


class OutOfOrderSequenceError(KStoreError, ValueError):
    """A producer's batch does not follow the last one that the log has of it."""

    code = 45


class InvalidProducerEpochError(KStoreError, ValueError):
    """A batch or marker with an older epoch than the producer's current one: it was fenced."""

    code = 47


class InvalidTxnStateError(KStoreError, ValueError):
    """A non-transactional batch of a producer with an open transaction, or the reverse."""

    code = 48


class InvalidProducerIdMappingError(KStoreError, ValueError):
    """A producer id that does not belong to its transactional id, or no longer does."""

    code = 49


class InvalidTransactionTimeoutError(KStoreError, ValueError):
    """A ``transaction.timeout.ms`` beyond ``transaction.max.timeout.ms``, or below 1."""

    code = 50


class ConcurrentTransactionsError(KStoreError, RuntimeError):
    """The last transaction of a transactional id is decided, but markers are still missing."""

    code = 51


class TransactionCoordinatorFencedError(KStoreError, ValueError):
    """A marker of a coordinator that another one has replaced."""

    code = 52


class ProducerFencedError(KStoreError, RuntimeError):
    """A newer producer with the same transactional id has fenced this one."""

    code = 90


class FencedLeaderEpochError(KStoreError, ValueError):
    """A leader epoch below the log's latest one."""

    code = 74


class PolicyViolationError(KStoreError, ValueError):
    """The topic's policy forbids it, or the topic belongs to a broker."""

    code = 44


class UnsupportedCompressionTypeError(KStoreError, ValueError):
    """A codec that is unknown, or that the message format does not support."""

    code = 76


class InvalidRecordError(KStoreError, ValueError):
    """A record or batch that Kafka's leader would reject."""

    code = 87


class StorageError(KStoreError, OSError):
    """An error of the file system: disk full, I/O error, missing file. Has the ``errno``."""

    code = 56

    def __init__(
        self,
        reason: str,
        *,
        errno: int | None = None,
        path: str | PathLike[str] | None = None,
        position: int | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(reason, path=path, position=position, offset=offset)
        self.errno = errno

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, {**self.__dict__, "errno": self.errno}  # OSError drops it


class DirectoryNotFoundError(StorageError, FileNotFoundError):
    """A directory that should exist does not: a store opened with ``mode="r"``."""


class TooManyOpenFilesError(StorageError):
    """The process or the system has no free file descriptor; nothing has changed.

    Raise the limit (``ulimit -n``) or close files, then retry.
    """


class LogFailedError(StorageError):
    """A sync failed earlier; the log is read-only until it is reopened.

    After a failed fsync the state of the disk is unknown, and a second fsync does not reveal it.
    """


class LogDirOfflineError(LogFailedError):
    """The disk of a log directory failed: its logs are read-only until the store is reopened.

    Kafka's KAFKA_STORAGE_ERROR. Logs in other directories of the store continue.
    """


class UnsyncedError(StorageError):
    """All records are written and visible, but the last sync failed.

    A power cut may undo the entire operation. Repeating it writes the records twice, unless it has
    an identity by which the repetition is recognized.
    """


class StoreLockedError(KStoreError, OSError):
    """Another process has the store open for writing, or another broker of this one serves it."""

    code = 56


class ReadOnlyError(KStoreError, PermissionError):
    """The store was opened with ``mode="r"``."""


class ClosedError(KStoreError, ValueError):
    """The store, log, producer or consumer is closed."""


class ForkedError(KStoreError, RuntimeError):
    """A store, or a connection, was used in a forked child; open a new one there."""


class RecoveryNeededError(KStoreError, OSError):
    """Corruption below the recovery point, or a publication that cannot be undone at present.

    kstore does not truncate synced records, nor publish only some of a publication's records,
    unless the user decides so.
    """

    code = 56


class CompactionAbandonedError(KStoreError, RuntimeError):
    """A compaction stopped because its log changed meanwhile; the log stays as it is."""


class NewerFormatError(KStoreError, ValueError):
    """A ``kstore.*`` file was written by a newer kstore."""


class MissingSettingsWarning(UserWarning):
    """The opened store has lost ``kstore.topics``, and with it the settings of its topics."""


class UncommittedReadsWarning(UserWarning):
    """A consumer of a group was closed that has read records and committed none."""


class TimestampUnitWarning(UserWarning):
    """A time to look up has another unit than milliseconds, as its number of digits shows."""


class InvalidGroupError(KStoreError, ValueError):
    """A group name that is empty or too long."""

    code = 24


class BufferExhaustedError(KStoreError, TimeoutError):
    """A producer's buffer stayed full for ``max_block_ms``."""

    code = 7


class GroupConflictError(KStoreError, RuntimeError):
    """Another consumer, in this process or another, reads the same partition for the group.

    Also an alteration of the group's offsets that has not ended after 10 s.
    """

    code = 25


class CommitFailedError(GroupConflictError):
    """Offsets of partitions that the group has taken from this consumer, or is taking from it.

    Nothing was committed: the member that has the partition now reads these records again. ``code``
    is Kafka's reason: 22 or 25 after a rebalance without this consumer, 27 during one.
    """

    code = 22


class UnstableOffsetCommitError(KStoreError, RuntimeError):
    """A committed offset that an open transaction may change."""

    code = 88


class NonEmptyGroupError(GroupConflictError):
    """A group that is changed or deleted while one of its consumers is open."""

    code = 68


class GroupIdNotFoundError(KStoreError, LookupError):
    """A group without committed offsets."""

    code = 69


class AddressError(KStoreError, OSError):
    """A broker cannot listen on an address: it is in use, not of this machine, or misspelled."""


class SourceError(KStoreError, ConnectionError):
    """A Kafka cluster that is being mirrored does not answer, or refuses."""

    code = 13


class SourceChangedError(KStoreError, RuntimeError):
    """A mirrored topic no longer matches its local copy."""

    code = 103


class HandoverError(KStoreError, ValueError):
    """Partitions cannot be handed over at present; nothing was changed."""


class BackgroundFailure(NamedTuple):
    """Background work of a store failed. Not an exception: no caller waits for the work."""

    work: str  # "checkpoint", "compaction", "flush", "producer expiration", "retention", ...
    topic: str | None  # None: the work is not about one partition
    partition: int | None
    error: Exception
    is_lasting: bool  # not retried until the cause is removed
    since_ms: int  # when the work first failed, ms since 1970


if not TYPE_CHECKING:  # type checkers would take every name for valid

    def __getattr__(name: str) -> Never:
        """Explain a name that this module lacks, by a function of the package that stands above."""
        raise modules["kstore"]._missing(__name__, name, _getframe(1))
