"""Splits a batch that is larger than the topic allows, and appends it as several.

A batch exceeds the limits that it was built for where its records do not compress, where they are
converted to an old format, or where the topic's limits were lowered. Kafka's producer likewise
splits a batch that a broker refuses for its size (ProducerBatch.split).
"""

from typing import TYPE_CHECKING, NamedTuple

from kstore._native.format import batch_fields
from kstore.errors import MessageTooLargeError, RecordListTooLargeError
from kstore.producer_state.producer_ids import SEQUENCES
from kstore.record.split import NO_PRODUCER, encode, records_of

if TYPE_CHECKING:
    from kstore.log.log import Log

_CODEC_AND_TRANSACTIONAL = batch_fields.CODEC_MASK | batch_fields.TRANSACTIONAL_BIT


class AppendedBatch(NamedTuple):
    """Consecutive records that were appended as one batch, or one record that was refused."""

    start: int  # index of its first record in the batch
    base_offset: int
    error: MessageTooLargeError | RecordListTooLargeError | None = None


def append_split(
    log: "Log", batch: bytes, producer: tuple[int, int, int] = NO_PRODUCER
) -> list[AppendedBatch]:
    """Append a batch v2 of this process, split where it is too large for the topic.

    ``producer`` is the batch's producer id, epoch and first sequence; refused records use no
    sequence. Raises what :meth:`kstore.Log.append_as_leader` raises, except for single records
    that are too large: their errors are in the result.
    """
    try:
        return [AppendedBatch(0, log.append_as_leader(batch).first_offset)]
    except (MessageTooLargeError, RecordListTooLargeError):
        records = records_of(batch)
    attributes = batch_fields.attributes(batch)
    producer_id, epoch, sequence = producer
    appended: list[AppendedBatch] = []
    due = [(0, len(records))]
    while due:
        start, stop = due.pop()
        split = encode(
            records[start:stop],
            attributes & _CODEC_AND_TRANSACTIONAL,
            producer=(producer_id, epoch, sequence),
        )
        try:
            appended.append(AppendedBatch(start, log.append_as_leader(split).first_offset))
        except (MessageTooLargeError, RecordListTooLargeError) as error:
            if stop - start > 1:
                half = (start + stop) // 2
                due += [(half, stop), (start, half)]
            else:
                appended.append(AppendedBatch(start, -1, _refusal(log, len(split), error)))
        else:
            sequence = (sequence + stop - start) % SEQUENCES if producer_id >= 0 else sequence
    return appended


def is_split_after(error: BaseException, count: int) -> bool:
    """Whether :func:`append_split` appends the records of a batch again after this error."""
    return count > 1 and isinstance(error, (MessageTooLargeError, RecordListTooLargeError))


def append_all(log: "Log", batch: bytes, producer: tuple[int, int, int], first: int) -> int:
    """As :func:`append_split`; returns the offset after the last record, and raises the error of
    the first record that was refused.

    ``first`` is the index of the batch's first record in its transaction, in this partition.
    """
    batches = append_split(log, batch, producer)
    for appended in batches:
        if appended.error is not None:
            raise type(appended.error)(
                f"record {first + appended.start} of the transaction in "
                f"{log.topic}-{log.partition} does not fit: {appended.error.reason}",
                path=appended.error.path,
            )
    last = batches[-1]
    return last.base_offset + batch_fields.record_count(batch) - last.start


def _refusal(
    log: "Log", size: int, error: MessageTooLargeError | RecordListTooLargeError
) -> MessageTooLargeError | RecordListTooLargeError:
    """The error for one record, with its size and the limits."""
    config = log.config
    return type(error)(
        f"a record takes {size} bytes as a batch of its own, more than max.message.bytes "
        f"({config.max_message_bytes}) or segment.bytes ({config.segment_bytes}) allows: raise "
        "the setting, or send smaller records",
        path=log.path,
    )
