from typing import final

from numpy import int32, int64, uint8
from numpy.typing import NDArray
from typing_extensions import Buffer

@final
class KeyBytes:
    """The bytes of a tally's keys, one after another; read-only."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Tally:
    """Counts and measures records in groups, by window of time and by key.

    Parameters
    ----------
    key
        16 secret bytes, random: who does not know them cannot make many keys meet.
    width
        Of a window in milliseconds; 0: all times are one window. A window starts at a multiple
        of the width, below zero too.
    by_key
        Distinguish keys, byte by byte; null is a key of its own. Else all are one group. The sizes
        of keys are counted only where they are not distinguished.
    extents
        With keys: least and largest offset and timestamp, too. Without it, quicker by a tenth.
    sizes
        With keys: sizes of values and null ones, too. Without these and extents groups are only
        counted, which is quickest: ``layout`` has ``window``, ``count`` and the key's place then.

    Exports its groups, read-only: ``len(tally)`` of them, ``stride`` bytes each, in which
    ``layout`` maps a field's name to its dtype and place. ``window`` is a window's number (times
    the width, it starts). ``min_..._size`` is 2147483647 and ``max_..._size`` -1 in a group where
    all are null. ``key_positions`` and ``key_lengths`` (-1: null) are positions in ``key_data``.
    While such a buffer is in use the tally cannot change (``BufferError``). One thread at a time.
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
        """Bytes that it has: 136 a group (56 where only counted), its key, and free slots."""
    @property
    def layout(self) -> dict[str, tuple[str, int]]: ...
    @property
    def stride(self) -> int: ...
    @property
    def key_data(self) -> KeyBytes: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def clear(self) -> None:
        """Forget all groups; the memory stays."""
    def add(
        self,
        data: Buffer | NDArray[uint8],
        offsets: NDArray[int64],
        timestamps: NDArray[int64],
        key_positions: NDArray[int64],
        key_lengths: NDArray[int32],
        value_lengths: NDArray[int32],
    ) -> None:
        """Count records, whose offsets rise; ``ValueError`` where a key is outside the data."""
