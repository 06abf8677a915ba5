"""The cleaner's rules once more, slowly: which batches and records of a log stay.

After Kafka's Cleaner, but from the log alone: a transaction's outcome is its marker, a
producer's last batch the last one that the log has of it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from oracle.plain import ABORT, CREATE_TIME, PlainBatch, PlainRecord


class Producer(NamedTuple):
    last_offset: int  # of its last batch of records in its current epoch, -1 if none
    epoch: int


def producers_of(batches: Sequence[PlainBatch]) -> dict[int, Producer]:
    """What a log knows of its producers, all of them active."""
    found: dict[int, Producer] = {}
    for batch in batches:
        if batch.producer_id < 0 or (batch.control and not batch.records):
            continue
        before = found.get(batch.producer_id, Producer(-1, batch.producer_epoch))
        last = before.last_offset if before.epoch == batch.producer_epoch else -1
        if not batch.control:
            last = batch.last_offset
        found[batch.producer_id] = Producer(last, batch.producer_epoch)
    return found


def first_unstable(batches: Sequence[PlainBatch], end: int) -> int:
    """The last stable offset."""
    begun: dict[int, int] = {}
    for batch in batches:
        if batch.control and batch.records:
            begun.pop(batch.producer_id, None)
        elif batch.transactional and not batch.control:
            begun.setdefault(batch.producer_id, batch.base_offset)
    return min(begun.values(), default=end)


def marker_kind(batch: PlainBatch) -> int | None:
    return int.from_bytes(batch.records[0].key[2:4], "big") if batch.records else None


def aborted_batches(batches: Sequence[PlainBatch]) -> set[int]:
    """Base offsets of the batches that belong to an aborted transaction."""
    found: set[int] = set()
    running: dict[int, list[int]] = {}
    for batch in batches:
        if batch.control:
            mine = running.pop(batch.producer_id, [])
            if marker_kind(batch) == ABORT:
                found.update(mine)
        elif batch.transactional:
            running.setdefault(batch.producer_id, []).append(batch.base_offset)
    return found


def idle_markers(batches: Sequence[PlainBatch]) -> set[int]:
    """Base offsets of the markers of whose transaction no batch is left."""
    found: set[int] = set()
    running: set[int] = set()
    for batch in batches:
        if batch.control:
            if marker_kind(batch) is None or batch.producer_id not in running:
                found.add(batch.base_offset)
            running.discard(batch.producer_id)
        elif batch.transactional:
            running.add(batch.producer_id)
    return found


def clean(
    batches: Sequence[PlainBatch],
    *,
    first_dirty: int,
    stop: int,
    now: int,
    retention: int,
    producers: Mapping[int, Producer],
    old_tombstones: bool = True,
) -> list[PlainBatch]:
    """What of the batches below stop stays. All keys are taken to fit into the map."""
    aborted, idle = aborted_batches(batches), idle_markers(batches)
    latest: dict[bytes, int] = {}
    for batch in batches:
        if batch.base_offset < stop and not batch.control and batch.base_offset not in aborted:
            for record in batch.records:
                if record.key is not None and record.offset >= first_dirty:
                    latest[record.key] = record.offset

    kept: list[PlainBatch] = []
    for batch in batches:
        if batch.last_offset >= stop:
            kept.append(batch)
            continue
        horizon = batch.delete_horizon
        over = horizon is not None and horizon <= now
        if batch.control:
            gone = batch.base_offset in idle
            stay = [] if gone and over else list(batch.records)
        else:
            gone = False
            stay = [
                record
                for record in batch.records
                if batch.base_offset not in aborted
                and _stays(record, latest, old_tombstones if batch.magic < 2 else not over)
            ]
        producer = producers.get(batch.producer_id)
        needed = batch.last_offset + 1 == stop or (
            batch.producer_id >= 0
            and producer is not None
            and (
                batch.last_offset == producer.last_offset
                if producer.last_offset >= 0
                else batch.control and batch.producer_epoch == producer.epoch
            )
        )
        if not stay:
            if needed:
                kept.append(_emptied(batch))
            continue
        to_be_dated = (
            batch.magic == 2
            and horizon is None
            and (gone or any(record.value is None for record in stay))
        )
        if len(stay) == len(batch.records) and not to_be_dated:
            kept.append(batch)
        else:
            kept.append(_rebuilt(batch, stay, now + retention if to_be_dated else horizon))
    return kept


def _stays(record: PlainRecord, latest: Mapping[bytes, int], tombstones: bool) -> bool:
    if record.key is None:
        return False
    return record.offset >= latest.get(record.key, -1) and (record.value is not None or tombstones)


def _emptied(batch: PlainBatch) -> PlainBatch:
    return batch._replace(
        magic=2,
        codec=0,
        records=(),
        base_timestamp=-1,
        attributes=batch.attributes & 0x38,
    )


def _rebuilt(batch: PlainBatch, stay: Sequence[PlainRecord], horizon: int | None) -> PlainBatch:
    if batch.timestamp_type == CREATE_TIME:
        batch = batch._replace(max_timestamp=max(record.timestamp for record in stay))
    batch = batch._replace(records=tuple(stay))
    if batch.magic < 2:
        return batch._replace(base_offset=stay[0].offset, last_offset=stay[-1].offset)
    return batch._replace(
        base_timestamp=stay[0].timestamp if horizon is None else horizon,
        attributes=batch.attributes & 0x3F | (0x40 if horizon is not None else 0),
    )


def same(batch: PlainBatch) -> PlainBatch:
    """A batch without what depends on its bytes, for comparing."""
    return batch._replace(position=0, size=0, crc_ok=True)
