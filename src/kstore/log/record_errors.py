"""Which records of a client batch a leader refuses, with the messages of Kafka's LogValidator.

The kernel (:mod:`kstore._native.append.validate_batch`) finds the first one. A refused batch is
read again here to list them all, as a broker's answer to Produce does (Kafka 3.9).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kstore._native.format import batch_fields
from kstore.errors import RecordError
from kstore.record import Record
from kstore.record.scan import scan_records

_INT64, _SIGN = 1 << 64, 1 << 63


class RefusedBatch(NamedTuple):
    """A batch, and the rules by which a leader refused records of it; times in ms."""

    data: Any  # from the batch on, or from the first bad one of uncompressed messages v0 and v1
    claims_append_time: bool  # its timestamp type is LogAppendTime
    now: int
    before_max: int
    after_max: int
    log_append_time: bool
    key_required: bool


def list_record_errors(batch: RefusedBatch, topic_partition: str) -> tuple[RecordError, ...]:
    """The records without a required key, or with an illegal timestamp, in their order.

    Raises CorruptRecordError for a wrapper whose inner offsets no reader takes. Kafka takes each
    uncompressed message v0 or v1 for a batch of its own: there the index is 0.
    """
    data = memoryview(batch.data).cast("B")
    records = scan_records(data[: batch_fields.frame_size(data)], check_crc=False)
    return tuple(_errors_of(batch, records, topic_partition))


def _errors_of(
    batch: RefusedBatch, records: Iterator[Record], topic_partition: str
) -> Iterator[RecordError]:
    lowest, highest = batch.now - batch.before_max, batch.now + batch.after_max
    for index, record in enumerate(records):
        timestamp = record.timestamp
        message = None
        if batch.key_required and record.key is None:
            message = (
                "Compacted topic cannot accept message without key in topic partition "
                f"{topic_partition}"
            )
        elif not batch.log_append_time and timestamp != -1:
            if not lowest <= timestamp <= highest:
                message = (
                    f"Timestamp {timestamp} of message with offset {record.offset} is out of "
                    f"range. The timestamp should be within [{_wrap(lowest)}, {_wrap(highest)}]"
                )
        elif batch.claims_append_time:
            message = (
                f"Invalid timestamp type in message {_describe(record)}. Producer should not set "
                "timestamp type to LogAppendTime."
            )
        if message is not None:
            yield RecordError(index, message)


def _wrap(milliseconds: int) -> int:
    """As Java's long: the default limit, its largest value, makes a sum negative."""
    return (milliseconds + _SIGN) % _INT64 - _SIGN


def _describe(record: Record) -> str:
    """Kafka's DefaultRecord.toString."""
    key, value = (0 if data is None else len(data) for data in (record.key, record.value))
    return (
        f"DefaultRecord(offset={record.offset}, timestamp={record.timestamp}, key={key} bytes, "
        f"value={value} bytes)"
    )
