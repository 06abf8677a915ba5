"""The errors of Kafka's leader, as exceptions with Kafka's error code.

The checks are native (:mod:`kstore._native.append.validate_batch`); this module writes the
messages. Rules: Kafka's LogValidator and UnifiedLog.analyzeAndValidateRecords.
"""

from contextlib import suppress
from typing import Any

from kstore._native.format import status as native_status
from kstore.errors import (
    CorruptRecordError,
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTxnStateError,
    KStoreError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    PolicyViolationError,
    RecordError,
    RecordListTooLargeError,
    TransactionCoordinatorFencedError,
    UnsupportedCompressionTypeError,
    UnsupportedForMessageFormatError,
)
from kstore.log.record_errors import RefusedBatch, list_record_errors
from kstore.record.timestamp import refuse_record_timestamp, show_time

# Of a record; the others make the batch corrupt.
_OF_RECORDS = ("MISSING_KEY", "BAD_TIMESTAMP", "BAD_OFFSET", "BAD_ATTRIBUTES", "OTHER_MAGIC")
_OUT_OF_ORDER, _OLD_EPOCH, _FENCED = 2, 3, 5  # producer_table.pxd, Verdict


def refuse(
    status: int,
    size: int,
    declared_size: int,
    magic: int,
    bad_position: int,
    bad_record: int,
    batch: tuple[Any, ...] | None,
    *,
    topic_partition: str,
) -> None:
    """Raise the error for a batch that a leader refuses. The kernel passes the arguments.

    ``batch`` has the fields of a :class:`kstore.log.record_errors.RefusedBatch`.
    """
    name = native_status.name(status)
    if name == "OK":
        raise InvalidRecordError(
            f"an append takes exactly one batch: it has {declared_size} bytes, the buffer {size}"
        )
    kind: type[KStoreError] = InvalidRecordError
    sentence = native_status.reason(status)
    if name == "MESSAGE_TOO_LARGE":
        kind = MessageTooLargeError
    elif name == "BAD_TIMESTAMP":
        kind = InvalidTimestampError
    elif name == "BAD_CODEC":
        kind = UnsupportedCompressionTypeError
    elif name == "UNSUPPORTED_BY_FORMAT":
        kind = UnsupportedForMessageFormatError
    elif name in ("BAD_SIZE", "BAD_MAGIC", "BAD_CRC", "TRUNCATED"):
        kind = CorruptRecordError
    record_errors: tuple[RecordError, ...] = ()
    if name in ("MISSING_KEY", "BAD_TIMESTAMP") and batch is not None:
        with suppress(CorruptRecordError):  # inner offsets that a leader replaces: unreadable
            record_errors = list_record_errors(RefusedBatch(*batch), topic_partition)
    if not record_errors and name in _OF_RECORDS and bad_record >= 0:
        record_errors = (RecordError(bad_record, sentence),)
    if bad_record >= 0:
        sentence = f"record {bad_record} of the batch: {sentence}"
    error = kind(sentence, position=bad_position if bad_position >= 0 else None)
    error.record_errors = record_errors
    raise error


def refuse_producer(
    verdict: int, producer_id: int, epoch: int, sequence: int, known_epoch: int, known: int
) -> None:
    """Raise the error for a producer's batch, or a marker, that contradicts the producer state.

    The kernel passes its verdict, the batch's values and those of the log.
    """
    if verdict == _OUT_OF_ORDER:
        last = f"{known}, epoch {known_epoch}" if known >= 0 else f"none, epoch {known_epoch}"
        raise OutOfOrderSequenceError(
            f"producer {producer_id}: sequence {sequence} of epoch {epoch} does not follow the "
            f"last one in the log ({last}); batches are missing or were sent twice"
        )
    if verdict == _OLD_EPOCH:
        raise InvalidProducerEpochError(
            f"producer {producer_id}: epoch {epoch} is old, the log has seen {known_epoch}; "
            "another instance of the producer took over, or a marker came late"
        )
    if verdict == _FENCED:
        raise TransactionCoordinatorFencedError(
            f"producer {producer_id}: coordinator epoch {sequence} is old, the log has seen {known}"
        )
    raise InvalidTxnStateError(
        f"producer {producer_id}: a batch outside a transaction while its transaction is open"
    )


def refuse_own(what: str, value: int, limit: int) -> None:
    """Raise the error for a record of this process that the log refuses."""
    if what == "batch":
        raise MessageTooLargeError(
            f"a batch of {value} bytes is more than max.message.bytes ({limit}): "
            "raise the setting, or append smaller records"
        )
    if what == "segment":
        raise RecordListTooLargeError(
            f"an append of {value} bytes is more than segment.bytes ({limit}): "
            "raise the setting, or append smaller records"
        )
    if what == "offset":
        raise OffsetOutOfRangeError(
            f"the log has reached its last offsets: no append beyond {limit}", offset=value
        )
    if what == "within":
        raise PolicyViolationError(
            "another append to this log is running in the same thread, interrupted by a signal "
            "handler or a finalizer: append outside of that handler"
        )
    if what == "key":
        raise InvalidRecordError(
            "a compacted topic takes no record without a key: compaction would drop it; "
            "add a key, or remove 'compact' from the topic's cleanup.policy"
        )
    if what == "age":
        setting = "after" if value > limit else "before"
        raise InvalidTimestampError(
            f"timestamp {value} ({show_time(value)}) is {abs(value - limit)} ms {setting} now, "
            f"more than message.timestamp.{setting}.max.ms allows"
        )
    refuse_record_timestamp(value)
