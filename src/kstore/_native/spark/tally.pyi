from typing import final

from numpy import int32, int64, uint8
from numpy.typing import NDArray
from typing_extensions import Buffer

@final
class KeyBytes:
    """The bytes of a tally's keys, without gaps; read-only."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Tally:
    """Counts and measures records by time window and key.

    Parameters
    ----------
    key
        16 random secret bytes: without them, a client cannot construct keys that collide.
    width
        Width of a window in milliseconds; 0: one window. A window starts at a multiple of the
        width, also below 0.
    by_key
        Group by key, compared byte by byte; null is a separate key. Without it, the tally also
        measures sizes of keys.
    extents
        With by_key: record smallest and largest offset and timestamp. Without it, a tenth faster.
    sizes
        With by_key: record sizes of values, and count null ones. Without sizes and extents, the
        tally only counts records, which is fastest; ``layout`` then has only ``window``,
        ``count`` and the fields of the key.

    Exports its groups as a read-only buffer: ``len(tally)`` groups of ``stride`` bytes each;
    ``layout`` maps a field's name to its dtype and position. ``window`` is a window's number (it
    starts at number * width). In a group of nulls only, ``min_..._size`` is 2147483647 and
    ``max_..._size`` -1. ``key_positions`` and ``key_lengths`` (-1: null) are ranges in
    ``key_data``. While such a buffer is in use, the tally cannot change (``BufferError``). One
    thread at a time.
    """

    def __init__(
        self,
        key: Buffer,
        width: int = 0,
        *,
        by_key: bool = False,
        extents: bool = True,
        sizes: bool = True,
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def memory(self) -> int:
        """Bytes in use: 136 for each group (56 if only counted), its key, and free slots."""
    @property
    def layout(self) -> dict[str, tuple[str, int]]: ...
    @property
    def stride(self) -> int: ...
    @property
    def key_data(self) -> KeyBytes: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def clear(self) -> None:
        """Remove all groups; keeps the memory."""
    def add(
        self,
        data: Buffer | NDArray[uint8],
        offsets: NDArray[int64],
        timestamps: NDArray[int64],
        key_positions: NDArray[int64],
        key_lengths: NDArray[int32],
        value_lengths: NDArray[int32],
    ) -> None:
        """Count records in order of offset; ``ValueError`` for a key outside the data."""
