"""The log of another process: :class:`kstore.Log` on a reader of its files."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from kstore._native.read.segment_view import SegmentList, SegmentView, Slice
from kstore.config import LogConfig
from kstore.errors import ReadOnlyError
from kstore.files.files import Files
from kstore.integers import INT32_MAX, INT32_MIN, check_integer, check_seconds
from kstore.log.last_stable_offset import LastStableOffset
from kstore.log.log import Log
from kstore.log.reader import LogReader
from kstore.log.segment_source import SegmentSource
from kstore.producer_state.collect_aborted import collect_aborted
from kstore.producer_state.reader_producer_state import ReaderProducerState
from kstore.producer_state.snapshot import ProducerEntry
from kstore.segment.segment import out_of_range
from kstore.segment.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from kstore.integers import Seconds

Method = TypeVar("Method", bound=Callable[..., Any])


def _refused(method: Method) -> Method:
    """A method with the same parameters that raises ReadOnlyError."""

    @wraps(method)
    def refuse(self: Log, *values: Any, **options: Any) -> NoReturn:
        raise ReadOnlyError("the store was opened with mode='r'", path=self.path)

    refuse.__isabstractmethod__ = False  # type: ignore[attr-defined]  # wraps has copied it
    return cast(Method, refuse)


class ReadOnlyLog(Log):
    """One partition, as a process sees it that does not write it. Thread safe.

    Changes of the log raise ReadOnlyError.
    """

    _reader: LogReader

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        path: str,
        config: LogConfig,
        files: Files,
        reader: LogReader,
    ) -> None:
        super().__init__(topic, partition, path=path, config=config, files=files)
        self._reader = reader
        self._stable_end = LastStableOffset(self, files)
        self._producer_state = ReaderProducerState(self, files)

    # --- start and end ---------------------------------------------------------------------

    @property
    def segments(self) -> SegmentList:
        return self._reader.refresh()

    @property
    def last_stable_offset(self) -> int:
        return self._stable_end.offset()

    @property
    def high_watermark(self) -> int:
        return self.end_offset

    @property
    def recovery_point(self) -> int:
        return self.start_offset

    @property
    def _data_end(self) -> int:
        return self.end_offset

    @property
    def _truncations(self) -> Sequence[int]:
        return ()  # those of another process are not known

    @property
    def writable(self) -> bool:
        return False

    @property
    def closed(self) -> bool:
        return self._reader.closed

    # --- reading ---------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int = 1 << 20,
        *,
        up_to: int | None = None,
        min_one_batch: bool = True,
    ) -> Slice | None:
        try:
            return self._reader.read(offset, max_bytes, up_to, min_one_batch)
        except LookupError:
            raise out_of_range(self.path, self.segments, offset) from None

    def wait_beyond(self, offset: int, timeout: "Seconds" = None) -> bool:
        return self._reader.wait_beyond(
            check_integer("offset", offset), check_seconds("timeout", timeout)
        )

    def _wait_to_follow(self, offset: int, timeout: float | None) -> bool:
        return self._reader.wait_beyond(offset, timeout, once=True)

    # --- leader epochs -------------------------------------------------------------------------

    @property
    def leader_epoch(self) -> int:
        latest = self._reader.epochs().latest
        return -1 if latest is None else latest.epoch

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        epoch = check_integer("epoch", epoch, INT32_MIN, INT32_MAX)
        end = self.end_offset  # first: an epoch that begins meanwhile starts at or beyond it
        return self._reader.epochs().end_of(epoch, end)

    def epoch_at(self, offset: int) -> int:
        return self._reader.epochs().epoch_for(check_integer("offset", offset))

    # --- producers and transactions -----------------------------------------------------------

    def producers(self) -> list[ProducerEntry]:
        entries = self._reader.on_current_segments(
            lambda segments: self._producer_state.at(segments).table.entries()
        )
        return [ProducerEntry(*entry) for entry in entries]

    def aborted_transactions(self, start: int, stop: int) -> list[AbortedTransaction]:
        start, stop = check_integer("start", start), check_integer("stop", stop)
        return self._reader.on_current_segments(
            lambda segments: collect_aborted(
                self._producer_state.at(segments), segments, start, stop
            )
        )

    # --- maintenance -----------------------------------------------------------------------

    def park(self) -> bool:
        return self._reader.park()

    def close(self) -> bool:
        self._reader.close()
        return True

    # --- for the engine ----------------------------------------------------------------------

    def _reader_of_files(self) -> LogReader:
        return self._reader

    def _locate(self) -> str:
        return self._reader.locate()

    @property
    def _source(self) -> SegmentSource:
        return self._reader

    def _read_whole(self, view: SegmentView) -> Slice:
        return self._reader.read_whole(view)

    # --- changes -----------------------------------------------------------------------------

    append = _refused(Log.append)
    extend = _refused(Log.extend)
    _extend = _refused(Log._extend)
    append_as_leader = _refused(Log.append_as_leader)
    append_as_coordinator = _refused(Log.append_as_coordinator)
    append_end_marker = _refused(Log.append_end_marker)
    append_as_follower = _refused(Log.append_as_follower)
    begin_epoch = _refused(Log.begin_epoch)
    expire_producers = _refused(Log.expire_producers)
    flush = _refused(Log.flush)
    roll = _refused(Log.roll)
    set_high_watermark = _refused(Log.set_high_watermark)
    watch = _refused(Log.watch)
    truncate_to = _refused(Log.truncate_to)
    truncate_to_epoch = _refused(Log.truncate_to_epoch)
    delete_records = _refused(Log.delete_records)
    apply_retention = _refused(Log.apply_retention)
    compact = _refused(Log.compact)
    recompress = _refused(Log.recompress)
    convert = _refused(Log.convert)
    reindex = _refused(Log.reindex)
    seal = _refused(Log.seal)
    configure = _refused(Log.configure)
    remove_retired = _refused(Log.remove_retired)
    _require_writer = _refused(Log._require_writer)
