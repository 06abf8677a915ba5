"""Which tombstones of cleaned segments have been kept for ``delete.retention.ms``.

Kafka's cleaner removes them when it compacts the log for other records (KIP-534): where none
follow, they stay. A compaction that a caller asks for removes them. The horizon itself is in
``_native/format/delete_horizon.pxd``.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kstore.errors import CompactionAbandonedError, OffsetOutOfRangeError

if TYPE_CHECKING:
    from kstore.log.log import Log


def has_expired_tombstones(log: "Log", stop: int, now: int, check: Callable[[], None]) -> bool:
    """Whether a batch below an offset has a tombstone, and a delete horizon that is over.

    Walks the headers of all batches below it, and reads those whose horizon is over; calls
    ``check`` before each. Messages v0 and v1 have no horizon, so theirs are not found. Raises
    CompactionAbandonedError if records that it is about to read are deleted meanwhile.
    """
    try:
        for batch in log.view(log.start_offset, stop).batches():
            check()
            if 0 <= batch.delete_horizon <= now and not batch.is_control:
                start = max(batch.base_offset, log.start_offset)
                if any(each.value is None for each in log.view(start, batch.last_offset + 1)):
                    return True
    except OffsetOutOfRangeError as error:
        raise CompactionAbandonedError(
            "records were deleted while the log was compacted", path=log.path
        ) from error
    return False
