"""A finished batch appended in several where it is larger than the topic takes.

A batch grows beyond the limits that it was built for where its records do not compress, or are
converted to an old format, or the topic's limits were lowered. Kafka's producer splits a batch
that a broker refuses for its size, too (ProducerBatch.split).
"""

from typing import TYPE_CHECKING, NamedTuple

from kstore._native.format import batch_fields
from kstore.errors import MessageTooLargeError, RecordListTooLargeError
from kstore.record.split import NO_PRODUCER, encode, records_of

if TYPE_CHECKING:
    from kstore.log.log import Log

_CODEC_AND_TRANSACTIONAL = batch_fields.CODEC_MASK | batch_fields.TRANSACTIONAL_BIT
_SEQUENCES = 1 << 31  # they wrap


class AppendedBatch(NamedTuple):
    """Records of a batch that were appended as one, or the one record that was refused."""

    start: int  # index of its first record in the batch
    base_offset: int
    error: MessageTooLargeError | RecordListTooLargeError | None = None


def append_split(
    log: "Log", batch: bytes, producer: tuple[int, int, int] = NO_PRODUCER
) -> list[AppendedBatch]:
    """Append a batch v2 of this process, in several where it is too large for the topic.

    ``producer`` is the batch's producer id, epoch and first sequence; records that are refused
    use no sequence. Raises what :meth:`kstore.Log.append_as_leader` raises, but for the size of
    single records, whose errors are in the parts.
    """
    try:
        return [AppendedBatch(0, log.append_as_leader(batch).first_offset)]
    except (MessageTooLargeError, RecordListTooLargeError):
        records = records_of(batch)
    attributes = batch_fields.attributes(batch)
    producer_id, epoch, sequence = producer
    parts: list[AppendedBatch] = []
    due = [(0, len(records))]
    while due:
        start, stop = due.pop()
        part = encode(
            records[start:stop],
            attributes & _CODEC_AND_TRANSACTIONAL,
            producer=(producer_id, epoch, sequence),
        )
        try:
            parts.append(AppendedBatch(start, log.append_as_leader(part).first_offset))
        except (MessageTooLargeError, RecordListTooLargeError) as error:
            if stop - start > 1:
                half = (start + stop) // 2
                due += [(half, stop), (start, half)]
            else:
                parts.append(AppendedBatch(start, -1, _refusal(log, len(part), error)))
        else:
            sequence = (sequence + stop - start) % _SEQUENCES if producer_id >= 0 else sequence
    return parts


def append_all(log: "Log", batch: bytes, producer: tuple[int, int, int], first: int) -> None:
    """As :func:`append_in_parts`, and raise the error of the first record that was refused.

    ``first`` is the index of the batch's first record in its transaction, in this partition.
    """
    for part in append_split(log, batch, producer):
        if part.error is not None:
            raise type(part.error)(
                f"record {first + part.start} of the transaction in {log.topic}-{log.partition} "
                f"does not fit: {part.error.reason}",
                path=part.error.path,
            )


def _refusal(
    log: "Log", size: int, error: MessageTooLargeError | RecordListTooLargeError
) -> MessageTooLargeError | RecordListTooLargeError:
    """The refusal of one record, with its size and the limits."""
    config = log.config
    return type(error)(
        f"a record takes {size} bytes as a batch of its own, more than max.message.bytes "
        f"({config.max_message_bytes}) or segment.bytes ({config.segment_bytes}) allows: raise "
        "that setting, or send smaller records",
        path=log.path,
    )
