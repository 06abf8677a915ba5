from collections.abc import Callable
from typing import final

from kstore._native.compaction.offset_map import OffsetMap
from kstore._native.read.batch_walk import BatchWalk

@final
class KeyIndexer(BatchWalk):
    """The cleaner's first pass: finds the latest offset of every key, from ``first_offset``.

    ``run``, ``index_batch`` and ``skip_batch`` return 0 at the end of the buffer; 1 at a
    transactional or control batch, for which the caller calls ``index_batch`` or ``skip_batch``;
    2 if the map is full (the current batch is not indexed). Releases the GIL, except for
    compressed batches.
    """

    latest: int
    def __init__(
        self,
        keys: OffsetMap,
        first_offset: int,
        decompress: Callable[[int, int, memoryview], bytes],
    ) -> None: ...
    def run(self) -> int: ...
    def index_batch(self) -> int: ...
    def skip_batch(self) -> int: ...
    def update_latest_offset(self, offset: int) -> None:
        """Treat offsets up to this one as indexed, even without a record."""
    def finish(self) -> None:
        """Add the pending keys to the map; call it before a lookup in the map."""
