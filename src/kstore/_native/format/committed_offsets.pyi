from typing import Any

from _typeshed import ReadableBuffer
from numpy import int32, int64
from numpy.typing import NDArray

def sort_commits(
    data: ReadableBuffer | NDArray[Any],
    key_positions: NDArray[int64],
    key_lengths: NDArray[int32],
    value_positions: NDArray[int64],
    value_lengths: NDArray[int32],
    groups: dict[str, dict[bytes, bytes | None]],
) -> list[int] | None:
    """Put commits into ``groups``: group to key to value, None for a tombstone.

    Returns the numbers of the rows that have another key than version 1 with ASCII names; rows
    without a key are skipped. None as soon as a key of version 0 is found: it may name the same
    partition as another key, so the records have to be applied one by one.
    """
