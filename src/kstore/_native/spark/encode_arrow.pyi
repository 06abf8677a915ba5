from typing import Any, final

from _typeshed import ReadableBuffer, WriteableBuffer
from numpy import int32, int64
from numpy.typing import NDArray

from kstore._native.append.encode import BatchBuffer

@final
class ArrowBinary:
    """A binary or string column of Arrow, given by its buffers, which it holds.

    ``offset`` is the array's; ``wide``: offsets have 64 bits. Raises ``ValueError`` here if a
    buffer is too short, and at the read of a row that is outside the data.
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
    def locate_rows(self, positions: NDArray[int64], lengths: NDArray[int32]) -> None:
        """Write the position and length of each row in the data; length -1 is null."""

@final
class ArrowHeaders:
    """A column of lists of (key, value); uses only bitmap and offsets of ``lists``."""

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
    """Append ``rows[start:]`` to a batch, up to ``size_limit``; returns how many rows.

    ``timestamps`` has a value for each row of the columns. Appends at least one row if the batch
    was empty, else possibly none. Raises ``ValueError`` for rows and positions that do not exist,
    ``InvalidRecordError`` for a header without a key, ``MessageTooLargeError`` beyond 2 GiB; the
    batch then has the rows before the invalid one. A null or empty list is a record without
    headers.
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
    """The sum, modulo 2^64, of a 64-bit hash of each of ``rows`` (None: all), in any order.

    A row's hash covers topic, key, value, headers, its timestamp and its partition (-1 without
    ``partitions``). Null and empty keys and values differ; null and empty headers do not. The
    same rows have the same sum in every process and version of kstore, so files may store it. It
    does not protect against rows constructed to collide. Raises
    ``ValueError`` for rows and positions that do not exist, ``InvalidRecordError`` for a header
    without a key.
    """

def assign_offsets(
    buffer: WriteableBuffer,
    start: int,
    max_bytes: int,
    base_offset: int,
    leader_epoch: int,
    append_time: int = -1,
) -> tuple[int, int]:
    """Write offsets and leader epoch into complete v2 batches from ``start``, in place.

    Processes up to ``max_bytes`` bytes of batches, but at least one batch; returns the position
    and the offset after them. With ``append_time`` (ms), sets LogAppendTime and a new checksum.
    Raises ``CorruptRecordError`` for an incomplete or corrupt batch, or another format.
    """
