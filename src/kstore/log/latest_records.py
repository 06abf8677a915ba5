"""The latest record of every key, as a dict: what a compacted topic stands for."""

from collections.abc import Iterable

from kstore.record import Record


def latest_records(views: Iterable[Iterable[Record]]) -> dict[bytes, Record]:
    """The latest record of every key of partitions, without tombstones and null keys.

    Within a partition the highest offset counts; where partitions have the same key, the largest
    timestamp does, a tombstone's too.
    """
    found: dict[bytes, Record] = {}
    for view in views:
        of_partition = {record.key: record for record in view if record.key is not None}
        for key, record in of_partition.items():
            other = found.get(key)
            if other is None or record.timestamp >= other.timestamp:
                found[key] = record
    return {key: record for key, record in found.items() if record.value is not None}
