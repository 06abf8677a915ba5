from collections.abc import Callable, Iterable
from typing import final

from kstore._native.compaction.offset_map import OffsetMap
from kstore._native.read.batch_walk import BatchWalk

@final
class RecordFilter(BatchWalk):
    """The cleaner's second pass: the batches that stay, as bytes of a new segment.

    Parameters
    ----------
    keys
        Of the first pass, finished; not to be changed any more.
    first_dirty, latest
        Offsets between which every record with a key is in the map; later ones stay.
    upper_bound
        Where this cleaning ends: the batch before it stays, if only as a header.
    now, delete_retention
        Milliseconds: tombstones whose batch has a delete horizon of now or before go; others
        get now + delete_retention as their horizon.
    last_offsets
        Of each active producer's last batch, which stays, if only as a header.
    decompress, compress
        ``(codec, magic, data) -> bytes``.

    ``run`` and ``decide`` answer 0 at the end of the buffer, 1 where the caller has to
    ``decide()``. Memory: the output until it is cleared, one batch decompressed, and a bit for
    each dirty offset where those bits fit into what the map leaves of its memory.
    """

    first_dirty: int
    latest: int
    records_kept: int
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
        """Bytes of the marks beside the map; 0 where there are none."""
    def begin_segment(self, path: str, base_offset: int, keep_old_tombstones: bool) -> None:
        """As ``begin``; messages v0 and v1 have no horizon, their tombstones go by segment."""
    def run(self) -> int: ...
    def decide(self, discard: bool, keep_empty: bool, set_horizon: bool) -> int:
        """What becomes of the batch that was asked about.

        discard: its records go; keep_empty: its header stays even so; set_horizon: it gets a
        delete horizon if it has none.
        """
    @property
    def output_size(self) -> int: ...
    def output(self) -> memoryview:
        """What stays so far, good until the next call."""
    def clear_output(self) -> None: ...
