"""Records as columns: NumPy views of a run of records, keys and values left where they are."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from kstore._native.format import ragged_bytes
from kstore._native.format.record import RecordHeaders
from kstore._native.read.decode import Block, Scanner
from kstore.hints.missing_names import answer_names
from kstore.integers import count_of
from kstore.record.codec import decompress
from kstore.record.guessed_names import OF_COLUMNS, OF_RAGGED

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Rows = slice | NDArray[Any] | list[int] | list[bool]
_INT64 = np.dtype(np.int64)
_INT32 = np.dtype(np.int32)
_ROW_SIZE = 52  # bytes of all columns


def _view(buffer: Any, dtype: Any, count: int = -1, start: int = 0) -> NDArray[Any]:
    array: NDArray[Any] = np.frombuffer(buffer, dtype, count, start)
    if array.flags.writeable:  # a map or bytearray that others write: not through us
        array.flags.writeable = False
    return array


class Ragged:
    """Byte strings of varying length, each a range of ``data``; nothing is copied until requested.

    ``positions`` (int64) and ``lengths`` (int32, -1 for null) have one entry a row; ``data``
    is a uint8 array, often a mapped segment. Indexing with a number gives bytes or
    None, with a slice, a mask or an array of numbers another Ragged. ``==`` and ``!=`` with bytes
    or None give a mask, as NumPy's arrays do: ``columns[columns.keys == b"alice"]``. Immutable,
    safe to share.
    """

    __slots__ = ("data", "lengths", "positions")

    def __init__(
        self, data: NDArray[np.uint8], positions: NDArray[np.int64], lengths: NDArray[np.int32]
    ) -> None:
        self.data = data
        self.positions = positions
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.positions)

    @overload
    def __getitem__(self, rows: int) -> bytes | None: ...
    @overload
    def __getitem__(self, rows: Rows) -> "Ragged": ...
    def __getitem__(self, rows: int | Rows) -> "bytes | Ragged | None":
        if isinstance(rows, int | np.integer):
            length = self.lengths[rows]
            if length < 0:
                return None
            position = self.positions[rows]
            return self.data[position : position + length].tobytes()
        return Ragged(self.data, self.positions[rows], self.lengths[rows])

    def __iter__(self) -> Iterator[bytes | None]:
        return iter(self.to_list())

    def __repr__(self) -> str:
        return f"<Ragged of {count_of(len(self), 'row')}>"

    def __eq__(self, other: object) -> Any:
        """A mask: one truth value a row. Raises TypeError for text and all other types."""
        if other is None:
            return self.is_null
        if not isinstance(other, bytes | bytearray | memoryview):
            raise TypeError(
                f"keys and values are compared with bytes or None, not {type(other).__name__}: "
                "`columns.keys == b'alice'` is a mask; columns.keys.to_list() is a list"
            )
        wanted = bytes(other)
        mask = self.lengths == len(wanted)
        rows = np.flatnonzero(mask)
        for n, byte in enumerate(wanted):  # each byte leaves fewer rows to compare
            rows = rows[self.data[self.positions[rows] + n] == byte]
        if wanted:
            mask[:] = False
            mask[rows] = True
        return mask

    def __ne__(self, other: object) -> Any:
        return ~(self == other)

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """An array of objects, bytes (copied) and None: ``numpy.isin(columns.keys, [b"alice"])``.

        NumPy's own arrays of bytes drop zeros at the end, and have no None.
        """
        if copy is False:
            raise ValueError("an array of bytes objects is a copy")
        array = np.empty(len(self), object)
        array[:] = self.to_list()
        return array if dtype is None else array.astype(dtype)

    @property
    def is_null(self) -> NDArray[np.bool_]:
        """One truth value a row."""
        return np.less(self.lengths, 0)

    def to_list(self) -> list[bytes | None]:
        """All rows as bytes (copied), None for null."""
        return ragged_bytes.gather(self.data, self.positions, self.lengths)

    tolist = to_list  # as NumPy's arrays name it


class Headers:
    """The headers of each row, parsed when asked for: ``headers[n]`` is ((name, value), ...).

    ``counts`` (int32) says how many a row has, ``positions`` (int64) where they start in
    ``data``, in Kafka's encoding.
    """

    __slots__ = ("counts", "data", "positions")

    def __init__(
        self, data: NDArray[np.uint8], positions: NDArray[np.int64], counts: NDArray[np.int32]
    ) -> None:
        self.data = data
        self.positions = positions
        self.counts = counts

    def __len__(self) -> int:
        return len(self.positions)

    @overload
    def __getitem__(self, rows: int) -> RecordHeaders: ...
    @overload
    def __getitem__(self, rows: Rows) -> "Headers": ...
    def __getitem__(self, rows: int | Rows) -> "RecordHeaders | Headers":
        if isinstance(rows, int | np.integer):
            return ragged_bytes.read_headers(
                self.data, int(self.positions[rows]), int(self.counts[rows])
            )
        return Headers(self.data, self.positions[rows], self.counts[rows])

    def __repr__(self) -> str:
        return f"<Headers of {count_of(len(self), 'row')}>"

    def to_list(self) -> list[RecordHeaders]:
        """All rows, parsed."""
        return [self[row] for row in range(len(self))]

    tolist = to_list  # as NumPy's arrays name it

    def names_and_values(self) -> tuple[Ragged, Ragged]:
        """The names and the values of all headers of all rows, in order, not copied."""
        total = int(self.counts.sum())
        positions = np.empty((2, total), np.int64)
        lengths = np.empty((2, total), np.int32)
        ragged_bytes.locate_headers(
            self.data, self.positions, self.counts,
            positions[0], lengths[0], positions[1], lengths[1],
        )  # fmt: skip
        return (
            Ragged(self.data, positions[0], lengths[0]),
            Ragged(self.data, positions[1], lengths[1]),
        )


class Columns:
    """A run of records, one array a field; every key, value and header lies in one ``data``.

    ``offsets`` and ``timestamps`` (int64; milliseconds, -1 for none), ``keys``, ``values``
    (:class:`Ragged`) and ``headers`` (:class:`Headers`), all with one entry a record.
    ``timestamp_type`` is that of all of them: 0 CreateTime, 1 LogAppendTime, -1 none. The
    arrays are read-only views; they keep what they view alive. Indexing with a slice, a mask
    or an array of row numbers gives other Columns on the same data. Safe to share.
    """

    __slots__ = ("headers", "keys", "offsets", "timestamp_type", "timestamps", "values")

    def __init__(
        self,
        offsets: NDArray[np.int64],
        timestamps: NDArray[np.int64],
        keys: Ragged,
        values: Ragged,
        headers: Headers,
        timestamp_type: int = 0,
    ) -> None:
        self.timestamp_type = timestamp_type
        self.offsets = offsets
        self.timestamps = timestamps
        self.keys = keys
        self.values = values
        self.headers = headers

    @property
    def data(self) -> NDArray[np.uint8]:
        """The bytes that contain the keys, values and headers."""
        return self.values.data

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, rows: Rows) -> "Columns":
        if isinstance(rows, int | np.integer):
            raise TypeError(
                f"a row is columns.offsets[{rows}], .keys[{rows}], .values[{rows}]; as records: "
                "records() of the log or view"
            )
        return Columns(
            self.offsets[rows],
            self.timestamps[rows],
            self.keys[rows],
            self.values[rows],
            self.headers[rows],
            self.timestamp_type,
        )

    def to_arrow(self) -> "pa.RecordBatch":
        """These records as a pyarrow.RecordBatch, with the columns of :meth:`Log.to_arrow`.

        Keys and values are not copied. Needs pyarrow (``pip install 'kstore[arrow]'``).
        """
        from kstore.record.arrow import to_record_batch

        batch: pa.RecordBatch = to_record_batch(self)
        return batch

    def to_pandas(self) -> "pd.DataFrame":
        """These records as a pandas.DataFrame, one row a record; all bytes are copied."""
        from kstore.record.dataframe import to_dataframe

        frame: pd.DataFrame = to_dataframe([self])
        return frame

    def __repr__(self) -> str:
        if not len(self):
            return "<Columns of 0 records>"
        size = count_of(len(self), "record")
        return f"<Columns of {size}, offsets {self.offsets[0]} to {self.offsets[-1]}>"

    @classmethod
    def of_block(cls, block: Block, data: NDArray[np.uint8] | None = None) -> "Columns":
        """Views of a decoded block; ``data`` is its data as an array, where one exists already."""
        count = len(block)
        layout = block.layout
        # Two views of the block, then slices of them: making a view costs more than a slice.
        wide: NDArray[Any] = _view(block, _INT64, layout["value_lengths"][1] // 8)
        narrow: NDArray[Any] = _view(block, _INT32)
        column: dict[str, NDArray[Any]] = {
            name: wide[start // 8 : start // 8 + count]
            if dtype == "int64"
            else narrow[start // 4 : start // 4 + count]
            for name, (dtype, start) in layout.items()
        }
        if data is None:
            data = _view(block.data, np.uint8)
        return cls(
            column["offsets"],
            column["timestamps"],
            Ragged(data, column["key_positions"], column["key_lengths"]),
            Ragged(data, column["value_positions"], column["value_lengths"]),
            Headers(data, column["header_positions"], column["header_counts"]),
            block.timestamp_type,
        )


answer_names(Columns, OF_COLUMNS)
answer_names(Ragged, OF_RAGGED)


class ColumnScan:
    """Iterates over the Columns of the batches in a buffer.

    Takes the arguments of the native ``Scanner``, and reports afterwards what was skipped
    (``skipped``) and where it stopped (``position``, ``at_end``). ``size`` is how many bytes the
    rows have taken so far, and the batches that were decompressed. One thread at a time.
    """

    def __init__(
        self,
        buffer: Any,
        start: int = 0,
        end: int = -1,
        *,
        decompress: Callable[[int, int, memoryview], bytes] = decompress,
        **options: Any,
    ) -> None:
        self._scanner = Scanner(buffer, start, end, decompress=decompress, **options)
        self._source = buffer
        self._array: NDArray[np.uint8] | None = None
        self.size = 0

    def __iter__(self) -> Iterator[Columns]:
        return self

    def __next__(self) -> Columns:
        block = self._scanner.next_block()
        if block is None:
            raise StopIteration
        self.size += len(block) * _ROW_SIZE
        if block.data is not self._source:
            data: NDArray[np.uint8] = _view(block.data, np.uint8)
            self.size += data.nbytes
            return Columns.of_block(block, data)
        if self._array is None:
            self._array = _view(self._source, np.uint8)
        return Columns.of_block(block, self._array)

    @property
    def skipped(self) -> list[tuple[int, int, int, str]]:
        """(position, size, offset, reason) of each batch skipped as corrupt."""
        return self._scanner.skipped

    @property
    def position(self) -> int:
        """Where in the buffer the next batch starts."""
        return self._scanner.position

    @property
    def seen_offset(self) -> int:
        """Last offset of the batch in front of ``position``; the smallest int64 before any."""
        return self._scanner.seen_offset

    @property
    def at_end(self) -> bool:
        """Whether every byte was walked."""
        return self._scanner.at_end

    def close(self) -> None:
        """Release the buffer; Columns already returned stay valid (and keep it)."""
        self._scanner.close()
        self._array = None
        self._source = None
