from collections.abc import Callable
from typing import final

from kstore._native.compaction.offset_map import OffsetMap
from kstore._native.read.batch_walk import BatchWalk

@final
class KeyIndexer(BatchWalk):
    """The cleaner's first pass: the latest offset of every key, from ``first_offset`` on.

    ``run``, ``take`` and ``skip`` answer 0 at the end of the buffer, 1 where the batch is
    transactional or a control batch and the caller has to say ``take()`` or ``skip()``, 2 where
    the map is full (the batch then counts as not indexed). Works without the GIL between two
    such batches, but for compressed ones.
    """

    latest: int
    def __init__(
        self,
        keys: OffsetMap,
        first_offset: int,
        decompress: Callable[[int, int, memoryview], bytes],
    ) -> None: ...
    def run(self) -> int: ...
    def take(self) -> int: ...
    def skip(self) -> int: ...
    def note_latest(self, offset: int) -> None:
        """All up to this offset is indexed, whether a record has it or not."""
    def finish(self) -> None:
        """Put what is still on its way into the map; before anybody asks the map."""
