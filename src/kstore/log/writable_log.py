"""A log that is open for writing: :class:`kstore.Log` on a :class:`kstore.log.writer.LogWriter`.

The append methods are functions of the append kernel
(:mod:`kstore._native.append.record_appender`), without a Python frame in between
(docs/decisions/0025-log-and-writer.md).
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kstore._native.append import record_appender as append_kernel
from kstore._native.read.segment_view import SegmentList, SegmentView, Slice
from kstore.checkpoint.cleaner_offsets import lower_cleaner_offset
from kstore.config import LogConfig
from kstore.errors import (
    CorruptRecordError,
    StorageError,
)
from kstore.files.files import Files
from kstore.hints.keyword_names import NO_DRY_RUN, explain_extend, explain_keywords
from kstore.integers import INT32_MAX, INT32_MIN, check_integer, check_seconds
from kstore.log import retention, time_lookup
from kstore.log.append_info import AppendInfo
from kstore.log.delete_segments import checked_log_start
from kstore.log.extend import (
    DoesNotFitError,
    TopicItems,
    append_chunk,
    note_appended,
    split_into_chunks,
)
from kstore.log.last_stable_offset import LastStableOffset
from kstore.log.log import Log
from kstore.log.segment_source import SegmentSource
from kstore.log.watch import Callback, LogEvents, Watch
from kstore.log.writer import LogWriter
from kstore.producer_state.snapshot import ProducerEntry
from kstore.record import Item, Timestamp
from kstore.segment.segment import out_of_range
from kstore.segment.transaction_index import AbortedTransaction
from kstore.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kstore.compaction.compaction_report import CompactionReport
    from kstore.integers import Seconds
    from kstore.log.retention_report import RetentionReport
    from kstore.maintenance.reindex import ReindexReport
    from kstore.maintenance.rewrite import Progress, RewriteReport
    from kstore.recovery.report import RecoveryReport


def _explain_append(count: int, names: tuple[str, ...] | None) -> None:
    """Raise the TypeError for arguments that ``append`` does not have."""
    from kstore.log.append_errors import check_append_arguments  # loaded to name a mistake only

    check_append_arguments(count, names)


append_kernel.explain_append(_explain_append)


_OWN_SOURCE = "the source of an extend must not append to the same log"


class WritableLog(Log):
    """One partition in the process that writes it. Thread safe."""

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        path: str,
        config: LogConfig,
        files: Files,
        writer: LogWriter,
        recovery: "RecoveryReport | None" = None,
    ) -> None:
        super().__init__(topic, partition, path=path, config=config, files=files, recovery=recovery)
        self._writer = writer
        self._state = writer.state
        self._stable_end = LastStableOffset(self, files)
        writer.state.appender.set_append_info_type(AppendInfo)
        self._appender = writer.state.appender

    # --- start and end ---------------------------------------------------------------------

    @property
    def segments(self) -> SegmentList:
        return self._state.segments

    @property
    def last_stable_offset(self) -> int:
        state = self._state
        mark, producers = state.high_watermark, state.producers
        if producers.stale:
            stable = self._stable_end.offset()
        else:
            stable = producers.last_stable_offset(state.segments)
        return stable if mark < 0 else min(stable, mark)

    @property
    def high_watermark(self) -> int:
        mark, end = self._state.high_watermark, self.end_offset
        return end if mark < 0 else min(mark, end)

    def set_high_watermark(self, offset: int) -> int:
        offset = check_integer("offset", offset, 0)
        state = self._require_writer().state
        with state.lock:
            segments = state.segments
            mark = min(max(offset, state.high_watermark, segments.start_offset), self.end_offset)
            if mark != state.high_watermark:
                state.high_watermark = mark
                state.watchers.note(LogEvents.HIGH_WATERMARK)
        return mark

    def watch(self, callback: Callback) -> Watch:
        return self._require_writer().state.watchers.add(self, callback)

    @property
    def recovery_point(self) -> int:
        return self._state.recovery_point

    @property
    def _data_end(self) -> int:
        return self._state.data_end

    @property
    def _truncations(self) -> Sequence[int]:
        return self._state.truncations

    @property
    def writable(self) -> bool:
        return True

    @property
    def closed(self) -> bool:
        return self._state.is_closed

    # --- appending -------------------------------------------------------------------------

    append = append_kernel.append
    append_as_leader = append_kernel.append_as_leader
    append_as_coordinator = append_kernel.append_as_coordinator
    append_end_marker = append_kernel.append_end_marker
    append_as_follower = append_kernel.append_as_follower

    @explain_extend
    def extend(self, values: Iterable[Item], *, timestamp: Timestamp = None) -> range:
        return self._extend(values, timestamp, None)

    def _extend(self, values: Iterable[Item], when: Timestamp, topic: TopicItems | None) -> range:
        self._require_writer()
        appender = self._appender
        state = self._state
        with state.lock:
            if state.is_extending:
                raise RuntimeError(_OWN_SOURCE)
            appender.make_ready()
            first = appender.next_offset
            try:
                state.is_extending = True
                last = first
                for chunk in split_into_chunks(values):
                    if appender.next_offset != last:
                        raise RuntimeError(_OWN_SOURCE)
                    append_chunk(appender, chunk, when)
                    last = appender.next_offset
                if appender.next_offset != last:
                    raise RuntimeError(_OWN_SOURCE)
                due = last >= appender.flush_at
            except DoesNotFitError as error:
                raise error.describe(first, appender.next_offset, topic) from None
            except BaseException as error:
                if topic is None and error.args != (_OWN_SOURCE,):
                    note_appended(error, first, appender.next_offset)
                raise
            finally:
                state.is_extending = False
                if topic is not None:
                    topic.appended = range(first, appender.next_offset)
        if due:
            self._writer.flusher.flush()
        return range(first, last)

    # --- reading ---------------------------------------------------------------------------

    # `Log.read` has up_to and min_one_batch by name only. Here they may be given by position as
    # well: CPython 3.11 takes its slow way into each function with keyword-only arguments, which
    # was 9 % of a read.
    def read(
        self,
        offset: int,
        max_bytes: int = 1 << 20,
        up_to: int | None = None,
        min_one_batch: bool = True,
    ) -> Slice | None:
        try:
            return self._state.segments.read(offset, max_bytes, up_to, min_one_batch)
        except (TypeError, OverflowError):
            numbers = check_integer("offset", offset), check_integer("max_bytes", max_bytes)
            stop = None if up_to is None else check_integer("up_to", up_to)
            if type(offset) is type(max_bytes) is int and (up_to is None or type(up_to) is int):
                raise
            return self.read(*numbers, up_to=stop, min_one_batch=min_one_batch)
        except LookupError:
            raise out_of_range(self.path, self.segments, offset) from None
        except (StorageError, CorruptRecordError):  # perhaps of a segment that left the log
            return self._writer.access.read_current(offset, max_bytes, up_to, min_one_batch)

    def wait_beyond(self, offset: int, timeout: "Seconds" = None) -> bool:
        return self._state.wait_beyond(
            check_integer("offset", offset), check_seconds("timeout", timeout)
        )

    # --- leader epochs -------------------------------------------------------------------------

    @property
    def leader_epoch(self) -> int:
        latest = self._state.epochs.latest
        return -1 if latest is None else latest.epoch

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        epoch = check_integer("epoch", epoch, INT32_MIN, INT32_MAX)
        return self._state.epochs.end_of(epoch, self.end_offset)

    def epoch_at(self, offset: int) -> int:
        return self._state.epochs.epoch_for(check_integer("offset", offset))

    def begin_epoch(self, epoch: int) -> None:
        writer = self._require_writer()
        writer.active_segment.begin_epoch(check_integer("epoch", epoch, 0, INT32_MAX))

    # --- producers and transactions -----------------------------------------------------------

    def producers(self) -> list[ProducerEntry]:
        state = self._state
        with state.lock:
            state.producers.refresh(state.segments, state.now_ms())
            entries = state.producers.table.entries()
        return [ProducerEntry(*entry) for entry in entries]

    def aborted_transactions(self, start: int, stop: int) -> list[AbortedTransaction]:
        start, stop = check_integer("start", start), check_integer("stop", stop)
        return self._writer.access.collect_aborted(start, stop)

    def expire_producers(self) -> int:
        state = self._require_writer().state
        with state.lock:
            return state.producers.expire(state.now_ms())

    # --- maintenance -----------------------------------------------------------------------

    def flush(self) -> None:
        self._require_writer().flusher.flush()

    def roll(self) -> None:
        self._require_writer().active_segment.roll()

    def truncate_to(self, offset: int) -> int:
        offset = check_integer("offset", offset)
        end = self._require_writer().truncator.truncate_to(offset)
        self._lower_cleaner_offset()
        return end

    def truncate_to_epoch(self, epoch: int) -> int:
        truncator = self._require_writer().truncator
        end = truncator.truncate_to_epoch(check_integer("epoch", epoch, 0, INT32_MAX))
        self._lower_cleaner_offset()
        return end

    def _lower_cleaner_offset(self) -> None:
        if "compact" in self.config.cleanup_policy:
            base = self.segments.views[-1].base_offset
            lower_cleaner_offset(self._files, self.path, (self.topic, self.partition), base)

    @explain_keywords(before="use before_offset", offset="use before_offset")
    def delete_records(self, before_offset: int) -> int:
        deleter = self._require_writer().deleter
        with self._state.lock:
            deleter.raise_start(checked_log_start(self, before_offset))
        return self.start_offset

    @explain_keywords("it compares timestamps with the present time", dry_run=NO_DRY_RUN)
    def apply_retention(self) -> "RetentionReport":
        from kstore.log.retention_report import RetentionReport

        writer = self._require_writer()
        with writer.state.cleaning.attempt() as idle:  # during a compaction: next time
            return self._delete_expired(writer) if idle else RetentionReport()

    def _delete_expired(self, writer: LogWriter) -> "RetentionReport":
        from kstore.log.retention_report import RetentionReport

        with writer.state.lock:
            doomed = retention.segments_to_delete(
                time_lookup.segment_facts(self, self._files),
                self.config,
                log_start_offset=self.start_offset,
                end_offset=self.high_watermark,
                now_ms=writer.state.now_ms(),
            )
            size = sum(view.size for view in self.segments.views[: len(doomed)])
            writer.deleter.drop_oldest(len(doomed))
            starts = {TopicPartition(self.topic, self.partition): self.start_offset}
        return RetentionReport(len(doomed), size, starts if doomed else None)

    def compact(self, **options: Any) -> "CompactionReport":
        from kstore.compaction import cleaner

        return cleaner.compact(self, self._require_writer(), self._files, **options)

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
        from kstore.maintenance.rewrite import RewriteTarget, rewrite_log

        target = RewriteTarget(compression, level, force=force, merge=merge)
        return rewrite_log(self, target, files=self._state.files, roll=roll, progress=progress)

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
        from kstore.maintenance.rewrite import conversion, rewrite_log

        target = conversion(message_format_version, compression, level, force=force)
        return rewrite_log(self, target, files=self._state.files, roll=roll, progress=progress)

    def reindex(self, *, progress: "Progress | None" = None) -> "ReindexReport":
        from kstore.maintenance.reindex import reindex_log

        return reindex_log(self, progress)

    def seal(self) -> int:
        return self._require_writer().flusher.write_all_checksums()

    def configure(self, config: LogConfig) -> None:
        self._require_writer().active_segment.configure(config)
        self.config = config

    def remove_retired(self) -> None:
        self._require_writer().deleter.remove_retired()

    def park(self) -> bool:
        return self._writer.park()

    def close(self) -> bool:
        return self._writer.close()

    # --- for the engine ----------------------------------------------------------------------

    @property
    def _source(self) -> SegmentSource:
        return self._writer.access

    def _read_whole(self, view: SegmentView) -> Slice:
        return view.all_published()

    def _known_aborted(self, start: int, stop: int) -> list[AbortedTransaction] | None:
        return self._writer.access.known_aborted(start, stop)

    def _require_writer(self) -> LogWriter:
        if not self._appender.ready:
            self._state.check_usable()
        return self._writer
