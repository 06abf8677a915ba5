"""The latest record of every key, as a dict: what a compacted topic stands for."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kstore.record import Record


class LatestRecords(dict[bytes, Record]):
    """Records by key. A dict like any other, except that it refuses keys that are text."""

    def __missing__(self, key: object) -> Record:
        _check_key(key)
        raise KeyError(key)

    if not TYPE_CHECKING:  # the types are a dict's

        def get(self, key: object, default: object = None) -> object:
            _check_key(key)
            return super().get(key, default)

        def __contains__(self, key: object) -> bool:
            _check_key(key)
            return super().__contains__(key)


def _check_key(key: object) -> None:
    """Raise TypeError for a key that no record has, since keys are bytes."""
    if isinstance(key, str):
        raise TypeError(f"keys are bytes, not str: {key.encode()!r}, or key.encode()")


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
    return LatestRecords((key, each) for key, each in found.items() if each.value is not None)
