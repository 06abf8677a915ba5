"""The log of another process: :class:`kstore.Log` on a reader of its files."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from kstore._native.read.segment_view import SegmentList, SegmentView, Slice
from kstore.config import LogConfig
from kstore.errors import ReadOnlyError
from kstore.files.files import Files
from kstore.integers import check_integer
from kstore.log.log import AppendInfo, Log, SegmentSource, Timestamp
from kstore.log.read_committed import StableEnd
from kstore.log.reader import LogReader
from kstore.producer_state.reader_producer_state import ReaderProducerState
from kstore.producer_state.snapshot import ProducerEntry
from kstore.producer_state.state import collect_aborted
from kstore.record import Headers, Record
from kstore.segment.segment import out_of_range
from kstore.segment.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from kstore.compaction.cleaner import CompactionReport
    from kstore.log.writer import LogWriter
    from kstore.maintenance.reindex import ReindexReport
    from kstore.maintenance.rewrite import Progress, RewriteReport


class ReadOnlyLog(Log):
    """One partition, as a process sees it that does not write it. Thread safe.

    Changes of the log raise ReadOnlyError.
    """

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
        self._stable_end = StableEnd(self, files)
        self._producer_state = ReaderProducerState(self, files)

    # --- start and end ---------------------------------------------------------------------

    @property
    def segments(self) -> SegmentList:
        return self._reader.refresh()

    @property
    def last_stable_offset(self) -> int:
        return self._stable_end.offset()

    @property
    def recovery_point(self) -> int:
        return self.start_offset

    @property
    def writable(self) -> bool:
        return False

    @property
    def closed(self) -> bool:
        return self._reader.closed

    # --- reading ---------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int = 1 << 20) -> Slice | None:
        try:
            return self._reader.read(offset, max_bytes)
        except LookupError:
            raise out_of_range(self.path, self.segments, offset) from None

    def wait_beyond(self, offset: int, timeout: float | None = None) -> bool:
        return self._reader.wait_beyond(check_integer("offset", offset), timeout)

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

    @property
    def _source(self) -> SegmentSource:
        return self._reader

    def _read_whole(self, view: SegmentView) -> Slice:
        return self._reader.read_whole(view)

    # --- refused ----------------------------------------------------------------------------

    def _refuse(self) -> NoReturn:
        raise ReadOnlyError("the store was opened with mode='r'", path=self.path)

    def _require_writer(self) -> "LogWriter":
        self._refuse()

    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        timestamp: Timestamp = None,
    ) -> int:
        self._refuse()

    def extend(
        self, values: Iterable[bytes | Record | None], *, timestamp: Timestamp = None
    ) -> range:
        self._refuse()

    def append_as_leader(self, batch: Any) -> AppendInfo:
        self._refuse()

    def append_as_coordinator(self, batch: Any) -> AppendInfo:
        self._refuse()

    def append_end_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
        timestamp: int = -1,
    ) -> AppendInfo:
        self._refuse()

    def append_as_follower(self, batches: Any) -> AppendInfo:
        self._refuse()

    def expire_producers(self) -> int:
        self._refuse()

    def flush(self) -> None:
        self._refuse()

    def roll(self) -> None:
        self._refuse()

    def truncate_to(self, offset: int) -> None:
        self._refuse()

    def delete_records(self, before_offset: int) -> int:
        self._refuse()

    def apply_retention(self) -> int:
        self._refuse()

    def compact(self, **options: Any) -> "CompactionReport":
        self._refuse()

    def recompress(
        self,
        compression: str,
        *,
        level: int | None = None,
        force: bool = False,
        merge: bool = False,
        roll: bool = False,
        progress: "Progress | None" = None,
    ) -> "RewriteReport":
        self._refuse()

    def convert(
        self,
        message_format_version: str = "3.0",
        *,
        compression: str | None = None,
        level: int | None = None,
        force: bool = False,
        roll: bool = False,
        progress: "Progress | None" = None,
    ) -> "RewriteReport":
        self._refuse()

    def reindex(self, *, progress: "Progress | None" = None) -> "ReindexReport":
        self._refuse()

    def seal(self) -> int:
        self._refuse()

    def configure(self, config: LogConfig) -> None:
        self._refuse()

    def remove_retired(self) -> None:
        self._refuse()
