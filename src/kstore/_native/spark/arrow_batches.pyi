from typing import Any, final

from _typeshed import ReadableBuffer, WriteableBuffer
from numpy import int32, int64
from numpy.typing import NDArray

from kstore._native.append.encode import BatchBuffer

@final
class ArrowBinary:
    """A binary or string column of Arrow's by its buffers, which stay alive with it.

    ``offset`` is the array's; ``wide`` says that offsets have 64 bits. Buffers too short for the
    rows raise ``ValueError`` here, rows that lie outside the data where they are read.
    """

    count: int
    def __init__(
        self,
        count: int,
        offset: int,
        validity: ReadableBuffer | Any | None,
        offsets: ReadableBuffer | Any | None,
        data: ReadableBuffer | Any | None,
        wide: bool = False,
    ) -> None: ...
    def places(self, positions: NDArray[int64], lengths: NDArray[int32]) -> None:
        """Write where each row lies in the data, and its length; -1 is null."""

@final
class ArrowHeaders:
    """A column of lists of (key, value). Of ``lists`` only bitmap and offsets are used."""

    def __init__(self, lists: ArrowBinary, keys: ArrowBinary, values: ArrowBinary) -> None: ...

def put_rows(
    buffer: BatchBuffer,
    rows: NDArray[int64],
    timestamps: NDArray[int64],
    keys: ArrowBinary | None,
    values: ArrowBinary,
    headers: ArrowHeaders | None,
    *,
    start: int = 0,
    size_limit: int = 0x7FFFFFFF,
) -> int:
    """Append the records of ``rows[start:]`` to a batch, as far as they fit; returns how many.

    ``timestamps`` has a row for each of the columns'. At least one is taken where the batch was
    empty, possibly none where it was not. Raises ``ValueError`` for rows and positions that are not
    there, ``InvalidRecordError`` for a header without a key, ``MessageTooLargeError`` beyond 2
    GiB; rows before the bad one are in the batch then. No headers: null or empty lists.
    """

def sum_row_hashes(
    topic: ReadableBuffer,
    rows: NDArray[int64] | None,
    timestamps: NDArray[int64],
    partitions: NDArray[int32] | None,
    keys: ArrowBinary | None,
    values: ArrowBinary,
    headers: ArrowHeaders | None,
) -> int:
    """The sum, modulo 2^64, of a 64-bit hash of each of ``rows`` (None: all), order-free.

    A row's hash covers topic, key, value, headers, its number in ``timestamps`` and in
    ``partitions`` (None: -1 for each). Null and empty keys and values differ; null and empty
    headers do not. The same rows have the same sum in every process and version of kstore, so it
    may be kept in files. It does not protect against rows that are chosen to collide. Raises
    ``ValueError`` for rows and positions that do not exist, ``InvalidRecordError`` for a header
    without a key.
    """

def place_batches(
    buffer: WriteableBuffer,
    start: int,
    most: int,
    base_offset: int,
    leader_epoch: int,
    append_time: int = -1,
) -> tuple[int, int]:
    """Give whole v2 batches from ``start`` on their offsets and leader epoch, in place.

    As many as take ``most`` bytes together, but always one; returns where they end, and the
    offset that follows. With ``append_time`` (ms) they get LogAppendTime and a new checksum.
    Raises ``CorruptRecordError`` where a batch is cut, of another format, or damaged.
    """
