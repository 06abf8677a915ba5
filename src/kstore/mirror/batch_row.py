"""What identifies a batch: enough to see that a copy and its source differ."""

from typing import TYPE_CHECKING

from kstore.partition_files import batch_scan

if TYPE_CHECKING:
    from kstore.log.log import Log


def _row(data: object, *, last: bool) -> tuple[int, ...] | None:
    """(first, last offset, leader epoch, producer, its epoch, sequence, records, checksum)."""
    table = batch_scan.scan(data, check_crc=False)  # type: ignore[arg-type]
    if len(table) == 0:
        return None
    n = len(table) - 1 if last else 0
    return (
        table.base_offset[n],
        table.last_offset[n],
        table.leader_epoch[n],
        table.producer_id[n],
        table.producer_epoch[n],
        table.base_sequence[n],
        table.count[n],
        table.crc[n],
    )


def first_batch(data: object) -> tuple[int, ...] | None:
    return _row(data, last=False)


def last_batch(data: object) -> tuple[int, ...] | None:
    return _row(data, last=True)


def last_batch_of(log: "Log") -> tuple[int, ...] | None:
    """The last batch of a local log; None if the log is empty."""
    if log.end_offset == log.start_offset:
        return None
    found = log.read(log.end_offset - 1)
    return None if found is None else last_batch(found)
