"""Sum up a walked log in the format of the fixtures' expectations."""

import hashlib
from collections import Counter

from oracle.codec import NAMES
from oracle.plain import LOG_APPEND_TIME, NO_TIMESTAMP, PlainBatch, PlainLog, PlainRecord

TAIL_REASONS = {None: None, "truncated frame": "truncated-frame"}


def of_log(log: PlainLog, size: int) -> dict[str, object]:
    """Everything an expectation says about a file of records, under its names."""
    batches, records = log.batches, log.records
    v2 = [batch for batch in batches if batch.magic == 2]
    timestamps = [record.timestamp for record in records if record.timestamp >= 0]
    return {
        "size": size,
        "batches": len(batches),
        "records": len(records),
        "base_offset": batches[0].base_offset if batches else None,
        "last_offset": batches[-1].last_offset if batches else None,
        "first_record_offset": records[0].offset if records else None,
        "last_record_offset": records[-1].offset if records else None,
        "magic": dict(Counter(str(batch.magic) for batch in batches)),
        "codecs": dict(Counter(NAMES[batch.codec] for batch in batches)),
        "crc_valid": sum(batch.crc_ok for batch in batches),
        "crc_invalid": sum(not batch.crc_ok for batch in batches),
        "decode_errors": [],
        "null_keys": sum(record.key is None for record in records),
        "null_values": sum(record.value is None for record in records),
        "records_with_headers": sum(bool(record.headers) for record in records),
        "keys_sha256": _hash([record.key for record in records]),
        "values_sha256": _hash([record.value for record in records]),
        "first_keys_hex16": [_hex(record.key and record.key[:16]) for record in records[:3]],
        "min_timestamp": min(timestamps, default=None),
        "max_timestamp": max(timestamps, default=None),
        "log_append_time_batches": sum(b.timestamp_type == LOG_APPEND_TIME for b in batches),
        "transactional_batches": sum(batch.transactional and not batch.control for batch in v2),
        "control_batches": sum(batch.control for batch in v2),
        "idempotent_batches": sum(batch.producer_id >= 0 and not batch.control for batch in v2),
        "producer_ids": sorted({b.producer_id for b in v2 if b.producer_id >= 0}),
        "leader_epochs": sorted({batch.leader_epoch for batch in v2}),
        "tail_bytes": size - log.tail_position,
        "tail_reason": TAIL_REASONS[log.tail_reason],
        "delete_horizon_batches": sum(batch.delete_horizon is not None for batch in v2),
        "inner_gap_batches": sum(
            len(batch.records) < batch.last_offset - batch.base_offset + 1 for batch in v2
        ),
        "records_listed": [_listed_record(record) for record in records],
        "batches_listed": [_listed_batch(batch) for batch in batches],
    }


def _hash(fields: list[bytes | None]) -> str:
    return hashlib.sha256(b"".join(field for field in fields if field is not None)).hexdigest()


def _hex(field: bytes | None) -> str | None:
    return None if field is None else field.hex()


def _listed_record(record: PlainRecord) -> dict[str, object]:
    listed: dict[str, object] = {
        "offset": record.offset,
        "timestamp": None if record.timestamp_type == NO_TIMESTAMP else record.timestamp,
        "key": _hex(record.key),
        "value": _hex(record.value),
    }
    if record.headers:
        listed["headers"] = [[name, _hex(value)] for name, value in record.headers]
    return listed


def _listed_batch(batch: PlainBatch) -> dict[str, object]:
    listed: dict[str, object] = {
        "position": batch.position,
        "size": batch.size,
        "magic": batch.magic,
        "codec": NAMES[batch.codec],
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "count": len(batch.records),
        "max_timestamp": None if batch.magic == 0 else batch.max_timestamp,
        "crc_ok": batch.crc_ok,
    }
    if batch.magic == 2:
        listed |= {
            "leader_epoch": batch.leader_epoch,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
            "attributes": batch.attributes,
        }
        if batch.control:
            key = batch.records[0].key or b""
            listed["control_type"] = int.from_bytes(key[2:4], "big")
    return listed
