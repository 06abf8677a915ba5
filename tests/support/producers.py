"""Batches as idempotent and transactional producers send them."""

from oracle.plain import PlainRecord
from oracle.writer import batch

NOW = 1_700_000_000_000


def sent(
    producer_id: int,
    epoch: int,
    sequence: int,
    count: int = 1,
    *,
    transactional: bool = False,
    codec: int = 0,
    timestamp: int = NOW,
    value: bytes = b"value",
) -> bytes:
    """A batch with base offset 0 and timestamps one millisecond apart."""
    records = [PlainRecord(n, timestamp + n, b"key", value, ()) for n in range(count)]
    return batch(
        records,
        codec=codec,
        leader_epoch=-1,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
