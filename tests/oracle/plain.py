"""What the oracle reads and writes: plain tuples, nothing clever."""

from typing import NamedTuple

NO_TIMESTAMP = "NoTimestampType"
CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"

ABORT, COMMIT = 0, 1


class PlainRecord(NamedTuple):
    offset: int
    timestamp: int  # ms, -1 = none
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_type: str = CREATE_TIME
    control: bool = False


class PlainBatch(NamedTuple):
    """One batch of v2, or one top-level message of v0 or v1 (a wrapper with its inner ones)."""

    position: int
    size: int  # bytes, the 12 leading ones included
    magic: int
    codec: int
    crc_ok: bool
    base_offset: int  # v0/v1: of the first record
    last_offset: int
    timestamp_type: str
    max_timestamp: int
    records: tuple[PlainRecord, ...]
    attributes: int
    base_timestamp: int = -1  # the fields from here on: v2 only
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1

    @property
    def transactional(self) -> bool:
        return self.magic == 2 and bool(self.attributes & 0x10)

    @property
    def control(self) -> bool:
        return self.magic == 2 and bool(self.attributes & 0x20)

    @property
    def delete_horizon(self) -> int | None:
        return self.base_timestamp if self.magic == 2 and self.attributes & 0x40 else None


class PlainLog(NamedTuple):
    """What a walk over bytes found: complete batches, and where and why it stopped."""

    batches: tuple[PlainBatch, ...]
    tail_position: int  # first byte that is not part of a complete batch
    tail_reason: str | None  # None: the bytes end with a batch

    @property
    def records(self) -> tuple[PlainRecord, ...]:
        return tuple(record for batch in self.batches for record in batch.records)
