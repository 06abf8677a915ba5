"""A window of a log: iterated as records, scanned as columns, followed as it grows."""

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from kstore._native.read.aborted_transactions import AbortedRanges
from kstore._native.read.segment_end import find_end
from kstore._native.read.segment_view import Slice
from kstore.errors import OffsetOutOfRangeError
from kstore.hints.keyword_names import (
    explain_count,
    explain_head,
    explain_keywords,
    explain_latest,
    explain_records,
    explain_scan,
    explain_table,
)
from kstore.integers import INT32_MAX, check_integer
from kstore.log.batch_headers import RecordBatchInfo, batches_of
from kstore.log.guessed_names import GuessedNamesOfViews
from kstore.log.parallel_scan import scan_in_parallel
from kstore.log.read_committed import UNCOMMITTED, check_isolation
from kstore.log.skip_corrupt import check_on_damage, read_past_corruption
from kstore.record import Record
from kstore.record.scan import scan_records

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from kstore._native.jit import Predicate
    from kstore.integers import Seconds
    from kstore.log.follow import Follower
    from kstore.log.readable_log import ReadableLog
    from kstore.log.transaction_outcomes import TransactionOutcomes
    from kstore.record.columns import Columns

_READ = 8 << 20  # bytes of a segment to read at a time where it is not mapped
_WHERE = "use scan(where=...), which gives columns"
_ISOLATION = "use log.view(isolation='read_committed'), whose view has it"
_MAPPED = 1 << 40  # more than any mapped segment


