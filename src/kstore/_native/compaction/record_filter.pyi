from collections.abc import Callable, Iterable
from typing import final

from kstore._native.compaction.offset_map import OffsetMap
from kstore._native.read.batch_walk import BatchWalk

@final
class RecordFilter(BatchWalk):
    """The cleaner's second pass: writes the retained records as bytes of a new segment.

    Parameters
    ----------
    keys
        The map from the first pass, complete; do not change it during this pass.
    first_dirty, latest
        Range of offsets whose keys are in the map; the filter retains later records.
    upper_bound
        End offset of this cleaning: the batch before it keeps at least its header.
    now, delete_retention
        Milliseconds. Removes tombstones whose batch has a delete horizon of now or earlier; sets
        the horizon of others to now + delete_retention.
    last_offsets
        Last offset of each active producer's last batch, which keeps at least its header.
    decompress, compress
        ``(codec, magic, data) -> bytes``.

    ``run`` and ``decide`` return 0 at the end of the buffer, 1 if the caller must call
    ``decide``. Memory: the output until it is cleared, one decompressed batch, and one bit for
    each dirty offset if those bits fit in the unused memory of the map.
    """

    first_dirty: int
    latest: int
    records_kept: int
    tombstones_kept: int  # of records_kept
    def __init__(
        self,
        keys: OffsetMap,
        *,
        first_dirty: int,
        latest: int,
        upper_bound: int,
        now: int,
        delete_retention: int,
        last_offsets: Iterable[int],
        decompress: Callable[[int, int, memoryview], bytes],
        compress: Callable[[int, int, memoryview], bytes],
    ) -> None: ...
    @property
    def memory(self) -> int:
        """Bytes of the bitmap of latest offsets; 0 if there is none."""
    def begin_segment(self, path: str, base_offset: int, keep_old_tombstones: bool) -> None:
        """As ``begin``; for v0 and v1 messages, tombstones are kept or removed by segment."""
    def run(self) -> int: ...
    def decide(self, discard: bool, keep_empty: bool, set_horizon: bool) -> int:
        """Filter the current batch and continue; returns as ``run``.

        discard: remove its records; keep_empty: keep the header of a batch without records;
        set_horizon: set its delete horizon if it has none.
        """
    @property
    def output_size(self) -> int: ...
    def output(self) -> memoryview:
        """The output so far, valid until the next call."""
    def clear_output(self) -> None: ...
