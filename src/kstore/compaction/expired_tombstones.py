"""Which tombstones of cleaned segments have been kept for ``delete.retention.ms``.

Kafka's cleaner removes them when it compacts the log for other records (KIP-534): where none
follow, they stay. A compaction that a caller asks for removes them. The horizon itself is in
``_native/format/delete_horizon.pxd``.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstore.log.log import Log


def has_expired_tombstones(log: "Log", stop: int, now: int) -> bool:
    """Whether a batch below an offset has a tombstone, and a delete horizon that is over.

    Walks the headers of all batches below it, and reads those whose horizon is over. Messages v0
    and v1 have no horizon, so theirs are not found.
    """
    return any(
        record.value is None
        for batch in log.view(log.start_offset, stop).batches()
        if 0 <= batch.delete_horizon <= now and not batch.is_control
        for record in log.view(max(batch.base_offset, log.start_offset), batch.last_offset + 1)
    )