class LogView(GuessedNamesOfViews):
    """Offsets [start, stop) of a log; reads nothing until it is iterated. Immutable.

    With ``stop`` None the window ends at the log end when an iteration begins. ``log.view`` skips
    offsets below the log start. A slice of which records have left the log since, by retention,
    ``delete_records`` or truncation, raises OffsetOutOfRangeError where it is read, so that the
    gap is not hidden, and so does an iteration that retention overtakes. Thread safe: iterations
    are independent.

    With ``isolation="read_committed"`` the window ends at the last stable offset. Batches of
    aborted transactions are skipped before their records are read. LogTruncationError is raised
    where a truncation, while an iteration reads, removes the end of a transaction.
    """

    __slots__ = ("_beyond_stable", "_held", "_outcomes", "_start", "_stop", "isolation", "log")

    def __init__(
        self,
        log: "ReadableLog",
        start: int | None,
        stop: int | None,
        *,
        isolation: str = UNCOMMITTED,
        outcomes: "TransactionOutcomes | None" = None,
        beyond_stable: bool = False,
        held: tuple[int, int] | None = None,
    ) -> None:
        """``held``: log start and end when a slice was made; None where nothing is missed."""
        if not check_isolation(isolation):
            outcomes = None
        elif outcomes is None:
            from kstore.log.transaction_outcomes import TransactionOutcomes  # few readers need it

            outcomes = TransactionOutcomes(log)
        self.log = log
        self.isolation = isolation
        self._start = None if start is None else check_integer("start", start)
        self._stop = None if stop is None else check_integer("stop", stop)
        self._beyond_stable = beyond_stable
        self._held = held
        self._outcomes = outcomes

    def __repr__(self) -> str:
        return f"<kstore.LogView {self.log.topic}-{self.log.partition} [{self.start}, {self.stop})>"

    @property
    def start(self) -> int:
        low = self.log.start_offset
        return low if self._start is None else max(self._start, low)

    @property
    def stop(self) -> int:
        stable = self._outcomes is not None and not self._beyond_stable
        end = self.log.last_stable_offset if stable else self.log.end_offset
        return end if self._stop is None else min(self._stop, end)

    def __getitem__(self, window: slice) -> "LogView":
        """A narrower view, by offsets; negative ones count from this view's stop.

        As in a list, the window ends where the records end, ``view[-10:]`` begins at their
        start if they are fewer, and ``view[:-10]`` and ``view[:0]`` are empty then.
        OffsetOutOfRangeError where a window that is not empty begins
        below ``log.start_offset`` (those records were deleted), or beyond ``log.end_offset``.
        """
        if not isinstance(window, slice):
            raise TypeError(
                "a view is sliced by offsets: next(iter(view)) is its first record, log[offset] "
                "the one with an offset"
            )
        if window.step not in (None, 1):
            raise ValueError("a view of a log has no step, but a list has: list(log[90:95])[::-1]")
        try:
            start = None if window.start is None else check_integer("start", window.start)
            stop = None if window.stop is None else check_integer("stop", window.stop)
        except TypeError as error:
            raise TypeError(f"{error}; times are for log.since(when, until)") from None
        if (start is not None and start < 0) or (stop is not None and stop < 0):
            end = self.stop
            start = start + end if start is not None and start < 0 else start
            stop = stop + end if stop is not None and stop < 0 else stop
        if self._start is not None:
            start = self._start if start is None else max(start, self._start)
        if self._stop is not None:
            stop = self._stop if stop is None else min(stop, self._stop)
        segments = self.log.segments
        held = segments.start_offset, segments.end_offset
        if window.stop is not None and window.stop <= 0 and stop is not None and stop <= self.start:
            start = stop = self.start  # empty, as in a list
        elif window.start is None or window.start >= 0:
            self._check_window(None if window.start is None else start, stop, *held)
        return LogView(
            self.log,
            start,
            stop,
            isolation=self.isolation,
            outcomes=self._outcomes,
            beyond_stable=self._beyond_stable,
            held=self._held or held,
        )

    def _bounds(self) -> tuple[int, int]:
        """The window for an iteration that begins now: start and stop.

        Raises OffsetOutOfRangeError where a slice's records have left the log since it was made.
        """
        start, stop = self.start, self.stop
        if self._held is None:
            return start, stop
        low, end = self._held
        first = low if self._start is None else max(self._start, low)
        last = end if self._stop is None else min(self._stop, end)
        if first >= last:  # it was empty
            return start, stop
        log_end = self.log.end_offset
        if first < start and (self._start is not None or last <= start):
            reason = f"offsets {first} to {min(last, start) - 1} of the slice were deleted since"
        elif log_end < last and (self._stop is not None or log_end < first):
            reason = f"the log was truncated to {log_end} since the slice was made"
        else:
            return start, stop
        bounds = f"the log holds [{self.log.start_offset}, {log_end}) now"
        raise OffsetOutOfRangeError(f"{reason}: {bounds}", path=self.log.path, offset=first)

    def check_start(self) -> None:
        """Raise OffsetOutOfRangeError where the view asks for records before the log's first."""
        start, stop = self._start, self._stop
        if start is None or (stop is not None and start >= stop):
            return
        low = self.log.start_offset
        if start >= low:
            return
        reason = f"start_offset is {low}, older records were deleted: take view({low}, ...)"
        if start < 0:
            reason = f"offsets are not negative: tail({-start}) is a view of the last records"
        raise OffsetOutOfRangeError(reason, path=self.log.path, offset=start)

    def _check_window(self, start: int | None, stop: int | None, low: int, end: int) -> None:
        """Raise where a slice asks for offsets that the log does not hold."""
        if start is not None and stop is not None and start >= stop:
            return  # empty, wherever it lies
        first = 0 if start is None else start
        if stop is not None and first < low and stop <= low and (start is not None or stop < low):
            reason = (
                f"a slice takes offsets, and start_offset is {low}: log.head({stop - first}) "
                "gives the first records"
            )
        elif start is not None and start < low:
            upper = "" if stop is None else stop
            reason = f"start_offset is {low}, older records were deleted: take [{low}:{upper}]"
        elif start is not None and start > end:
            reason = f"the slice begins beyond the log's end: end_offset is {end}"
        else:
            return
        raise OffsetOutOfRangeError(reason, path=self.log.path, offset=first)

    @explain_head
    def head(self, count: int = 5) -> "LogView":
        """The first ``count`` records, or fewer, as a view; reads them to find where it ends."""
        count = check_integer("count", count, 0)
        start, end = self._bounds()
        stop = start
        for record in islice(self._records(start, end, True), count):
            stop = record.offset + 1
        return self[start:stop]

    @explain_head
    def tail(self, count: int = 5) -> "LogView":
        """The last ``count`` records, or fewer, as a view; reads them to find where it begins."""
        count = check_integer("count", count, 0)
        start, stop = self._bounds()
        size = count  # of the window of offsets, which may have gaps
        while True:
            low = max(start, stop - size)
            offsets = deque((each.offset for each in self._records(low, stop, True)), count)
            if len(offsets) == count or low == start:
                return self[offsets[0] if offsets else stop : stop]
            size *= 2

    @explain_count
    def count(self, where: Callable[[Any], Any] | None = None) -> int:
        """The number of records of the view; with ``where``, of those that it accepts in a scan.

        Offsets may have gaps, so it reads the window and checks every CRC. Errors and memory use
        are those of :meth:`scan`.
        """
        return sum(map(len, self.scan(where)))

    @explain_latest
    def latest(self) -> dict[bytes, Record]:
        """The latest record of every key, as a compaction would keep it: ``latest()[b"alice"]``.

        A key whose latest record is a tombstone (null value) is omitted; so are records without
        a key. Reads the window. Memory: one record a key, tombstones included.
        """
        from kstore.log.latest_records import latest_records

        return latest_records([self])

    def slices(self) -> Iterator[tuple[Slice, int]]:
        """File bytes of the window in slices, each with the offset that it was read for.

        With read_committed, too, they contain aborted records.
        """
        return self._slices(*self._bounds())

    def _slices(self, offset: int, stop: int) -> Iterator[tuple[Slice, int]]:
        size = _MAPPED if self.log.writable else _READ
        while offset < stop:
            data = self.log.read(offset, size)
            if data is None:
                return
            yield data, offset
            if self.log.writable:
                offset = data.next_offset
            else:
                # A corrupt header may contain any offset: stay within its segment.
                end = min(find_end(data, 0, offset, False)[1], data.next_offset)
                offset = max(offset + 1, end)

    def batches(self) -> Iterator[RecordBatchInfo]:
        """The record batches that hold an offset of the window, by their headers, in order.

        ``batch.base_offset``, ``.count``, ``.compression``, ``.producer_id``: what Kafka's
        ``DumpLogSegments`` prints. No record is read and no checksum verified (``verify`` does).
        Batches of aborted transactions and control batches are among them at every isolation
        level. Memory: the headers of 1 MiB, or of one larger batch. Raises CorruptRecordError
        where bytes are no batch, and OffsetOutOfRangeError as iterating records.
        """
        return batches_of(self)

    def __iter__(self) -> Iterator[Record]:
        """Records in order of their offsets, without control batches. Checks every CRC.

        Raises CorruptRecordError with file, position and offset; :meth:`records` can skip
        corrupt batches. Memory: about a thousand records, or one batch, at a time.
        """
        return self._records(*self._bounds(), True)

    @explain_keywords(isolation_level=_ISOLATION)
    @explain_records
    def records(
        self, *, check_crc: bool = True, on_damage: str = "raise", skipped: list[Any] | None = None
    ) -> Iterator[Record]:
        """As iterating the view, with options for corrupt batches; they are :meth:`scan`'s."""
        start, stop = self._bounds()
        if on_damage == "raise":
            return self._records(start, stop, check_crc)

        def read(offset: int) -> Iterator[tuple[Record, int]]:
            for record in self._records(offset, stop, check_crc):
                yield record, record.offset + 1

        def read_valid(
            data: Slice, begin: int, end: int, offset: int
        ) -> Iterator[tuple[Record, int]]:
            options = self._options(data, offset, stop, mark, check_crc, on_damage)
            notes: list[Any] = []
            for record in scan_records(data, start=begin, end=end, skipped=notes, **options):
                yield record, record.offset + 1
            if skipped is not None:
                skipped.extend((data.path, *note) for note in notes)

        check_on_damage(on_damage)
        mark = self._mark()
        return read_past_corruption(self.log, start, stop, read, read_valid, skipped)

    def _records(self, start: int, stop: int, check_crc: bool) -> Iterator[Record]:
        mark = self._mark()
        for data, offset in self._slices(start, stop):
            yield from scan_records(data, **self._options(data, offset, stop, mark, check_crc))

    def _options(
        self,
        data: Slice,
        offset: int,
        stop: int,
        mark: int,
        check_crc: bool,
        on_damage: str = "raise",
    ) -> dict[str, Any]:
        """Arguments for a scan of a slice; ``mark`` is from before it was read."""
        return {
            "start_offset": offset,
            "stop_offset": stop,
            "check_crc": check_crc,
            "next_offset": data.next_offset,
            "on_damage": on_damage,
            "path": data.path,
            "position_base": data.position,
            "on_tail": self._on_tail,
            "find_aborted": self._find_aborted(data, offset, stop, mark),
        }

    def _mark(self) -> int:
        return 0 if self._outcomes is None else self._outcomes.mark()

    def _find_aborted(
        self, data: Slice, offset: int, stop: int, mark: int
    ) -> Callable[[], AbortedRanges] | None:
        """A function that a scan calls at a transaction; None if all records are returned."""
        if self._outcomes is None:
            return None
        return partial(
            self._outcomes.aborted_within,
            offset,
            min(stop, data.next_offset),
            data,
            mark,
            beyond_stable=self._beyond_stable,
        )

    @property
    def _on_tail(self) -> str:
        """How to treat an incomplete batch at a slice's end: a writer's slices have none."""
        return "damage" if self.log.writable else "stop"

    @explain_scan
    def scan(
        self,
        where: Callable[[Any], Any] | None = None,
        *,
        check_crc: bool = True,
        threads: int = 1,
        on_damage: str = "raise",
        skipped: list[Any] | None = None,
    ) -> Iterator["Columns"]:
        """Columns of many records at a time: NumPy arrays, values as views of the file.

        Memory: 52 bytes a record for some ten thousand records at a time, and three buffers of
        about 8 MiB for decompressed data; with n threads n + 1 ranges, each with about as much.
        Columns keep the mapping of their segment as long as they live.

        Parameters
        ----------
        where
            A predicate over one row (``row.offset``, ``row.timestamp``, ``row.key``,
            ``row.value`` ...), compiled by Numba and fused into one loop over the columns;
            see :func:`kstore.jit.compile_predicate`. Only records it accepts are returned.
        threads
            How many threads scan. The order of the result does not depend on it.
        on_damage
            ``"raise"`` (the default), or ``"skip"``: corrupt batches are skipped and added to
            ``skipped`` as (path, position, size, offset, reason); every valid batch is returned
            once. Behind a corrupt batch checksums are always checked.
        """
        from kstore.record.columns import ColumnScan  # brings numpy

        threads = check_integer("threads", threads, 1, INT32_MAX)
        start, stop = self._bounds()
        mark = self._mark()
        predicate = None if where is None else compile_where(where)

        def run(
            data: Slice,
            offset: int,
            begin: int,
            end: int,
            on_progress: Callable[[int], None] = lambda size: None,
            on_damage: str = "raise",
        ) -> Iterator[tuple["Columns", int]]:
            options = self._options(data, offset, stop, mark, check_crc, on_damage)
            found = ColumnScan(data, begin, end, **options)
            for columns in found:
                on_progress(found.size)
                kept = columns if predicate is None else columns[predicate.rows(columns)]
                yield kept, int(columns.offsets[-1]) + 1
            if skipped is not None:
                skipped.extend((data.path, *note) for note in found.skipped)

        def read(offset: int) -> Iterator[tuple["Columns", int]]:
            slices = self._slices(offset, stop)
            if threads > 1:
                yield from scan_in_parallel(run, slices, threads)
                return
            for data, begin in slices:
                yield from run(data, begin, 0, data.size)

        def read_valid(
            data: Slice, begin: int, end: int, offset: int
        ) -> Iterator[tuple["Columns", int]]:
            return run(data, offset, begin, end, on_damage=on_damage)

        check_on_damage(on_damage)
        found: Iterator[Columns]
        if on_damage == "raise":
            found = (columns for columns, _ in read(start))
        else:
            found = read_past_corruption(self.log, start, stop, read, read_valid, skipped)
        yield from (columns for columns in found if len(columns))

    @explain_table
    def to_arrow(self) -> "pa.Table":
        """The window as a pyarrow.Table; keys and values of uncompressed batches are not copied.

        Columns: offset, timestamp (ms, UTC), key, value, headers. Needs pyarrow
        (``pip install 'kstore[arrow]'``). Memory: about 80 bytes a record for the entire window,
        and the bytes of compressed batches.
        """
        from kstore.record.arrow import to_table

        return to_table(list(self.scan()))

    @explain_table
    def to_pandas(self) -> "pd.DataFrame":
        """The window as a pandas.DataFrame, one row a record; all bytes are copied.

        Columns: offset, timestamp (datetime64[ms, UTC], NaT for none), key and value (bytes or
        None), headers (tuples of pairs). Needs pandas (``pip install 'kstore[pandas]'``,
        ImportError without it). Memory: about 300 bytes a record, and its key and value.
        """
        from kstore.record.dataframe import to_dataframe

        return to_dataframe(self.scan())

    @explain_keywords(where=_WHERE, isolation_level=_ISOLATION)
    def follow(self, *, timeout: "Seconds" = None) -> "Follower":
        """Records from the view's start on, and new ones as they come; see Log.follow."""
        return self.log.follow(start=self.start, timeout=timeout, isolation=self.isolation)


def no_record(log: "ReadableLog", index: int, offset: int) -> OffsetOutOfRangeError:
    """The error for ``log[index]`` where no record has the offset; raises that of a lost one."""
    log._source.lost.check_offset(offset)
    start, end = log.start_offset, log.end_offset
    reason = (
        "no record has this offset: it was compacted away, or belongs to a control batch"
        if start <= offset < end
        else f"the log holds offsets {start} to {end - 1}"
        if start < end
        else f"the log is empty; its next offset is {end}"
    )
    return OffsetOutOfRangeError(reason, path=log.path, offset=index)


def compile_where(where: "Callable[[Any], Any] | Predicate") -> "Predicate":
    """The predicate of a scan; one that is compiled already, for several logs, stays."""
    from kstore._native.jit import Predicate, compile_predicate  # brings numba

    if not callable(where) and not isinstance(where, Predicate):
        kind = type(where).__name__
        raise TypeError(f"where is a function of a row, lambda row: row.offset > 5, not {kind}")
    return where if isinstance(where, Predicate) else compile_predicate(where)
