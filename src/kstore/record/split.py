"""A batch v2 as several smaller ones, where it is larger than a topic takes.

Kafka's producer does the same when a broker refuses a batch (ProducerBatch.split). A batch grows
beyond the bytes of its records where they do not compress, or are converted to an old format.
"""

from collections.abc import Iterator, Sequence

from kstore._native.append.encode import BatchBuffer
from kstore._native.format import batch_fields
from kstore._native.format.record import Record
from kstore._native.read.decode import Scanner
from kstore.record import codec
from kstore.record.codec import decompress

Data = bytes | bytearray | memoryview

NO_PRODUCER = (-1, -1, -1)

_MAGIC = 2


def count_of(batch: Data) -> int:
    """How many records a batch v2 says that it has."""
    return batch_fields.record_count(batch)


def records_of(batch: Data) -> list[Record]:
    """The records of one batch v2 of this process's own."""
    return list(Scanner(batch, decompress=decompress).records())


def encode(
    records: Sequence[Record],
    attributes: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer: tuple[int, int, int] = NO_PRODUCER,
) -> bytes:
    """One batch of these records, in the codec that the attributes name.

    ``producer`` is its id, its epoch and the first record's sequence.
    """
    buffer = BatchBuffer()
    buffer.set_producer(*producer)
    for record in records:
        buffer.put(record.value, record.key, record.headers or None, record.timestamp)
    if attributes & batch_fields.CODEC_MASK:
        with buffer.records as plain:
            packed = codec.compress(attributes & batch_fields.CODEC_MASK, _MAGIC, plain)
        buffer.replace_records(packed)
    return buffer.to_bytes(base_offset, leader_epoch, attributes)


def split_to_fit(batch: Data, most: int, *, base_offset: int | None = None) -> Iterator[bytes]:
    """The batch, or smaller ones of the same records in order; one of one record may be larger.

    Attributes and leader epoch are kept. Offsets count from ``base_offset``; None: each batch has
    base offset 0, to be placed later. The batch is no producer's.
    """
    if len(batch) <= most or count_of(batch) < 2:
        yield bytes(batch)
        return
    leader_epoch = batch_fields.leader_epoch(batch)
    attributes = batch_fields.attributes(batch)
    records = records_of(batch)
    half = len(records) // 2
    for start, stop in ((0, half), (half, len(records))):
        base = None if base_offset is None else base_offset + start
        made = encode(
            records[start:stop],
            attributes & (batch_fields.CODEC_MASK | batch_fields.TRANSACTIONAL_BIT),
            base_offset=base or 0,
            leader_epoch=leader_epoch,
        )
        yield from split_to_fit(made, most, base_offset=base)
